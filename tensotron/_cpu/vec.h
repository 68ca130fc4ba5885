// Vec<float>, Vec<double> and their masks: one source for every instruction set.
//
// The arithmetic is GCC's vector extension at the width the ISA macros select (64, 32 or 16 bytes);
// intrinsics stand only where the extension has no word for the instruction. The same named functions
// exist for float, double and int64_t with bool as the mask, so that a row template compiles for both.
#pragma once
#include <cstddef>
#include <cstdint>
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef TENSOTRON_ISA
#error "TENSOTRON_ISA names the namespace of this build: baseline, avx2, avx512 or neon"
#endif

#if defined(__AVX512F__)
#define TENSOTRON_VEC_BYTES 64
#elif defined(__AVX2__)
#define TENSOTRON_VEC_BYTES 32
#else
#define TENSOTRON_VEC_BYTES 16
#endif

// Fused multiply-add in hardware; otherwise fma() is a multiplication and an addition.
#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
#define TENSOTRON_HAS_FMA 1
#else
#define TENSOTRON_HAS_FMA 0
#endif

#define TENSOTRON_INLINE static inline __attribute__((always_inline))
#define TENSOTRON_MEMBER inline __attribute__((always_inline))

namespace tensotron { namespace TENSOTRON_ISA {

template <class T> struct Lane;  // raw vector types of a lane type
template <> struct Lane<float> {
  typedef float Raw __attribute__((vector_size(TENSOTRON_VEC_BYTES)));
  typedef float Unaligned __attribute__((vector_size(TENSOTRON_VEC_BYTES), aligned(4), may_alias));
  typedef int32_t Int __attribute__((vector_size(TENSOTRON_VEC_BYTES)));
  typedef int32_t Scalar;
};
template <> struct Lane<double> {
  typedef double Raw __attribute__((vector_size(TENSOTRON_VEC_BYTES)));
  typedef double Unaligned __attribute__((vector_size(TENSOTRON_VEC_BYTES), aligned(8), may_alias));
  typedef int64_t Int __attribute__((vector_size(TENSOTRON_VEC_BYTES)));
  typedef int64_t Scalar;
};

// ---- masks ----------------------------------------------------------------------------------

// AVX-512 keeps masks in mask registers, the others as all-ones / all-zero lanes.
template <class T> struct Mask {
  static constexpr int size = TENSOTRON_VEC_BYTES / sizeof(T);
#if defined(__AVX512F__)
  static constexpr unsigned full = (1u << size) - 1;
  unsigned m;
  TENSOTRON_MEMBER Mask(unsigned bits) : m(bits) {}
#else
  typename Lane<T>::Int m;
  TENSOTRON_MEMBER Mask(typename Lane<T>::Int lanes) : m(lanes) {}
#endif
  TENSOTRON_MEMBER friend Mask operator&(Mask a, Mask b) { return Mask(a.m & b.m); }
  TENSOTRON_MEMBER friend Mask operator|(Mask a, Mask b) { return Mask(a.m | b.m); }
  TENSOTRON_MEMBER friend Mask operator^(Mask a, Mask b) { return Mask(a.m ^ b.m); }
#if defined(__AVX512F__)
  TENSOTRON_MEMBER friend Mask operator!(Mask a) { return Mask(~a.m & full); }
#else
  TENSOTRON_MEMBER friend Mask operator!(Mask a) { return Mask(~a.m); }
#endif
};

// Bit i of the result is lane i.
template <class T> TENSOTRON_INLINE unsigned bits(Mask<T> m) {
#if defined(__AVX512F__)
  return m.m;
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return (unsigned)_mm256_movemask_ps((__m256)m.m);
  else return (unsigned)_mm256_movemask_pd((__m256d)m.m);
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4) return (unsigned)_mm_movemask_ps((__m128)m.m);
  else return (unsigned)_mm_movemask_pd((__m128d)m.m);
#else
  unsigned r = 0;
  for (int i = 0; i < Mask<T>::size; i++) r |= (unsigned)(m.m[i] & 1) << i;
  return r;
#endif
}
template <class T> TENSOTRON_INLINE bool any(Mask<T> m) { return bits(m) != 0; }
template <class T> TENSOTRON_INLINE bool all(Mask<T> m) { return bits(m) == (1u << Mask<T>::size) - 1; }

// Lanes i < n.
template <class T> TENSOTRON_INLINE Mask<T> first(int n) {
#if defined(__AVX512F__)
  return Mask<T>((1u << n) - 1);
#else
  typename Lane<T>::Int iota;
  for (int i = 0; i < Mask<T>::size; i++) iota[i] = i;
  typename Lane<T>::Int bound = (typename Lane<T>::Int){} + (typename Lane<T>::Scalar)n;
  return Mask<T>(iota < bound);
#endif
}

// ---- vectors --------------------------------------------------------------------------------

template <class T> struct Vec {
  typedef T Scalar;
  typedef typename Lane<T>::Raw Raw;
  typedef typename Lane<T>::Int Int;
  static constexpr int size = TENSOTRON_VEC_BYTES / sizeof(T);
  Raw v;

  TENSOTRON_MEMBER Vec() {}
  TENSOTRON_MEMBER Vec(Raw raw) : v(raw) {}
  TENSOTRON_MEMBER Vec(T x) : v(x - (Raw){}) {}  // x - 0 keeps -0 and NaN
  TENSOTRON_MEMBER T operator[](int i) const { return v[i]; }

  static TENSOTRON_MEMBER Vec load(const T* p) { return Vec((Raw) * (const typename Lane<T>::Unaligned*)p); }
  TENSOTRON_MEMBER void store(T* p) const { *(typename Lane<T>::Unaligned*)p = v; }

  // The first n lanes, 0 <= n <= size; no byte beyond them is touched. The other lanes are 0.
  // AddressSanitizer does not see what the masked instructions touch.
  static TENSOTRON_MEMBER Vec load(const T* p, int n) {
#if defined(__AVX512F__) && !defined(TENSOTRON_SANITIZE)
    if constexpr (sizeof(T) == 4) return Vec((Raw)_mm512_maskz_loadu_ps((__mmask16)first<T>(n).m, p));
    else return Vec((Raw)_mm512_maskz_loadu_pd((__mmask8)first<T>(n).m, p));
#elif defined(__AVX2__) && !defined(TENSOTRON_SANITIZE)
    if constexpr (sizeof(T) == 4) return Vec((Raw)_mm256_maskload_ps(p, (__m256i)first<T>(n).m));
    else return Vec((Raw)_mm256_maskload_pd(p, (__m256i)first<T>(n).m));
#else
    Raw r = {};
    for (int i = 0; i < n; i++) r[i] = p[i];
    return Vec(r);
#endif
  }
  TENSOTRON_MEMBER void store(T* p, int n) const {
#if defined(__AVX512F__) && !defined(TENSOTRON_SANITIZE)
    if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, (__mmask16)first<T>(n).m, (__m512)v);
    else _mm512_mask_storeu_pd(p, (__mmask8)first<T>(n).m, (__m512d)v);
#elif defined(__AVX2__) && !defined(TENSOTRON_SANITIZE)
    if constexpr (sizeof(T) == 4) _mm256_maskstore_ps(p, (__m256i)first<T>(n).m, (__m256)v);
    else _mm256_maskstore_pd(p, (__m256i)first<T>(n).m, (__m256d)v);
#else
    for (int i = 0; i < n; i++) p[i] = v[i];
#endif
  }

