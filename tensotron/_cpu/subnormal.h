// Averages of gradients that have become zero, a dead unit's, shrink into the subnormal numbers and stay there: 0.9 times
// 4 units rounds to 4 units. An instruction that multiplies one takes 150 cycles on many processors, so optimisers
// count such lanes in integers, rounded as the multiplication rounds.
#pragma once
#include "record.h"
#include "vec.h"

namespace tensotron { namespace TENSOTRON_ISA {

template <class T> TENSOTRON_INLINE Mask<T> subnormal(Vec<T> x) {
  if constexpr (sizeof(T) == 8) {
    return first<T>(0);  // a double average takes ten times as many steps to get there: not counted
  } else {
#if defined(__AVX512DQ__)
    return Mask<T>(_mm512_fpclass_ps_mask((__m512)x.v, 0x20));
#else
    // Without the sign, and less one unit, so that 0 is far above; as signed numbers from the smallest on.
    typedef typename Lane<T>::Int Int;
    const Int lanes = (Int)x.v + (Int)x.v + INT32_MAX;
    return Mask<T>(lanes < (Int){} + (INT32_MIN + 0xffffff));
#endif
  }
}

// The subnormal lanes of an average that are counted: their next value; 0 takes their place in the calculation.
template <class T> struct Counted {
  typedef typename Lane<T>::Int Int;
  Vec<T> next = Vec<T>(T(0));
  Mask<T> lanes = first<T>(0);

  // Lanes of `idle` go on as average * factor; the product with 23 bits must be exact in double.
  TENSOTRON_MEMBER void take(Vec<T>& average, Mask<T> idle, double factor) {
    if constexpr (sizeof(T) == 4) {
      lanes = idle & subnormal(average);
      if (!any(lanes)) return;
      const Int all = (Int)average.v, size = all & 0x7fffffff;
      // Adding 1.5 * 2^52 rounds to an integer, ties to even, which are then the low bits.
#if defined(__AVX512F__)
      const auto half = [=](__m256i units) {
        const __m512d scaled = _mm512_mul_pd(_mm512_cvtepi32_pd(units), _mm512_set1_pd(factor));
        return _mm512_cvtepi64_epi32(_mm512_castpd_si512(_mm512_add_pd(scaled, _mm512_set1_pd(0x1.8p52))));
      };
      const __m512i s = (__m512i)size;
      const Int units = (Int)_mm512_inserti64x4(_mm512_castsi256_si512(half(_mm512_castsi512_si256(s))),
                                                half(_mm512_extracti64x4_epi64(s, 1)), 1);
#else
      typedef double Wide __attribute__((vector_size(2 * TENSOTRON_VEC_BYTES)));
      typedef int64_t WideInt __attribute__((vector_size(2 * TENSOTRON_VEC_BYTES)));
      const Wide scaled = __builtin_convertvector(size, Wide) * factor;
      const Int units = __builtin_convertvector((WideInt)(scaled + 0x1.8p52), Int);
#endif
      next = Vec<T>((typename Lane<T>::Raw)(units | (all & INT32_MIN)));
      average = select(lanes, Vec<T>(T(0)), average);
    }
  }
  TENSOTRON_MEMBER Vec<T> put(Vec<T> x) const {
    if constexpr (sizeof(T) == 4) return select(lanes, next, x);
    return x;
  }
};

// Lanes where a subnormal average cannot change the parameter, by a step of at most 2^50 times the average.
template <class T> TENSOTRON_INLINE Mask<T> idle_lanes(Vec<T> parameter, Vec<T> gradient) {
  return eq(gradient, Vec<T>(T(0))) & ge(abs(parameter), Vec<T>(T(0x1p-50)));
}

// Whether a sample of an average, another one at every step, shows a subnormal number: one missed costs time only. The
// sample meets every row of 64 elements, and as its distance is odd those of narrower layers in turn.
template <class T> TENSOTRON_INLINE bool probe(const Arg& average, int64_t step) {
  typedef Vec<T> V;
  constexpr int64_t EVERY = 64 / V::size - 1;
  if (sizeof(T) == 8) return false;
  Mask<T> found = first<T>(0);
  const T* const p = (const T*)average.data;
  // unsigned: the step is a number from a state dict, which may be negative
  for (int64_t i = int64_t(uint64_t(step) % EVERY) * V::size; i + V::size <= average.stride[0]; i += EVERY * V::size)
    found = found | subnormal(V::load(p + i));
  return any(found);
}

} }  // namespace tensotron::TENSOTRON_ISA
