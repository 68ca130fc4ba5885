// Test-only libcuda.so.1: the part of the CUDA driver API that PyCUDA and tensotron._cuda use, on the
// host. Device memory is host memory, a module is a shared object built by `hostnvcc`.
//
// It is stricter than a GPU where that finds bugs: work on a stream runs only when something waits
// for it (a read before that sees old data), fresh memory is NaN, an access past the end of an
// allocation is a segmentation fault. One thread, one device, legacy default-stream rules.
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "block.h"

#define API extern "C" __attribute__((visibility("default"))) CUresult

typedef std::function<CUresult()> Work;

struct CUgraph_st { std::vector<Work> work; };
struct CUgraphExec_st { std::vector<Work> work; };
struct CUstream_st {
  CUgraph graph = nullptr;  // being captured into
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool invalid = false;
};
struct CUevent_st {
  double milliseconds = 0;
  bool captured = false;
};
struct CUctx_st {};
struct CUmod_st { void* library; };
struct CUfunc_st {
  const HostKernel* kernel;
  std::string name;
};

namespace {

constexpr size_t TOTAL_MEMORY = size_t(8) << 30;
constexpr size_t PAGE = 4096;

CUctx_st primary;
std::vector<CUcontext> contexts;
std::map<char*, size_t> allocations;
size_t allocated;
std::deque<Work> pending;
std::vector<CUstream> capturing;
CUresult sticky = CUDA_SUCCESS;  // a failed kernel spoils the context

size_t pages(size_t n) { return (n + PAGE - 1) / PAGE * PAGE; }
size_t aligned(size_t n, size_t to) { return (n + to - 1) / to * to; }

CUresult flush() {
  while (!sticky && !pending.empty()) {
    Work work = std::move(pending.front());
    pending.pop_front();
    sticky = work();
  }
  return sticky;
}

CUresult spoil(CUresult error) {
  for (CUstream s : capturing) s->invalid = true;
  return error;
}

// Calls that wait, allocate or free are refused while a stream is capturing.
CUresult enter() {
  if (sticky) return sticky;
  for (CUstream s : capturing)
    if (s->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
      return spoil(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return flush();
}

bool is_default(CUstream s) {
  return !s || s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD;
}

CUresult enqueue(CUstream stream, Work work) {
  if (sticky) return sticky;
  if (is_default(stream)) {
    // The default stream waits for all others, which a capturing stream cannot do.
    if (!capturing.empty()) return spoil(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  } else if (stream->graph) {
    if (stream->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->graph->work.push_back(std::move(work));
    return CUDA_SUCCESS;
  }
  pending.push_back(std::move(work));
  return CUDA_SUCCESS;
}

CUresult copy(void* to, const void* from, size_t n) {
  if (CUresult e = enter()) return e;
  memmove(to, from, n);
  return CUDA_SUCCESS;
}

CUresult copy_async(void* to, const void* from, size_t n, CUstream stream) {
  return enqueue(stream, [=] {
    memmove(to, from, n);
    return CUDA_SUCCESS;
  });
}

template <class T> CUresult fill(CUdeviceptr to, T value, size_t n, CUstream stream) {
  return enqueue(stream, [=] {
    for (size_t i = 0; i < n; ++i) reinterpret_cast<T*>(to)[i] = value;
    return CUDA_SUCCESS;
  });
}

double now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// For the stand-in cuBLAS: its work goes through the streams like everything else.
extern "C" __attribute__((visibility("default"))) int host_enqueue(
    CUstream stream, void (*run)(const void*), const void* argument, size_t n) {
  std::string copy(static_cast<const char*>(argument), n);
  return enqueue(stream, [=] {
    run(copy.data());
    return CUDA_SUCCESS;
  });
}

// Devices and contexts ---------------------------------------------------------------------------

API cuInit(unsigned) {
  // Kernel modules find the block scheduler, which is in this library, among the global symbols.
  dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  return CUDA_SUCCESS;
}
API cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
API cuDeviceGetCount(int* n) { return *n = 1, CUDA_SUCCESS; }
API cuDeviceGet(CUdevice* device, int i) {
  *device = i;
  return i == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
API cuDeviceGetName(char* name, int n, CUdevice) {
  snprintf(name, n, "reference device (host, slow)");
  return CUDA_SUCCESS;
}
API cuDeviceTotalMem_v2(size_t* n, CUdevice) { return *n = TOTAL_MEMORY, CUDA_SUCCESS; }
API cuDeviceComputeCapability(int* major, int* minor, CUdevice) {
  return *major = 9, *minor = 0, CUDA_SUCCESS;
}
API cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  return *context = &primary, CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
API cuCtxPushCurrent_v2(CUcontext context) { return contexts.push_back(context), CUDA_SUCCESS; }
API cuCtxPopCurrent_v2(CUcontext* context) {
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = contexts.back();
  contexts.pop_back();
  return CUDA_SUCCESS;
}
API cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return contexts.empty() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
API cuCtxGetApiVersion(CUcontext, unsigned* version) { return *version = 3020, CUDA_SUCCESS; }
API cuCtxSynchronize() { return enter(); }

API cuGetErrorString(CUresult error, const char** text) {
  switch (error) {
    case CUDA_ERROR_LAUNCH_FAILED: *text = "719: a kernel failed"; break;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      *text = "900: operation not permitted when stream is capturing"; break;
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
      *text = "901: operation failed due to a previous error during capture"; break;
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      *text = "906: operation would make the legacy stream depend on a capturing stream"; break;
    default: {
      static std::map<int, std::string> texts;
      *text = (texts[error] = std::to_string(error) + ": error of the stand-in driver").c_str();
    }
  }
  return CUDA_SUCCESS;
}

// Memory -----------------------------------------------------------------------------------------

API cuMemAlloc_v2(CUdeviceptr* pointer, size_t n) {
  if (CUresult e = enter()) return e;
  if (!n) return CUDA_ERROR_INVALID_VALUE;
  if (allocated + n > TOTAL_MEMORY) return CUDA_ERROR_OUT_OF_MEMORY;
  // Ends at a page that may not be touched.
  void* base = mmap(nullptr, pages(n) + PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  char* end = static_cast<char*>(base) + pages(n);
  mprotect(end, PAGE, PROT_NONE);
  char* p = end - aligned(n, 16);
  memset(p, 0xff, n);  // NaN
  allocations[p] = n;
  allocated += n;
  *pointer = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}
API cuMemFree_v2(CUdeviceptr pointer) {
  if (CUresult e = enter()) return e;
  auto found = allocations.find(reinterpret_cast<char*>(pointer));
  if (found == allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  size_t n = found->second;
  munmap(found->first + aligned(n, 16) - pages(n), pages(n) + PAGE);
  allocated -= n;
  allocations.erase(found);
  return CUDA_SUCCESS;
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
  return *free = TOTAL_MEMORY - allocated, *total = TOTAL_MEMORY, CUDA_SUCCESS;
}
API cuMemHostAlloc(void** pointer, size_t n, unsigned) {
  if (CUresult e = enter()) return e;
  *pointer = malloc(n ? n : 1);
  return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API cuMemFreeHost(void* pointer) {
  if (CUresult e = enter()) return e;
  free(pointer);
  return CUDA_SUCCESS;
}
API cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t n) {
  return copy(reinterpret_cast<void*>(to), from, n);
}
API cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t n) {
  return copy(to, reinterpret_cast<void*>(from), n);
}
API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy_async(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n, nullptr);
}
API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t n, CUstream stream) {
  return copy_async(reinterpret_cast<void*>(to), from, n, stream);
}
API cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t n, CUstream stream) {
  return copy_async(to, reinterpret_cast<void*>(from), n, stream);
}
API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
  return copy_async(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n, stream);
}
API cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n) {
  return fill(to, value, n, nullptr);
}
API cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n) { return fill(to, value, n, nullptr); }
API cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
  return fill(to, value, n, stream);
}
API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream) {
  return fill(to, value, n, stream);
}