  TENSOTRON_MEMBER friend Vec operator+(Vec a, Vec b) { return Vec(a.v + b.v); }
  TENSOTRON_MEMBER friend Vec operator-(Vec a, Vec b) { return Vec(a.v - b.v); }
  TENSOTRON_MEMBER friend Vec operator*(Vec a, Vec b) { return Vec(a.v * b.v); }
  TENSOTRON_MEMBER friend Vec operator/(Vec a, Vec b) { return Vec(a.v / b.v); }
  TENSOTRON_MEMBER friend Vec operator-(Vec a) { return Vec(-a.v); }
  TENSOTRON_MEMBER Vec& operator+=(Vec b) { v += b.v; return *this; }
  TENSOTRON_MEMBER Vec& operator-=(Vec b) { v -= b.v; return *this; }
  TENSOTRON_MEMBER Vec& operator*=(Vec b) { v *= b.v; return *this; }
  TENSOTRON_MEMBER Vec& operator/=(Vec b) { v /= b.v; return *this; }
};

// Lane type and mask type of V = Vec<T> or a scalar.
template <class V> struct Of { typedef V Scalar; typedef bool Mask; static constexpr int size = 1; };
template <class T> struct Of<Vec<T>> {
  typedef T Scalar;
  typedef tensotron::TENSOTRON_ISA::Mask<T> Mask;
  static constexpr int size = Vec<T>::size;
};

