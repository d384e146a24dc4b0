// Signals that would end the process become reports: an address at which there is nothing, a stack
// that is full, a program that ends itself.
#pragma once
#include <pthread.h>
#include <signal.h>
#include <unwind.h>

#include "watch.h"

namespace cuda_on_cpu {

inline int printing;  // the line of the printf that is being written out
inline pthread_t caller;
constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
inline struct sigaction handled_before[sizeof SIGNALS / sizeof *SIGNALS];
inline stack_t stack_before;
alignas(64) inline char stack_for_signals[64 << 10];

inline uintptr_t stack_at(const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uintptr_t>(machine.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return static_cast<uintptr_t>(machine.sp);
#else
  return 0;
#endif
}

// The student's line from which all this was called: the nearest on the way up the stack.
inline int line_here() {
  int line = 0;
  _Unwind_Backtrace([](_Unwind_Context* frame, void* found) {
    int before = 0;  // whether that is where the code stands, and not where it goes on
    uintptr_t code = _Unwind_GetIPInfo(frame, &before) + (before ? 1 : 0);
    auto place = reinterpret_cast<const void*>(code);
    int here = in_code(place) ? line_of(place) : 0;
    *static_cast<int*>(found) = here;
    return here ? _URC_END_OF_STACK : _URC_NO_REASON;
  }, &line);
  return line;
}

[[noreturn]] inline void report_address(uintptr_t at, uintptr_t stack) {
  int line = line_here();
  bool on_stack = current ? at - reinterpret_cast<uintptr_t>(current->stack) + GUARD < GUARD
                          : stack - at < GUARD || at - stack < GUARD;
  if (printing)
    report("PrintError", printing, "printf is given something else than its format says",
           "%%s wants characters, and there is no %%n: look at each %% and its argument");
  if (on_stack)
    report("StackOverflow", line, "the memory for variables and calls is used up",
           "a function that calls itself without end, or arrays that are too large: a thread has "
           "%zu KiB", STACK >> 10);
  Array* a = array_at(at);
  if (!current && a) report_host(*a, line);
  if (current) report("OutOfBounds", line, "a thread uses an address at which a kernel has no memory",
                      "0x%zx", at);
  report("HostAccess", line, "the host uses an address at which it has no memory", "0x%zx", at);
}

inline void crashed(int number, siginfo_t* info, void* context) {
  if (!pthread_equal(pthread_self(), caller)) {  // not ours
    signal(number, SIG_DFL);
    return;
  }
  if (number == SIGSEGV || number == SIGBUS)
    report_address(reinterpret_cast<uintptr_t>(info->si_addr), stack_at(context));
  report("Crash", line_here(), "the program is ended from within", "%s", strsignal(number));
}

inline void catch_crashes() {
  caller = pthread_self();
  stack_t own = {};
  own.ss_sp = stack_for_signals;
  own.ss_size = sizeof stack_for_signals;
  sigaltstack(&own, &stack_before);
  struct sigaction action = {};
  action.sa_sigaction = crashed;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // it is left by a jump
  int i = 0;
  for (int number : SIGNALS) sigaction(number, &action, &handled_before[i++]);
}

inline void let_crash() {
  int i = 0;
  for (int number : SIGNALS) sigaction(number, &handled_before[i++], nullptr);
  sigaltstack(&stack_before, nullptr);
}

// What the program calls in order to end, and does not come back from.
[[noreturn]] inline void ended(int line, const char* how) {
  report("Crash", line, "the program is ended from within", "%s", how);
}

}  // namespace cuda_on_cpu
