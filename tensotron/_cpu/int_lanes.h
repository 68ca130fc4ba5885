// Vectors of int64, int32 and uint8 for the kernels that reduce: what a fold or a search for a position needs of them.
#pragma once
#include <type_traits>

#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

template <class T> struct IntLane;  // raw vector types; GCC wants them of types it knows
#define TENSOTRON_INT_LANE(T, unsigned_t, signed_t)                                                       \
  template <> struct IntLane<T> {                                                                        \
    typedef T Raw __attribute__((vector_size(TENSOTRON_VEC_BYTES)));                                     \
    typedef T Unaligned __attribute__((vector_size(TENSOTRON_VEC_BYTES), aligned(sizeof(T)), may_alias)); \
    typedef unsigned_t Bits __attribute__((vector_size(TENSOTRON_VEC_BYTES)));                           \
    typedef signed_t Mask __attribute__((vector_size(TENSOTRON_VEC_BYTES)));                             \
  };
TENSOTRON_INT_LANE(int64_t, uint64_t, int64_t)
TENSOTRON_INT_LANE(int32_t, uint32_t, int32_t)
TENSOTRON_INT_LANE(uint8_t, uint8_t, int8_t)
#undef TENSOTRON_INT_LANE

template <class T> struct IntLanes {
  typedef typename IntLane<T>::Raw Raw;
  typedef typename IntLane<T>::Unaligned Unaligned;
  typedef typename IntLane<T>::Bits Bits;
  typedef typename IntLane<T>::Mask Mask;
  static constexpr int size = TENSOTRON_VEC_BYTES / sizeof(T);
  Raw v;
  TENSOTRON_MEMBER IntLanes() {}
  TENSOTRON_MEMBER IntLanes(Raw raw) : v(raw) {}
  TENSOTRON_MEMBER IntLanes(T x) : v(x - (Raw){}) {}
  static TENSOTRON_MEMBER IntLanes load(const T* p) { return IntLanes((Raw) * (const Unaligned*)p); }
  TENSOTRON_MEMBER void store(T* p) const { *(Unaligned*)p = v; }
  // The first n lanes; the others are 0.
  static TENSOTRON_MEMBER IntLanes load(const T* p, int n) {
    if constexpr (sizeof(T) == 8) return IntLanes((Raw)Vec<double>::load((const double*)p, n).v);
    else if constexpr (sizeof(T) == 4) return IntLanes((Raw)Vec<float>::load((const float*)p, n).v);
#if defined(__AVX512BW__) && !defined(TENSOTRON_SANITIZE)
    else return IntLanes((Raw)_mm512_maskz_loadu_epi8(n < 64 ? (__mmask64(1) << n) - 1 : ~__mmask64(0), p));
#else
    Raw r = {};
    __builtin_memcpy(&r, p, size_t(n) * sizeof(T));
    return IntLanes(r);
#endif
  }
  TENSOTRON_MEMBER void store(T* p, int n) const {
    if constexpr (sizeof(T) == 8) Vec<double>((typename Vec<double>::Raw)v).store((double*)p, n);
    else if constexpr (sizeof(T) == 4) Vec<float>((typename Vec<float>::Raw)v).store((float*)p, n);
    else __builtin_memcpy(p, &v, size_t(n) * sizeof(T));
  }
  // Unsigned arithmetic underneath: overflow wraps.
  TENSOTRON_MEMBER friend IntLanes operator+(IntLanes a, IntLanes b) { return IntLanes((Raw)((Bits)a.v + (Bits)b.v)); }
  TENSOTRON_MEMBER friend IntLanes operator*(IntLanes a, IntLanes b) { return IntLanes((Raw)((Bits)a.v * (Bits)b.v)); }
  TENSOTRON_MEMBER friend IntLanes operator|(IntLanes a, IntLanes b) { return IntLanes(a.v | b.v); }
  TENSOTRON_MEMBER friend IntLanes operator&(IntLanes a, IntLanes b) { return IntLanes(a.v & b.v); }
};

// A scalar whose arithmetic wraps too.
template <class T> struct IntOne {
  typedef typename std::make_unsigned<T>::type U;
  static constexpr int size = 1;
  T v;
  TENSOTRON_MEMBER IntOne(T x) : v(x) {}
  TENSOTRON_MEMBER operator T() const { return v; }
  TENSOTRON_MEMBER friend IntOne operator+(IntOne a, IntOne b) { return IntOne(T(U(a.v) + U(b.v))); }
  TENSOTRON_MEMBER friend IntOne operator*(IntOne a, IntOne b) { return IntOne(T(U(a.v) * U(b.v))); }
  TENSOTRON_MEMBER friend IntOne operator|(IntOne a, IntOne b) { return IntOne(T(a.v | b.v)); }
  TENSOTRON_MEMBER friend IntOne operator&(IntOne a, IntOne b) { return IntOne(T(a.v & b.v)); }
};

template <class T> TENSOTRON_INLINE IntOne<T> larger(IntOne<T> a, IntOne<T> b) { return a.v > b.v ? a : b; }
template <class T> TENSOTRON_INLINE IntOne<T> smaller(IntOne<T> a, IntOne<T> b) { return a.v < b.v ? a : b; }
template <class T> TENSOTRON_INLINE IntLanes<T> larger(IntLanes<T> a, IntLanes<T> b) { return {a.v > b.v ? a.v : b.v}; }
template <class T> TENSOTRON_INLINE IntLanes<T> smaller(IntLanes<T> a, IntLanes<T> b) { return {a.v < b.v ? a.v : b.v}; }

template <class T> TENSOTRON_INLINE typename IntLanes<T>::Mask gt(IntLanes<T> a, IntLanes<T> b) { return a.v > b.v; }
template <class T> TENSOTRON_INLINE typename IntLanes<T>::Mask lt(IntLanes<T> a, IntLanes<T> b) { return a.v < b.v; }
template <class T> TENSOTRON_INLINE IntLanes<T> select(typename IntLanes<T>::Mask m, IntLanes<T> a, IntLanes<T> b) {
  return IntLanes<T>(m ? a.v : b.v);
}
template <class T> struct Of<IntLanes<T>> {
  typedef T Scalar;
  typedef typename IntLanes<T>::Mask Mask;
  static constexpr int size = IntLanes<T>::size;
};

// Bit i: whether lane i of a is that of b.
#if defined(__SSE2__)
template <class T> TENSOTRON_INLINE uint64_t equal_bits(IntLanes<T> a, IntLanes<T> b) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(T) == 8) return _mm512_cmpeq_epi64_mask((__m512i)a.v, (__m512i)b.v);
  else if constexpr (sizeof(T) == 4) return _mm512_cmpeq_epi32_mask((__m512i)a.v, (__m512i)b.v);
  else return _mm512_cmpeq_epi8_mask((__m512i)a.v, (__m512i)b.v);
#elif defined(__AVX2__)
  const auto m = a.v == b.v;
  if constexpr (sizeof(T) == 8) return unsigned(_mm256_movemask_pd((__m256d)m));
  else if constexpr (sizeof(T) == 4) return unsigned(_mm256_movemask_ps((__m256)m));
  else return unsigned(_mm256_movemask_epi8((__m256i)m));
#else
  const auto m = a.v == b.v;
  if constexpr (sizeof(T) == 8) return unsigned(_mm_movemask_pd((__m128d)m));
  else if constexpr (sizeof(T) == 4) return unsigned(_mm_movemask_ps((__m128)m));
  else return unsigned(_mm_movemask_epi8((__m128i)m));
#endif
}
#endif

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
