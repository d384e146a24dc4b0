// The machine itself: launches, barriers, the calls that g++ puts before accesses, and the program.
#include "crash.h"
#include "device.h"
#include "hooks.h"
#include "program.h"

namespace cuda_on_cpu {

uint3 thread_index() { return current->index; }
uint3 block_index() { return block_now; }
uint3 block_size() {
  dim3 d = launch_now.shape.block;
  return {d.x, d.y, d.z};
}
uint3 grid_size() {
  dim3 d = launch_now.shape.grid;
  return {d.x, d.y, d.z};
}
unsigned lane() { return current->number % WARP; }

static void in_kernel(int line, const char* what) {
  if (!current)
    report("HostAccess", line, "the host calls what only kernels can call", "%s", what);
}

static void wait(int line) {
  in_kernel(line, "__syncthreads()");
  current->waits_at = line;
  current->state = State::at_barrier;
  yield();
  if (unsettled.array) settle();
}
void wait_for_block(int line) { wait(line); }
int wait_and_count(int line, int predicate) {
  ballots[1] += predicate != 0;
  wait(line);
  return static_cast<int>(ballots[0]);
}

Told exchange(int line, unsigned mask, uint64_t value, unsigned source) {
  in_kernel(line, "a shuffle, a vote or __syncwarp()");
  current->waits_at = line;
  current->mask = mask;
  current->value = value;
  current->source = source;
  current->state = State::at_exchange;
  yield();
  return current->told;
}

long long ticks() {
  static long long now;
  return now += 32;
}

void touch_atomic(const void* at, size_t size, const void* code) {
  access(at, size, Act::atomic, code);
}
void* shared(void* at, size_t size, const char* name, int line) {
  Array* a = static_at(reinterpret_cast<uintptr_t>(at));
  if (!a || a->kind == Kind::shared) return at;
  if (size > STATIC)  // nvcc would not compile it
    report("LaunchError", line, "a kernel has more shared memory than a block can have",
           "%s takes %zu bytes; static shared memory has %zu: use extern __shared__", name, size,
           STATIC);
  snprintf(a->name, sizeof a->name, "%s", name);
  a->end = a->begin + size;
  a->kind = Kind::shared;
  a->words = words_for(size);
  return at;
}

// Launches.
static size_t allowed_shared = STATIC;

int allow_shared(const void*, size_t bytes) {
  if (bytes > DYNAMIC) return 1;
  if (bytes > allowed_shared) allowed_shared = bytes;
  return 0;
}

static void check(const Launch& l) {
  auto [grid, block, shared] = l.shape;
  const char* says = "the launch fails: its grid or its block is not one that CUDA can run";
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
    report("LaunchError", l.line, says, "%s: a size of its grid or of its block is 0", l.kernel);
  if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
    report("LaunchError", l.line, says,
           "%s: a grid of (%u, %u, %u) blocks; y and z are at most 65535", l.kernel, grid.x,
           grid.y, grid.z);
  uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads > MOST_THREADS || block.z > 64)
    report("LaunchError", l.line, says,
           "%s: (%u, %u, %u) are %zu threads in a block; at most 1024, and 64 in z", l.kernel,
           block.x, block.y, block.z, static_cast<size_t>(threads));
  if (shared > allowed_shared)
    report("LaunchError", l.line, "the launch fails: it asks for too much shared memory",
           "%s: %zu bytes for each block; %zu are allowed%s", l.kernel, shared, allowed_shared,
           shared > DYNAMIC            ? ""
           : allowed_shared > STATIC ? ", as many as cudaFuncSetAttribute was given"
                                       : " without cudaFuncSetAttribute");
}

static void account_for(const Launch& l) {
  auto [grid, block, shared] = l.shape;
  ++counts->kernels;
  counts->threads += uint64_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z;
  workers = 0;
  size_t used = strlen(kernels_named);
  snprintf(kernels_named + used, sizeof kernels_named - used, "%s%s", used ? ", " : "", l.kernel);
}

static void run_all(dim3 n) {
  uint64_t first = order == Order::shuffled ? random_below(static_cast<unsigned>(n.x)) : 0;
  for (uint64_t i = 0; i < blocks_in_grid; ++i) {
    uint64_t b = order == Order::backwards ? blocks_in_grid - 1 - i : (i + first) % blocks_in_grid;
    run_block(block_number(b, n));
  }
  if (unsettled.array) settle();
  if (workers > counts->workers) counts->workers = workers;
}

void run(int line, const char* kernel, Shape shape, void (*body)(void*), void* closure,
         size_t size) {
  if (current) report("LaunchError", line, "a kernel launches a kernel", "%s", kernel);
  launch_now = {line, kernel, shape, body, closure, size};
  check(launch_now);
  ++launch_serial;
  account_for(launch_now);
  dynamic.begin = reinterpret_cast<uintptr_t>(dynamic_bytes + MARGIN);
  dynamic.end = dynamic.begin + shape.shared;
  dim3 n = shape.grid;
  blocks_in_grid = uint64_t{n.x} * n.y * n.z;
  open_arrays(true);
  reveal_variables();
  if (corners_only) run_some(n);
  else run_all(n);
  look_at_variables();
  open_arrays(false);
}

int last_error() { return 0; }

// Of all that a format may ask for, %n alone writes, to wherever it is told.
static void only_reads(int line, const char* format) {
  for (const char* at = format; *at; ++at) {
    if (*at != '%') continue;
    at += 1 + strspn(at + 1, "0123456789+-# .*'$hlLjztqI");
    if (!*at) return;
    if (*at == 'n')
      report("PrintError", line, "printf is given something else than its format says",
             "%%s wants characters, and there is no %%n: look at each %% and its argument");
  }
}

int print(int line, const char* format, ...) {
  static int left = 20000;  // characters, then silence
  char text[1024];
  only_reads(line, format);
  va_list values;
  va_start(values, format);
  printing = line;
  int size = vsnprintf(text, sizeof text, format, values);
  printing = 0;
  va_end(values);
  if (left > 0) fputs(text, stdout);
  left -= size;
  return size;
}

int format(int line, char* to, size_t size, const char* format, ...) {
  if (current)
    report("Unsupported", line, "a kernel calls what only the host can call", "snprintf");
  theirs(line, to, size);
  only_reads(line, format);
  va_list values;
  va_start(values, format);
  int needed = vsnprintf(to, size, format, values);
  va_end(values);
  return needed;
}

void fails(int line, const char* what) {
  char who[96] = "the host";
  if (current) thread_name(who, sizeof who);
  report("AssertionError", line, "an assert of the file fails", "%s; %s", what, who);
}
void leaves(int line, const char* how) { ended(line, how); }

int guarded(void (*body)(void*), void* closure) {
  reported = in_doubt = false;
  printing = 0;
  *counts = {};
  kernels_named[0] = 0;
  unsettled.array = nullptr;
  allowed_shared = STATIC;
  gave_up = false;
  all_tried = true;
  dynamic.kind = Kind::shared;
  if (!dynamic.words) dynamic.words = words_for(DYNAMIC);
  if (_setjmp(beginning) == 0) {
    if (static_count < 0) look_at_statics();
    hide_variables();
    open_arrays(false);
    catch_crashes();
    body(closure);
    if (!counts->kernels && !reported)
      report("NoKernel", 0, "the function launches no kernel", " ");
  } else {
    current = nullptr;
    for (Fiber& f : fibers) f.begun = false;  // each was left somewhere inside
  }
  let_crash();
  open_arrays(true);
  fflush(stdout);
  budget = 0;
  return reported ? 1 : gave_up ? 2 : 0;
}

}  // namespace cuda_on_cpu
