// The threads of one block as fibers, and the order in which they run.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>

#include "report.h"

namespace cuda_on_cpu {

constexpr unsigned MOST_THREADS = 1024, WARP = 32;
constexpr size_t STACK = 256 << 10, GUARD = 64 << 10;

enum class State { ready, at_barrier, at_exchange, done };

struct Fiber {
  char* stack;
  jmp_buf place;  // where it stands
  ucontext_t start;
  bool begun;
  State state;
  uint3 index;
  unsigned number;
  unsigned stamp;  // how often its warp has come together
  int waits_at;  // the line
  bool works;    // it has written to out
  unsigned mask, source;  // of the exchange for which it waits
  uint64_t value;
  Told told;
};

struct Launch {
  int line;
  const char* kernel;
  Shape shape;
  void (*body)(void*);
  void* closure;
  size_t closure_size;
};

inline Fiber fibers[MOST_THREADS];
inline Fiber* current;  // nullptr: the host's code runs
inline jmp_buf home;    // of the scheduler
inline Launch launch_now;
inline bool corners_only;  // of a grid too large to run
inline uint3 block_now;
inline uint32_t launch_serial;
inline uint64_t block_serial, epoch;  // an epoch ends at each barrier of the block
inline unsigned stamps;
inline unsigned ballots[2];  // of __syncthreads_count: of the last barrier, and of the next one

// What the kernels of a call have done.
struct Counts {
  uint64_t kernels, threads;
  uint64_t workers;     // threads of one launch that wrote to out: of the launch with the most
  uint64_t loads, stores;              // numbers in global memory
  uint64_t copies_read;                // of those loads, from what is neither q, k, v nor out
  uint64_t shared_stores, shared_loads;  // numbers in shared memory
  uint64_t exchanged;   // of those loads, the first of what another thread has written
  uint64_t barriers;
};
inline Counts* counts;  // in memory of their own, see program.h
inline uint64_t workers;  // of the launch that runs
inline char kernels_named[256];

// In which order warps, lanes and blocks run. It may make no difference; so it is changed.
enum class Order { forwards, backwards, shuffled };
inline Order order;
inline uint64_t random_state = 1;

inline unsigned random_below(unsigned n) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return static_cast<unsigned>(random_state % n);
}

inline void arrange(unsigned* places, unsigned n) {
  for (unsigned i = 0; i < n; ++i) places[i] = order == Order::backwards ? n - 1 - i : i;
  if (order == Order::shuffled)
    for (unsigned i = n; i > 1; --i) {
      unsigned j = random_below(i), kept = places[i - 1];
      places[i - 1] = places[j];
      places[j] = kept;
    }
}

inline void yield() {
  if (_setjmp(current->place) == 0) _longjmp(home, 1);
}

inline void fiber_main() {
  for (;;) {
    launch_now.body(launch_now.closure);
    current->state = State::done;
    yield();
  }
}

constexpr size_t STACKS = MOST_THREADS * (STACK + GUARD);
inline char* stacks;  // of all threads, each behind a guard

inline bool in_stacks(uintptr_t at) {
  return stacks && at - reinterpret_cast<uintptr_t>(stacks) < STACKS;
}

