// Elementary functions on Vec<float>.
//
// exp, log, tanh, sigmoid, sin, cos and their kin work in float; functions that are rare or that
// lose digits in float (pow, hypot, the inverse hyperbolic ones) work on two vectors
// of double and round once at the end.
#pragma once
#include "math_special.h"

namespace tensotron { namespace TENSOTRON_ISA {

typedef Vec<float> VecF;

static constexpr float INF32 = __builtin_inff();
static constexpr float NAN32 = __builtin_nanf("");

// Adding 1.5 * 2^23 rounds to an integer and leaves that integer in the low bits. With the exponent's
// bias on top, shifting those bits to the exponent gives the power of two.
static constexpr float ROUND32 = 0x1.8p23f, POW32 = ROUND32 + 127;

// 2^n for t = n + POW32, n in [-126, 127]; a smaller bias in t divides the result by a power of two.
TENSOTRON_INLINE VecF pow2(VecF t) { return as_float(as_int(t) << 23); }

// ---- exponential ----------------------------------------------------------------------------

// x = n log(2) + r, |r| <= log(2) / 2: returns r, and t = n + round.
TENSOTRON_INLINE VecF exp_reduced(VecF x, VecF& t, float round = POW32) {
  t = fma(x, VecF(0x1.715476p+0f), VecF(round));
  VecF n = t - VecF(round);
  VecF r = fma(n, VecF(-0x1.62e4p-1f), x);  // log(2) in two parts, the first short enough for an exact product
  return fma(n, VecF(-0x1.7f7d1cp-20f), r);
}
// (e^r - 1 - r) / r^2
TENSOTRON_INLINE VecF exp_tail(VecF r) {
  return poly(r, 0x1.6bebdp-10f, 0x1.122796p-7f, 0x1.555674p-5f, 0x1.5554bp-3f, 0x1.fffffep-2f);
}
TENSOTRON_INLINE VecF expm1_poly(VecF r) { return fma(r * r, exp_tail(r), r); }
TENSOTRON_INLINE VecF exp_poly(VecF r) {
  VecF q = poly(r, 0x1.6a243p-10f, 0x1.123a02p-7f, 0x1.5558f2p-5f, 0x1.555492p-3f, 0x1.fffffcp-2f);
  return fma(fma(q, r, VecF(1)), r, VecF(1));
}
TENSOTRON_INLINE VecF exp2_poly(VecF r) {
  VecF q = poly(r, 0x1.414efep-13f, 0x1.5f03dap-10f, 0x1.3b2e0cp-7f, 0x1.c6af88p-5f, 0x1.ebfbdcp-3f);
  return fma(r, VecF(0x1.62e43p-1f), fma(r * r, q, r * VecF(-0x1.05c61p-29f))) + VecF(1);
}

// y * 2^n, rounded once, for y near 1 and t = n + POW32, n in [-160, 130].
TENSOTRON_INLINE VecF scale(VecF y, VecF t) {
#if defined(__AVX512F__)
  return VecF((VecF::Raw)_mm512_maskz_scalef_ps(0xffff, (__m512)y.v, (__m512)(t - VecF(POW32)).v));
#else
  // In two factors, each a normal number, so that only the second product can round.
  VecF::Int k = as_int(t) - 0x4b40007f, half = k >> 1;
  return y * as_float((half + 127) << 23) * as_float((k - half + 127) << 23);
#endif
}
TENSOTRON_INLINE VecF exp_clamped(VecF x) {
  VecF t, r = exp_reduced(max(VecF(-104.0f), min(VecF(89.0f), x)), t);  // NaN passes: the second operand
  return scale(exp_poly(r), t);
}
TENSOTRON_INLINE VecF exp2_clamped(VecF x) {
  x = max(VecF(-151.0f), min(VecF(129.0f), x));
  VecF t = x + VecF(POW32);
  return scale(exp2_poly(x - (t - VecF(POW32))), t);
}

#if defined(__AVX512F__)
TENSOTRON_INLINE VecF exp(VecF x) { return exp_clamped(x); }
TENSOTRON_INLINE VecF exp2(VecF x) { return exp2_clamped(x); }
#else
// Where no lane leaves the normal range, one factor does. The other case is out of line; its result
// for a lane within the range is the same number.
static __attribute__((noinline, unused)) void exp_any(float* x) { exp_clamped(VecF::load(x)).store(x); }
static __attribute__((noinline, unused)) void exp2_any(float* x) { exp2_clamped(VecF::load(x)).store(x); }
TENSOTRON_INLINE VecF exp(VecF x) {
  if (__builtin_expect(all(le(abs(x), VecF(87.0f))), 1)) {
    VecF t, r = exp_reduced(x, t);
    return exp_poly(r) * pow2(t);
  }
  alignas(TENSOTRON_VEC_BYTES) float lanes[VecF::size];
  x.store(lanes);
  exp_any(lanes);
  return VecF::load(lanes);
}
TENSOTRON_INLINE VecF exp2(VecF x) {
  if (__builtin_expect(all(le(abs(x), VecF(125.0f))), 1)) {
    VecF t = x + VecF(POW32);
    return exp2_poly(x - (t - VecF(POW32))) * pow2(t);
  }
  alignas(TENSOTRON_VEC_BYTES) float lanes[VecF::size];
  x.store(lanes);
  exp2_any(lanes);
  return VecF::load(lanes);
}
#endif

TENSOTRON_INLINE VecF expm1(VecF x) {
  VecF t, p = expm1_poly(exp_reduced(max(VecF(-18.0f), min(VecF(89.0f), x)), t, POW32 - 1));
  VecF s = pow2(t);  // 2^n / 2: 2^128 would overflow
  VecF r = fma(p, s, s - VecF(0.5f));
  return select(lt(abs(x), VecF(0x1p-25f)), x, r + r);
}

// h / (1 + h), h = (e^2a - 1) / 2, a = |x|. With 2a = n log(2) + 2r, h = 2^n p + (2^n - 1) / 2 is
// accurate near 0, p being (e^2r - 1) / 2. Where log(2) needed a second part, tanh is flat.
TENSOTRON_INLINE VecF tanh(VecF x) {
  VecF a = min(VecF(10.0f), abs(x));
  VecF t = fma(a, VecF(0x1.715476p+1f), VecF(POW32)), s = pow2(t);
  VecF r = fma(t - VecF(POW32), VecF(-0x1.62e43p-2f), a);
  VecF q = poly(r, 0x1.6bebc8p-5f, 0x1.1227c8p-3f, 0x1.555674p-2f, 0x1.5554bp-1f, 0x1.fffffep-1f);
  VecF h = fma(fma(r * r, q, r), s, fma(s, VecF(0.5f), VecF(-0.5f)));
  return xorsign(h / (h + VecF(1)), x);
}

TENSOTRON_INLINE VecF sigmoid(VecF x) {
  VecF e = exp(-abs(x));
  return select(lt(x, VecF(0)), e, VecF(1)) / (e + VecF(1));
}

// e^|x| / 4 - 1/4 and e^|x| / 4 have the range that sinh and cosh need beyond exp's.
TENSOTRON_INLINE VecF sinh(VecF x) {
  VecF t, a = abs(x), p = expm1_poly(exp_reduced(min(VecF(89.6f), a), t, POW32 - 2)), s = pow2(t);
  VecF h = fma(p, s, s - VecF(0.25f));
  VecF y = VecF(2) * (h + h / fma(h, VecF(4), VecF(1)));
  return copysign(select(lt(a, VecF(0x1p-13f)), a, y), x);
}
TENSOTRON_INLINE VecF cosh(VecF x) {
  VecF t, r = exp_reduced(min(VecF(89.6f), abs(x)), t, POW32 - 2);
  VecF e = exp_poly(r) * pow2(t);
  return fma(e, VecF(2), VecF(0.125f) / e);
}

// ---- logarithm ------------------------------------------------------------------------------

// x = 2^e (1 + f), 1 + f in [3/4, 3/2), for normal positive x.
TENSOTRON_INLINE VecF log_reduced(VecF x, VecF& e) {
#if defined(__AVX512F__)
  // Also right for denormals, 0 (e = -inf), infinity (e = inf), negative numbers and NaN (f = NaN).
  __m512 m = _mm512_maskz_getmant_ps(0xffff, (__m512)x.v, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  e = VecF((VecF::Raw)_mm512_maskz_getexp_ps(0xffff, (__m512)x.v)) - VecF((VecF::Raw)_mm512_maskz_getexp_ps(0xffff, m));
  return VecF((VecF::Raw)m) - VecF(1);
#else
  VecF::Int b = as_int(x) - 0x3f400000;
  e = VecF(__builtin_convertvector(b >> 23, VecF::Raw));
  return as_float((b & 0x007fffff) + 0x3f400000) - VecF(1);
#endif
}
// log(1 + f) = f + f^2 p(f)
TENSOTRON_INLINE VecF log_poly(VecF f, VecF z) {
  return poly2(f, z, -0x1.6fe5cep-5f, 0x1.abf67ep-4f, -0x1.0d9002p-3f, 0x1.2897bcp-3f, -0x1.54f24p-3f,
               0x1.99685ap-3f, -0x1.000024p-2f, 0x1.5555a6p-2f, -0.5f);
}
TENSOTRON_INLINE VecF log_combine(VecF e, VecF f) {
  VecF z = f * f, y = fma(z, log_poly(f, z), e * VecF(0x1.7f7d1cp-20f));
  return fma(e, VecF(0x1.62e4p-1f), f + y);
}
TENSOTRON_INLINE VecF log2_combine(VecF e, VecF f) {
  VecF z = f * f;
  VecF p = poly(f, -0x1.0961dp-4f, 0x1.34b5bep-3f, -0x1.84e584p-3f, 0x1.abe492p-3f, -0x1.ebe1acp-3f,
               0x1.27533ep-2f, -0x1.7154acp-2f, 0x1.ec7114p-2f, -0x1.715476p-1f);
  // The product's rounding error goes into the tail: e and f / log(2) may cancel.
  VecF c(0x1.715476p+0f), high = f * c;
  VecF tail = fma(z, p, fma(f, VecF(0x1.4ae0cp-26f), fma(f, c, -high)));
  return (e + high) + tail;
}
TENSOTRON_INLINE VecF log10_combine(VecF e, VecF f) {
  VecF z = f * f;
  VecF p = poly(f, 0x1.098e8p-6f, -0x1.44b7e2p-5f, 0x1.a23b44p-5f, -0x1.c59cd4p-5f, 0x1.fbc2f6p-5f, -0x1.2838fep-4f,
               0x1.63c472p-4f, -0x1.bcb904p-4f, 0x1.287a7cp-3f, -0x1.bcb7bp-3f);
  // What the two leading products and their sum drop goes into the tail: the logarithm of a power of ten is an integer.
  // Where e is infinite it drops NaN, and min takes the 1.
  VecF c(0x1.bcb7b2p-2f), high = f * c, whole = e * VecF(0x1.344p-2f), sum = whole + high;
  VecF dropped = min(high - (sum - whole), VecF(1)) + fma_once(f, c, -high);
  return sum + fma(e, VecF(0x1.3509f8p-18f), fma(z, p, fma(f, VecF(-0x1.5b235ep-27f), dropped)));
}

#if defined(__AVX512F__)
template <VecF combine(VecF, VecF)> TENSOTRON_INLINE VecF log_by(VecF x) {
  VecF e, f = log_reduced(x, e);
  return combine(e, f);
}
#else
// y = log(x) put right for zero, negative numbers, infinity and NaN.
TENSOTRON_INLINE VecF log_special(VecF x, VecF y) {
  y = select(gt(x, VecF(0)), y, select(eq(x, VecF(0)), VecF(-INF32), VecF(NAN32)));
  return select(eq(x, VecF(INF32)), x, y);
}

TENSOTRON_INLINE Mask<float> positive_normal(VecF x) { return ge(x, VecF(0x1p-126f)) & lt(x, VecF(INF32)); }
template <VecF combine(VecF, VecF)> static __attribute__((noinline)) void log_any(float* p) {
  VecF x = VecF::load(p), e;
  Mask<float> tiny = lt(x, VecF(0x1p-126f));
  VecF f = log_reduced(select(tiny, x * VecF(0x1p23f), x), e);
  e = e - select(tiny, VecF(23), VecF(0));
  log_special(x, combine(e, f)).store(p);
}
template <VecF combine(VecF, VecF)> TENSOTRON_INLINE VecF log_by(VecF x) {
  if (__builtin_expect(all(positive_normal(x)), 1)) {
    VecF e, f = log_reduced(x, e);
    return combine(e, f);
  }
  alignas(TENSOTRON_VEC_BYTES) float lanes[VecF::size];
  x.store(lanes);
  log_any<combine>(lanes);
  return VecF::load(lanes);
}
#endif
TENSOTRON_INLINE VecF log(VecF x) { return log_by<log_combine>(x); }
TENSOTRON_INLINE VecF log2(VecF x) { return log_by<log2_combine>(x); }
TENSOTRON_INLINE VecF log10(VecF x) { return log_by<log10_combine>(x); }

TENSOTRON_INLINE VecF log1p(VecF x) {
  VecF u = x + VecF(1), d = u - VecF(1);
  VecF c = (VecF(1) - (u - d)) + (x - d);  // u + c = 1 + x exactly
  VecF e, f = log_reduced(u, e);
  // The lost digits on the scale of f; where 2^-e would leave the range they no longer matter.
  f = fma(c, pow2(VecF(POW32) - min(e, VecF(100.0f))), f);
  VecF y = log_combine(e, f);
  y = select(gt(x, VecF(-1)), y, select(eq(x, VecF(-1)), VecF(-INF32), VecF(NAN32)));
  return copysign(select(eq(x, VecF(INF32)), x, y), x);
}

// ---- trigonometry ---------------------------------------------------------------------------

// Beyond these the reduction in float loses digits and a lane goes to the C library.
static constexpr float TRIG_LIMIT32 = TENSOTRON_HAS_FMA ? 65536.0f : 8192.0f;

// x = n pi/2 + r + low, |r| <= pi/4; the low bits of the result are n's.
TENSOTRON_INLINE VecF::Int trig_reduced(VecF x, VecF& r, VecF& low) {
  VecF t = fma(x, VecF(0x1.45f306p-1f), VecF(ROUND32)), n = t - VecF(ROUND32);
#if TENSOTRON_HAS_FMA
  VecF c(0x1.777a5cp-25f), high = fma(n, VecF(-0x1.921fb6p+0f), x);
  r = fma(n, c, high);
  VecF d = high - r;
  low = fma(n, VecF(0x1.ee59dap-50f), fma(n, c, d) + ((high - d) - r));
#else
  // Parts so short that the products are exact.
  VecF c = n * VecF(0x1.51p-22f), high = x - n * VecF(0x1.92p+0f) - n * VecF(0x1.fbp-12f);
  r = high - c;
  VecF d = high - r;
  low = ((d - c) + ((high - d) - r)) - n * VecF(0x1.0bp-34f) - n * VecF(0x1.184698p-44f);
#endif
  return as_int(t);
}
TENSOTRON_INLINE VecF::Int trig_reduced(VecF x, VecF& r) {
  VecF t = fma(x, VecF(0x1.45f306p-1f), VecF(ROUND32)), n = t - VecF(ROUND32);
#if TENSOTRON_HAS_FMA
  r = fma(n, VecF(-0x1.921fb6p+0f), x);
  r = fma(n, VecF(0x1.777a5cp-25f), r);
  r = fma(n, VecF(0x1.ee59dap-50f), r);
#else
  r = x - n * VecF(0x1.92p+0f);
  r = r - n * VecF(0x1.fbp-12f);
  r = r - n * VecF(0x1.51p-22f);
  r = r - n * VecF(0x1.0bp-34f);
  r = r - n * VecF(0x1.184698p-44f);
#endif
  return as_int(t);
}
TENSOTRON_INLINE VecF sin_poly(VecF r, VecF z) {
  VecF p = poly(z, 0x1.6cc962p-19f, -0x1.a00f5cp-13f, 0x1.111108p-7f, -0x1.555556p-3f);
  return fma(r * z, p, r);
}
TENSOTRON_INLINE VecF cos_poly(VecF z) {
  VecF p = poly(z, 0x1.99e106p-16f, -0x1.6c0c1p-10f, 0x1.55554ap-5f);
  return fma(z * z, p, fma(z, VecF(-0.5f), VecF(1)));
}
TENSOTRON_INLINE VecF sin(VecF x) {
  VecF a = abs(x), r;
  VecF::Int n = trig_reduced(a, r);
  VecF z = r * r;
  VecF y = select(odd(n), cos_poly(z), sin_poly(r, z));
  y = as_float(as_int(y) ^ ((n & 2) << 30) ^ (as_int(x) & Sign<float>::bit));
  Mask<float> far = gt(a, VecF(TRIG_LIMIT32));
  if (__builtin_expect(any(far), 0)) y = select(far, lanes_sin(x), y);
  return y;
}
TENSOTRON_INLINE VecF cos(VecF x) {
  VecF a = abs(x), r;
  VecF::Int n = trig_reduced(a, r);
  VecF z = r * r;
  VecF y = select(odd(n), sin_poly(r, z), cos_poly(z));
  y = as_float(as_int(y) ^ (((n + 1) & 2) << 30));
  Mask<float> far = gt(a, VecF(TRIG_LIMIT32));
  if (__builtin_expect(any(far), 0)) y = select(far, lanes_cos(x), y);
  return y;
}
// tan on r + low, |r| <= pi/4, and -1 / tan where n is odd; the sum's own rounding error corrects the quotient.
TENSOTRON_INLINE VecF tan(VecF x) {
  VecF a = abs(x), r, low;
  VecF::Int n = trig_reduced(a, r, low);
  VecF z = r * r;
  VecF p = poly(z, 0x1.24b014p-8f, -0x1.d76064p-15f, 0x1.659762p-7f, 0x1.5c860cp-6f, 0x1.bad4eap-5f, 0x1.110e0cp-3f,
               0x1.55555cp-2f);
  VecF tail = fma(r * z, p, fma(low, z * VecF(1.5f), low)), high = r + tail, inverse = VecF(1) / high;
  VecF rest = fma((high - r) - tail, inverse, fma_once(-high, inverse, VecF(1)));
  VecF y = xorsign(select(odd(n), -fma(inverse, rest, inverse), high), x);
  Mask<float> far = gt(a, VecF(TRIG_LIMIT32));
  if (__builtin_expect(any(far), 0)) y = select(far, lanes_tan(x), y);
  return y;
}

// asin(x) = x + x z p(z), z = x^2, |x| <= 1/2
TENSOTRON_INLINE VecF asin_poly(VecF z) {
  return poly(z, 0x1.3355ap-5f, 0x1.d92028p-7f, 0x1.049196p-5f, 0x1.6caed4p-5f, 0x1.33387cp-4f, 0x1.55554cp-3f);
}
// asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) above 1/2; beyond 1 the root is NaN.
TENSOTRON_INLINE Mask<float> asin_reduced(VecF a, VecF& z, VecF& r) {
  Mask<float> big = gt(a, VecF(0.5f));
  z = select(big, VecF(0.5f) - VecF(0.5f) * a, a * a);
  r = select(big, sqrt(z), a);
  return big;
}
TENSOTRON_INLINE VecF asin(VecF x) {
  VecF z, r;
  Mask<float> big = asin_reduced(abs(x), z, r);
  VecF tail = r * z * asin_poly(z);
  VecF high = (VecF(0x1.921fb6p+0f) - (r + r)) - (tail + tail + VecF(0x1.777a5cp-25f));
  return copysign(select(big, high, r + tail), x);
}
TENSOTRON_INLINE VecF acos(VecF x) {
  VecF z, r;
  Mask<float> big = asin_reduced(abs(x), z, r);
  VecF y = fma(r * z, asin_poly(z), r);
  VecF near1 = y + y;
  VecF near0 = VecF(0x1.921fb6p+0f) - (xorsign(y, x) + VecF(0x1.777a5cp-25f));
  VecF far1 = VecF(0x1.921fb6p+1f) - (near1 + VecF(0x1.777a5cp-24f));
  return select(big, select(lt(x, VecF(0)), far1, near1), near0);
}

// atan on [0, 1]
TENSOTRON_INLINE VecF atan_poly(VecF r) {
  VecF z = r * r;
  VecF p = poly(z, -0x1.d6327p-10f, 0x1.65a7d2p-7f, -0x1.fed2cep-6f, 0x1.dacaa6p-5f, -0x1.5834cep-4f,
               0x1.c09a14p-4f, -0x1.2421b8p-3f, 0x1.9991fep-3f, -0x1.55553ep-2f);
  return fma(r * z, p, r);
}
TENSOTRON_INLINE VecF atan(VecF x) {
  VecF a = abs(x);
  Mask<float> big = gt(a, VecF(1));
  VecF y = atan_poly(select(big, VecF(1) / a, a));
  return copysign(select(big, VecF(0x1.921fb6p+0f) - (y + VecF(0x1.777a5cp-25f)), y), x);
}
TENSOTRON_INLINE VecF atan2(VecF y, VecF x) {
  VecF a = abs(x), b = abs(y), high = max(a, b), low = min(a, b);
  VecF q = low / high;
  q = select(eq(high, VecF(0)), high, q);
  q = select(eq(low, VecF(INF32)), VecF(1), q);
  VecF r = atan_poly(q);
  r = select(gt(b, a), VecF(0x1.921fb6p+0f) - (r + VecF(0x1.777a5cp-25f)), r);
  r = select(lt(copysign(VecF(1), x), VecF(0)), VecF(0x1.921fb6p+1f) - (r + VecF(0x1.777a5cp-24f)), r);
  return copysign(select(isnan(x) | isnan(y), VecF(NAN32), r), y);
}

// ---- in double ------------------------------------------------------------------------------

TENSOTRON_INLINE VecD asinh_wide(VecD a) { return log_wide(a + sqrt(fma(a, a, VecD(1)))); }
TENSOTRON_INLINE VecF asinh(VecF x) {
  VecF a = abs(x), y = narrow(asinh_wide(widen_low(a)), asinh_wide(widen_high(a)));
  y = select(lt(a, VecF(0x1p-8f)), fma(a * a * a, VecF(-0x1.555556p-3f), a), y);
  return copysign(select(lt(a, VecF(INF32)), y, a), x);
}
TENSOTRON_INLINE VecD acosh_wide(VecD x) { return log_wide(x + sqrt(fma(x, x, VecD(-1)))); }
TENSOTRON_INLINE VecF acosh(VecF x) {
  VecF y = narrow(acosh_wide(widen_low(x)), acosh_wide(widen_high(x)));
  return select(lt(x, VecF(INF32)), select(ge(x, VecF(1)), y, VecF(NAN32)), x);
}
TENSOTRON_INLINE VecF atanh(VecF x) {
  VecF a = abs(x), y = narrow(atanh_wide(widen_low(a)), atanh_wide(widen_high(a)));
  y = select(lt(a, VecF(0x1p-8f)), fma(a * a * a, VecF(0x1.555556p-2f), a), y);
  return copysign(select(lt(a, VecF(1)), y, select(eq(a, VecF(1)), VecF(INF32), VecF(NAN32))), x);
}

// Above 1: 1 - r(a)^4, which wants r's digits only where r is not small; at 4 erf is 1.
TENSOTRON_INLINE VecF erf(VecF x) {
  VecF a = abs(x), z = x * x, b = min(VecF(4), a);
  VecF low = poly(z, 0x1.4ae4dep-14f, -0x1.a485eep-11f, 0x1.5419f4p-8f, -0x1.b7fbb4p-6f, 0x1.ce2d2p-4f, -0x1.81273ep-2f,
                      0x1.06eba8p-3f);
  VecF s = poly4<2>(b, b * b, 0x1.624ab4p-17f, -0x1.b9b294p-13f, 0x1.ace6aep-10f, -0x1.72a724p-8f, 0x1.4bffe2p-8f, 0x1.7dfd5ep-7f,
                    0x1.4d5f3cp-6f, -0x1.f0fbep-4f, -0x1.208272p-2f);
  VecF r = fma(b, s, VecF(1)), dropped = fma(b, s, VecF(1) - r);
  r = fma(r, r, (r + r) * dropped);
  return copysign(select(lt(a, VecF(1)), fma(a, low, a), fma(-r, r, VecF(1))), x);
}
// erfinv(x) / x is a function of w = -log(1 - x^2), smooth in w near 0 and in sqrt(w) in the tails.
TENSOTRON_INLINE VecF erfinv(VecF x) {
  VecF a = abs(x), e, f = log_reduced((VecF(1) - a) * (VecF(1) + a), e), w = -log_combine(e, f);
  VecF v = sqrt(max(w, VecF(0))) - VecF(3.125f);
  VecF low = poly2(w, w * w, -0x1.2e0e7cp-27f, 0x1.daa8a9p-23f, -0x1.09469dp-19f, 0x1.0b4f58p-18f, 0x1.75d71ep-15f,
                 -0x1.0b5933p-13f, -0x1.31f5fbp-9f, 0x1.7a6d21p-7f, 0x1.db2a10p-3f, 0x1.c5bf88p-1f);
  VecF high = poly2(v, v * v, 0x1.e985dap-14f, -0x1.77a6aep-13f, -0x1.3dc098p-12f, 0x1.59a262p-10f, -0x1.4bcf4ep-9f,
                  0x1.ef366cp-9f, -0x1.5b479ep-8f, 0x1.cdff7ap-8f, 0x1.00f3b4p+0f, 0x1.7aaa3cp+1f);
  VecF y = a * select(lt(w, VecF(5)), low, high);
  return copysign(select(lt(a, VecF(1)), y, select(eq(a, VecF(1)), VecF(INF32), VecF(NAN32))), x);
}

// erfc(a) = exp(-a^2) q p(t), q = 1 / (a + 3), t = q - 0.17448992, for 0 <= a <= 10.1. Every t is exact, and so is
// r = n log(2) + a^2 with a rounded log(2) and a^2. What these two drop goes into r afterwards, and q's error with it: it is
// known (1 - q (a + 3)) and counts 3.4 times (a = 0) to 1.3 times (a = 10.1). What g = q p(t) drops is kept beside it.
TENSOTRON_INLINE VecF erfc(VecF x) {
  VecF a = min(VecF(10.1f), abs(x)), d = a + VecF(3), q = VecF(1) / d;
  VecF t = q - VecF(0x1.655af8p-3f), c(0x1.1de702p+0f);
  VecF s = poly4<2>(t, t * t, 0x1.9bc2dp+11f, -0x1.257a66p+9f, -0x1.c4c6d6p+9f, -0x1.a64d0ap+6f, 0x1.99c38ep+7f, 0x1.4602c8p+7f,
                0x1.20243cp+6f, 0x1.6e147ap+4f, 0x1.694ee6p+2f);
  VecF p = fma(t, s, c), g = p * q, low = fma(fma(t, s, c - p), q, fma_once(p, q, -g));
  VecF wrong = fma((d - VecF(3)) - a, q, fma_once(-q, d, VecF(1)));
  VecF z = a * a, k = fma(z, VecF(-0x1.715476p+0f), VecF(POW32)), n = k - VecF(POW32);
  VecF rest = fma(n, VecF(0x1.05c61p-29f), -fma_once(a, a, -z));
  VecF r = fma_once(n, VecF(0x1.62e43p-1f), z) - fma(wrong, fma(t, VecF(8.317f), VecF(1.988f)), rest);
  VecF e = fma(r * r, poly2(r, r * r, 0x1.6bebdp-10f, -0x1.122796p-7f, 0x1.555674p-5f, -0x1.5554bp-3f, 0x1.fffffep-2f), -r);  // e^-r - 1
  VecF y = scale(g + fma(g, e, low), k);
  return select(lt(x, VecF(0)), VecF(2) - y, y);
}

// 2^(y log2 x) for x > 0. Outside +-200 the result has left float's range.
TENSOTRON_INLINE VecD pow_wide(VecD x, VecD y) {
  VecD v = y * (log_wide(x) * VecD(0x1.71547652b82fep+0));
  return exp2_wide(max(VecD(-200), min(VecD(200), v)));
}
TENSOTRON_INLINE VecF pow(VecF x, VecF y) {
  VecF a = abs(x);
  VecF r = narrow(pow_wide(widen_low(a), widen_low(y)), pow_wide(widen_high(a), widen_high(y)));
  Mask<float> below = lt(x, VecF(0));
  if (any(below)) {
    VecF half = VecF(0.5f) * y;
    VecF s = select(eq(trunc(half), half), r, -r);  // an odd exponent keeps the sign of the base
    r = select(below, select(eq(trunc(y), y), s, VecF(NAN32)), r);
  }
  // Zeros, infinities and NaN.
  Mask<float> regular = gt(a, VecF(0)) & lt(a, VecF(INF32)) & lt(abs(y), VecF(INF32));
  if (__builtin_expect(!all(regular), 0)) r = select(regular, r, lanes_pow(x, y));
  return r;
}

TENSOTRON_INLINE VecD hypot_wide(VecD x, VecD y) { return sqrt(fma(x, x, y * y)); }
TENSOTRON_INLINE VecF hypot(VecF x, VecF y) {
  VecF r = narrow(hypot_wide(widen_low(x), widen_low(y)), hypot_wide(widen_high(x), widen_high(y)));
  return select(isinf(x) | isinf(y), VecF(INF32), r);
}

// ---- through the C library ------------------------------------------------------------------

TENSOTRON_INLINE VecF lgamma(VecF x) { return lanes_lgamma(x); }

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
