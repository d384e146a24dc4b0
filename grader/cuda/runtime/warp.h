// What threads say to each other: barriers, shuffles and votes of a warp, atomic operations.
//
// Where threads wait they give their line: code of a header has no line of the student's.
#pragma once
#include "words.h"

#define __syncthreads() cuda_on_cpu::wait_for_block(__LINE__)
#define __syncthreads_count(p) cuda_on_cpu::wait_and_count(__LINE__, (p) != 0)
#define __syncthreads_or(p) (cuda_on_cpu::wait_and_count(__LINE__, (p) != 0) != 0)
#define __syncthreads_and(p) (cuda_on_cpu::wait_and_count(__LINE__, (p) == 0) == 0)
#define __syncwarp(...) cuda_on_cpu::wait_for_warp(__LINE__, ##__VA_ARGS__)
#define __shfl_sync(...) cuda_on_cpu::shuffle(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) cuda_on_cpu::shuffle_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) cuda_on_cpu::shuffle_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) cuda_on_cpu::shuffle_xor(__LINE__, __VA_ARGS__)
#define __ballot_sync(mask, p) cuda_on_cpu::exchange(__LINE__, mask, (p) != 0, 0).voted
#define __any_sync(mask, p) (cuda_on_cpu::exchange(__LINE__, mask, (p) != 0, 0).voted != 0)
#define __all_sync(mask, p) cuda_on_cpu::all(cuda_on_cpu::exchange(__LINE__, mask, (p) != 0, 0))
#define __match_any_sync(...) cuda_on_cpu::match(__LINE__, __VA_ARGS__)
#define __match_all_sync(...) cuda_on_cpu::match_all(__LINE__, __VA_ARGS__)
#define CUDA_ON_CPU_REDUCE(mask, value, together) \
  cuda_on_cpu::reduce(__LINE__, mask, value, [](auto a, auto b) { return together; })