// ---- comparison and selection ---------------------------------------------------------------

#if defined(__AVX512F__)
#define TENSOTRON_COMPARE(name, op, predicate)                                                     \
  TENSOTRON_INLINE Mask<float> name(Vec<float> a, Vec<float> b) {                                  \
    return Mask<float>(_mm512_cmp_ps_mask((__m512)a.v, (__m512)b.v, predicate));                   \
  }                                                                                                \
  TENSOTRON_INLINE Mask<double> name(Vec<double> a, Vec<double> b) {                               \
    return Mask<double>(_mm512_cmp_pd_mask((__m512d)a.v, (__m512d)b.v, predicate));                \
  }                                                                                                \
  TENSOTRON_INLINE bool name(float a, float b) { return a op b; }                                  \
  TENSOTRON_INLINE bool name(double a, double b) { return a op b; }                                \
  TENSOTRON_INLINE bool name(int64_t a, int64_t b) { return a op b; }
#else
#define TENSOTRON_COMPARE(name, op, predicate)                                                     \
  TENSOTRON_INLINE Mask<float> name(Vec<float> a, Vec<float> b) { return Mask<float>(a.v op b.v); } \
  TENSOTRON_INLINE Mask<double> name(Vec<double> a, Vec<double> b) { return Mask<double>(a.v op b.v); } \
  TENSOTRON_INLINE bool name(float a, float b) { return a op b; }                                  \
  TENSOTRON_INLINE bool name(double a, double b) { return a op b; }                                \
  TENSOTRON_INLINE bool name(int64_t a, int64_t b) { return a op b; }
#endif
TENSOTRON_COMPARE(lt, <, _CMP_LT_OQ)
TENSOTRON_COMPARE(le, <=, _CMP_LE_OQ)
TENSOTRON_COMPARE(gt, >, _CMP_GT_OQ)
TENSOTRON_COMPARE(ge, >=, _CMP_GE_OQ)
TENSOTRON_COMPARE(eq, ==, _CMP_EQ_OQ)
TENSOTRON_COMPARE(ne, !=, _CMP_NEQ_UQ)
#undef TENSOTRON_COMPARE

TENSOTRON_INLINE Vec<float> select(Mask<float> m, Vec<float> a, Vec<float> b) {
#if defined(__AVX512F__)
  return Vec<float>((Vec<float>::Raw)_mm512_mask_blend_ps((__mmask16)m.m, (__m512)b.v, (__m512)a.v));
#else
  return Vec<float>(m.m ? a.v : b.v);
#endif
}
TENSOTRON_INLINE Vec<double> select(Mask<double> m, Vec<double> a, Vec<double> b) {
#if defined(__AVX512F__)
  return Vec<double>((Vec<double>::Raw)_mm512_mask_blend_pd((__mmask8)m.m, (__m512d)b.v, (__m512d)a.v));
#else
  return Vec<double>(m.m ? a.v : b.v);
#endif
}
TENSOTRON_INLINE float select(bool m, float a, float b) { return m ? a : b; }
TENSOTRON_INLINE double select(bool m, double a, double b) { return m ? a : b; }
TENSOTRON_INLINE int64_t select(bool m, int64_t a, int64_t b) { return m ? a : b; }
TENSOTRON_INLINE bool any(bool m) { return m; }
TENSOTRON_INLINE bool all(bool m) { return m; }

// Masks as torch's bool tensors: one byte per lane, 0 or 1.
template <class T> TENSOTRON_INLINE void store_mask(Mask<T> m, uint8_t* p, int n) {
  unsigned b = bits(m);
  for (int i = 0; i < n; i++) p[i] = (b >> i) & 1;
}
template <class T> TENSOTRON_INLINE Mask<T> load_mask(const uint8_t* p, int n) {
#if defined(__AVX512F__)
  unsigned b = 0;
  for (int i = 0; i < n; i++) b |= (unsigned)(p[i] != 0) << i;
  return Mask<T>(b);
#else
  typename Lane<T>::Int lanes = {};
  for (int i = 0; i < n; i++) lanes[i] = -(typename Lane<T>::Scalar)(p[i] != 0);
  return Mask<T>(lanes);
#endif
}

