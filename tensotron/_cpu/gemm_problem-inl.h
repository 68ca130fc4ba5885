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

// k of the next block when `left` remain: the last two share, so that neither is short.
template <class T> static inline int64_t next_block(int64_t left) {
  if (left <= KC<T>) return left;
  return left < 2 * KC<T> ? (left + 1) / 2 : KC<T>;
}

}  // namespace gemm
}  // namespace TENSOTRON_ISA
}  // namespace tensotron
