// What this program may still ask of the system: to compute, and to answer. Before an answer's first
// line runs, everything else is refused for good (seccomp(2)). (For runtime.cpp alone.)
#pragma once
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

namespace cuda_on_cpu {

constexpr int NOT_CONFINED = 71;  // how the program ends where that fails

#if defined(__x86_64__)
constexpr unsigned ARCHITECTURE = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned ARCHITECTURE = AUDIT_ARCH_AARCH64;
#else
constexpr unsigned ARCHITECTURE = 0;
#endif

// read and write reach what is open: the conversation, and what the answer prints.
constexpr unsigned CALLS[] = {
    SYS_read,         SYS_write,          SYS_writev,       SYS_munmap,      SYS_mremap,
    SYS_brk,          SYS_madvise,        SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_sigaltstack,    SYS_exit,         SYS_exit_group,  SYS_futex,
    SYS_getpid,       SYS_gettid,         SYS_clock_gettime, SYS_gettimeofday, SYS_sysinfo,
    SYS_getrandom,    SYS_fstat,          SYS_newfstatat,   SYS_lseek};
constexpr unsigned NO_NEW_CODE[] = {SYS_mmap, SYS_mprotect};

inline sock_filter line(unsigned code, unsigned k, unsigned then = 0, unsigned otherwise = 0) {
  return {static_cast<__u16>(code), static_cast<__u8>(then), static_cast<__u8>(otherwise), k};
}

inline void refuse_the_rest() {
  sock_filter lines[128];
  unsigned n = 0;
  auto load = [&](size_t at) {
    lines[n++] = line(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(at));
  };
  // Allow this call, if its argument `which` is `value` as far as `bits` go; all do where that is 0.
  auto allow = [&](unsigned call, unsigned which, unsigned bits, unsigned value) {
    lines[n++] = line(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5);
    load(offsetof(seccomp_data, args) + 8 * which);
    lines[n++] = line(BPF_ALU | BPF_AND | BPF_K, bits);
    lines[n++] = line(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    lines[n++] = line(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    lines[n++] = line(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  };
  load(offsetof(seccomp_data, arch));
  lines[n++] = line(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
  lines[n++] = line(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  load(offsetof(seccomp_data, nr));
  for (unsigned call : CALLS) {
    lines[n++] = line(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    lines[n++] = line(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  for (unsigned call : NO_NEW_CODE) allow(call, 2, PROT_EXEC, 0);
  allow(SYS_tgkill, 0, ~0u, static_cast<unsigned>(getpid()));  // to itself, as abort() does
  lines[n++] = line(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  sock_fprog program = {static_cast<unsigned short>(n), lines};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
    _exit(NOT_CONFINED);
}

// Keep the standard streams and `talk`, and no other way out.
inline void confine(int talk) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  for (int file = 3; file < 1024; ++file)
    if (file != talk) close(file);
  if (ARCHITECTURE) refuse_the_rest();
}

}  // namespace cuda_on_cpu