// ---- bits -----------------------------------------------------------------------------------

template <class T> TENSOTRON_INLINE typename Vec<T>::Int as_int(Vec<T> a) { return (typename Vec<T>::Int)a.v; }
TENSOTRON_INLINE Vec<float> as_float(Vec<float>::Int a) { return Vec<float>((Vec<float>::Raw)a); }
TENSOTRON_INLINE Vec<double> as_float(Vec<double>::Int a) { return Vec<double>((Vec<double>::Raw)a); }

// Lanes where bit 0 of a is set.
TENSOTRON_INLINE Mask<float> odd(Vec<float>::Int a) {
#if defined(__AVX512F__)
  return Mask<float>(_mm512_test_epi32_mask((__m512i)a, _mm512_set1_epi32(1)));
#else
  return Mask<float>(-(a & 1));
#endif
}
TENSOTRON_INLINE Mask<double> odd(Vec<double>::Int a) {
#if defined(__AVX512F__)
  return Mask<double>(_mm512_test_epi64_mask((__m512i)a, _mm512_set1_epi64(1)));
#else
  return Mask<double>(-(a & 1));
#endif
}

// Between float and double: the lower and the upper half of the lanes.
TENSOTRON_INLINE Vec<double> widen_low(Vec<float> a) {
#if defined(__AVX512F__)
  __m256 l = (__m256)_mm512_maskz_extractf64x4_pd(0xf, (__m512d)a.v, 0);
  return Vec<double>((Vec<double>::Raw)_mm512_maskz_cvtps_pd(0xff, l));
#elif defined(__AVX2__)
  return Vec<double>((Vec<double>::Raw)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)a.v)));
#elif defined(__SSE2__)
  return Vec<double>((Vec<double>::Raw)_mm_cvtps_pd((__m128)a.v));
#elif defined(__aarch64__)
  return Vec<double>((Vec<double>::Raw)vcvt_f64_f32(vget_low_f32((float32x4_t)a.v)));
#endif
}
TENSOTRON_INLINE Vec<double> widen_high(Vec<float> a) {
#if defined(__AVX512F__)
  __m256 h = (__m256)_mm512_maskz_extractf64x4_pd(0xf, (__m512d)a.v, 1);
  return Vec<double>((Vec<double>::Raw)_mm512_maskz_cvtps_pd(0xff, h));
#elif defined(__AVX2__)
  return Vec<double>((Vec<double>::Raw)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)a.v, 1)));
#elif defined(__SSE2__)
  return Vec<double>((Vec<double>::Raw)_mm_cvtps_pd(_mm_movehl_ps((__m128)a.v, (__m128)a.v)));
#elif defined(__aarch64__)
  return Vec<double>((Vec<double>::Raw)vcvt_high_f64_f32((float32x4_t)a.v));
#endif
}
TENSOTRON_INLINE Vec<float> narrow(Vec<double> low, Vec<double> high) {
#if defined(__AVX512F__)
  __m256 l = _mm512_maskz_cvtpd_ps(0xff, (__m512d)low.v), h = _mm512_maskz_cvtpd_ps(0xff, (__m512d)high.v);
  return Vec<float>((Vec<float>::Raw)_mm512_maskz_insertf64x4(0xff, _mm512_castps_pd(_mm512_castps256_ps512(l)), (__m256d)h, 1));
#elif defined(__AVX2__)
  return Vec<float>((Vec<float>::Raw)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high.v), _mm256_cvtpd_ps((__m256d)low.v)));
#elif defined(__SSE2__)
  return Vec<float>((Vec<float>::Raw)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low.v), _mm_cvtpd_ps((__m128d)high.v)));
#elif defined(__aarch64__)
  return Vec<float>((Vec<float>::Raw)vcvt_high_f32_f64(vcvt_f32_f64((float64x2_t)low.v), (float64x2_t)high.v));
#endif
}

template <class T> struct Sign;
template <> struct Sign<float> { static constexpr int32_t bit = INT32_MIN; };
template <> struct Sign<double> { static constexpr int64_t bit = INT64_MIN; };

