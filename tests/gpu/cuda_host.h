// The part of CUDA C++ that our kernels use, for g++: every kernel module built by `hostnvcc` starts
// with this header. Not covered: dynamic shared memory, textures, half precision.
#pragma once
#include <cmath>
#include <cstring>
#include <utility>

#include "block.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static  // one block runs at a time

#define __syncthreads() host_barrier(__LINE__)

static inline void __syncwarp(unsigned mask = 0xffffffffu) { host_exchange(mask, 0, 0); }

static inline int host_lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <class T> T host_shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = host_exchange(mask, bits, source);
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T> T __shfl_sync(unsigned mask, T value, int source) {
  return host_shuffle(mask, value, source & 31);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int with) {
  return host_shuffle(mask, value, host_lane() ^ with);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  int lane = host_lane(), source = lane + int(by);
  return host_shuffle(mask, value, source < 32 ? source : lane);
}

// Describes a kernel to the driver; hostnvcc adds one line per __global__ function.
template <class... A> struct HostArguments {
  template <void (*F)(A...), size_t... I>
  static void call(void** params, std::index_sequence<I...>) {
    F(*static_cast<A*>(params[I])...);
  }
  template <void (*F)(A...)> static void thread(void** params) {
    call<F>(params, std::index_sequence_for<A...>());
  }
  static constexpr uint32_t size[] = {uint32_t(sizeof(A))..., 0};
  static constexpr uint32_t align[] = {uint32_t(alignof(A))..., 1};
};
template <class... A> HostArguments<A...> host_arguments(void (*)(A...));

#define HOST_KERNEL(name)                                                              \
  extern "C" __attribute__((visibility("default"))) const HostKernel host_kernel_##name; \
  const HostKernel host_kernel_##name = host_describe<name>(decltype(host_arguments(name))());
template <auto F, class... A> HostKernel host_describe(HostArguments<A...>) {
  typedef HostArguments<A...> Arguments;
  return {Arguments::template thread<F>, int(sizeof...(A)), Arguments::size, Arguments::align};
}