#define __reduce_add_sync(mask, value) CUDA_ON_CPU_REDUCE(mask, value, a + b)
#define __reduce_min_sync(mask, value) CUDA_ON_CPU_REDUCE(mask, value, b < a ? b : a)
#define __reduce_max_sync(mask, value) CUDA_ON_CPU_REDUCE(mask, value, b > a ? b : a)
#define __reduce_and_sync(mask, value) CUDA_ON_CPU_REDUCE(mask, value, a & b)
#define __reduce_or_sync(mask, value) CUDA_ON_CPU_REDUCE(mask, value, a | b)
#define __reduce_xor_sync(mask, value) CUDA_ON_CPU_REDUCE(mask, value, a ^ b)
inline unsigned __activemask() { return 1u << cuda_on_cpu::lane(); }
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace cuda_on_cpu {

inline void wait_for_warp(int line, unsigned mask = ~0u) { exchange(line, mask, 0, 0); }
inline int all(Told told) { return told.voted == told.members; }

template <class T>
T from_lane(int line, unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8, "a shuffle carries at most eight bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  bits = exchange(line, mask, bits, source).value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// The lane from which a shuffle reads; its own where that lies outside its part of the warp.
inline unsigned within(int to, int width) {
  int own = static_cast<int>(lane()), first = own - own % width;
  return static_cast<unsigned>(to < first || to >= first + width ? own : to);
}

// Which lanes of the mask have the same value as this one.
template <class T>
unsigned match(int line, unsigned mask, T value) {
  unsigned alike = 0;
  for (unsigned other = 0; other < 32; ++other) {
    if (!(mask >> other & 1)) continue;
    T its = from_lane(line, mask, value, other);
    alike |= unsigned{__builtin_memcmp(&its, &value, sizeof value) == 0} << other;
  }
  return alike;
}
template <class T>
unsigned match_all(int line, unsigned mask, T value, int* all) {
  unsigned alike = match(line, mask, value);
  *all = alike == mask;
  return *all ? mask : 0;
}

// The values of all lanes of the mask, put together.
template <class T, class Together>
T reduce(int line, unsigned mask, T value, Together together) {
  T sum = value;
  bool first = true;
  for (unsigned other = 0; other < 32; ++other) {
    if (!(mask >> other & 1)) continue;
    T its = from_lane(line, mask, value, other);
    sum = first ? its : static_cast<T>(together(sum, its));
    first = false;
  }
  return sum;
}

template <class T>
T shuffle(int line, unsigned mask, T value, int source, int width = 32) {
  int own = static_cast<int>(lane());
  int to = own - own % width + (source % width + width) % width;
  return from_lane(line, mask, value, static_cast<unsigned>(to));
}
template <class T>
T shuffle_up(int line, unsigned mask, T value, unsigned delta, int width = 32) {
  int to = static_cast<int>(lane()) - static_cast<int>(delta);
  return from_lane(line, mask, value, within(to, width));
}
template <class T>
T shuffle_down(int line, unsigned mask, T value, unsigned delta, int width = 32) {
  int to = static_cast<int>(lane()) + static_cast<int>(delta);
  return from_lane(line, mask, value, within(to, width));
}
template <class T>
T shuffle_xor(int line, unsigned mask, T value, int other, int width = 32) {
  return from_lane(line, mask, value, within(static_cast<int>(lane()) ^ other, width));
}

}  // namespace cuda_on_cpu

// One fiber runs at a time, so a plain change is atomic; the machine only has to know of it.
#define CUDA_ON_CPU_ATOMIC(name, change)                                    \
  template <class T>                                                        \
  __attribute__((no_sanitize("kernel-address"), noinline))                  \
  T name(T* at, typename std::common_type<T>::type y) {                     \
    cuda_on_cpu::touch_atomic(at, sizeof(T), __builtin_return_address(0));  \
    T x = *at;                                                              \
    *at = static_cast<T>(change);                                           \
    return x;                                                               \
  }
CUDA_ON_CPU_ATOMIC(atomicAdd, x + y)
CUDA_ON_CPU_ATOMIC(atomicSub, x - y)
CUDA_ON_CPU_ATOMIC(atomicExch, y)
CUDA_ON_CPU_ATOMIC(atomicMin, y < x ? y : x)
CUDA_ON_CPU_ATOMIC(atomicMax, y > x ? y : x)
CUDA_ON_CPU_ATOMIC(atomicAnd, x & y)
CUDA_ON_CPU_ATOMIC(atomicOr, x | y)
CUDA_ON_CPU_ATOMIC(atomicXor, x ^ y)
#undef CUDA_ON_CPU_ATOMIC

template <class T>
__attribute__((no_sanitize("kernel-address"), noinline))
T atomicCAS(T* at, typename std::common_type<T>::type compare,
            typename std::common_type<T>::type value) {
  cuda_on_cpu::touch_atomic(at, sizeof(T), __builtin_return_address(0));
  T old = *at;
  if (old == compare) *at = value;
  return old;
}

// Loads and stores with a word about caches, of which this machine has none.
#define __ldg(at) (*(at))
#define __ldca(at) (*(at))
#define __ldcg(at) (*(at))
#define __ldcs(at) (*(at))
#define __ldcv(at) (*(at))
#define __ldlu(at) (*(at))
#define __stcg(at, value) static_cast<void>(*(at) = (value))
#define __stcs(at, value) static_cast<void>(*(at) = (value))
#define __stwb(at, value) static_cast<void>(*(at) = (value))
#define __stwt(at, value) static_cast<void>(*(at) = (value))
#define clock64() (cuda_on_cpu::ticks())
#define clock() (cuda_on_cpu::ticks())
inline void __nanosleep(unsigned) {}

// What a library would do unseen. (`std::printf` and `std::exit` come here as well; what memcpy
// and its kin do is seen in hooks.h.)
namespace std {
namespace cuda_on_cpu = ::cuda_on_cpu;
}
#define fprintf(stream, ...) cuda_on_cpu::print(__LINE__, __VA_ARGS__)
#define puts(text) cuda_on_cpu::print(__LINE__, "%s\n", text)
#define fputs(text, stream) cuda_on_cpu::print(__LINE__, "%s", text)
#define fflush(stream) 0
#define snprintf(...) cuda_on_cpu::format(__LINE__, __VA_ARGS__)
#define printf(...) cuda_on_cpu::print(__LINE__, __VA_ARGS__)
#define exit(...) cuda_on_cpu::leaves(__LINE__, "exit")
#define abort() cuda_on_cpu::leaves(__LINE__, "abort")
#define __trap() cuda_on_cpu::leaves(__LINE__, "__trap")
#undef assert
#ifdef NDEBUG
#define assert(...) static_cast<void>(0)
#else
#define assert(...) \
  ((__VA_ARGS__) ? static_cast<void>(0) : cuda_on_cpu::fails(__LINE__, #__VA_ARGS__))
#endif
