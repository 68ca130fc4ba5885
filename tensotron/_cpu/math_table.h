// Tables of sixteen doubles, and the exponential and the logarithm by them.
//
// Ping Tak Peter Tang's method (ACM TOMS 15, 1989; 16, 1990): the table takes the argument so near to 0 that a short
// polynomial does, and holds its values in two parts. Polynomials here and in the other files for double: Remez in
// 50 digits, rounded.
#pragma once
#include "math_lanes.h"

namespace tensotron { namespace TENSOTRON_ISA {

typedef Vec<double> VecD;
typedef uint64_t U64 __attribute__((vector_size(TENSOTRON_VEC_BYTES)));

static constexpr double INF64 = __builtin_inf();
static constexpr double NAN64 = __builtin_nan("");

// table[index & 15], lane by lane.
TENSOTRON_INLINE VecD lookup(const double* table, VecD::Int index) {
#if defined(__AVX512F__)
  return VecD((VecD::Raw)_mm512_permutex2var_pd(_mm512_load_pd(table), (__m512i)index, _mm512_load_pd(table + 8)));
#else
  index = index & 15;
  VecD::Raw r;
  for (int i = 0; i < VecD::size; i++) r[i] = table[index[i]];
  return VecD(r);
#endif
}

// ab, and what its rounding drops. Without hardware's fma the second is 0.
TENSOTRON_INLINE VecD product(VecD a, VecD b, VecD& low) {
  VecD high = a * b;
  low = fma(a, b, -high);
  return high;
}
// a + b, and what its rounding drops, for |a| >= |b| or a = 0.
TENSOTRON_INLINE VecD sum(VecD a, VecD b, VecD& low) {
  VecD high = a + b;
  low = (a - high) + b;
  return high;
}

// ---- exponential ----------------------------------------------------------------------------

// 2^(i / 16)
alignas(64) static constexpr double EXP_HIGH64[16] = {
    0x1p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0,
    0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0,
    0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f09p+0,
    0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0,
};
alignas(64) static constexpr double EXP_LOW64[16] = {
    0, 0x1.8a62e4adc610bp-54, -0x1.19041b9d78a76p-55, 0x1.9b07eb6c70573p-54,
    0x1.6f46ad23182e4p-55, 0x1.ada0911f09ebcp-55, 0x1.d4397afec42e2p-56, 0x1.6324c054647adp-54,
    -0x1.bdd3413b26456p-54, -0x1.41577ee04992fp-55, 0x1.6e9f156864b27p-54, 0x1.c7c46b071f2bep-56,
    0x1.7a1cd345dcc81p-54, 0x1.11065895048ddp-55, 0x1.2ed02d75b3707p-55, -0x1.e9c23179c2893p-54,
};

// Adding this rounds to a sixteenth: the lowest four bits are its number, the bits above the integer part, plus 2048.
static constexpr double ROUND16 = 0x1.8p48 + 2048;

// x = n log(2) + r, n in sixteenths; t = n + ROUND16.
TENSOTRON_INLINE VecD exp_sixteenths(VecD x, VecD& t) {
  t = fma(x, VecD(0x1.71547652b82fep+0), VecD(ROUND16));
  return fma(t - VecD(ROUND16), VecD(-0x1.62e42feep-1), x);  // log(2) in two parts, the first short enough for an exact product
}
static constexpr double EXP_LOG2_LOW = -0x1.a39ef35793c76p-33;
// (e^r - 1 - r) / r^2 for |r| <= log(2) / 32
TENSOTRON_INLINE VecD exp_quadratic(VecD r, VecD z) {
  return poly2(r, z, 0x1.6c185ea8a6b57p-10, 0x1.11123afce0134p-7, 0x1.555555545dbe5p-5, 0x1.555555548f212p-3, 0x1.0000000000005p-1);
}
// e^x = (T + low) 2^floor(n)
TENSOTRON_INLINE VecD exp_parts(VecD x, VecD& t, VecD& low) {
  VecD r = exp_sixteenths(x, t);
  r = fma(t - VecD(ROUND16), VecD(EXP_LOG2_LOW), r);
  VecD high = lookup(EXP_HIGH64, as_int(t));
  low = fma(high, fma(r * r, exp_quadratic(r, r * r), r), lookup(EXP_LOW64, as_int(t)));
  return high;
}
// 2^(floor(n) - less), where that is a normal number.
TENSOTRON_INLINE VecD pow2_sixteenths(VecD t, int64_t less = 0) {
  return as_float((VecD::Int)((((U64)as_int(t) >> 4) - (uint64_t)(1025 + less)) << 52));
}
// y 2^floor(n), rounded once, for y in [1/2, 4) and n in [-1100, 1030].
TENSOTRON_INLINE VecD scale_sixteenths(VecD y, VecD t) {
#if defined(__AVX512F__)
  return VecD((VecD::Raw)_mm512_maskz_scalef_pd(0xff, (__m512d)y.v, (__m512d)(t - VecD(ROUND16)).v));
#else
  // In two factors, each a normal number, so that only the second product can round.
  U64 k = ((U64)as_int(t) >> 4) & 0xfff, half = k >> 1;
  return y * as_float((VecD::Int)((half - 1) << 52)) * as_float((VecD::Int)((k - half - 1) << 52));
#endif
}
TENSOTRON_INLINE VecD exp_clamped(VecD x) {
  VecD t, low, high = exp_parts(max(VecD(-746), min(VecD(710), x)), t, low);  // NaN passes: the second operand
  return scale_sixteenths(high + low, t);
}
#if defined(__AVX512F__)
TENSOTRON_INLINE VecD exp(VecD x) { return exp_clamped(x); }
#else
// Where no lane leaves the normal range, one factor does; the other case is out of line.
static __attribute__((noinline, unused)) void exp_any(double* x) { exp_clamped(VecD::load(x)).store(x); }
TENSOTRON_INLINE VecD exp(VecD x) {
  if (__builtin_expect(all(le(abs(x), VecD(708))), 1)) {
    VecD t, low, high = exp_parts(x, t, low);
    return (high + low) * pow2_sixteenths(t);
  }
  alignas(TENSOTRON_VEC_BYTES) double lanes[VecD::size];
  x.store(lanes);
  exp_any(lanes);
  return VecD::load(lanes);
}
#endif

TENSOTRON_INLINE VecD exp2(VecD x) {
  x = max(VecD(-1076), min(VecD(1025), x));
  VecD t = x + VecD(ROUND16), r = (x - (t - VecD(ROUND16))) * VecD(0x1.62e42fefa39efp-1), high = lookup(EXP_HIGH64, as_int(t));
  VecD low = fma(high, fma(r * r, exp_quadratic(r, r * r), r), lookup(EXP_LOW64, as_int(t)));
  return scale_sixteenths(high + low, t);
}

// ---- logarithm ------------------------------------------------------------------------------

// 1 / c for a c in each of sixteen intervals of [0.703125, 1.40625): 1 in the one around 1, and so few digits in its neighbours,
// whose logarithms are small, that m / c - 1 is exact.
alignas(64) static constexpr double LOG_SCALE64[16] = {
    0x1.64p+0, 0x1.54p+0, 0x1.48p+0, 0x1.3cp+0,
    0x1.3p+0, 0x1.24p+0, 0x1.1cp+0, 0x1.1p+0,
    0x1.08p+0, 0x1p+0, 0x1.ep-1, 0x1.c8p-1,
    0x1.bp-1, 0x1.98p-1, 0x1.88p-1, 0x1.78p-1,
};

// The logarithms of c to three bases: a multiple of 2^-42 and the rest.
alignas(64) static constexpr double LOG_HIGH64[16] = {
    -0x1.51aad872ep-2, -0x1.22941fbcf8p-2, -0x1.fb9186d5e4p-3, -0x1.af3c94e80cp-3,
    -0x1.5ff3070a7ap-3, -0x1.0d77e7cd08p-3, -0x1.a926d3a4acp-4, -0x1.f0a30c0118p-5,
    -0x1.f829b0e78p-6, 0, 0x1.08598b59e4p-4, 0x1.da72763844p-4,
    0x1.5bf406b544p-3, 0x1.d1037f2656p-3, 0x1.1178e8227ep-2, 0x1.3c25277333p-2,
};
alignas(64) static constexpr double LOG_LOW64[16] = {
    0x1.f4bd8db0a7cc1p-44, 0x1.a6976f5eb0963p-44, 0x1.d572aab993c87p-47, 0x1.a4e633fcd9066p-52,
    0x1.8586f183bebf2p-44, -0x1.cb2cd2ee2f482p-44, -0x1.563650bd22a9cp-44, 0x1.d599e83368e91p-45,
    -0x1.980267c7e09e4p-45, 0, -0x1.7e5dd7009902cp-46, 0x1.a89401fa71733p-46,
    -0x1.27023eb68981cp-46, -0x1.84a7e75b6f6e4p-47, 0x1.1ef78ce2d07f2p-44, 0x1.83b54b606bd5cp-46,
};
alignas(64) static constexpr double LOG2_HIGH64[16] = {
    -0x1.e726aa1e75p-2, -0x1.a33760a7f6p-2, -0x1.6e221cd9d1p-2, -0x1.37124cea4dp-2,
    -0x1.fbc16b9026p-3, -0x1.84c2bd02fp-3, -0x1.32ae9e278ap-3, -0x1.663f6fac9p-4,
    -0x1.6bad3758fp-5, 0, 0x1.7d60496cfcp-4, 0x1.563dc29ffap-3,
    0x1.f5fd8a9064p-3, 0x1.4f6fbb2cecp-2, 0x1.8a8980abfcp-2, 0x1.c819dc2d46p-2,
};
alignas(64) static constexpr double LOG2_LOW64[16] = {
    -0x1.3483146784bd2p-44, -0x1.4275f1035e5e8p-48, 0x1.90d43956fa5d8p-45, 0x1.0993376649b5p-45,
    -0x1.0144751b3314fp-44, -0x1.d97ee9124773bp-46, -0x1.c343ea3e580ebp-44, -0x1.3167ccc538261p-44,
    0x1.3c6764fc87b4ap-48, 0, -0x1.2ce6312ebb81dp-46, 0x1.964190e41bca7p-44,
    -0x1.cb6f70109b0f1p-47, 0x1.661e393a16b95p-44, -0x1.66cccab240e9p-45, -0x1.bc76a2753b99bp-50,
};
alignas(64) static constexpr double LOG10_HIGH64[16] = {
    -0x1.254b4d35e8p-3, -0x1.f8c9683468p-4, -0x1.b8de4d3ab4p-4, -0x1.769140a254p-4,
    -0x1.31b3055c48p-4, -0x1.d41d5164f8p-5, -0x1.71483427dp-5, -0x1.af5f92b01p-6,
    -0x1.b5e908eb2p-7, 0, 0x1.cb38fccd9p-6, 0x1.9c197abfp-5,
    0x1.2e3a740b78p-4, 0x1.93e7de0fc4p-4, 0x1.db11ed766cp-4, 0x1.1299a4fb3ep-3,
};
alignas(64) static constexpr double LOG10_LOW64[16] = {
    0x1.61f143538008cp-46, -0x1.9084e03494e7dp-48, 0x1.340511b402e0ap-47, 0x1.9036b130dc2b9p-44,
    0x1.dcffc97be8c9cp-45, -0x1.659d00c475908p-44, -0x1.54c670f08803p-44, 0x1.9f05921f59258p-46,
    0x1.90dfe0d1601cap-44, 0, -0x1.00925a535ae72p-44, 0x1.badcf3d6e4566p-46,
    0x1.d288560689912p-53, -0x1.80743406505e6p-48, -0x1.40bcd23c3e44cp-44, 0x1.82c6326f70b35p-46,
};

// A base b: log_b(2) in two parts, the first a multiple of 2^-32; log_b(e) in two; (log_b(1 + r) - log_b(e) r) / r^2 for
// |r| <= 1/30.
struct Natural {
  static constexpr const double *high = LOG_HIGH64, *low = LOG_LOW64;
  static constexpr double two_high = 0x1.62e42ffp-1, two_low = -0x1.718432a1b0e26p-35, unit = 1, unit_low = 0;
  static TENSOTRON_MEMBER VecD quadratic(VecD r, VecD z) {
    return poly4<1>(r, z, -0x1.9b8de40b43038p-4, 0x1.c8072944c54bdp-4, -0x1.ffff43caeb65fp-4, 0x1.249230803d7b8p-3,
                  -0x1.55555562268e2p-3, 0x1.9999999b842fap-3, -0x1.ffffffffff6cdp-3, 0x1.5555555555503p-2, -0.5);
  }
};
struct Binary {
  static constexpr const double *high = LOG2_HIGH64, *low = LOG2_LOW64;
  static constexpr double two_high = 1, two_low = 0, unit = 0x1.71547652b82fep+0, unit_low = 0x1.777d0ffda0d24p-56;
  static TENSOTRON_MEMBER VecD quadratic(VecD r, VecD z) {
    return poly4<1>(r, z, -0x1.28dfa73db8faap-3, 0x1.48f463ce292f3p-3, -0x1.7153ee8f6aa2dp-3, 0x1.a6173f1aae619p-3,
                  -0x1.ec709dd61e0d5p-3, 0x1.2776c5105ba1fp-2, -0x1.71547652b7c5bp-2, 0x1.ec709dc3a0387p-2, -0x1.71547652b82fep-1);
  }
};
struct Decimal {
  static constexpr const double *high = LOG10_HIGH64, *low = LOG10_LOW64;
  static constexpr double two_high = 0x1.34413508p-2, two_low = 0x1.f79fef311f12bp-34, unit = 0x1.bcb7b1526e50ep-2,
                          unit_low = 0x1.95355baaafad3p-57;
  static TENSOTRON_MEMBER VecD quadratic(VecD r, VecD z) {
    return poly4<1>(r, z, -0x1.6578b38195df7p-5, 0x1.8c19d248c857cp-5, -0x1.bcb70dd8e04bcp-5, 0x1.fc3f7b465ebd9p-5,
                  -0x1.287a7642163e7p-4, 0x1.63c62776cf2bap-4, -0x1.bcb7b1526dd11p-4, 0x1.287a7636f4317p-3, -0x1.bcb7b1526e50ep-3);
  }
};

static constexpr int64_t LOG_FIRST = 0x3fe6800000000000, EXPONENT64 = 0x7ff0000000000000;

// x = 2^e m; b: the bits of x less those of 0.703125, its top bits e and the number of the interval.
TENSOTRON_INLINE VecD log_exponent(VecD::Int b) {
#if defined(__AVX512DQ__)
  return VecD((VecD::Raw)_mm512_maskz_cvtepi64_pd(0xff, _mm512_maskz_srai_epi64(0xff, (__m512i)b, 52)));
#else
  // Made positive for a logical shift, it becomes a double by way of 2^52's low bits.
  VecD::Int k = (VecD::Int)((U64)(b + (1024LL << 52)) >> 52);
  return as_float(k | 0x4330000000000000) - VecD(0x1p52 + 1024);
#endif
}
// The logarithm of x + lost to a base, for normal positive x, in two parts: what is returned and `low`.
template <class Base, bool LOST> TENSOTRON_INLINE VecD log_parts(VecD x, VecD lost, VecD& low) {
  VecD::Int b = as_int(x) - LOG_FIRST, i = (VecD::Int)((U64)b >> 48), k = b & ~0x000fffffffffffff;
  VecD e = log_exponent(b), m = as_float(as_int(x) - k), c = lookup(LOG_SCALE64, i);
#if TENSOTRON_HAS_FMA
  VecD r = fma(m, c, VecD(-1));
#else
  VecD half = as_float(as_int(m) & ~0xffffffLL), r = (half * c - VecD(1)) + (m - half) * c;
#endif
  VecD rest, high, z = r * r, q = Base::quadratic(r, z);
  if constexpr (Base::unit == 1) {
    high = sum(fma(e, VecD(Base::two_high), lookup(Base::high, i)), r, rest);
  } else {
    VecD dropped, u = product(r, VecD(Base::unit), dropped);
    high = sum(fma(e, VecD(Base::two_high), lookup(Base::high, i)), u, rest);
    rest = fma(r, VecD(Base::unit_low), rest + dropped);
  }
  if constexpr (Base::two_low != 0) rest = rest + fma(e, VecD(Base::two_low), lookup(Base::low, i));
  else rest = rest + lookup(Base::low, i);
  if constexpr (LOST) {
    VecD d = lost * as_float(0x4000000000000000 - k) * (c * VecD(0.5));  // on the scale of r; nothing where e is 1024
    rest = rest + fma(-r, d, d);
  }
  low = fma(z, q, rest);
  return high;
}
// y = log(x) put right for zero, negative numbers, infinity and NaN.
TENSOTRON_INLINE VecD log_special(VecD x, VecD y) {
  y = select(gt(x, VecD(0)), y, select(eq(x, VecD(0)), VecD(-INF64), VecD(NAN64)));
  return select(eq(x, VecD(INF64)), x, y);
}
template <class Base> static __attribute__((noinline)) void log_any(double* p) {
  VecD x = VecD::load(p), low;
  Mask<double> tiny = lt(x, VecD(0x1p-1022));
  VecD high = log_parts<Base, false>(select(tiny, x * VecD(0x1p54), x), x, low);
  VecD e = select(tiny, VecD(-54), VecD(0)), rest, y = sum(high, e * VecD(Base::two_high), rest);
  log_special(x, y + (rest + fma(e, VecD(Base::two_low), low))).store(p);
}
template <class Base> TENSOTRON_INLINE VecD log_by(VecD x) {
  if (__builtin_expect(all(ge(x, VecD(0x1p-1022)) & lt(x, VecD(INF64))), 1)) {
    VecD low, high = log_parts<Base, false>(x, x, low);
    return high + low;
  }
  alignas(TENSOTRON_VEC_BYTES) double lanes[VecD::size];
  x.store(lanes);
  log_any<Base>(lanes);
  return VecD::load(lanes);
}
TENSOTRON_INLINE VecD log(VecD x) { return log_by<Natural>(x); }
TENSOTRON_INLINE VecD log2(VecD x) { return log_by<Binary>(x); }
TENSOTRON_INLINE VecD log10(VecD x) { return log_by<Decimal>(x); }

TENSOTRON_INLINE VecD log1p(VecD x) {
  VecD u = x + VecD(1), d = u - VecD(1);
  VecD lost = (VecD(1) - (u - d)) + (x - d);  // u + lost = 1 + x exactly
  VecD low, high = log_parts<Natural, true>(u, lost, low), y = high + low;
  y = select(gt(x, VecD(-1)), y, select(eq(x, VecD(-1)), VecD(-INF64), VecD(NAN64)));
  return copysign(select(eq(x, VecD(INF64)), x, y), x);
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
