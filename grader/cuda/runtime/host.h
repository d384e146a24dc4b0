// The host's side of CUDA C++: its memory, its errors, and what it may ask of a device.
//
// Kernels have run before their launch comes back. So a stream is a number, an event a moment, and
// to wait for either is to do nothing.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "machine.h"

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
using cudaError = cudaError_t;
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout
};

inline const char* cudaGetErrorString(cudaError_t e) { return e ? "an error" : "no error"; }
inline const char* cudaGetErrorName(cudaError_t e) { return e ? "cudaError" : "cudaSuccess"; }
inline cudaError_t cudaGetLastError() { return cudaError_t(cuda_on_cpu::last_error()); }
inline cudaError_t cudaPeekAtLastError() { return cudaError_t(cuda_on_cpu::last_error()); }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

// Memory.
template <class T>
cudaError_t cudaMalloc(T** at, size_t bytes) {
  *at = static_cast<T*>(cuda_on_cpu::allocate(bytes));
  return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFree(void* at) { return cudaError_t(cuda_on_cpu::release(at)); }

namespace cuda_on_cpu {
inline cudaError_t copied(int line, void* to, const void* from, size_t bytes, cudaMemcpyKind,
                          void* = nullptr) {
  return cudaError_t(copy(line, to, from, bytes));
}
inline cudaError_t filled(int line, void* to, int byte, size_t bytes, void* = nullptr) {
  return cudaError_t(fill(line, to, byte, bytes));
}
// A variable of the text: its own place is that of the device.
template <class T>
cudaError_t to_symbol(int line, T& symbol, const void* from, size_t bytes, size_t offset = 0,
                      cudaMemcpyKind = cudaMemcpyHostToDevice, void* = nullptr) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cudaErrorInvalidValue;
  char* to = reinterpret_cast<char*>(&const_cast<std::remove_cv_t<T>&>(symbol)) + offset;
  return cudaError_t(copy_to_symbol(line, to, from, bytes));
}
template <class T>
cudaError_t from_symbol(int line, void* to, const T& symbol, size_t bytes, size_t offset = 0,
                        cudaMemcpyKind = cudaMemcpyDeviceToHost, void* = nullptr) {
  if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cudaErrorInvalidValue;
  auto from = reinterpret_cast<const char*>(&symbol) + offset;
  return cudaError_t(copy_from_symbol(line, to, from, bytes));
}
}  // namespace cuda_on_cpu
#define cudaMemcpyToSymbol(...) cuda_on_cpu::to_symbol(__LINE__, __VA_ARGS__)
#define cudaMemcpyToSymbolAsync(...) cuda_on_cpu::to_symbol(__LINE__, __VA_ARGS__)
#define cudaMemcpyFromSymbol(...) cuda_on_cpu::from_symbol(__LINE__, __VA_ARGS__)
#define cudaMemcpyFromSymbolAsync(...) cuda_on_cpu::from_symbol(__LINE__, __VA_ARGS__)
#define cudaMemcpy(...) cuda_on_cpu::copied(__LINE__, __VA_ARGS__)
#define cudaMemcpyAsync(...) cuda_on_cpu::copied(__LINE__, __VA_ARGS__)
#define cudaMemset(...) cuda_on_cpu::filled(__LINE__, __VA_ARGS__)
#define cudaMemsetAsync(...) cuda_on_cpu::filled(__LINE__, __VA_ARGS__)

// Streams and events.
using cudaStream_t = void*;
using cudaEvent_t = void*;
enum { cudaStreamDefault, cudaStreamNonBlocking, cudaEventDefault = 0, cudaEventDisableTiming = 2 };
inline cudaError_t cudaStreamCreate(cudaStream_t* s) { return *s = nullptr, cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { return cudaStreamCreate(s); }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* e) { return *e = nullptr, cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return cudaEventCreate(e); }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  return *ms = 0.0f, cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }

// The device: the limits that this machine holds a launch to, and otherwise those of an H100.
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
  size_t totalConstMem;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, l2CacheSize;
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock, cudaDevAttrMaxSharedMemoryPerBlock,
  cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaDevAttrMaxSharedMemoryPerMultiprocessor,
  cudaDevAttrWarpSize, cudaDevAttrMultiProcessorCount, cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor
};
inline cudaError_t cudaGetDeviceCount(int* n) { return *n = 1, cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int device) { return device ? cudaErrorInvalidValue : cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  *p = {"kernels on the CPU", size_t{80} << 30, 48 << 10, 227 << 10, 228 << 10, 64 << 10, 65536, 32,
        1024, {1024, 1024, 64}, {2147483647, 65535, 65535}, 9, 0, 132, 2048, 50 << 20};
  return cudaSetDevice(device);
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  const int known[] = {1024, 48 << 10, 227 << 10, 228 << 10, 32, 132, 9, 0};
  *value = known[which];
  return cudaSetDevice(device);
}
enum cudaFuncCache {
  cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual
};
template <class Kernel>
cudaError_t cudaFuncSetCacheConfig(Kernel, cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel kernel, cudaFuncAttribute which, int value) {
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  return cudaError_t(
      cuda_on_cpu::allow_shared(reinterpret_cast<const void*>(kernel), static_cast<size_t>(value)));
}
