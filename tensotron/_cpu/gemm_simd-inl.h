// Registers, partial registers and transposes for the GEMM kernels, over GCC vector extensions.
//
// These are vec.h's raw registers: a micro-kernel holds a whole register file of them.
#pragma once
#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {
namespace gemm {

template <class T> using Reg = typename Lane<T>::Raw;
template <class T> constexpr int WIDTH = Vec<T>::size;

template <class T> TENSOTRON_INLINE Reg<T> load(const T* p) {
  return *reinterpret_cast<const typename Lane<T>::Unaligned*>(p);
}
template <class T> TENSOTRON_INLINE void store(T* p, Reg<T> v) {
  *reinterpret_cast<typename Lane<T>::Unaligned*>(p) = v;
}
template <class T> TENSOTRON_INLINE Reg<T> broadcast(T x) { return x - Reg<T>{}; }

template <class T> TENSOTRON_INLINE Reg<T> fma(Reg<T> a, Reg<T> b, Reg<T> c) {
  return tensotron::TENSOTRON_ISA::fma(Vec<T>(a), Vec<T>(b), Vec<T>(c)).v;
}
// The larger, b where either is NaN: with a = 0 it is torch's relu(b), with a = -inf it is b.
template <class T> TENSOTRON_INLINE Reg<T> max_or_second(Reg<T> a, Reg<T> b) {
  return max(Vec<T>(a), Vec<T>(b)).v;
}

// Tail<T>(n) selects the first n lanes; the other lanes of a load are 0, of a store untouched.
#if defined(__AVX512F__)
template <class T> struct Tail {
  static constexpr bool cheap = true;
  __mmask16 mask;
  explicit inline Tail(int64_t n) : mask(__mmask16((1u << n) - 1)) {}
};
TENSOTRON_INLINE Reg<float> load(const float* p, Tail<float> t) {
  return _mm512_maskz_loadu_ps(t.mask, p);
}
TENSOTRON_INLINE Reg<double> load(const double* p, Tail<double> t) {
  return _mm512_maskz_loadu_pd(__mmask8(t.mask), p);
}
TENSOTRON_INLINE void store(float* p, Reg<float> v, Tail<float> t) {
  _mm512_mask_storeu_ps(p, t.mask, v);
}
TENSOTRON_INLINE void store(double* p, Reg<double> v, Tail<double> t) {
  _mm512_mask_storeu_pd(p, __mmask8(t.mask), v);
}
#elif defined(__AVX2__)
template <class T> struct Tail {
  static constexpr bool cheap = true;
  __m256i mask;
  bool whole;
  explicit inline Tail(int64_t n) : whole(n == WIDTH<T>) {
    if (sizeof(T) == 4)
      mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(int(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    else
      mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
  }
};
TENSOTRON_INLINE Reg<float> load(const float* p, Tail<float> t) {
  return _mm256_maskload_ps(p, t.mask);
}
TENSOTRON_INLINE Reg<double> load(const double* p, Tail<double> t) {
  return _mm256_maskload_pd(p, t.mask);
}
// Masked stores take 10 to 20 cycles on AMD's cores.
TENSOTRON_INLINE void store(float* p, Reg<float> v, Tail<float> t) {
  t.whole ? _mm256_storeu_ps(p, v) : _mm256_maskstore_ps(p, t.mask, v);
}
TENSOTRON_INLINE void store(double* p, Reg<double> v, Tail<double> t) {
  t.whole ? _mm256_storeu_pd(p, v) : _mm256_maskstore_pd(p, t.mask, v);
}
#else
template <class T> struct Tail {
  static constexpr bool cheap = false;
  int n;
  explicit inline Tail(int64_t count) : n(int(count)) {}
};
template <class T> TENSOTRON_INLINE Reg<T> load(const T* p, Tail<T> t) {
  if (t.n == WIDTH<T>) return load(p);
  Reg<T> v = {};
  for (int i = 0; i < WIDTH<T>; ++i)
    if (i < t.n) v[i] = p[i];
  return v;
}
template <class T> TENSOTRON_INLINE void store(T* p, Reg<T> v, Tail<T> t) {
  if (t.n == WIDTH<T>) return store(p, v);
  for (int i = 0; i < WIDTH<T>; ++i)
    if (i < t.n) p[i] = v[i];
}
#endif

// Shuffles of two registers, as one instruction each: with a register cut into lanes of 16 bytes,
// `unpack` interleaves chunks of C elements of the low (or high) halves of each lane, `lanes` gathers the
// even (or odd) lanes of a, then of b.
template <int... I> struct Seq {};
template <class T> using Lanes = Seq<__integer_pack(WIDTH<T>)...>;
template <class T> constexpr int LANE = 16 / int(sizeof(T));
template <class T, int C> constexpr int unpack_index(int i, bool high) {
  const int at = i % LANE<T>, from = i - at + high * (LANE<T> / 2) + at / (2 * C) * C + at % C;
  return from + at / C % 2 * WIDTH<T>;
}
template <class T> constexpr int lane_index(int i, bool odd) {
  const int at = i / LANE<T> * 2 + odd, count = WIDTH<T> / LANE<T>;
  return (at % count) * LANE<T> + i % LANE<T> + at / count * WIDTH<T>;
}
template <class T, int C, bool HIGH, int... I>
TENSOTRON_INLINE Reg<T> unpack(Reg<T> a, Reg<T> b, Seq<I...>) {
  return __builtin_shuffle(a, b, typename Lane<T>::Int{unpack_index<T, C>(I, HIGH)...});
}
template <class T, bool ODD, int... I>
TENSOTRON_INLINE Reg<T> lanes(Reg<T> a, Reg<T> b, Seq<I...>) {
  return __builtin_shuffle(a, b, typename Lane<T>::Int{lane_index<T>(I, ODD)...});
}

// Element i of lane l becomes element number i * lanes + l.
template <class T, int... I> TENSOTRON_INLINE Reg<T> swap_lanes(Reg<T> a, Seq<I...>) {
  constexpr int L = LANE<T>, N = WIDTH<T> / L;
  return __builtin_shuffle(a, typename Lane<T>::Int{(I % N * L + I / N)...});
}
// The same LANE elements in each lane.
template <class T> TENSOTRON_INLINE Reg<T> spread_lane(const T* p) {
#if defined(__AVX512F__)  // spelled out, as GCC goes by way of memory and waits for it
  return (Reg<T>)_mm512_broadcast_f32x4(_mm_loadu_ps(reinterpret_cast<const float*>(p)));
#elif defined(__AVX2__)
  return (Reg<T>)_mm256_broadcast_ps(reinterpret_cast<const __m128*>(p));
#endif
  Reg<T> v;
  for (int i = 0; i < WIDTH<T>; i += LANE<T>) __builtin_memcpy(reinterpret_cast<T*>(&v) + i, p, sizeof(T) * LANE<T>);
  return v;
}

// LANE elements from each of the lines line(0), line(1), ...: lane l of the result is line l.
template <class T, class Line> TENSOTRON_INLINE Reg<T> load_lanes(const Line& line) {
#if defined(__AVX512F__)
  const auto at = [&](int l) { return _mm_loadu_ps(reinterpret_cast<const float*>(line(l))); };
  __m512 v = _mm512_castps128_ps512(at(0));
  v = _mm512_mask_broadcast_f32x4(v, 0x00f0, at(1));
  v = _mm512_mask_broadcast_f32x4(v, 0x0f00, at(2));
  v = _mm512_mask_broadcast_f32x4(v, 0xf000, at(3));
  return (Reg<T>)v;
#elif defined(__AVX2__)
  const auto at = [&](int l) { return _mm_loadu_ps(reinterpret_cast<const float*>(line(l))); };
  return (Reg<T>)_mm256_insertf128_ps(_mm256_castps128_ps256(at(0)), at(1), 1);
#else
  return load(line(0));
#endif
}

// With lane l of r[j] holding line LANE * l + j: r[i] becomes element i of all WIDTH lines, in order.
template <class T> TENSOTRON_INLINE void transpose_lanes(Reg<T> (&r)[LANE<T>]) {
  constexpr Lanes<T> all;
  if constexpr (LANE<T> == 4) {
    const Reg<T> a = unpack<T, 1, false>(r[0], r[1], all), b = unpack<T, 1, true>(r[0], r[1], all);
    const Reg<T> c = unpack<T, 1, false>(r[2], r[3], all), d = unpack<T, 1, true>(r[2], r[3], all);
    r[0] = unpack<T, 2, false>(a, c, all);
    r[1] = unpack<T, 2, true>(a, c, all);
    r[2] = unpack<T, 2, false>(b, d, all);
    r[3] = unpack<T, 2, true>(b, d, all);
  } else {
    const Reg<T> a = r[0];
    r[0] = unpack<T, 1, false>(a, r[1], all);
    r[1] = unpack<T, 1, true>(a, r[1], all);
  }
}

// Element i of each lane of the result is the sum of that lane of r[i], i < LANE, added as a tree.
template <class T> TENSOTRON_INLINE Reg<T> sum_within_lanes(const Reg<T>* r) {
  constexpr Lanes<T> all;
  const Reg<T> low = unpack<T, 1, false>(r[0], r[1], all) + unpack<T, 1, true>(r[0], r[1], all);
  if constexpr (LANE<T> == 2) return low;
  const Reg<T> high = unpack<T, 1, false>(r[2], r[3], all) + unpack<T, 1, true>(r[2], r[3], all);
  return unpack<T, 2, false>(low, high, all) + unpack<T, 2, true>(low, high, all);
}
// Lane i of the result is the sum of the lanes of r[i], added as a tree: a transpose that adds as it goes.
template <class T> TENSOTRON_INLINE Reg<T> sum_lanes(Reg<T> (&r)[WIDTH<T>]) {
  constexpr int W = WIDTH<T>, L = LANE<T>;
  constexpr Lanes<T> all;
#pragma GCC unroll 4
  for (int i = 0; i < W / L; ++i) r[i] = sum_within_lanes<T>(r + i * L);
#pragma GCC unroll 2
  for (int n = W / L / 2; n > 0; n /= 2)
#pragma GCC unroll 2
    for (int i = 0; i < n; ++i)
      r[i] = lanes<T, false>(r[2 * i], r[2 * i + 1], all) + lanes<T, true>(r[2 * i], r[2 * i + 1], all);
  return r[0];
}
// The same for LANE of them, which are the first elements of the result.
template <class T> TENSOTRON_INLINE Reg<T> sum_few(Reg<T> (&r)[LANE<T>]) {
  constexpr Lanes<T> all;
  Reg<T> sum = sum_within_lanes<T>(r);
#pragma GCC unroll 2
  for (int n = WIDTH<T> / LANE<T> / 2; n > 0; n /= 2) sum = lanes<T, false>(sum, sum, all) + lanes<T, true>(sum, sum, all);
  return sum;
}

}  // namespace gemm
}  // namespace TENSOTRON_ISA
}  // namespace tensotron
