// The names under which g++ calls before an access, and where it finds that one is wrong
// (libsanitizer's interface; only what is used here).
#pragma once
#include <cmath>

#include "watch.h"

namespace cuda_on_cpu {

struct SourcePlace {
  const char* file;
  uint32_t line, column;
};
struct Type {
  uint16_t kind, info;
  char name[1];
};
struct Arithmetic {
  SourcePlace place;
  const Type* type;
};
struct Indexing {
  SourcePlace place;
  const Type *array, *index;
};
struct Misfit {
  SourcePlace place;
  const Type* type;
  unsigned char log_alignment, kind;
};

// A value as the compiler hands it over: itself, or where it is too wide, a pointer to it.
inline long long value_of(const Type* type, uintptr_t given) {
  unsigned bits = 1u << (type->info >> 1);
  bool is_signed = type->info & 1;
  if (bits > 64) return 0;
  if (is_signed && bits < 64) return static_cast<long long>(given << (64 - bits)) >> (64 - bits);
  return static_cast<long long>(given);
}

[[noreturn]] inline void report_overflow(const Arithmetic* at, uintptr_t a, const char* sign,
                                         uintptr_t b) {
  report("Overflow", static_cast<int>(at->place.line), "a number does not fit into its type",
         "%lld %s %lld is too large for %s: use size_t, or long long, before the product grows",
         value_of(at->type, a), sign, value_of(at->type, b), at->type->name);
}

[[noreturn]] inline void report_index(const Indexing* at, uintptr_t index) {
  report("OutOfBounds", static_cast<int>(at->place.line),
         "an index lies outside of an array with a fixed size", "index %lld of %s",
         value_of(at->index, index), at->array->name);
}

[[noreturn]] inline void report_misfit(const Misfit* at, uintptr_t address) {
  report("Misaligned", static_cast<int>(at->place.line),
         "an address is not a multiple of what its type needs",
         "0x%zx for %s, which needs a multiple of %d: rows of D floats begin anywhere", address,
         at->type->name, 1 << at->log_alignment);
}

// Every word of what a function of the library will touch.
inline void all_of(const void* at, size_t bytes, Act act, const void* code) {
  for (size_t i = 0; i < bytes; i += 4)
    access(static_cast<const char*>(at) + i, bytes - i < 4 ? bytes - i : 4, act, code);
}

}  // namespace cuda_on_cpu

#define HOOK(act, name, size)                                                            \
  void __asan_##name##size##_noabort(const void* at) {                                   \
    cuda_on_cpu::access(at, size, cuda_on_cpu::Act::act, __builtin_return_address(0));    \
  }
#define ARITHMETIC(name, sign)                                                                 \
  void __ubsan_handle_##name(const cuda_on_cpu::Arithmetic* at, uintptr_t a, uintptr_t b) {    \
    cuda_on_cpu::report_overflow(at, a, sign, b);                                              \
  }

extern "C" {
HOOK(read, load, 1)
HOOK(read, load, 2)
HOOK(read, load, 4)
HOOK(read, load, 8)
HOOK(read, load, 16)
HOOK(write, store, 1)
HOOK(write, store, 2)
HOOK(write, store, 4)
HOOK(write, store, 8)
HOOK(write, store, 16)
void __asan_loadN_noabort(const void* at, size_t size) {
  cuda_on_cpu::access(at, size, cuda_on_cpu::Act::read, __builtin_return_address(0));
}
void __asan_storeN_noabort(const void* at, size_t size) {
  cuda_on_cpu::access(at, size, cuda_on_cpu::Act::write, __builtin_return_address(0));
}
// Under these names an answer calls memcpy, memmove, memset, memcmp and sincos, also where g++ does it.
void* cuda_on_cpu_memmove(void* to, const void* from, size_t size) {
  cuda_on_cpu::all_of(from, size, cuda_on_cpu::Act::read, __builtin_return_address(0));
  cuda_on_cpu::all_of(to, size, cuda_on_cpu::Act::write, __builtin_return_address(0));
  return memmove(to, from, size);
}
void* cuda_on_cpu_memcpy(void*, const void*, size_t)
    __attribute__((alias("cuda_on_cpu_memmove")));
void* cuda_on_cpu_memset(void* to, int byte, size_t size) {
  cuda_on_cpu::all_of(to, size, cuda_on_cpu::Act::write, __builtin_return_address(0));
  return memset(to, byte, size);
}
int cuda_on_cpu_memcmp(const void* a, const void* b, size_t size) {
  cuda_on_cpu::all_of(a, size, cuda_on_cpu::Act::read, __builtin_return_address(0));
  cuda_on_cpu::all_of(b, size, cuda_on_cpu::Act::read, __builtin_return_address(0));
  return memcmp(a, b, size);
}
void cuda_on_cpu_sincosf(float x, float* sine, float* cosine) {
  cuda_on_cpu::all_of(sine, sizeof x, cuda_on_cpu::Act::write, __builtin_return_address(0));
  cuda_on_cpu::all_of(cosine, sizeof x, cuda_on_cpu::Act::write, __builtin_return_address(0));
  sincosf(x, sine, cosine);
}
void cuda_on_cpu_sincos(double x, double* sine, double* cosine) {
  cuda_on_cpu::all_of(sine, sizeof x, cuda_on_cpu::Act::write, __builtin_return_address(0));
  cuda_on_cpu::all_of(cosine, sizeof x, cuda_on_cpu::Act::write, __builtin_return_address(0));
  sincos(x, sine, cosine);
}
void __asan_handle_no_return() {}
void __asan_before_dynamic_init(const char*) {}
void __asan_after_dynamic_init() {}
void __asan_register_globals(const __asan_global* variables, size_t count) {
  using namespace cuda_on_cpu;
  if (registered_count < 16) registered[registered_count++] = {variables, count};
}
void __asan_unregister_globals(const __asan_global*, size_t) {}

ARITHMETIC(add_overflow, "+")
ARITHMETIC(sub_overflow, "-")
ARITHMETIC(mul_overflow, "*")
ARITHMETIC(divrem_overflow, "/")
void __ubsan_handle_negate_overflow(const cuda_on_cpu::Arithmetic* at, uintptr_t a) {
  cuda_on_cpu::report_overflow(at, 0, "-", a);
}
void __ubsan_handle_out_of_bounds(const cuda_on_cpu::Indexing* at, uintptr_t index) {
  cuda_on_cpu::report_index(at, index);
}
void __ubsan_handle_type_mismatch_v1(const cuda_on_cpu::Misfit* at, uintptr_t address) {
  cuda_on_cpu::report_misfit(at, address);
}
}
