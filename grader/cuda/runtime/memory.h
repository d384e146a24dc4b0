// What lies where: the arrays of a call, shared memory, and arrays too large to exist.
#pragma once
#include <unistd.h>

#include <cstdlib>

#include "fibers.h"

// As g++ registers them: every variable with static storage in the student's text.
struct __asan_global {
  uintptr_t begin;
  size_t size, size_with_gap;
  const char* name;
  const char* module;
  uintptr_t has_initializer;
  const struct {
    const char* file;
    int line, column;
  }* place;
  uintptr_t odr;
};

namespace cuda_on_cpu {

// One access, as it is remembered.
struct Mark {
  uint64_t epoch;
  uint64_t block;
  uint32_t launch;
  uint32_t stamp;
  uint16_t thread;
  uint16_t warp;
  const void* code;
};

// What is known of four bytes; or of one, in an array of which single bytes are used.
struct Word {
  Mark write, read, read_elsewhere;  // the last reads of two different warps
  uint64_t written_in;               // the block, in shared memory; 1 elsewhere
  bool atomic;                       // the last write was
  uint16_t heard;                    // the thread that last read what another one has written
};

enum class Kind { input, output, scratch, shared, constant };

struct Array {
  char name[32] = "dynamic shared memory";
  uintptr_t begin = 0, end = 0;
  Kind kind = Kind::shared;
  Word* words = nullptr;  // what is known of its contents; nullptr: only its bounds are watched
  Word* bytes = nullptr;  // the same of each byte, from the first use of less than four on
  void* memory = nullptr;  // of which it is the middle, if it is ours
  size_t mapped = 0;       // bytes of that
  size_t gap = 0;          // bytes behind it that belong to nothing
  int line = 0;            // where it is declared
  bool far = false;        // too large to exist: pages come as they are touched
  const float* pattern = nullptr;
  size_t period = 0;   // in floats
  float filled = __builtin_nanf("");  // what stands where nothing else is known
  uint64_t loads = 0;  // numbers that kernels have read from it
  bool of_device = false, of_host = false;  // who has written to a variable of the text
  bool hidden = false;  // its values are in `kept`, see variables.h
  char* kept = nullptr;
};

constexpr int MOST_ARRAYS = 64, MOST_STATICS = 4096;
constexpr size_t DYNAMIC = 227 << 10, STATIC = 48 << 10;

inline Array arrays[MOST_ARRAYS];  // of the present call
inline int array_count;
inline Array statics[MOST_STATICS];  // of the student's text, by address
inline int static_count = -1;        // not looked at yet
inline Array dynamic;
alignas(128) unsigned char dynamic_bytes[MARGIN + DYNAMIC + MARGIN];

struct Registered {
  const __asan_global* variables;
  size_t count;
};
inline Registered registered[16];
inline int registered_count;

inline Word* words_for(size_t bytes) {
  return static_cast<Word*>(calloc(bytes / 4 + 2, sizeof(Word)));
}

// The bytes of an array, for as long as it lives.
inline Word* bytes_of(Array& a) {
  if (!a.bytes) a.bytes = words_for(4 * (a.begin == dynamic.begin ? DYNAMIC : a.end - a.begin) + 64);
  return a.bytes;
}

// Where arrays of cudaMalloc lay that are no more, the last ones.
constexpr unsigned GONE = 32;
inline uintptr_t gone[GONE][2];
inline unsigned gone_count;

inline void forget(Array& a) {
  if (a.kind == Kind::scratch) {
    gone[gone_count % GONE][0] = a.begin;
    gone[gone_count++ % GONE][1] = a.end;
  }
  free(a.words);
  free(a.bytes);
  a.bytes = nullptr;
  if (a.memory) munmap(a.memory, a.mapped);
  a.words = nullptr;
  a.memory = nullptr;
}

inline Array& add_array(const char* name, const void* begin, size_t bytes, Kind kind) {
  if (array_count == MOST_ARRAYS)
    report("MemoryError", 0, "there are too many arrays in device memory", "at most %d",
           MOST_ARRAYS);
  Array& a = arrays[array_count++];
  a = {};
  snprintf(a.name, sizeof a.name, "%s", name);
  a.begin = reinterpret_cast<uintptr_t>(begin);
  a.end = a.begin + bytes;
  a.kind = kind;
  return a;
}

inline size_t whole_pages(size_t bytes) {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// Whether the arrays can be reached at all: only while a kernel runs, or we ourselves use them.
inline void open_arrays(bool open) {
  for (int i = 0; i < array_count; ++i)
    if (arrays[i].memory)
      mprotect(reinterpret_cast<void*>(arrays[i].begin),
               whole_pages(arrays[i].end - arrays[i].begin),
               open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

// An array of our own, at a place of its own, with nothing else anywhere near it.
inline Array* make_array(const char* name, size_t bytes, Kind kind) {
  size_t inside = whole_pages(bytes), margin = whole_pages(bytes + MARGIN);
  void* memory = mmap(nullptr, inside + 2 * margin, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  void* begin = static_cast<char*>(memory) + margin;
  mprotect(begin, inside, PROT_READ | PROT_WRITE);
  memset(begin, 0xff, bytes);  // NaN: nothing has been written
  Array& a = add_array(name, begin, bytes, kind);
  a.memory = memory;
  a.mapped = inside + 2 * margin;
  if (kind != Kind::input) a.words = words_for(bytes);
  return &a;
}

inline void look_at_statics() {
  static_count = 0;
  for (int r = 0; r < registered_count; ++r)
    for (size_t i = 0; i < registered[r].count && static_count < MOST_STATICS; ++i) {
      const __asan_global& g = registered[r].variables[i];
      if (!g.place) continue;  // a string
      Array& a = statics[static_count++];
      snprintf(a.name, sizeof a.name, "%s", g.name);
      a.begin = g.begin;
      a.end = g.begin + g.size;
      a.gap = g.size_with_gap - g.size;
      a.line = g.place ? g.place->line : 0;
      a.kind = Kind::constant;  // until a kernel calls it shared
    }
  qsort(statics, static_cast<size_t>(static_count), sizeof(Array), [](const void* a, const void* b) {
    auto one = static_cast<const Array*>(a)->begin, other = static_cast<const Array*>(b)->begin;
    return one < other ? -1 : one > other;
  });
}

inline Array* static_at(uintptr_t at) {
  int low = 0, high = static_count;
  while (low < high) {
    int middle = (low + high) / 2;
    (statics[middle].begin <= at ? low : high) = statics[middle].begin <= at ? middle + 1 : middle;
  }
  bool inside = low > 0 && at < statics[low - 1].end + statics[low - 1].gap;
  return inside ? &statics[low - 1] : nullptr;
}

[[noreturn]] void give_up();  // in watch.h

// A page of an array that is too large to exist.
inline bool is_there(uintptr_t page, size_t size) {
  void* wanted = reinterpret_cast<void*>(page);
  void* got = mmap(wanted, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == wanted) return false;
  if (got != MAP_FAILED) munmap(got, size);
  return true;
}

constexpr size_t PAGE = 64 << 10;
constexpr uintptr_t FAR_AWAY = uintptr_t{1} << 44, FAR_APART = uintptr_t{1} << 38;
constexpr int MOST_PAGES = 1 << 13;
inline uintptr_t pages[MOST_PAGES];
inline int page_count;

constexpr uintptr_t KNOWN = 4096;
inline uintptr_t known[KNOWN];  // pages that were there when last asked for

inline void bring(const Array& a, uintptr_t at, size_t size) {
  for (uintptr_t page = at / PAGE * PAGE; page < at + size; page += PAGE) {
    if (known[page / PAGE % KNOWN] == page) continue;
    known[page / PAGE % KNOWN] = page;
    if (page_count == MOST_PAGES) give_up();
    if (is_there(page, PAGE)) continue;
    pages[page_count++] = page;
    auto* values = reinterpret_cast<float*>(page);
    size_t first = (page - a.begin) / sizeof(float);  // a far array begins at a page
    size_t at_pattern = a.pattern ? first % a.period : 0;
    for (size_t i = 0; i < PAGE / sizeof(float); ++i) {
      values[i] = a.pattern ? a.pattern[at_pattern] : a.filled;
      if (++at_pattern == a.period) at_pattern = 0;
    }
  }
}

inline void forget_arrays() {
  for (int i = 0; i < array_count; ++i) forget(arrays[i]);
  for (int i = 0; i < page_count; ++i) munmap(reinterpret_cast<void*>(pages[i]), PAGE);
  array_count = page_count = 0;
  memset(known, 0, sizeof known);
}

}  // namespace cuda_on_cpu
