// The conversation with Python: what is to be called and on what; what came of it. Python's side is
// machine.py. (For runtime.cpp alone.)
#pragma once
#include <sys/random.h>

#include "confine.h"
#include "corners.h"

// Calls one of the answers' functions: written for them, see translate.py.
extern "C" int cuda_on_cpu_call(unsigned which, void* const* arrays, const double* numbers);

namespace cuda_on_cpu {

constexpr unsigned MOST_GIVEN = 8, MOST_NUMBERS = 16;
constexpr int NO_MEMORY = 3, NO_SENSE = 4;

struct Request {
  uint64_t seed, last;  // last: how many numbers at the end of the output are wanted; 0: all
  uint32_t which, order, corners, arrays, numbers, lines;
};
struct Given {
  uint64_t floats, period;  // its numbers, and how many follow: all, a pattern of them, or none
  char name[16];
};
struct Reply {
  int32_t code;
  Report report;
  Counts counts;
  uint64_t loads[MOST_GIVEN];
  char kernels[256];
  uint64_t floats;  // that follow
};
static_assert(sizeof(Request) == 40 && sizeof(Given) == 32 && sizeof(Reply) == 1648);

static int talk;  // the descriptor

static void take(void* to, size_t bytes) {
  for (auto* at = static_cast<char*>(to); bytes;) {
    ssize_t got = ::read(talk, at, bytes);
    if (got <= 0) _exit(0);
    at += got;
    bytes -= static_cast<size_t>(got);
  }
}

static void tell(const void* from, size_t bytes) {
  for (auto* at = static_cast<const char*>(from); bytes;) {
    ssize_t sent = ::write(talk, at, bytes);
    if (sent <= 0) _exit(0);
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

static void* taken(size_t bytes) {
  void* memory = malloc(bytes + 1);
  if (!memory) _exit(NO_MEMORY);
  take(memory, bytes);
  return memory;
}

// The values of a far array; NaN where nothing was written.
static void look(uintptr_t at, float* to, size_t floats) {
  for (size_t i = 0; i < floats; ++i, at += sizeof(float)) {
    bool there = false;
    for (int p = 0; p < page_count; ++p) there |= pages[p] == at / PAGE * PAGE;
    to[i] = there ? *reinterpret_cast<const float*>(at) : __builtin_nanf("");
  }
}

// An array on the device, with these values or to be written to; nullptr if there is no memory.
static void* near_array(const Given& g, const float* values) {
  Array* made = make_array(g.name, g.floats * sizeof(float), values ? Kind::input : Kind::output);
  if (!made) return nullptr;
  auto begin = reinterpret_cast<void*>(made->begin);
  if (values) memcpy(begin, values, g.floats * sizeof(float));
  return begin;
}

// An array that exists only where it is touched: a pattern again and again, or NaN to write to.
static void* far_array(const Given& g, const float* pattern) {
  auto begin = FAR_AWAY + static_cast<uintptr_t>(array_count) * FAR_APART;
  Array& a = add_array(g.name, reinterpret_cast<void*>(begin), g.floats * sizeof(float),
                       pattern ? Kind::input : Kind::output);
  a.far = true;
  a.pattern = pattern;
  a.period = g.period;
  return reinterpret_cast<void*>(begin);
}

static void take_lines(uint32_t count) {
  code_places = static_cast<uint32_t*>(taken(count * sizeof(uint32_t)));
  code_lines = static_cast<uint32_t*>(taken(count * sizeof(uint32_t)));
  code_count = count;
}

static void tell_what_came(const Request& r, int code, const Given& out, uintptr_t at) {
  Reply reply = {};
  reply.code = code;
  reply.report = found;
  reply.counts = *counts;
  for (unsigned i = 0; i < r.arrays; ++i) reply.loads[i] = arrays[i].loads;
  memcpy(reply.kernels, kernels_named, sizeof reply.kernels);
  bool far = r.corners, told = code == 0 && (!far || last_is_written() || last_is_lost());
  reply.floats = !told ? 0 : r.last ? r.last : out.floats;
  tell(&reply, sizeof reply);
  if (!reply.floats) return;
  uintptr_t first = at + (out.floats - reply.floats) * sizeof(float);
  if (!far) return tell(reinterpret_cast<const void*>(first), reply.floats * sizeof(float));
  auto* values = static_cast<float*>(malloc(reply.floats * sizeof(float)));
  look(first, values, reply.floats);
  tell(values, reply.floats * sizeof(float));
  free(values);
}

static void answer_once() {
  Request r;
  take(&r, sizeof r);
  if (r.arrays > MOST_GIVEN || r.numbers > MOST_NUMBERS) _exit(NO_SENSE);
  Given given[MOST_GIVEN];
  double numbers[MOST_NUMBERS];
  float* values[MOST_GIVEN] = {};
  void* places[MOST_GIVEN] = {};
  take(given, r.arrays * sizeof *given);
  take(numbers, r.numbers * sizeof *numbers);
  if (r.lines) take_lines(r.lines);
  forget_arrays();
  order = static_cast<Order>(r.order);
  random_state = r.seed | 1;
  corners_only = r.corners != 0;
  budget = corners_only ? MOST_ACCESSES : 0;
  bool enough = true;
  for (unsigned i = 0; i < r.arrays; ++i) {
    const Given& g = given[i];
    if (g.period) values[i] = static_cast<float*>(taken(g.period * sizeof(float)));
    places[i] = corners_only ? far_array(g, values[i]) : near_array(g, values[i]);
    enough &= places[i] != nullptr;
  }
  int code = enough ? cuda_on_cpu_call(r.which, places, numbers) : NO_MEMORY;
  auto out = reinterpret_cast<uintptr_t>(r.arrays ? places[r.arrays - 1] : nullptr);
  tell_what_came(r, code, r.arrays ? given[r.arrays - 1] : Given{}, out);
  forget_arrays();
  for (float* v : values) free(v);
}

// Lay the counts at a place of no order, with nothing beside it, before an answer runs.
static void hide_counts() {
  constexpr size_t page = 64 << 10;
  uint64_t place = 0;
  if (getrandom(&place, sizeof place, 0) < 0) abort();
  place = (uint64_t{1} << 45) + place % (uint64_t{1} << 28) * page;
  void* memory = mmap(reinterpret_cast<void*>(place), 3 * page, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  counts = reinterpret_cast<Counts*>(static_cast<char*>(memory) + page);
  if (mprotect(counts, page, PROT_READ | PROT_WRITE)) abort();
}

}  // namespace cuda_on_cpu

// Before the values of an answer's variables are computed, which is before main.
__attribute__((constructor(101))) static void begin(int count, char** given) {
  if (count != 2) _exit(cuda_on_cpu::NO_SENSE);
  cuda_on_cpu::talk = atoi(given[1]);
  cuda_on_cpu::confine(cuda_on_cpu::talk);
  cuda_on_cpu::hide_counts();
}

int main() {
  for (;;) cuda_on_cpu::answer_once();
}
