// Looks at every access of a kernel before it happens: bounds, first use, races.
#pragma once
#include "memory.h"

namespace cuda_on_cpu {

enum class Act { read, write, atomic };
constexpr uint16_t SEVERAL = 0xffff;  // threads of one warp
constexpr int LAUNCH_LINES = 12;      // of the text that a launch may take
constexpr uint64_t PATIENCE = 1'000'000;  // accesses, while something is in doubt

// How much more a call may do, where it is not asked to come to its end; 0: there is no limit.
inline uint64_t budget;
inline bool gave_up;

// A write over a write of another thread: a race, unless it leaves the value as it was.
struct Unsettled {
  const Array* array;
  uintptr_t at;
  unsigned char before[16];
  size_t size;
  Mark first, second;
};
inline Unsettled unsettled;
inline size_t place_size = sizeof(float);  // of a place, as the present access counts them

inline Mark mark_of(const Fiber& f, const void* code) {
  auto thread = static_cast<uint16_t>(f.number);
  return {epoch, block_serial, launch_serial, f.stamp, thread,
          static_cast<uint16_t>(thread / WARP), code};
}

// Whether the machine keeps an earlier access and this one apart.
inline bool apart(const Mark& then, const Mark& now, bool shared) {
  if (then.launch != now.launch) return true;
  if (then.block != now.block) return shared;  // every block has shared memory of its own
  if (then.epoch != now.epoch || then.thread == now.thread) return true;
  return then.warp == now.warp && now.stamp > then.stamp;
}

inline const char* thread_name(char* text, size_t size) {
  const uint3 t = current->index, b = block_now;
  snprintf(text, size, "thread (%u, %u, %u) of block (%u, %u, %u)", t.x, t.y, t.z, b.x, b.y, b.z);
  return text;
}

[[noreturn]] inline void report_race(const Array& a, uintptr_t at, const Mark& then,
                                     const Mark& now, Act before, Act act, bool too_early = false) {
  bool blocks = then.block != now.block;
  const char* says = "two threads write to the same place with no barrier between them";
  if (blocks) says = "two blocks use the same place, and nothing says which of them comes first";
  else if (before != Act::read && act == Act::read)
    says = "a thread reads what another one has written, with no barrier between them";
  else if (before == Act::read)
    says = "a thread overwrites what another one has read, with no barrier between them";
  if (too_early) says = "a thread reads what another one has yet to write, with no barrier between them";
  int here = line_of(now.code), there = line_of(then.code);
  report(RACE, too_early ? there : here, says,
         "place %zu of %s: %s at {line %d}, %s at {line %d}\n"
         "%s", (at - a.begin) / place_size, a.name,
         before == Act::read ? "read" : "written", there, act == Act::read ? "read" : "written",
         here, blocks ? "each element of out belongs to one block"
                      : "another order of the threads gives another result: __syncthreads() between");
}

inline void settle() {
  if (!unsettled.array) return;
  Unsettled u = unsettled;
  unsettled.array = nullptr;
  if (memcmp(u.before, reinterpret_cast<const void*>(u.at), u.size) != 0)
    report_race(*u.array, u.at, u.first, u.second, Act::write, Act::write);
}

inline void remember_read(Word& w, const Mark& now) {
  Mark& last = w.read;
  if (last.epoch == now.epoch && last.warp == now.warp && last.stamp == now.stamp) {
    if (last.thread != now.thread) last.thread = SEVERAL;
    return;
  }
  if (last.epoch == now.epoch ? last.warp != now.warp : last.launch == now.launch)
    w.read_elsewhere = last;
  last = now;
}

// A write over another thread's: whether it leaves the value as it was is seen when it is done.
inline void overwrites(const Array& a, uintptr_t at, size_t size, const Mark& then, const Mark& now) {
  Unsettled& u = unsettled;
  bool goes_on = u.array == &a && u.at + u.size == at && u.size + size <= sizeof u.before;
  if (!goes_on) u = {&a, at, {}, 0, then, now};
  memcpy(u.before + u.size, reinterpret_cast<const void*>(at), size);
  u.size += size;
}

inline void watch_word(const Array& a, Word& w, uintptr_t at, size_t size, Act act,
                       const Mark& now) {
  bool shared = a.kind == Kind::shared;
  uint64_t here = shared ? block_serial : 1;
  if (act != Act::write && w.written_in != here) {
    char who[96];
    // If another thread writes there before the next barrier, both lines can be told.
    budget = budget && budget < PATIENCE ? budget : PATIENCE;
    doubt("Uninitialized", line_of(now.code),
          shared ? "a thread reads shared memory to which no thread of its block has written"
                 : "a thread reads device memory to which nothing has been written",
          "place %zu of %s; %s\n"
          "what another thread is to write first needs a barrier between",
          (at - a.begin) / place_size, a.name, thread_name(who, sizeof who));
  }
  if (!apart(w.write, now, shared) && !(w.atomic && act == Act::atomic)) {
    if (act != Act::write || w.atomic) report_race(a, at, w.write, now, Act::write, act);
    overwrites(a, at, size, w.write, now);
  }
  if (act == Act::read) {
    if (shared && size == sizeof(float)) {
      counts->exchanged += w.heard != now.thread;
      w.heard = now.thread;
    }
    return remember_read(w, now);
  }
  bool too_early = w.written_in != here;
  if (!apart(w.read, now, shared)) report_race(a, at, w.read, now, Act::read, act, too_early);
  if (!apart(w.read_elsewhere, now, shared))
    report_race(a, at, w.read_elsewhere, now, Act::read, act, too_early);
  w.write = now;
  w.heard = now.thread;
  w.atomic = act == Act::atomic;
  w.written_in = here;
}

[[noreturn]] inline void report_bounds(const Array& a, uintptr_t at, size_t size, Act act,
                                       const void* code) {
  char says[120], who[96];
  bool before = at < a.begin;
  const char* what = a.kind == Kind::shared ? "shared memory" : a.name;
  snprintf(says, sizeof says, "a thread %s %s of %s", act == Act::read ? "reads" : "writes",
           before ? "before the beginning" : "past the end", what);
  size_t place = before ? (a.begin - at + 3) / 4 : (at - a.begin) / 4;
  thread_name(who, sizeof who);
  if (before)
    report("OutOfBounds", line_of(code), says, "%zu places before the first of %s; %s", place,
           a.name, who);
  report("OutOfBounds", line_of(code), says, "place %zu of %s, which has places 0 to %td; %s",
         place + (size > 4 ? size / 4 - 1 : 0), a.name,
         static_cast<ptrdiff_t>((a.end - a.begin) / 4) - 1, who);
}

inline void count(Array& a, size_t size, Act act) {
  uint64_t numbers = size < 4 ? 1 : size / 4;
  if (a.kind == Kind::shared) {
    (act == Act::write ? counts->shared_stores : counts->shared_loads) += numbers;
    return;
  }
  if (a.kind == Kind::output && act != Act::read) {
    workers += !current->works;
    current->works = true;
  }
  (act == Act::write ? counts->stores : counts->loads) += numbers;
  if (act == Act::write) return;
  a.loads += numbers;
  if (a.kind == Kind::scratch || a.kind == Kind::constant) counts->copies_read += numbers;
}

// The bytes of one word may belong to different threads, so each is watched for itself.
inline void watch_bytes(Array& a, uintptr_t at, size_t size, Act act, const Mark& now) {
  uint64_t here = a.kind == Kind::shared ? block_serial : 1;
  for (size_t i = at - a.begin; i < at - a.begin + size; ++i) {
    Word &byte = bytes_of(a)[i], &word = a.words[i / 4];
    if (word.written_in == here) byte.written_in = here;  // all four together
    watch_word(a, byte, a.begin + i, 1, act, now);
    if (size < 4 && act != Act::read) word.written_in = here;
  }
}

inline void watch_array(Array& a, uintptr_t at, size_t size, Act act, const void* code) {
  if (at < a.begin || at + size > a.end) report_bounds(a, at, size, act, code);
  if (a.far) bring(a, at, size);
  count(a, size, act);
  if (a.kind == Kind::input) {
    if (act == Act::read) return;
    report("InputChanged", line_of(code), "a kernel writes to an input", "to %s", a.name);
  }
  if (!a.words) return;
  Mark now = mark_of(*current, code);
  place_size = size < 4 ? size : 4;
  if (size < 4 || a.bytes) watch_bytes(a, at, size, act, now);
  for (size_t i = 0; size >= 4 && i < size; i += 4)
    watch_word(a, a.words[(at + i - a.begin) / 4], at + i, 4, act, now);
}

// The array to which an address belongs, or beside which it lies.
inline Array* array_at(uintptr_t at) {
  if (at - reinterpret_cast<uintptr_t>(dynamic_bytes) < sizeof dynamic_bytes) return &dynamic;
  for (int i = 0; i < array_count; ++i)
    if (at >= arrays[i].begin && at < arrays[i].end) return &arrays[i];
  return in_code(reinterpret_cast<const void*>(at)) ? static_at(at) : nullptr;
}

// An address that belongs to nothing: told as a place of the array that is nearest.
[[noreturn]] inline void report_nowhere(uintptr_t at, size_t size, Act act, const void* code) {
  char who[96];
  for (auto& [begin, end] : gone)
    if (at >= begin && at < end)
      report("OutOfBounds", line_of(code), "a thread uses memory that is no longer there",
             "cudaFree has freed it, or the call in which cudaMalloc gave it has ended; %s",
             thread_name(who, sizeof who));
  Array* nearest = nullptr;
  uintptr_t least = uintptr_t{1} << 34;
  for (int i = 0; i < array_count; ++i) {
    Array& a = arrays[i];
    uintptr_t far = at < a.begin ? a.begin - at : at - a.end;
    if (far < least) least = far, nearest = &a;
  }
  if (nearest) report_bounds(*nearest, at, size, act, code);
  report("OutOfBounds", line_of(code), "a thread uses an address at which a kernel has no memory",
         "0x%zx; %s", at, thread_name(who, sizeof who));
}

// A variable of the text. Where both sides use it, it is two variables on a GPU.
inline void watch_variable(Array& a, size_t size, Act act, const void* code) {
  int line = line_of(code), launched = launch_now.line;
  // What stands in a launch is evaluated by each thread here, and by the host on a GPU.
  bool in_launch = line >= launched && line < launched + LAUNCH_LINES;
  if (a.of_host && !in_launch)
    report("HostAccess", line, "a kernel uses a variable to which the host writes", "%s", a.name);
  if (act != Act::read) a.of_device = true;
  if (a.of_device) count(a, size, act);
}

// Leave a call that is not asked to come to its end.
[[noreturn]] inline void give_up() {
  settle_doubt();
  gave_up = true;
  _longjmp(beginning, 1);
}

// Memory of the machine itself: its variables, and where it counts.
inline bool is_ours(uintptr_t at) {
  bool counted = at - reinterpret_cast<uintptr_t>(counts) + GUARD < 3 * GUARD;
  return counted || in_code(reinterpret_cast<const void*>(at));
}

[[noreturn]] inline void report_ours(uintptr_t at, int line) {
  report("OutOfBounds", line, "a write goes to memory that is not the file's", "0x%zx", at);
}

[[noreturn]] inline void report_host(const Array& a, int line) {
  report("HostAccess", line, "the host uses memory that only kernels can reach",
         "%s lies on the device", a.name);
}

inline void access(const void* address, size_t size, Act act, const void* code) {
  if (unsettled.array) settle();
  if (budget && --budget == 0) give_up();
  auto at = reinterpret_cast<uintptr_t>(address);
  if (!current) {
    Array* a = array_at(at);
    if (a && (a->kind != Kind::constant || a->of_device)) report_host(*a, line_of(code));
    if (a && act != Act::read) a->of_host = true;
    if (!a && in_stacks(at))
      report("HostAccess", line_of(code), "the host uses memory that only kernels can reach",
             "a variable of a kernel's thread");
    if (!a && act != Act::read && is_ours(at)) report_ours(at, line_of(code));
    return;
  }
  if (at - reinterpret_cast<uintptr_t>(current->stack) < STACK) return;
  if (Array* a = array_at(at)) {
    if (a->kind == Kind::constant && a->end >= at + size)
      return watch_variable(*a, size, act, code);
    return watch_array(*a, at, size, act, code);
  }
  auto closure = reinterpret_cast<uintptr_t>(launch_now.closure);
  if (at - closure < launch_now.closure_size) return;
  if (in_code(address) && act == Act::read) return;  // a constant
  report_nowhere(at, size, act, code);
}

}  // namespace cuda_on_cpu
