// Elementary functions on Vec<double>, and the kernels in double behind some functions of float.
#pragma once
#include "math_mod.h"

namespace tensotron { namespace TENSOTRON_ISA {

typedef Vec<double> VecD;
typedef uint64_t U64 __attribute__((vector_size(TENSOTRON_VEC_BYTES)));

static constexpr double INF64 = __builtin_inf();
static constexpr double NAN64 = __builtin_nan("");

// Adding 1.5 * 2^52 rounds to an integer and leaves that integer in the low bits. With the exponent's
// bias on top, shifting those bits to the exponent gives the power of two.
static constexpr double ROUND64 = 0x1.8p52, POW64 = ROUND64 + 1023;

// 2^n for t = n + POW64, n in [-1022, 1023]; a smaller bias in t divides the result by a power of two.
TENSOTRON_INLINE VecD pow2(VecD t) { return as_float(as_int(t) << 52); }

// ---- exponential ----------------------------------------------------------------------------

// exp(r + c) - 1 for |r| <= log(2) / 2 and a tiny c.
TENSOTRON_INLINE VecD expm1_poly(VecD r, VecD c) {
  VecD z = r * r;
  VecD q = poly2(r, z, 0x1.1ee888c0c1971p-29, 0x1.af5e8ff35cf46p-26, 0x1.27e53636be056p-22, 0x1.71ddf87089552p-19,
                 0x1.a01a017bbc97dp-16, 0x1.a01a01afd8f8cp-13, 0x1.6c16c16c1f0a6p-10, 0x1.111111110f6cfp-7,
                 0x1.555555555553fp-5, 0x1.5555555555559p-3, 0x1p-1);
  return r + fma(z, q, c);
}
// exp(r) - 1, where x = n log(2) + r; t = n + round.
TENSOTRON_INLINE VecD expm1_reduced(VecD x, VecD& t, double round = POW64) {
  t = fma(x, VecD(0x1.71547652b82fep+0), VecD(round));
  VecD n = t - VecD(round);
  VecD high = fma(n, VecD(-0x1.62e42feep-1), x);  // log(2) in two parts, the first short enough for an exact product
  VecD r = fma(n, VecD(-0x1.a39ef35793c76p-33), high);
  return expm1_poly(r, fma(n, VecD(-0x1.a39ef35793c76p-33), high - r));
}
// y * 2^n, rounded once, for y near 1 and t = n + POW64, n in [-1100, 1030].
TENSOTRON_INLINE VecD scale(VecD y, VecD t) {
  VecD n = t - VecD(POW64);
#if defined(__AVX512F__)
  return VecD((VecD::Raw)_mm512_maskz_scalef_pd(0xff, (__m512d)y.v, (__m512d)n.v));
#else
  // In two factors, each a normal number, so that only the second product can round.
  VecD half = fma(n, VecD(0.5), VecD(POW64));
  return y * pow2(half) * pow2(t - (half - VecD(POW64)));
#endif
}

TENSOTRON_INLINE VecD exp(VecD x) {
  VecD t, p = expm1_reduced(max(VecD(-746), min(VecD(710), x)), t);  // NaN passes: the second operand
  return scale(p + VecD(1), t);
}
TENSOTRON_INLINE VecD exp2(VecD x) {
  x = max(VecD(-1076), min(VecD(1025), x));
  VecD t = x + VecD(POW64), f = x - (t - VecD(POW64)), r = f * VecD(0x1.62e42fefa39efp-1);
  VecD c = fma(f, VecD(0x1.62e42fefa39efp-1), -r);
  return scale(expm1_poly(r, fma(f, VecD(0x1.abc9e3b39803fp-56), c)) + VecD(1), t);
}
TENSOTRON_INLINE VecD expm1(VecD x) {
  VecD t, p = expm1_reduced(max(VecD(-40), min(VecD(710), x)), t, POW64 - 1);
  VecD s = pow2(t);  // 2^n / 2: 2^1024 would overflow
  VecD r = fma(p, s, s - VecD(0.5));
  return select(lt(abs(x), VecD(0x1p-54)), x, r + r);
}
// h / (1 + h), h = (e^2|x| - 1) / 2, which expm1's form keeps accurate near 0.
TENSOTRON_INLINE VecD tanh(VecD x) {
  VecD t, a = min(VecD(22), abs(x));
  VecD p = expm1_reduced(a + a, t, POW64 - 1), s = pow2(t);
  VecD h = fma(p, s, s - VecD(0.5));
  return xorsign(h / (h + VecD(1)), x);
}
TENSOTRON_INLINE VecD sigmoid(VecD x) {
  VecD e = exp(-abs(x));
  return select(lt(x, VecD(0)), e, VecD(1)) / (e + VecD(1));
}

// ---- logarithm ------------------------------------------------------------------------------

// x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for normal positive x.
TENSOTRON_INLINE VecD log_reduced(VecD x, VecD& e) {
  VecD::Int b = as_int(x) - 0x3fe6a09e667f3bcd;
  // The exponent, made positive for a logical shift, becomes a double by way of 2^52's low bits.
  VecD::Int k = (VecD::Int)((U64)(b + (1024LL << 52)) >> 52);
  e = as_float(k | 0x4330000000000000) - VecD(0x1p52 + 1024);
  return as_float((b & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd) - VecD(1);
}
// e log(2) + log(1 + f) by the series of atanh in s = f / (2 + f): log(1 + f) = 2s + s r(s^2),
// arranged so that f, the leading term, is added last.
TENSOTRON_INLINE VecD log_combine(VecD e, VecD f) {
  VecD s = f / (f + VecD(2)), z = s * s;
  VecD r = z * poly2(z, z * z, 0x1.2f057f470a4b7p-3, 0x1.39a1bccfa86e4p-3, 0x1.74663ea0daa2fp-3, 0x1.c71c520bc08f8p-3,
                   0x1.24924941ecdb1p-2, 0x1.999999997fe1fp-2, 0x1.5555555555592p-1);
  VecD half = VecD(0.5) * f * f;
  VecD low = fma(e, VecD(0x1.a39ef35793c76p-33), s * (half + r)) - half;
  return fma(e, VecD(0x1.62e42feep-1), f + low);
}
// y = log(x) put right for zero, negative numbers, infinity and NaN.
TENSOTRON_INLINE VecD log_special(VecD x, VecD y) {
  y = select(gt(x, VecD(0)), y, select(eq(x, VecD(0)), VecD(-INF64), VecD(NAN64)));
  return select(eq(x, VecD(INF64)), x, y);
}
static __attribute__((noinline, unused)) void log_any(double* p) {
  VecD x = VecD::load(p), e;
  Mask<double> tiny = lt(x, VecD(0x1p-1022));
  VecD f = log_reduced(select(tiny, x * VecD(0x1p54), x), e);
  e = e - select(tiny, VecD(54), VecD(0));
  log_special(x, log_combine(e, f)).store(p);
}
TENSOTRON_INLINE VecD log(VecD x) {
  if (__builtin_expect(all(ge(x, VecD(0x1p-1022)) & lt(x, VecD(INF64))), 1)) {
    VecD e, f = log_reduced(x, e);
    return log_combine(e, f);
  }
  alignas(TENSOTRON_VEC_BYTES) double lanes[VecD::size];
  x.store(lanes);
  log_any(lanes);
  return VecD::load(lanes);
}
TENSOTRON_INLINE VecD log1p(VecD x) {
  VecD u = x + VecD(1), d = u - VecD(1);
  VecD c = (VecD(1) - (u - d)) + (x - d);  // u + c = 1 + x exactly
  VecD e, f = log_reduced(u, e);
  // The lost digits on the scale of f; where 2^-e would leave the range they no longer matter.
  f = fma(c, pow2(VecD(POW64) - min(e, VecD(500))), f);
  VecD y = log_combine(e, f);
  y = select(gt(x, VecD(-1)), y, select(eq(x, VecD(-1)), VecD(-INF64), VecD(NAN64)));
  return copysign(select(eq(x, VecD(INF64)), x, y), x);
}

// ---- trigonometry ---------------------------------------------------------------------------

// Beyond this a lane goes to the C library: n must have at most 20 bits.
static constexpr double TRIG_LIMIT64 = 1e6;

// x = n pi/2 + r, |r| <= pi/4; the low bits of the result are n's. The first two parts of pi/2 are so
// short that their products are exact, and what rounding r drops goes into the third.
TENSOTRON_INLINE VecD::Int trig_reduced(VecD x, VecD& r) {
  VecD t = fma(x, VecD(0x1.45f306dc9c883p-1), VecD(ROUND64)), n = t - VecD(ROUND64);
  VecD c(-0x1.0b4611a6p-34), high = fma(n, VecD(-0x1.921fb544p+0), x);
  r = fma(n, c, high);
  r = r + fma(n, VecD(-0x1.3198a2e037073p-69), fma(n, c, high - r));
  return as_int(t);
}
TENSOTRON_INLINE VecD sin_poly(VecD r, VecD z) {
  VecD p = poly(z, -0x1.aa9bb87fcbb7ap-41, 0x1.61207f355767ep-33, -0x1.ae64527938d5ap-26, 0x1.71de3a53212d2p-19,
               -0x1.a01a01a0189b1p-13, 0x1.111111111110bp-7, -0x1.5555555555555p-3);
  return fma(r * z, p, r);
}
TENSOTRON_INLINE VecD cos_poly(VecD z) {
  VecD p = poly(z, -0x1.8f9ddb56e7460p-37, 0x1.1ee9caf07b490p-29, -0x1.27e4f7d862742p-22, 0x1.a01a019c6b70bp-16,
               -0x1.6c16c16c14e99p-10, 0x1.555555555554ap-5);
  VecD h = VecD(0.5) * z, w = VecD(1) - h;
  return w + fma(z * z, p, (VecD(1) - w) - h);
}
TENSOTRON_INLINE VecD sin(VecD x) {
  VecD a = abs(x), r;
  VecD::Int n = trig_reduced(a, r);
  VecD z = r * r;
  VecD y = select(odd(n), cos_poly(z), sin_poly(r, z));
  y = as_float(as_int(y) ^ ((n & 2) << 62) ^ (as_int(x) & Sign<double>::bit));
  Mask<double> far = gt(a, VecD(TRIG_LIMIT64));
  if (__builtin_expect(any(far), 0)) y = select(far, lanes_sin(x), y);
  return y;
}
TENSOTRON_INLINE VecD cos(VecD x) {
  VecD a = abs(x), r;
  VecD::Int n = trig_reduced(a, r);
  VecD z = r * r;
  VecD y = select(odd(n), sin_poly(r, z), cos_poly(z));
  y = as_float(as_int(y) ^ (((n + 1) & 2) << 62));
  Mask<double> far = gt(a, VecD(TRIG_LIMIT64));
  if (__builtin_expect(any(far), 0)) y = select(far, lanes_cos(x), y);
  return y;
}

// ---- through the C library ------------------------------------------------------------------

TENSOTRON_INLINE VecD log2(VecD x) { return lanes_log2(x); }
TENSOTRON_INLINE VecD log10(VecD x) { return lanes_log10(x); }
TENSOTRON_INLINE VecD tan(VecD x) { return lanes_tan(x); }
TENSOTRON_INLINE VecD sinh(VecD x) { return lanes_sinh(x); }
TENSOTRON_INLINE VecD cosh(VecD x) { return lanes_cosh(x); }
TENSOTRON_INLINE VecD asin(VecD x) { return lanes_asin(x); }
TENSOTRON_INLINE VecD acos(VecD x) { return lanes_acos(x); }
TENSOTRON_INLINE VecD atan(VecD x) { return lanes_atan(x); }
TENSOTRON_INLINE VecD asinh(VecD x) { return lanes_asinh(x); }
TENSOTRON_INLINE VecD acosh(VecD x) { return lanes_acosh(x); }
TENSOTRON_INLINE VecD atanh(VecD x) { return lanes_atanh(x); }
TENSOTRON_INLINE VecD erf(VecD x) { return lanes_erf(x); }
TENSOTRON_INLINE VecD erfc(VecD x) { return lanes_erfc(x); }
TENSOTRON_INLINE VecD lgamma(VecD x) { return lanes_lgamma(x); }
TENSOTRON_INLINE VecD pow(VecD x, VecD y) { return lanes_pow(x, y); }
TENSOTRON_INLINE VecD atan2(VecD y, VecD x) { return lanes_atan2(y, x); }
TENSOTRON_INLINE VecD hypot(VecD x, VecD y) { return lanes_hypot(x, y); }

// A closed-form start, then Halley steps on erf, or on erfc in the tails.
static __attribute__((noinline, unused)) void call_erfinv(double* p) {
  for (int k = 0; k < VecD::size; k++) {
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
TENSOTRON_INLINE VecD erfinv(VecD x) {
  alignas(TENSOTRON_VEC_BYTES) double lanes[VecD::size];
  x.store(lanes);
  call_erfinv(lanes);
  return VecD::load(lanes);
}

// ---- kernels for functions of float ---------------------------------------------------------
// In double, to about 2^-34: short polynomials, arguments within float's range, no special cases.

TENSOTRON_INLINE VecD log_wide(VecD x) {
  VecD e, f = log_reduced(x, e);
  VecD s = f / (f + VecD(2)), z = s * s;
  VecD r = z * poly2(z, z * z, 0x1.9114255e802abp-3, 0x1.c62b31b6daa4bp-3, 0x1.249411883b994p-2, 0x1.999996aa619b1p-2,
                   0x1.555555561dcd1p-1);
  return fma(e, VecD(0x1.62e42fefa39efp-1), fma(s, r, s + s));
}
// 2^x for |x| < 1000
TENSOTRON_INLINE VecD exp2_wide(VecD x) {
  VecD t = x + VecD(POW64), r = x - (t - VecD(POW64));
  VecD p = poly2(r, r * r, 0x1.fde5edbf8b9b4p-17, 0x1.445c840bea6efp-13, 0x1.5d8a860d9a84ep-10, 0x1.3b29f39d3a4bcp-7,
               0x1.c6b08ac05bb58p-5, 0x1.ebfbe07787a9p-3, 0x1.62e42ff0e1a01p-1);
  return fma(r, p, VecD(1)) * pow2(t);
}
// log((1 + a) / (1 - a)) / 2 for 0 <= a < 1, in one division: d 2^k is near n = 1 + a by the difference of their bits, and
// log(n / d) = k log(2) + 2 atanh((n - d 2^k) / (n + d 2^k)).
TENSOTRON_INLINE VecD atanh_wide(VecD a) {
  VecD n = VecD(1) + a, d = VecD(1) - a;
  VecD::Int k = (VecD::Int)((U64)(as_int(n) - as_int(d) + (1LL << 51)) >> 52);  // n >= d
  d = as_float(as_int(d) + (k << 52));
  VecD e = as_float(k | 0x4330000000000000) - VecD(0x1p52), s = (n - d) / (n + d), z = s * s;
  VecD r = z * poly2(z, z * z, 0x1.9f8306cf9ee3bp-3, 0x1.c50a30b998ad9p-3, 0x1.2497df4472af8p-2, 0x1.99998d1d2d48cp-2,
                   0x1.5555555956699p-1);
  return fma(e, VecD(0x1.62e42fefa39efp-2), fma(s * VecD(0.5), r, s));
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
