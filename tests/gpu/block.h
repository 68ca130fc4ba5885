// Between the driver (driver.cpp), the block scheduler (block.cpp) and a kernel module (cuda_host.h):
// how a kernel built for the host is described and run.
#pragma once
#include <cstddef>
#include <cstdint>

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

struct HostKernel {
  void (*call)(void** params);  // one thread
  int count;                    // parameters
  const uint32_t *size, *align;
};

#pragma GCC visibility push(default)
extern "C" {
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// Waits for the threads of the block; `site` tells one __syncthreads in the source from another.
void host_barrier(int site);
// Waits for the lanes of `mask`, then gives what lane `source` of the warp brought along.
uint64_t host_exchange(unsigned mask, uint64_t value, int source);

// Runs a whole grid; null, or why the launch failed.
const char* host_run(const HostKernel& kernel, void** params, dim3 grid, dim3 block);
}
#pragma GCC visibility pop
