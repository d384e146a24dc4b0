// Device memory as the host sees it: cudaMalloc, cudaMemcpy, cudaMemset. (For runtime.cpp alone.)
#pragma once
#include "variables.h"
#include "watch.h"

namespace cuda_on_cpu {

constexpr size_t MUCH = size_t{32} << 20;  // bytes, where arrays are too large to exist

void* allocate(size_t bytes) {
  if (corners_only && bytes > MUCH) give_up();
  Array* made = make_array("an array of cudaMalloc", bytes, Kind::scratch);
  if (!made) return nullptr;
  open_arrays(false);
  return reinterpret_cast<void*>(made->begin);
}

int release(void* at) {
  if (!at) return 0;
  for (int i = 0; i < array_count; ++i)
    if (arrays[i].kind == Kind::scratch && reinterpret_cast<void*>(arrays[i].begin) == at) {
      forget(arrays[i]);
      arrays[i] = arrays[--array_count];
      return 0;
    }
  return 1;
}

static void now_written(void* to, size_t bytes) {
  Array* a = array_at(reinterpret_cast<uintptr_t>(to));
  if (!a || !a->words) return;
  auto first = (reinterpret_cast<uintptr_t>(to) - a->begin) / 4;
  for (size_t i = 0; i < bytes / 4 && first + i < (a->end - a->begin) / 4; ++i)
    a->words[first + i].written_in = 1;
}

static bool within(const void* at, size_t bytes) {
  Array* a = array_at(reinterpret_cast<uintptr_t>(at));
  return !a || reinterpret_cast<uintptr_t>(at) + bytes <= a->end;
}

static void changes(int line, const void* to) {
  const Array* a = array_at(reinterpret_cast<uintptr_t>(to));
  if (a && a->kind == Kind::input)
    report("InputChanged", line, "the host writes to an input", "to %s", a->name);
}

// Whoever brings numbers to the host computes there; kernels are what is asked for.
static void stays_on_device(int line, const void* to, const void* from) {
  const Array* source = array_at(reinterpret_cast<uintptr_t>(from));
  const Array* target = array_at(reinterpret_cast<uintptr_t>(to));
  bool to_host = !target || (target->kind == Kind::constant && !target->of_device);
  if (source && source->kind != Kind::constant && to_host)
    report("HostCopy", line, "the host copies numbers from the device to itself",
           "from %s: kernels do all the work, and the host only launches them", source->name);
}

// What the machine writes for the host goes where the host may write itself.
static void theirs(int line, const void* to, size_t bytes) {
  auto first = reinterpret_cast<uintptr_t>(to), last = first + bytes - 1;
  if (!bytes) return;
  if (!array_at(first) && is_ours(first)) report_ours(first, line);
  if (!array_at(last) && is_ours(last)) report_ours(last, line);
}

int copy(int line, void* to, const void* from, size_t bytes) {
  theirs(line, to, bytes);
  if (!within(to, bytes) || !within(from, bytes)) return 1;
  changes(line, to);
  stays_on_device(line, to, from);
  if (corners_only && bytes > MUCH) give_up();
  open_arrays(true);
  memmove(to, from, bytes);
  now_written(to, bytes);
  open_arrays(false);
  return 0;
}

// What a kernel reads from a variable that was copied from an array is a copy of numbers.
int copy_to_symbol(int line, void* to, const void* from, size_t bytes) {
  Array* symbol = array_at(reinterpret_cast<uintptr_t>(to));
  if (symbol) reveal(*symbol);
  if (symbol && array_at(reinterpret_cast<uintptr_t>(from))) symbol->of_device = true;
  int done = copy(line, to, from, bytes);
  if (symbol) hide(*symbol);
  return done;
}

int copy_from_symbol(int line, void* to, const void* from, size_t bytes) {
  const Array* symbol = array_at(reinterpret_cast<uintptr_t>(from));
  if (!array_at(reinterpret_cast<uintptr_t>(to)))
    report("HostCopy", line, "the host copies numbers from the device to itself",
           "from %s: kernels do all the work, and the host only launches them",
           symbol ? symbol->name : "a variable");
  return copy(line, to, from, bytes);
}

int fill(int line, void* to, int byte, size_t bytes) {
  theirs(line, to, bytes);
  if (!within(to, bytes)) return 1;
  changes(line, to);
  Array* a = array_at(reinterpret_cast<uintptr_t>(to));
  if (a && a->far) {
    memset(&a->filled, byte, sizeof a->filled);
    return 0;
  }
  open_arrays(true);
  memset(to, byte, bytes);
  now_written(to, bytes);
  open_arrays(false);
  return 0;
}

}  // namespace cuda_on_cpu