inline void begin(Fiber& f) {
  if (!stacks) {
    void* memory = mmap(nullptr, STACKS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      report("MemoryError", launch_now.line, "there is no memory for the threads' variables", " ");
    stacks = static_cast<char*>(memory);
  }
  if (!f.stack) {
    f.stack = stacks + (&f - fibers) * (STACK + GUARD) + GUARD;
    mprotect(f.stack, STACK, PROT_READ | PROT_WRITE);
  }
  getcontext(&f.start);
  f.start.uc_stack.ss_sp = f.stack;
  f.start.uc_stack.ss_size = STACK;
  f.start.uc_link = nullptr;
  makecontext(&f.start, fiber_main, 0);
  f.begun = true;
  setcontext(&f.start);
}

inline void resume(Fiber& f) {
  current = &f;
  if (_setjmp(home) == 0) {
    if (f.begun) _longjmp(f.place, 1);
    begin(f);
  }
  current = nullptr;
}

// Let the lanes of a warp go on whose whole group has come; whether there were any.
inline bool exchange_in(unsigned first, unsigned count) {
  bool any = false;
  for (unsigned i = 0; i < count; ++i) {
    Fiber& one = fibers[first + i];
    if (one.state != State::at_exchange) continue;
    unsigned members = 0, voted = 0;
    bool complete = true;
    for (unsigned j = 0; j < count; ++j) {
      Fiber& f = fibers[first + j];
      if (!(one.mask >> j & 1) || f.state == State::done) continue;
      complete &= f.state == State::at_exchange && f.mask == one.mask;
      members |= 1u << j;
      voted |= f.value ? 1u << j : 0;
    }
    if (!complete || !(members >> i & 1)) continue;
    ++stamps;
    for (unsigned j = 0; j < count; ++j)
      if (members >> j & 1) {
        Fiber& f = fibers[first + j];
        bool heard = f.source < 32 && (members >> f.source & 1);
        f.told = {heard ? fibers[first + f.source].value : ~uint64_t{0}, voted, members};
      }
    for (unsigned j = 0; j < count; ++j)
      if (members >> j & 1) {
        fibers[first + j].state = State::ready;
        fibers[first + j].stamp = stamps;
      }
    any = true;
  }
  return any;
}

// Run a warp as far as it gets without the others.
inline bool run_warp(unsigned first, unsigned count) {
  unsigned lanes[WARP];
  arrange(lanes, count);
  bool any = false, again = true;
  while (again) {
    again = false;
    for (unsigned i = 0; i < count; ++i)
      if (fibers[first + lanes[i]].state == State::ready) {
        resume(fibers[first + lanes[i]]);
        again = any = true;
      }
    again |= exchange_in(first, count);
  }
  return any;
}

// All threads wait, or some have left: let them go on together, or say why they cannot.
inline void open_barrier(unsigned count, unsigned left) {
  const Fiber* waits = nullptr;
  unsigned waiting = 0;
  for (unsigned i = 0; i < count; ++i) {
    const Fiber& f = fibers[i];
    if (f.state == State::at_exchange)
      report("Barrier", f.waits_at, "some lanes of a warp wait for others that never come",
             "every lane that the mask names must reach the same shuffle, vote or __syncwarp()\n"
             "thread %u waits for the lanes of mask 0x%08x", f.number, f.mask);
    if (f.state != State::at_barrier) continue;
    ++waiting;
    if (!waits) waits = &f;
    int here = f.waits_at, there = waits->waits_at;
    if (here != there)
      report("Barrier", here, "the threads of a block wait at different barriers",
             "some wait at {line %d}, others at {line %d}: all must reach the same __syncthreads()",
             there, here);
  }
  if (left)
    report("Barrier", waits->waits_at,
           "some threads of the block never reach a __syncthreads() at which the others wait",
           "%u threads wait, %u have left the kernel: keep them all until the last barrier", waiting,
           left);
  settle_doubt();
  ballots[0] = ballots[1];
  ballots[1] = 0;
  ++epoch;
  ++counts->barriers;
  for (unsigned i = 0; i < count; ++i) fibers[i].state = State::ready;
}

inline void run_block(uint3 index) {
  dim3 size = launch_now.shape.block;
  unsigned count = size.x * size.y * size.z, left = 0, warps[MOST_THREADS / WARP];
  block_now = index;
  ++block_serial;
  ++epoch;
  ballots[0] = ballots[1] = 0;
  for (unsigned i = 0; i < count; ++i) {
    Fiber& f = fibers[i];
    f.state = State::ready;
    f.index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    f.number = i;
    f.stamp = 0;
    f.works = false;
  }
  stamps = 0;
  unsigned number = (count + WARP - 1) / WARP;
  arrange(warps, number);
  while (left < count) {
    bool any = false;
    for (unsigned w = 0; w < number; ++w) {
      unsigned first = warps[w] * WARP;
      any |= run_warp(first, count - first < WARP ? count - first : WARP);
    }
    left = 0;
    for (unsigned i = 0; i < count; ++i) left += fibers[i].state == State::done;
    if (left < count && !any) open_barrier(count, left);
  }
  settle_doubt();
}

}  // namespace cuda_on_cpu