template <class T> TENSOTRON_INLINE Vec<T> abs(Vec<T> a) { return as_float(as_int(a) & ~Sign<T>::bit); }
template <class T> TENSOTRON_INLINE Vec<T> neg(Vec<T> a) { return -a; }
template <class T> TENSOTRON_INLINE Vec<T> copysign(Vec<T> a, Vec<T> b) {
  return as_float((as_int(a) & ~Sign<T>::bit) | (as_int(b) & Sign<T>::bit));
}
// a with its sign flipped where b is negative (-0 included).
template <class T> TENSOTRON_INLINE Vec<T> xorsign(Vec<T> a, Vec<T> b) {
  return as_float(as_int(a) ^ (as_int(b) & Sign<T>::bit));
}
template <class T> TENSOTRON_INLINE Mask<T> isnan(Vec<T> a) { return ne(a, a); }
template <class T> TENSOTRON_INLINE Mask<T> isinf(Vec<T> a) { return eq(abs(a), Vec<T>((T)__builtin_inff())); }
template <class T> TENSOTRON_INLINE Mask<T> isfinite(Vec<T> a) { return lt(abs(a), Vec<T>((T)__builtin_inff())); }

// ---- min, max, fma, square root, rounding ---------------------------------------------------

// The maskz forms with a full mask compile to the plain instructions; GCC 12's plain forms warn
// about an uninitialised variable of its own.

// a < b ? a : b, as minps: if either is NaN the result is b.
template <class T> TENSOTRON_INLINE Vec<T> min(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Raw)_mm512_maskz_min_ps(0xffff, (__m512)a.v, (__m512)b.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm512_maskz_min_pd(0xff, (__m512d)a.v, (__m512d)b.v));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Raw)_mm256_min_ps((__m256)a.v, (__m256)b.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm256_min_pd((__m256d)a.v, (__m256d)b.v));
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Raw)_mm_min_ps((__m128)a.v, (__m128)b.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm_min_pd((__m128d)a.v, (__m128d)b.v));
#else
  return select(lt(a, b), a, b);
#endif
}
template <class T> TENSOTRON_INLINE Vec<T> max(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Raw)_mm512_maskz_max_ps(0xffff, (__m512)a.v, (__m512)b.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm512_maskz_max_pd(0xff, (__m512d)a.v, (__m512d)b.v));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Raw)_mm256_max_ps((__m256)a.v, (__m256)b.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm256_max_pd((__m256d)a.v, (__m256d)b.v));
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Raw)_mm_max_ps((__m128)a.v, (__m128)b.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm_max_pd((__m128d)a.v, (__m128d)b.v));
#else
  return select(gt(a, b), a, b);
#endif
}

template <class T> TENSOTRON_INLINE Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return Vec<T>((typename Vec<T>::Raw)_mm512_fmadd_ps((__m512)a.v, (__m512)b.v, (__m512)c.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm512_fmadd_pd((__m512d)a.v, (__m512d)b.v, (__m512d)c.v));
#elif defined(__FMA__) && defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    return Vec<T>((typename Vec<T>::Raw)_mm256_fmadd_ps((__m256)a.v, (__m256)b.v, (__m256)c.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm256_fmadd_pd((__m256d)a.v, (__m256d)b.v, (__m256d)c.v));
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4)
    return Vec<T>((typename Vec<T>::Raw)vfmaq_f32((float32x4_t)c.v, (float32x4_t)a.v, (float32x4_t)b.v));
  else return Vec<T>((typename Vec<T>::Raw)vfmaq_f64((float64x2_t)c.v, (float64x2_t)a.v, (float64x2_t)b.v));
#else
  return a * b + c;
#endif
}

template <class T> TENSOTRON_INLINE Vec<T> sqrt(Vec<T> a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Raw)_mm512_maskz_sqrt_ps(0xffff, (__m512)a.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm512_maskz_sqrt_pd(0xff, (__m512d)a.v));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Raw)_mm256_sqrt_ps((__m256)a.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm256_sqrt_pd((__m256d)a.v));
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Raw)_mm_sqrt_ps((__m128)a.v));
  else return Vec<T>((typename Vec<T>::Raw)_mm_sqrt_pd((__m128d)a.v));
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Raw)vsqrtq_f32((float32x4_t)a.v));
  else return Vec<T>((typename Vec<T>::Raw)vsqrtq_f64((float64x2_t)a.v));
#endif
}