// Modules and launches ---------------------------------------------------------------------------

API cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  if (CUresult e = enter()) return e;
  const Elf64_Ehdr* elf = static_cast<const Elf64_Ehdr*>(image);
  if (memcmp(image, ELFMAG, SELFMAG) || elf->e_type != ET_DYN)  // a real cubin: ET_EXEC
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  size_t n = elf->e_shoff + size_t(elf->e_shnum) * elf->e_shentsize;
  std::string path = std::string(getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir) + "/hostcuda-XXXXXX";
  int file = mkstemp(&path[0]);  // a new name: dlopen knows the old ones
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  bool written = write(file, image, n) == ssize_t(n);
  close(file);
  void* library = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path.c_str());
  if (!library) {
    fprintf(stderr, "hostcuda: cannot load a module: %s\n", written ? dlerror() : "disk full");
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *module = new CUmod_st{library};
  return CUDA_SUCCESS;
}
API cuModuleLoadData(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
API cuModuleUnload(CUmodule module) {
  if (CUresult e = enter()) return e;
  dlclose(module->library);
  delete module;
  return CUDA_SUCCESS;
}
API cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  std::string symbol = std::string("host_kernel_") + name;
  const void* kernel = dlsym(module->library, symbol.c_str());
  if (!kernel) return CUDA_ERROR_NOT_FOUND;
  *function = new CUfunc_st{static_cast<const HostKernel*>(kernel), name};
  return CUDA_SUCCESS;
}
API cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}
// Deprecated, and without effect on cuLaunchKernel; PyCUDA calls it before every launch.
extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI
cuFuncSetBlockShape(CUfunction, int, int, int) { return CUDA_SUCCESS; }

API cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, CUstream stream, void** params, void** extra) {
  uint64_t threads = uint64_t(bx) * by * bz;
  if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || !threads || threads > 1024 || bz > 64)
    return CUDA_ERROR_INVALID_VALUE;
  if (shared) return CUDA_ERROR_NOT_SUPPORTED;

  // The arguments are copied now, as the driver does.
  const HostKernel& kernel = *f->kernel;
  std::vector<size_t> offset;
  size_t total = 0;
  for (int i = 0; i < kernel.count; ++i) {
    offset.push_back(aligned(total, kernel.align[i]));
    total = offset[i] + kernel.size[i];
  }
  std::string arguments(total, '\0');
  if (params) {
    for (int i = 0; i < kernel.count; ++i)
      memcpy(&arguments[offset[i]], params[i], kernel.size[i]);
  } else if (extra) {
    const void* buffer = nullptr;
    size_t given = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
      if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
      else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) given = *static_cast<size_t*>(extra[1]);
    if (!buffer || given < total) {
      fprintf(stderr, "hostcuda: %s takes %zu bytes of arguments, the launch passes %zu\n",
              f->name.c_str(), total, given);
      return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&arguments[0], buffer, total);
  } else if (kernel.count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return enqueue(stream, [=]() mutable {
    std::vector<void*> pointers;
    for (size_t o : offset) pointers.push_back(&arguments[o]);
    const char* error = host_run(*f->kernel, pointers.data(), {gx, gy, gz}, {bx, by, bz});
    if (!error) return CUDA_SUCCESS;
    fprintf(stderr, "hostcuda: kernel %s: %s\n", f->name.c_str(), error);
    return CUDA_ERROR_LAUNCH_FAILED;
  });
}

// Streams and events -----------------------------------------------------------------------------

API cuStreamCreate(CUstream* stream, unsigned) { return *stream = new CUstream_st, CUDA_SUCCESS; }
API cuStreamDestroy_v2(CUstream stream) {
  flush();
  delete stream;
  return CUDA_SUCCESS;
}
API cuStreamSynchronize(CUstream stream) {
  if (is_default(stream) || stream->graph) return enter();
  return flush();
}
API cuStreamQuery(CUstream stream) { return cuStreamSynchronize(stream); }
API cuEventCreate(CUevent* event, unsigned) { return *event = new CUevent_st, CUDA_SUCCESS; }
API cuEventDestroy_v2(CUevent event) {
  flush();
  delete event;
  return CUDA_SUCCESS;
}
API cuEventRecord(CUevent event, CUstream stream) {
  event->captured = !is_default(stream) && stream->graph;
  if (event->captured) return CUDA_SUCCESS;
  return enqueue(stream, [=] {
    event->milliseconds = now();
    return CUDA_SUCCESS;
  });
}
API cuEventSynchronize(CUevent event) {
  return event->captured ? spoil(CUDA_ERROR_CAPTURED_EVENT) : flush();
}
API cuEventQuery(CUevent event) { return cuEventSynchronize(event); }
API cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  *milliseconds = float(end->milliseconds - start->milliseconds);
  return CUDA_SUCCESS;
}
API cuStreamWaitEvent(CUstream, CUevent event, unsigned) {
  // Everything runs in the order of issue anyway. Forks inside a capture are not emulated.
  return event->captured ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

// Capture and graphs -----------------------------------------------------------------------------

API cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  if (is_default(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->graph) return CUDA_ERROR_ILLEGAL_STATE;
  stream->graph = new CUgraph_st;
  stream->mode = mode;
  stream->invalid = false;
  capturing.push_back(stream);
  return CUDA_SUCCESS;
}
API cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  if (is_default(stream) || !stream->graph) return CUDA_ERROR_ILLEGAL_STATE;
  *graph = stream->graph;
  stream->graph = nullptr;
  for (size_t i = 0; i < capturing.size(); ++i)
    if (capturing[i] == stream) capturing.erase(capturing.begin() + i);
  if (!stream->invalid) return CUDA_SUCCESS;
  delete *graph;
  *graph = nullptr;
  return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}
API cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = is_default(stream) || !stream->graph ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->invalid                    ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}
API cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->work};
  return CUDA_SUCCESS;
}
API cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  for (const Work& work : executable->work)
    if (CUresult e = enqueue(stream, work)) return e;
  return CUDA_SUCCESS;
}
API cuGraphExecDestroy(CUgraphExec executable) { return delete executable, CUDA_SUCCESS; }
API cuGraphDestroy(CUgraph graph) { return delete graph, CUDA_SUCCESS; }
