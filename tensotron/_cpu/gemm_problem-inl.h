// What the GEMM's methods share: the problem, its blocks of k, the function at the end.
#pragma once
#include "gemm.h"
#include "gemm_micro-inl.h"
#include "gemm_pack-inl.h"
#include "math.h"

namespace tensotron {
namespace TENSOTRON_ISA {
namespace gemm {

template <class T> struct Problem {
  int64_t m, n, k;
  Mat<T> c;
  Mat<const T> a, b, d;  // d.data null: none
  T alpha, beta;
  int activation;
  int64_t y;  // from C to Y, in bytes

  const T* beside(const T* element_of_c) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(element_of_c) + y);
  }
};

// Blocks: KC of k, so that a panel of A stays in L1 while it meets a block of B in L2, B_BYTES when packed.
template <class T> constexpr int64_t KC = (TENSOTRON_VEC_BYTES == 64 ? 1536 : 1024) / sizeof(T);
constexpr int64_t B_BYTES = TENSOTRON_VEC_BYTES == 64 ? 768 * 1024 : 512 * 1024;

template <class T> static const T* negative_zeros() {
  constexpr int N = MAX_NV * WIDTH<T>;
  static const struct Zeros {
    T v[N];
    constexpr Zeros() : v() { for (int i = 0; i < N; ++i) v[i] = T(-0.0); }
  } zeros;
  return zeros.v;
}

template <class T> static inline Reg<T> activate(Reg<T> v, int activation) {
  switch (activation) {
    case GEMM_RELU: return max_or_second<T>(Reg<T>{}, v);
    case GEMM_TANH: return tanh(Vec<T>(v)).v;
    case GEMM_SIGMOID: return sigmoid(Vec<T>(v)).v;
    default: return v;
  }
}
// The same, or what the gradient v of Y becomes; the expressions of elementwise.def.
template <class T> static inline Reg<T> activate(Reg<T> v, Reg<T> y, int activation) {
  const Vec<T> g(v), f(y), one(T(1));
  switch (activation) {
    case GEMM_RELU_GRAD: return select(le(f, Vec<T>(T(0))), Vec<T>(T(0)), g).v;
    case GEMM_TANH_GRAD: return (g * (one - f * f)).v;
    case GEMM_SIGMOID_GRAD: return (g * (one - f) * f).v;
    default: return activate<T>(v, activation);
  }
}

// Functions of a row: four registers at a time, since one alone waits for its own chain of instructions.
template <class T, int ACTIVATION> static void activate_row(T* c, const T* y, int64_t n) {
  constexpr int64_t W = WIDTH<T>, U = 4;
  constexpr bool grad = ACTIVATION > GEMM_SIGMOID;
  int64_t j = 0;
  for (; j + U * W <= n; j += U * W) {
    Reg<T> v[U];
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u)
      v[u] = activate<T>(load(c + j + u * W), grad ? load(y + j + u * W) : Reg<T>{}, ACTIVATION);
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u) store(c + j + u * W, v[u]);
  }
  for (; j < n; j += W) {
    const Tail<T> tail(n - j < W ? n - j : W);
    store(c + j, activate<T>(load(c + j, tail), grad ? load(y + j, tail) : Reg<T>{}, ACTIVATION), tail);
  }
}
// The function at the end, of a block of C that is complete.
template <class T> static void activate_block(const Problem<T>& p, int64_t i0, int64_t rows, int64_t j0, int64_t cols) {
  static constexpr void (*run[])(T*, const T*, int64_t) = {
      activate_row<T, GEMM_RELU>,      activate_row<T, GEMM_TANH>,      activate_row<T, GEMM_SIGMOID>,
      activate_row<T, GEMM_RELU_GRAD>, activate_row<T, GEMM_TANH_GRAD>, activate_row<T, GEMM_SIGMOID_GRAD>};
  T* c = p.c.data + i0 * p.c.rs + j0;
  if (p.c.rs == cols) cols *= rows, rows = 1;
  for (int64_t i = 0; i < rows; ++i, c += p.c.rs) run[p.activation - GEMM_RELU](c, p.beside(c), cols);
}

// k of the next block when `left` remain: the last two share, so that neither is short.
template <class T> static inline int64_t next_block(int64_t left) {
  if (left <= KC<T>) return left;
  return left < 2 * KC<T> ? (left + 1) / 2 : KC<T>;
}

}  // namespace gemm
}  // namespace TENSOTRON_ISA
}  // namespace tensotron
