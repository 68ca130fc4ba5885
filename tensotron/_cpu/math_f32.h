// Elementary functions on Vec<float>.
#pragma once
#include "math_lanes.h"

namespace tensotron { namespace TENSOTRON_ISA {

typedef Vec<float> VecF;

// Horner's rule, coefficients from the highest degree down.
TENSOTRON_INLINE VecF poly(VecF, VecF c) { return c; }
template <class... C> TENSOTRON_INLINE VecF poly(VecF x, VecF c0, VecF c1, C... rest) {
  return poly(x, fma(c0, x, c1), rest...);
}

// Adding 1.5 * 2^23 rounds to an integer and leaves that integer in the low bits.
static constexpr float ROUND32 = 0x1.8p23f;

// 2^n for an integer n in [-126, 127] held in the low bits of t = n + ROUND32.
TENSOTRON_INLINE VecF pow2_rounded(VecF t) { return as_float((as_int(t) << 23) + 0x3f800000); }

// y * 2^n, rounded once, for y near 1 and integers n in [-160, 130].
TENSOTRON_INLINE VecF scale(VecF y, VecF n) {
#if defined(__AVX512F__)
  return VecF((VecF::Raw)_mm512_maskz_scalef_ps(0xffff, (__m512)y.v, (__m512)n.v));
#else
  // In two factors, each a normal number; only the second product can round.
  VecF::Int k = as_int(n + VecF(ROUND32)) - 0x4b400000, half = k >> 1;
  return y * as_float((half + 127) << 23) * as_float((k - half + 127) << 23);
#endif
}

// exp(x) = 2^n (1 + p), |p| < 0.42: returns p; x must be within the clamped range.
TENSOTRON_INLINE VecF exp_reduced(VecF x, VecF& t, VecF& n) {
  t = fma(x, VecF(0x1.715476p+0f), VecF(ROUND32));
  n = t - VecF(ROUND32);
  VecF r = fma(n, VecF(-0x1.62e4p-1f), x);  // ln 2 in two parts, the first short enough for an exact product
  r = fma(n, VecF(-0x1.7f7d1cp-20f), r);
  VecF q = poly(r, 0x1.6bebdp-10f, 0x1.122796p-7f, 0x1.555674p-5f, 0x1.5554bp-3f, 0x1.fffffep-2f);
  return fma(r * r, q, r);
}

TENSOTRON_INLINE VecF exp(VecF x) {
  VecF t, n;
  x = max(VecF(-104.0f), min(VecF(89.0f), x));  // NaN passes: it is the second operand
  VecF p = exp_reduced(x, t, n);
  return scale(p + VecF(1), n);
}

TENSOTRON_INLINE VecF exp2(VecF x) {
  x = max(VecF(-151.0f), min(VecF(129.0f), x));
  VecF t = x + VecF(ROUND32), n = t - VecF(ROUND32), r = x - n;
  VecF q = poly(r, 0x1.42e3p-13f, 0x1.5eec48p-10f, 0x1.3b2bcp-7f, 0x1.c6afb2p-5f, 0x1.ebfbdep-3f);
  VecF p = fma(r, VecF(0x1.62e430p-1f), fma(r * r, q, r * VecF(-0x1.05c610p-29f)));
  return scale(p + VecF(1), n);
}

TENSOTRON_INLINE VecF expm1(VecF x) {
  VecF t, n;
  VecF y = max(VecF(-18.0f), min(VecF(89.0f), x));
  VecF p = exp_reduced(y, t, n);
  // Halved, so that 2^128 stays in range.
  VecF s = as_float((as_int(t) << 23) + 0x3f000000);
  VecF r = fma(p, s, s - VecF(0.5f));
  return select(eq(x, VecF(0)), x, r + r);
}

TENSOTRON_INLINE VecF tanh(VecF x) {
  VecF t, n;
  VecF y = min(VecF(10.0f), abs(x));
  VecF p = exp_reduced(y + y, t, n), s = pow2_rounded(t);
  VecF e = fma(p, s, s - VecF(1));  // expm1(2|x|), accurate near 0
  return copysign(e / (e + VecF(2)), x);
}

TENSOTRON_INLINE VecF sigmoid(VecF x) {
  VecF e = exp(-abs(x));
  return select(lt(x, VecF(0)), e, VecF(1)) / (e + VecF(1));
}

// x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)): for positive finite x, denormals included.
TENSOTRON_INLINE VecF log_reduced(VecF x, VecF& e) {
  Mask<float> tiny = lt(x, VecF(0x1p-126f));
  VecF y = select(tiny, x * VecF(0x1p23f), x);
  VecF::Int b = as_int(y) - 0x3f3504f3;  // sqrt(1/2)
  e = VecF(__builtin_convertvector(b >> 23, VecF::Raw)) - select(tiny, VecF(23.0f), VecF(0));
  return as_float((b & 0x007fffff) + 0x3f3504f3) - VecF(1);
}
// log at zero, negative numbers, infinity and NaN.
TENSOTRON_INLINE VecF log_special(VecF x, VecF y) {
  y = select(lt(x, VecF(0)), VecF(__builtin_nanf("")), y);
  y = select(eq(x, VecF(0)), VecF(-__builtin_inff()), y);
  return select(lt(x, VecF(__builtin_inff())), y, x);
}
// log(1 + f) = f + log_tail(f)
TENSOTRON_INLINE VecF log_tail(VecF f) {
  VecF p = poly(f, -0x1.38b91ap-4f, 0x1.055c72p-3f, -0x1.0d8508p-3f, 0x1.22d9fp-3f, -0x1.547246p-3f,
               0x1.99a00ap-3f, -0x1.000226p-2f, 0x1.555554p-2f);
  VecF f2 = f * f;
  return fma(f2 * f, p, f2 * VecF(-0.5f));
}
TENSOTRON_INLINE VecF log(VecF x) {
  VecF e, f = log_reduced(x, e);
  VecF y = fma(e, VecF(0x1.62e4p-1f), f + fma(e, VecF(0x1.7f7d1cp-20f), log_tail(f)));
  return log_special(x, y);
}

TENSOTRON_INLINE VecF log2(VecF x) { return lanes_log2(x); }
TENSOTRON_INLINE VecF log10(VecF x) { return lanes_log10(x); }
TENSOTRON_INLINE VecF log1p(VecF x) { return lanes_log1p(x); }
TENSOTRON_INLINE VecF sin(VecF x) { return lanes_sin(x); }
TENSOTRON_INLINE VecF cos(VecF x) { return lanes_cos(x); }
TENSOTRON_INLINE VecF tan(VecF x) { return lanes_tan(x); }
TENSOTRON_INLINE VecF sinh(VecF x) { return lanes_sinh(x); }
TENSOTRON_INLINE VecF cosh(VecF x) { return lanes_cosh(x); }
TENSOTRON_INLINE VecF asin(VecF x) { return lanes_asin(x); }
TENSOTRON_INLINE VecF acos(VecF x) { return lanes_acos(x); }
TENSOTRON_INLINE VecF atan(VecF x) { return lanes_atan(x); }
TENSOTRON_INLINE VecF asinh(VecF x) { return lanes_asinh(x); }
TENSOTRON_INLINE VecF acosh(VecF x) { return lanes_acosh(x); }
TENSOTRON_INLINE VecF atanh(VecF x) { return lanes_atanh(x); }
TENSOTRON_INLINE VecF erf(VecF x) { return lanes_erf(x); }
TENSOTRON_INLINE VecF erfc(VecF x) { return lanes_erfc(x); }
TENSOTRON_INLINE VecF lgamma(VecF x) { return lanes_lgamma(x); }
TENSOTRON_INLINE VecF pow(VecF x, VecF y) { return lanes_pow(x, y); }
TENSOTRON_INLINE VecF atan2(VecF y, VecF x) { return lanes_atan2(y, x); }
TENSOTRON_INLINE VecF hypot(VecF x, VecF y) { return lanes_hypot(x, y); }
TENSOTRON_INLINE VecF fmod(VecF x, VecF y) { return lanes_fmod(x, y); }
TENSOTRON_INLINE VecF remainder(VecF x, VecF y) { return lanes_remainder(x, y); }

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
