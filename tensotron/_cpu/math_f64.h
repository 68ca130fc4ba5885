// Elementary functions on Vec<double>, and the kernels in double behind some functions of float.
#pragma once
#include "math_mod.h"
#include "math_table.h"

namespace tensotron { namespace TENSOTRON_ISA {

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

// e^|x| / 4, in two parts, has the range that sinh and cosh need beyond exp's.
TENSOTRON_INLINE VecD exp_quarter(VecD a, VecD& low) {
  VecD t, tail, dropped, high = exp_parts(a, t, tail), y = sum(high, tail, dropped), s = pow2_sixteenths(t, 2);
  low = dropped * s;
  return y * s;
}
TENSOTRON_INLINE VecD sinh(VecD x) {
  VecD a = abs(x), z = x * x, low, e = exp_quarter(min(VecD(711), a), low);
  VecD far = fma(e, VecD(2), -(VecD(0.125) / e - (low + low)));
  VecD near = fma(a * z, poly(z, 0x1.b4125922f6c08p-41, 0x1.611cb2bc7dbcfp-33, 0x1.ae6460fbec99bp-26, 0x1.71de3a4e13dccp-19,
                              0x1.a01a01a01ee81p-13, 0x1.11111111110fdp-7, 0x1.5555555555555p-3), a);
  return copysign(select(lt(a, VecD(1)), near, far), x);
}
TENSOTRON_INLINE VecD cosh(VecD x) {
  VecD low, e = exp_quarter(min(VecD(711), abs(x)), low);
  return fma(e, VecD(2), VecD(0.125) / e + (low + low));
}

// ---- trigonometry ---------------------------------------------------------------------------

// Beyond this a lane goes to the C library: n must have at most 20 bits.
static constexpr double TRIG_LIMIT64 = 1e6;

// x = n pi/2 + r + low, |r| <= pi/4; the low bits of the result are n's.
#if TENSOTRON_HAS_FMA
// x and n times the first 53 bits of pi/2 are multiples of 2^-53: their difference is exact.
static constexpr double PI_2_MIDDLE = 0x1.1a62633145c07p-54, PI_2_LOW = -0x1.f1976b7ed8fbcp-110;
TENSOTRON_INLINE VecD::Int trig_first(VecD x, VecD& n, VecD& high) {
  VecD t = fma(x, VecD(0x1.45f306dc9c883p-1), VecD(ROUND64));
  n = t - VecD(ROUND64);
  high = fma(n, VecD(-0x1.921fb54442d18p+0), x);
  return as_int(t);
}
TENSOTRON_INLINE VecD::Int trig_reduced(VecD x, VecD& r, VecD& low) {
  VecD n, high, p_low;
  VecD::Int i = trig_first(x, n, high);
  VecD p = product(n, VecD(-PI_2_MIDDLE), p_low);
  r = sum(high, p, low);  // where high is the smaller one, nothing much is dropped
  low = low + fma(n, VecD(-PI_2_LOW), p_low);
  return i;
}
TENSOTRON_INLINE VecD::Int trig_reduced(VecD x, VecD& r) {
  VecD n, high;
  VecD::Int i = trig_first(x, n, high);
  r = fma(n, VecD(-PI_2_LOW), fma(n, VecD(-PI_2_MIDDLE), high));
  return i;
}
#else
// The first two parts of pi/2 are so short that their products are exact, and what rounding r drops goes into the third.
TENSOTRON_INLINE VecD::Int trig_reduced(VecD x, VecD& r) {
  VecD t = fma(x, VecD(0x1.45f306dc9c883p-1), VecD(ROUND64)), n = t - VecD(ROUND64);
  VecD c(-0x1.0b4611a6p-34), high = fma(n, VecD(-0x1.921fb544p+0), x);
  r = fma(n, c, high);
  r = r + fma(n, VecD(-0x1.3198a2e037073p-69), fma(n, c, high - r));
  return as_int(t);
}
#endif
TENSOTRON_INLINE VecD sin_series(VecD z) {
  return poly2(z, z * z, -0x1.aa9bb87fcbb7ap-41, 0x1.61207f355767ep-33, -0x1.ae64527938d5ap-26, 0x1.71de3a53212d2p-19,
               -0x1.a01a01a0189b1p-13, 0x1.111111111110bp-7, -0x1.5555555555555p-3);
}
TENSOTRON_INLINE VecD sin_poly(VecD r, VecD z) { return fma(r * z, sin_series(z), r); }
TENSOTRON_INLINE VecD cos_series(VecD z) {
  return poly2(z, z * z, -0x1.8f9ddb56e7460p-37, 0x1.1ee9caf07b490p-29, -0x1.27e4f7d862742p-22, 0x1.a01a019c6b70bp-16,
               -0x1.6c16c16c14e99p-10, 0x1.555555555554ap-5);
}
TENSOTRON_INLINE VecD cos_poly(VecD z) { return fma(z, fma(z, cos_series(z), VecD(-0.5)), VecD(1)); }
TENSOTRON_INLINE VecD sin(VecD x) {
  VecD a = abs(x), r;
  VecD::Int n = trig_reduced(a, r);
  VecD z = r * r;
  VecD y = select(odd(n), cos_poly(z), sin_poly(r, z));
  y = as_float(as_int(y) ^ (((n << 62) ^ as_int(x)) & Sign<double>::bit));
  Mask<double> far = gt(a, VecD(TRIG_LIMIT64));
  if (__builtin_expect(any(far), 0)) y = select(far, lanes_sin(x), y);
  return y;
}
TENSOTRON_INLINE VecD cos(VecD x) {
  VecD a = abs(x), r;
  VecD::Int n = trig_reduced(a, r);
  VecD z = r * r;
  VecD y = select(odd(n), sin_poly(r, z), cos_poly(z));
  y = as_float(as_int(y) ^ (((n + 1) << 62) & Sign<double>::bit));
  Mask<double> far = gt(a, VecD(TRIG_LIMIT64));
  if (__builtin_expect(any(far), 0)) y = select(far, lanes_cos(x), y);
  return y;
}

// tan on r + low, and -1 / tan where n is odd; the sum's own rounding error corrects the quotient.
TENSOTRON_INLINE VecD tan(VecD x) {
#if TENSOTRON_HAS_FMA
  VecD a = abs(x), r, low;
  VecD::Int n = trig_reduced(a, r, low);
  VecD z = r * r;
  VecD p = poly4<1>(z, z * z, 0x1.34f268adde414p-16, -0x1.215900e7df48ap-15, 0x1.24e8c280d523bp-14, -0x1.35dd74b79af04p-18,
                    0x1.fa934ca509af1p-14, 0x1.e2b5f153fa7b1p-13, 0x1.36929c3dda531p-11, 0x1.7d86eb8edd197p-10,
                    0x1.d6d58eab704e2p-9, 0x1.226e2c9113f62p-7, 0x1.664f48b7eeedap-6, 0x1.ba1ba1b9743cfp-5,
                    0x1.111111111178cp-3, 0x1.5555555555554p-2);
  VecD tail = fma(r * z, p, fma(low, z * VecD(1.5), low)), dropped, high = sum(r, tail, dropped), inverse = VecD(1) / high;
  VecD rest = fma(-inverse, dropped, fma(-high, inverse, VecD(1)));
  VecD y = as_float(as_int(select(odd(n), fma(inverse, rest, inverse), high)) ^ (n << 63) ^ (as_int(x) & Sign<double>::bit));
  Mask<double> far = gt(a, VecD(TRIG_LIMIT64));
  if (__builtin_expect(any(far), 0)) y = select(far, lanes_tan(x), y);
  return y;
#else
  return lanes_tan(x);
#endif
}

// ---- kernels for functions of float ---------------------------------------------------------
// In double, to about 2^-34: short polynomials, arguments within float's range, no special cases.

// x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for normal positive x.
TENSOTRON_INLINE VecD log_reduced(VecD x, VecD& e) {
  VecD::Int b = as_int(x) - 0x3fe6a09e667f3bcd;
  // The exponent, made positive for a logical shift, becomes a double by way of 2^52's low bits.
  VecD::Int k = (VecD::Int)((U64)(b + (1024LL << 52)) >> 52);
  e = as_float(k | 0x4330000000000000) - VecD(0x1p52 + 1024);
  return as_float((b & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd) - VecD(1);
}
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