// AVX-512's square root keeps the divider busy for longer than the memory around it takes. From an estimate of 1 / sqrt(x)
// one step (float) or two give the root to an ulp, and a correction by the exact remainder the same bits, where no lane is
// zero, tiny, infinite or no number: P. Markstein, IA-64 and Elementary Functions, 2000, chapter 9. For float
// tests/test_math_accuracy.py compares every digit pattern, for double all roots within 2^-50 ulp of a midpoint, which could be
// rounded wrongly; those come out right for every estimate of up to 28 bits and an error of 2^-14 (processors give 14 to 17).
template <class T> TENSOTRON_INLINE bool has_quick_root(Vec<T>) { return false; }
template <class T> TENSOTRON_INLINE Vec<T> quick_root(Vec<T> a) { return sqrt(a); }
#if defined(__AVX512F__)
TENSOTRON_INLINE bool has_quick_root(Vec<float> a) {
  return __builtin_expect(all(ge(a, Vec<float>(0x1p-100f)) & lt(a, Vec<float>(__builtin_inff()))), 1);
}
TENSOTRON_INLINE bool has_quick_root(Vec<double> a) {
  return __builtin_expect(all(ge(a, Vec<double>(0x1p-900)) & lt(a, Vec<double>(__builtin_inf()))), 1);
}
TENSOTRON_INLINE Vec<float> quick_root(Vec<float> a) {
  typedef Vec<float> V;
  V y((V::Raw)_mm512_maskz_rsqrt14_ps(0xffff, (__m512)a.v)), s = a * y, h = y * V(0.5f), r = fma(-s, h, V(0.5f));
  s = fma(s, r, s), h = fma(h, r, h);
  return fma(fma(-s, s, a), h, s);
}
TENSOTRON_INLINE Vec<double> quick_root(Vec<double> a) {
  typedef Vec<double> V;
  V y((V::Raw)_mm512_maskz_rsqrt14_pd(0xff, (__m512d)a.v)), s = a * y, h = y * V(0.5), r = fma(-s, h, V(0.5));
  s = fma(s, r, s), h = fma(h, r, h), r = fma(-s, h, V(0.5));
  s = fma(s, r, s), h = fma(h, r, h);
  return fma(fma(-s, s, a), h, s);
}
#endif
// sqrt in a run
template <class T> TENSOTRON_INLINE Vec<T> root(Vec<T> a) { return has_quick_root(a) ? quick_root(a) : sqrt(a); }

// Round half to even. Adding and subtracting 2^(mantissa bits) rounds in the current mode; values
// that are already integers, infinities and NaN pass through, and the sign of zero is kept.
template <class T> TENSOTRON_INLINE Vec<T> rint_by_magic(Vec<T> a) {
  Vec<T> magic(sizeof(T) == 4 ? (T)0x1p23 : (T)0x1p52);
  Vec<T> x = abs(a);
  Vec<T> r = (x + magic) - magic;
  return copysign(select(lt(x, magic), r, x), a);
}

#if defined(__AVX512F__)
#define TENSOTRON_ROUND(name, mode)                                                                \
  template <class T> TENSOTRON_INLINE Vec<T> name(Vec<T> a) {                                      \
    if constexpr (sizeof(T) == 4)                                                                  \
      return Vec<T>((typename Vec<T>::Raw)_mm512_maskz_roundscale_ps(0xffff, (__m512)a.v, mode));                \
    else return Vec<T>((typename Vec<T>::Raw)_mm512_maskz_roundscale_pd(0xff, (__m512d)a.v, mode));            \
  }
#elif defined(__AVX2__)
#define TENSOTRON_ROUND(name, mode)                                                                \
  template <class T> TENSOTRON_INLINE Vec<T> name(Vec<T> a) {                                      \
    if constexpr (sizeof(T) == 4)                                                                  \
      return Vec<T>((typename Vec<T>::Raw)_mm256_round_ps((__m256)a.v, mode));                     \
    else return Vec<T>((typename Vec<T>::Raw)_mm256_round_pd((__m256d)a.v, mode));                 \
  }
