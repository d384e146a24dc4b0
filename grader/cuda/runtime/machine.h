// The machine on which kernels run without a GPU: what translated code may ask of it.
//
// The threads of a block are fibers of one thread of the CPU. They run one after another, warp by
// warp, and change places only where CUDA lets them wait for each other. Every access to memory
// calls the machine first (g++ -fsanitize=kernel-address puts the calls there), which knows what
// belongs to whom, so that a race is found whether or not it does harm today.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 u) : x(u.x), y(u.y), z(u.z) {}
};

namespace cuda_on_cpu {

uint3 thread_index() __attribute__((const));  // const: a fiber stays the thread that it is
uint3 block_index() __attribute__((const));
uint3 block_size() __attribute__((const));
uint3 grid_size() __attribute__((const));
unsigned lane() __attribute__((const));

void wait_for_block(int line);  // __syncthreads()
int wait_and_count(int line, int predicate);  // __syncthreads_count()

// What the lanes of a warp named by `mask` tell each other: the value of lane `source`, and how
// each of them voted. A lane that has left the kernel tells nothing, and its value is NaN.
struct Told {
  uint64_t value;
  unsigned voted, members;
};
Told exchange(int line, unsigned mask, uint64_t value, unsigned source);

long long ticks();  // more at each call

void touch_atomic(const void* at, size_t size, const void* code);  // before an atomic operation

// The dynamic shared memory, at the same place for every block, which is known when it is linked.
constexpr size_t MARGIN = 64 << 10;  // before it, and behind it
extern unsigned char dynamic_bytes[];

struct Shape {
  dim3 grid, block;
  size_t shared;
};
inline Shape shape(dim3 grid, dim3 block, size_t shared = 0, void* = nullptr) {
  return {grid, block, shared};
}
void run(int line, const char* kernel, Shape shape, void (*body)(void*), void* closure,
         size_t size);

// What a launch is called with is computed here, once, and each thread gets a copy.
template <class Kernel>
struct Launcher {
  int line;
  const char* name;
  Shape shape;
  Kernel kernel;

  template <class... Given>
  void operator()(Given... given) {
    auto body = [=, kernel = kernel]() mutable { kernel(given...); };
    run(line, name, shape, [](void* it) { (*static_cast<decltype(body)*>(it))(); }, &body,
        sizeof body);
  }
};
template <class Kernel>
Launcher<Kernel> launch(int line, const char* name, Shape shape, Kernel kernel) {
  return {line, name, shape, kernel};
}

// Calls the student's function. 1: something was reported, and it was left at that place; 2: it was
// left because there was too much to do.
int guarded(void (*body)(void*), void* closure);

template <class Body>
int guard(Body body) {
  return guarded([](void* it) { (*static_cast<Body*>(it))(); }, &body);
}

int allow_shared(const void* kernel, size_t bytes);  // cudaFuncSetAttribute
int last_error();
void* allocate(size_t bytes);
int release(void* at);
int copy(int line, void* to, const void* from, size_t bytes);
int copy_to_symbol(int line, void* to, const void* from, size_t bytes);
int copy_from_symbol(int line, void* to, const void* from, size_t bytes);
int fill(int line, void* to, int byte, size_t bytes);
int print(int line, const char* format, ...) __attribute__((format(printf, 2, 3)));
[[noreturn]] void fails(int line, const char* what);  // assert
[[noreturn]] void leaves(int line, const char* how);  // exit, abort, __trap
// snprintf, for the host alone.
int format(int line, char* to, size_t size, const char* format, ...)
    __attribute__((format(printf, 4, 5)));

// Names a variable as shared. Through the pointer that comes back every access is seen; one to the
// variable itself would not be, where g++ knows that it lies inside.
void* shared(void* at, size_t size, const char* name, int line);
template <class T>
T* shared_variable(T* at, const char* name, int line) {
  return static_cast<T*>(shared(const_cast<std::remove_cv_t<T>*>(at), sizeof(T), name, line));
}

}  // namespace cuda_on_cpu
