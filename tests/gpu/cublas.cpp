// Test-only libcublas.so.13: SGEMM on the host, issued through the stand-in driver's streams, so that
// it is captured and replayed with everything else.
#include <cstddef>
#include <cstdint>

struct CUstream_st;
extern "C" int host_enqueue(CUstream_st*, void (*)(const void*), const void*, size_t);

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

enum { SUCCESS = 0, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };

struct Handle { CUstream_st* stream; };

// Column-major C(m, n) = alpha op(A) op(B) + beta C.
struct Gemm {
  bool ta, tb;
  int m, n, k;
  float alpha, beta;
  const float *a, *b;
  float* c;
  int64_t lda, ldb, ldc;
};

void run(const void* argument) {
  const Gemm& g = *static_cast<const Gemm*>(argument);
  for (int j = 0; j < g.n; ++j)
    for (int i = 0; i < g.m; ++i) {
      float sum = 0;
      for (int l = 0; l < g.k; ++l)
        sum += (g.ta ? g.a[l + i * g.lda] : g.a[i + l * g.lda]) *
               (g.tb ? g.b[j + l * g.ldb] : g.b[l + j * g.ldb]);
      float& c = g.c[i + j * g.ldc];
      c = g.beta == 0 ? g.alpha * sum : g.alpha * sum + g.beta * c;
    }
}

}  // namespace

API cublasCreate_v2(Handle** handle) { return *handle = new Handle{}, SUCCESS; }
API cublasDestroy_v2(Handle* handle) { return delete handle, SUCCESS; }
API cublasGetVersion_v2(Handle*, int* version) { return *version = 130000, SUCCESS; }
API cublasSetStream_v2(Handle* handle, CUstream_st* stream) {
  return handle->stream = stream, SUCCESS;
}
API cublasSetWorkspace_v2(Handle*, void*, size_t) { return SUCCESS; }

API cublasSgemm_v2(Handle* handle, int ta, int tb, int m, int n, int k, const float* alpha,
                   const float* a, int lda, const float* b, int ldb, const float* beta, float* c,
                   int ldc) {
  if (m < 0 || n < 0 || k < 0 || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m)
    return INVALID_VALUE;
  Gemm g{ta != 0, tb != 0, m, n, k, *alpha, *beta, a, b, c, lda, ldb, ldc};
  return host_enqueue(handle->stream, run, &g, sizeof g) ? EXECUTION_FAILED : SUCCESS;
}