#endif
#if defined(TENSOTRON_ROUND)
TENSOTRON_ROUND(rint, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
TENSOTRON_ROUND(floor, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
TENSOTRON_ROUND(ceil, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)
TENSOTRON_ROUND(trunc, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#undef TENSOTRON_ROUND
#else
template <class T> TENSOTRON_INLINE Vec<T> rint(Vec<T> a) { return rint_by_magic(a); }
template <class T> TENSOTRON_INLINE Vec<T> floor(Vec<T> a) {
  Vec<T> r = rint(a);
  return copysign(select(gt(r, a), r - Vec<T>(1), r), a);
}
template <class T> TENSOTRON_INLINE Vec<T> ceil(Vec<T> a) { return -floor(-a); }
template <class T> TENSOTRON_INLINE Vec<T> trunc(Vec<T> a) { return copysign(floor(abs(a)), a); }
#endif

template <class T> TENSOTRON_INLINE Vec<T> rsqrt(Vec<T> a) { return Vec<T>(1) / sqrt(a); }

// ---- horizontal -----------------------------------------------------------------------------

// Halves are folded onto each other: a fixed order for a given width.
template <class T> TENSOTRON_INLINE T reduce_add(Vec<T> a) {
  T t[Vec<T>::size];
  a.store(t);
  for (int w = Vec<T>::size / 2; w > 0; w /= 2)
    for (int i = 0; i < w; i++) t[i] = t[i] + t[i + w];
  return t[0];
}
template <class T> TENSOTRON_INLINE T reduce_max(Vec<T> a) {
  T t[Vec<T>::size];
  a.store(t);
  for (int w = Vec<T>::size / 2; w > 0; w /= 2)
    for (int i = 0; i < w; i++) t[i] = t[i] > t[i + w] ? t[i] : t[i + w];
  return t[0];
}
template <class T> TENSOTRON_INLINE T reduce_min(Vec<T> a) {
  T t[Vec<T>::size];
  a.store(t);
  for (int w = Vec<T>::size / 2; w > 0; w /= 2)
    for (int i = 0; i < w; i++) t[i] = t[i] < t[i + w] ? t[i] : t[i + w];
  return t[0];
}

// ---- the same names for scalars -------------------------------------------------------------

#define TENSOTRON_SCALAR(T, suffix)                                                                \
  TENSOTRON_INLINE T abs(T a) { return __builtin_fabs##suffix(a); }                                \
  TENSOTRON_INLINE T neg(T a) { return -a; }                                                       \
  TENSOTRON_INLINE T copysign(T a, T b) { return __builtin_copysign##suffix(a, b); }               \
  TENSOTRON_INLINE bool isnan(T a) { return a != a; }                                              \
  TENSOTRON_INLINE bool isinf(T a) { return abs(a) == (T)__builtin_inff(); }                       \
  TENSOTRON_INLINE bool isfinite(T a) { return abs(a) < (T)__builtin_inff(); }                     \
  TENSOTRON_INLINE T min(T a, T b) { return a < b ? a : b; }                                       \
  TENSOTRON_INLINE T max(T a, T b) { return a > b ? a : b; }                                       \
  TENSOTRON_INLINE T fma(T a, T b, T c) {                                                          \
    return TENSOTRON_HAS_FMA ? __builtin_fma##suffix(a, b, c) : a * b + c;                         \
  }                                                                                                \
  TENSOTRON_INLINE T sqrt(T a) { return __builtin_sqrt##suffix(a); }                               \
  TENSOTRON_INLINE T root(T a) { return __builtin_sqrt##suffix(a); }                               \
  TENSOTRON_INLINE T rsqrt(T a) { return (T)1 / __builtin_sqrt##suffix(a); }                       \
  TENSOTRON_INLINE T rint(T a) { return __builtin_rint##suffix(a); }                               \
  TENSOTRON_INLINE T floor(T a) { return __builtin_floor##suffix(a); }                             \
  TENSOTRON_INLINE T ceil(T a) { return __builtin_ceil##suffix(a); }                               \
  TENSOTRON_INLINE T trunc(T a) { return __builtin_trunc##suffix(a); }
TENSOTRON_SCALAR(float, f)
TENSOTRON_SCALAR(double, )
#undef TENSOTRON_SCALAR

// Integers wrap, as torch's do.
TENSOTRON_INLINE int64_t neg(int64_t a) { return (int64_t)(0 - (uint64_t)a); }
TENSOTRON_INLINE int64_t abs(int64_t a) { return a < 0 ? neg(a) : a; }
TENSOTRON_INLINE int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
TENSOTRON_INLINE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
