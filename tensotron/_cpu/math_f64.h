// Elementary functions on Vec<double>, and the kernels in double behind some functions of float.
#pragma once
#include "math_lanes.h"

namespace tensotron { namespace TENSOTRON_ISA {

typedef Vec<double> F64;
typedef uint64_t U64 __attribute__((vector_size(TENSOTRON_VEC_BYTES)));

static constexpr double INF64 = __builtin_inf();
static constexpr double NAN64 = __builtin_nan("");

// Adding 1.5 * 2^52 rounds to an integer and leaves that integer in the low bits. With the exponent's
// bias on top, shifting those bits to the exponent gives the power of two.
static constexpr double ROUND64 = 0x1.8p52, POW64 = ROUND64 + 1023;

// 2^n for t = n + POW64, n in [-1022, 1023]; a smaller bias in t divides the result by a power of two.
TENSOTRON_INLINE F64 pow2(F64 t) { return as_float(as_int(t) << 52); }

// ---- exponential ----------------------------------------------------------------------------

// exp(r) - 1 for |r| <= log(2) / 2
TENSOTRON_INLINE F64 expm1_poly(F64 r) {
  F64 q = poly(r, 0x1.1ee888c0c1971p-29, 0x1.af5e8ff35cf46p-26, 0x1.27e53636be056p-22, 0x1.71ddf87089552p-19,
               0x1.a01a017bbc97dp-16, 0x1.a01a01afd8f8cp-13, 0x1.6c16c16c1f0a6p-10, 0x1.111111110f6cfp-7,
               0x1.555555555553fp-5, 0x1.5555555555559p-3, 0x1p-1);
  return fma(r * r, q, r);
}
// x = n log(2) + r, |r| <= log(2) / 2: returns r, and t = n + round.
TENSOTRON_INLINE F64 exp_reduced(F64 x, F64& t, double round = POW64) {
  t = fma(x, F64(0x1.71547652b82fep+0), F64(round));
  F64 n = t - F64(round);
  F64 r = fma(n, F64(-0x1.62e42feep-1), x);  // log(2) in two parts, the first short enough for an exact product
  return fma(n, F64(-0x1.a39ef35793c76p-33), r);
}
// y * 2^n, rounded once, for y near 1 and t = n + POW64, n in [-1100, 1030].
TENSOTRON_INLINE F64 scale(F64 y, F64 t) {
  F64 n = t - F64(POW64);
#if defined(__AVX512F__)
  return F64((F64::Raw)_mm512_maskz_scalef_pd(0xff, (__m512d)y.v, (__m512d)n.v));
#else
  // In two factors, each a normal number, so that only the second product can round.
  F64 half = fma(n, F64(0.5), F64(POW64));
  return y * pow2(half) * pow2(t - (half - F64(POW64)));
#endif
}

TENSOTRON_INLINE F64 exp(F64 x) {
  F64 t, r = exp_reduced(max(F64(-746), min(F64(710), x)), t);  // NaN passes: the second operand
  return scale(expm1_poly(r) + F64(1), t);
}
TENSOTRON_INLINE F64 exp2(F64 x) {
  x = max(F64(-1076), min(F64(1025), x));
  F64 t = x + F64(POW64), r = x - (t - F64(POW64));
  return scale(expm1_poly(r * F64(0x1.62e42fefa39efp-1)) + F64(1), t);
}
TENSOTRON_INLINE F64 expm1(F64 x) {
  F64 t, p = expm1_poly(exp_reduced(max(F64(-40), min(F64(710), x)), t, POW64 - 1));
  F64 s = pow2(t);  // 2^n / 2: 2^1024 would overflow
  F64 r = fma(p, s, s - F64(0.5));
  return select(lt(abs(x), F64(0x1p-54)), x, r + r);
}
// h / (1 + h), h = (e^2|x| - 1) / 2, which expm1's form keeps accurate near 0.
TENSOTRON_INLINE F64 tanh(F64 x) {
  F64 t, a = min(F64(22), abs(x));
  F64 p = expm1_poly(exp_reduced(a + a, t, POW64 - 1)), s = pow2(t);
  F64 h = fma(p, s, s - F64(0.5));
  return xorsign(h / (h + F64(1)), x);
}
TENSOTRON_INLINE F64 sigmoid(F64 x) {
  F64 e = exp(-abs(x));
  return select(lt(x, F64(0)), e, F64(1)) / (e + F64(1));
}

// ---- logarithm ------------------------------------------------------------------------------

// x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for normal positive x.
TENSOTRON_INLINE F64 log_reduced(F64 x, F64& e) {
  F64::Int b = as_int(x) - 0x3fe6a09e667f3bcd;
  // The exponent, made positive for a logical shift, becomes a double by way of 2^52's low bits.
  F64::Int k = (F64::Int)((U64)(b + (1024LL << 52)) >> 52);
  e = as_float(k | 0x4330000000000000) - F64(0x1p52 + 1024);
  return as_float((b & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd) - F64(1);
}
// e log(2) + log(1 + f) by the series of atanh in s = f / (2 + f): log(1 + f) = 2s + s r(s^2),
// arranged so that f, the leading term, is added last.
TENSOTRON_INLINE F64 log_combine(F64 e, F64 f) {
  F64 s = f / (f + F64(2)), z = s * s;
  F64 r = z * poly(z, 0x1.2f057f470a4b7p-3, 0x1.39a1bccfa86e4p-3, 0x1.74663ea0daa2fp-3, 0x1.c71c520bc08f8p-3,
                   0x1.24924941ecdb1p-2, 0x1.999999997fe1fp-2, 0x1.5555555555592p-1);
  F64 half = F64(0.5) * f * f;
  F64 low = fma(e, F64(0x1.a39ef35793c76p-33), s * (half + r)) - half;
  return fma(e, F64(0x1.62e42feep-1), f + low);
}
// y = log(x) put right for zero, negative numbers, infinity and NaN.
TENSOTRON_INLINE F64 log_special(F64 x, F64 y) {
  y = select(gt(x, F64(0)), y, select(eq(x, F64(0)), F64(-INF64), F64(NAN64)));
  return select(eq(x, F64(INF64)), x, y);
}
static __attribute__((noinline, unused)) void log_any(double* p) {
  F64 x = F64::load(p), e;
  Mask<double> tiny = lt(x, F64(0x1p-1022));
  F64 f = log_reduced(select(tiny, x * F64(0x1p54), x), e);
  e = e - select(tiny, F64(54), F64(0));
  log_special(x, log_combine(e, f)).store(p);
}
TENSOTRON_INLINE F64 log(F64 x) {
  if (__builtin_expect(all(ge(x, F64(0x1p-1022)) & lt(x, F64(INF64))), 1)) {
    F64 e, f = log_reduced(x, e);
    return log_combine(e, f);
  }
  alignas(TENSOTRON_VEC_BYTES) double lanes[F64::size];
  x.store(lanes);
  log_any(lanes);
  return F64::load(lanes);
}
TENSOTRON_INLINE F64 log1p(F64 x) {
  F64 u = x + F64(1), d = u - F64(1);
  F64 c = (F64(1) - (u - d)) + (x - d);  // u + c = 1 + x exactly
  F64 e, f = log_reduced(u, e);
  // The lost digits on the scale of f; where 2^-e would leave the range they no longer matter.
  f = fma(c, pow2(F64(POW64) - min(e, F64(500))), f);
  F64 y = log_combine(e, f);
  y = select(gt(x, F64(-1)), y, select(eq(x, F64(-1)), F64(-INF64), F64(NAN64)));
  return copysign(select(eq(x, F64(INF64)), x, y), x);
}

// ---- trigonometry ---------------------------------------------------------------------------

// Beyond this a lane goes to the C library: n must have at most 20 bits.
static constexpr double TRIG_LIMIT64 = 1e6;

// x = n pi/2 + r, |r| <= pi/4; the low bits of the result are n's. Parts of pi/2 so short that the
// first three products are exact.
TENSOTRON_INLINE F64::Int trig_reduced(F64 x, F64& r) {
  F64 t = fma(x, F64(0x1.45f306dc9c883p-1), F64(ROUND64)), n = t - F64(ROUND64);
  r = fma(n, F64(-0x1.921fb544p+0), x);
  r = fma(n, F64(-0x1.0b4611a6p-34), r);
  r = fma(n, F64(-0x1.3198a2ep-69), r);
  r = fma(n, F64(-0x1.b839a252049c1p-104), r);
  return as_int(t);
}
TENSOTRON_INLINE F64 sin_poly(F64 r, F64 z) {
  F64 p = poly(z, -0x1.aa9bb87fcbb7ap-41, 0x1.61207f355767ep-33, -0x1.ae64527938d5ap-26, 0x1.71de3a53212d2p-19,
               -0x1.a01a01a0189b1p-13, 0x1.111111111110bp-7, -0x1.5555555555555p-3);
  return fma(r * z, p, r);
}
TENSOTRON_INLINE F64 cos_poly(F64 z) {
  F64 p = poly(z, -0x1.8f9ddb56e7460p-37, 0x1.1ee9caf07b490p-29, -0x1.27e4f7d862742p-22, 0x1.a01a019c6b70bp-16,
               -0x1.6c16c16c14e99p-10, 0x1.555555555554ap-5);
  F64 h = F64(0.5) * z, w = F64(1) - h;
  return w + fma(z * z, p, (F64(1) - w) - h);
}
TENSOTRON_INLINE F64 sin(F64 x) {
  F64 a = abs(x), r;
  F64::Int n = trig_reduced(a, r);
  F64 z = r * r;
  F64 y = select(odd(n), cos_poly(z), sin_poly(r, z));
  y = as_float(as_int(y) ^ ((n & 2) << 62) ^ (as_int(x) & Sign<double>::bit));
  Mask<double> far = gt(a, F64(TRIG_LIMIT64));
  if (__builtin_expect(any(far), 0)) y = select(far, lanes_sin(x), y);
  return y;
}
TENSOTRON_INLINE F64 cos(F64 x) {
  F64 a = abs(x), r;
  F64::Int n = trig_reduced(a, r);
  F64 z = r * r;
  F64 y = select(odd(n), sin_poly(r, z), cos_poly(z));
  y = as_float(as_int(y) ^ (((n + 1) & 2) << 62));
  Mask<double> far = gt(a, F64(TRIG_LIMIT64));
  if (__builtin_expect(any(far), 0)) y = select(far, lanes_cos(x), y);
  return y;
}

// ---- through the C library ------------------------------------------------------------------

TENSOTRON_INLINE F64 log2(F64 x) { return lanes_log2(x); }
TENSOTRON_INLINE F64 log10(F64 x) { return lanes_log10(x); }
TENSOTRON_INLINE F64 tan(F64 x) { return lanes_tan(x); }
TENSOTRON_INLINE F64 sinh(F64 x) { return lanes_sinh(x); }
TENSOTRON_INLINE F64 cosh(F64 x) { return lanes_cosh(x); }
TENSOTRON_INLINE F64 asin(F64 x) { return lanes_asin(x); }
TENSOTRON_INLINE F64 acos(F64 x) { return lanes_acos(x); }
TENSOTRON_INLINE F64 atan(F64 x) { return lanes_atan(x); }
TENSOTRON_INLINE F64 asinh(F64 x) { return lanes_asinh(x); }
TENSOTRON_INLINE F64 acosh(F64 x) { return lanes_acosh(x); }
TENSOTRON_INLINE F64 atanh(F64 x) { return lanes_atanh(x); }
TENSOTRON_INLINE F64 erf(F64 x) { return lanes_erf(x); }
TENSOTRON_INLINE F64 erfc(F64 x) { return lanes_erfc(x); }
TENSOTRON_INLINE F64 lgamma(F64 x) { return lanes_lgamma(x); }
TENSOTRON_INLINE F64 pow(F64 x, F64 y) { return lanes_pow(x, y); }
TENSOTRON_INLINE F64 atan2(F64 y, F64 x) { return lanes_atan2(y, x); }
TENSOTRON_INLINE F64 hypot(F64 x, F64 y) { return lanes_hypot(x, y); }
TENSOTRON_INLINE F64 fmod(F64 x, F64 y) { return lanes_fmod(x, y); }
TENSOTRON_INLINE F64 remainder(F64 x, F64 y) { return lanes_remainder(x, y); }

// A closed-form start, then Halley steps on erf, or on erfc in the tails.
static __attribute__((noinline, unused)) void call_erfinv(double* p) {
  for (int k = 0; k < F64::size; k++) {
    double y = p[k], a = __builtin_fabs(y), x;
    if (y == 0) continue;
    if (!(a < 1)) { p[k] = a == 1 ? y * INF64 : NAN64; continue; }
    double w = __builtin_log((1 - a) * (1 + a)), c = 2 / (3.14159265358979323846 * 0.147) + w / 2;
    x = __builtin_sqrt(__builtin_sqrt(c * c - w / 0.147) - c);
    for (int i = 0; i < 3; i++) {
      double d = a < 0.5 ? __builtin_erf(x) - a : (1 - a) - __builtin_erfc(x);
      double step = d * 0.88622692545275801365 * __builtin_exp(x * x);
      x -= step / (1 + x * step);
    }
    p[k] = __builtin_copysign(x, y);
  }
}
TENSOTRON_INLINE F64 erfinv(F64 x) {
  alignas(TENSOTRON_VEC_BYTES) double lanes[F64::size];
  x.store(lanes);
  call_erfinv(lanes);
  return F64::load(lanes);
}

// ---- kernels for functions of float ---------------------------------------------------------
// In double, to about 2^-34: short polynomials, arguments within float's range, no special cases.

TENSOTRON_INLINE F64 log_wide(F64 x) {
  F64 e, f = log_reduced(x, e);
  F64 s = f / (f + F64(2)), z = s * s;
  F64 r = z * poly(z, 0x1.9114255e802abp-3, 0x1.c62b31b6daa4bp-3, 0x1.249411883b994p-2, 0x1.999996aa619b1p-2,
                   0x1.555555561dcd1p-1);
  return fma(e, F64(0x1.62e42fefa39efp-1), fma(s, r, s + s));
}
// 2^x for |x| < 1000
TENSOTRON_INLINE F64 exp2_wide(F64 x) {
  F64 t = x + F64(POW64), r = x - (t - F64(POW64));
  F64 p = poly(r, 0x1.fde5edbf8b9b4p-17, 0x1.445c840bea6efp-13, 0x1.5d8a860d9a84ep-10, 0x1.3b29f39d3a4bcp-7,
               0x1.c6b08ac05bb58p-5, 0x1.ebfbe07787a9p-3, 0x1.62e42ff0e1a01p-1);
  return fma(r, p, F64(1)) * pow2(t);
}
TENSOTRON_INLINE F64 exp_wide(F64 x) { return exp2_wide(x * F64(0x1.71547652b82fep+0)); }
// tan for 0 <= x <= 65536
TENSOTRON_INLINE F64 tan_wide(F64 x) {
  F64 t = fma(x, F64(0x1.45f306dc9c883p-1), F64(ROUND64)), n = t - F64(ROUND64);
  F64 r = fma(n, F64(-0x1.921fb544p+0), x);
  r = fma(n, F64(-0x1.0b4611a626331p-34), r);
  F64 z = r * r, s = sin_poly(r, z), c = cos_poly(z);
  Mask<double> swap = odd(as_int(t));
  return select(swap, c, s) / select(swap, -s, c);
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
