// Elementary functions on Vec<double>: inverse trigonometric and hyperbolic ones, the error functions, powers.
//
// Where an error of one rounding must not grow, a value is two doubles: their sum, to 2^-100, is the value. What needs fma for
// that goes through the C library without it.
#pragma once
#include "math_f64.h"

namespace tensotron { namespace TENSOTRON_ISA {

// pi / 2 and log(2), in two parts.
static constexpr double HALF_PI = 0x1.921fb54442d18p+0, HALF_PI_LOW = 0x1.1a62633145c07p-54;
static constexpr double LN2_HIGH = 0x1.62e42ffp-1, LN2_LOW = -0x1.718432a1b0e26p-35;

// ---- inverse trigonometric ------------------------------------------------------------------

// (asin(r) / r - 1) / r^2 for z = r^2 <= 1/4
TENSOTRON_INLINE VecD asin_series(VecD z) {
  return poly4<1>(z, z * z, 0x1.db1fa03114e98p-6, -0x1.f28405b5e198ep-7, 0x1.20fa794c75013p-6, 0x1.5fd163120ddcdp-8,
               0x1.52f49965e0d53p-7, 0x1.780a2e1ff7a53p-7, 0x1.c9d1fc8281b7ep-7, 0x1.1c4d1ba12637bp-6, 0x1.6e8bb2eddcbebp-6,
               0x1.f1c71c161912cp-6, 0x1.6db6db6e3ee7cp-5, 0x1.3333333332e3fp-4, 0x1.5555555555556p-3);
}
// asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) above 1/2; beyond 1 the root is NaN. asin of what is reduced is r + tail.
TENSOTRON_INLINE Mask<double> asin_reduced(VecD a, VecD& r, VecD& tail) {
  Mask<double> big = gt(a, VecD(0.5));
  VecD half = fma(a, VecD(-0.5), VecD(0.5)), z = select(big, half, a * a);
  r = select(big, root(half), a);
  tail = r * z * asin_series(z);
  return big;
}
TENSOTRON_INLINE VecD asin(VecD x) {
  VecD r, tail, low;
  Mask<double> big = asin_reduced(abs(x), r, tail);
  VecD high = sum(VecD(HALF_PI), VecD(-2) * r, low);
  return copysign(select(big, high + fma(tail, VecD(-2), low + VecD(HALF_PI_LOW)), r + tail), x);
}
// pi/2 - asin(x), or 2 asin(r) and pi less that.
TENSOTRON_INLINE VecD acos(VecD x) {
  VecD r, tail, low;
  Mask<double> big = asin_reduced(abs(x), r, tail);
  VecD far = select(lt(x, VecD(0)), VecD(2), VecD(0)), quarters = select(big, far, VecD(1));
  VecD factor = select(big, VecD(2), VecD(-1));
  VecD high = sum(quarters * VecD(HALF_PI), xorsign(r * factor, x), low);
  return high + fma(quarters, VecD(HALF_PI_LOW), low + xorsign(tail * factor, x));
}

// atan(q) - q for 0 <= q <= 1
TENSOTRON_INLINE VecD atan_tail(VecD q) {
  VecD z = q * q;
  VecD p = poly4<6>(z, z * z, 0x1.40005b6a5a8ebp-16, -0x1.b78c3da7708fbp-13, 0x1.1e37bf510ee37p-10, -0x1.d9091f0b1f8a1p-9,
                 0x1.1902150f85bf2p-7, -0x1.0301748bf8e81p-6, 0x1.88ab0ed49785bp-6, -0x1.01e2246755edp-5, 0x1.341dbbc953e38p-5,
                 -0x1.5d6f1d4117fcbp-5, 0x1.8442ee2c1b72dp-5, -0x1.aec54c0e6e7abp-5, 0x1.e1d1fec25243dp-5,
                 -0x1.111020ca57354p-4, 0x1.3b139d1fb0c2p-4, -0x1.745d1625bd695p-4, 0x1.c71c71bd3a47fp-4,
                 -0x1.249249247b476p-3, 0x1.99999999996fp-3, -0x1.5555555555555p-2);
  return q * z * p;
}
TENSOTRON_INLINE VecD atan(VecD x) {
  VecD a = abs(x), low;
  Mask<double> big = gt(a, VecD(1));
  VecD q = select(big, VecD(1) / a, a), tail = atan_tail(q), high = sum(VecD(HALF_PI), -q, low);
  return copysign(select(big, high + ((low + VecD(HALF_PI_LOW)) - tail), q + tail), x);
}
TENSOTRON_INLINE VecD atan2(VecD y, VecD x) {
  VecD a = abs(x), b = abs(y), top = max(a, b), bottom = min(a, b), low;
  VecD q = bottom / top;
  q = select(eq(top, VecD(0)), top, q);
  q = select(eq(bottom, VecD(INF64)), VecD(1), q);
  // The angle of the nearer axis, less or plus what is left.
  Mask<double> steep = gt(b, a), left = lt(copysign(VecD(1), x), VecD(0));
  VecD quarters = select(steep, VecD(1), select(left, VecD(2), VecD(0))), sign = select(steep ^ left, VecD(-1), VecD(1));
  VecD high = sum(quarters * VecD(HALF_PI), q * sign, low);
  VecD r = high + fma(quarters, VecD(HALF_PI_LOW), fma(atan_tail(q), sign, low));
  return copysign(select(isnan(x) | isnan(y), VecD(NAN64), r), y);
}

// ---- inverse hyperbolic ---------------------------------------------------------------------

#if TENSOTRON_HAS_FMA
// log(x + lost + sqrt(t)), t = high + low, or log(2x) where the difference is lost.
TENSOTRON_INLINE VecD log_with_root(VecD x, VecD high, VecD low) {
  Mask<double> big = gt(x, VecD(0x1p30));
  VecD s = root(high), dropped;
  VecD rest = (fma(-s, s, high) + low) / max(s + s, VecD(0x1p-500));
  VecD v = sum(max(s, x), min(s, x), dropped), zero(0);
  v = sum(v, dropped + rest, dropped);
  VecD y_low, y = log_parts<Natural, true>(select(big, x, v), select(big, zero, dropped), y_low);
  y = sum(y, select(big, VecD(LN2_HIGH), zero), dropped);
  return y + (dropped + (y_low + select(big, VecD(LN2_LOW), zero)));
}
TENSOTRON_INLINE VecD asinh(VecD x) {
  VecD a = abs(x), low, dropped, square = product(min(a, VecD(0x1p500)), min(a, VecD(0x1p500)), low);
  VecD t = sum(max(square, VecD(1)), min(square, VecD(1)), dropped);
  VecD y = log_with_root(a, t, dropped + low);
  return copysign(select(lt(a, VecD(INF64)), y, a), x);
}
TENSOTRON_INLINE VecD acosh(VecD x) {
  VecD low, dropped, square = product(min(x, VecD(0x1p500)), min(x, VecD(0x1p500)), low);
  VecD t = sum(square, VecD(-1), dropped);
  VecD y = log_with_root(x, t, dropped + low);
  return select(lt(x, VecD(INF64)), select(ge(x, VecD(1)), y, VecD(NAN64)), x);
}
// With n = 1 + a and d = (1 - a) 2^k near it, log(n / (1 - a)) / 2 = k log(2) / 2 + atanh((n - d) / (n + d)). n - d is exact.
TENSOTRON_INLINE VecD atanh(VecD x) {
  VecD a = abs(x), n_low, d_low, n = sum(VecD(1), a, n_low), d = sum(VecD(1), -a, d_low);
  VecD::Int k = (VecD::Int)((U64)(as_int(n) - as_int(d) + (1LL << 51)) >> 52);  // n >= d
  VecD e = as_float(k | 0x4330000000000000) - VecD(0x1p52), power = as_float((k + 1023) << 52);
  d = d * power, d_low = d_low * power;
  VecD bottom_low, bottom = sum(max(n, d), min(n, d), bottom_low), top = n - d;
  VecD inverse = VecD(1) / bottom, s = top * inverse, z = s * s;
  VecD rest = fma(-s, bottom, top) + fma(-s, bottom_low + (n_low + d_low), n_low - d_low);
  VecD r = poly2(z, z * z, 0x1.172c25381e68ep-4, 0x1.0e79629018536p-4, 0x1.3b2ac9f9d3904p-4, 0x1.745ca5ed620fep-4,
                 0x1.c71c72f4577b4p-4, 0x1.24924923cdffdp-3, 0x1.9999999999fbp-3, 0x1.5555555555555p-2);
  VecD low, high = sum(e * VecD(0.5 * LN2_HIGH), s, low);
  VecD y = high + fma(e, VecD(0.5 * LN2_LOW), fma(rest, inverse, fma(s * z, r, low)));
  return copysign(select(lt(a, VecD(1)), y, select(eq(a, VecD(1)), VecD(INF64), VecD(NAN64))), x);
}
#else
TENSOTRON_INLINE VecD asinh(VecD x) { return lanes_asinh(x); }
TENSOTRON_INLINE VecD acosh(VecD x) { return lanes_acosh(x); }
TENSOTRON_INLINE VecD atanh(VecD x) { return lanes_atanh(x); }
#endif

// ---- error functions ------------------------------------------------------------------------

// Above 1.2: 1 - r(a)^8, which wants r's digits only where r is not small; at 5.95 erf is 1.
TENSOTRON_INLINE VecD erf(VecD x) {
  VecD a = abs(x), z = x * x, b = min(VecD(5.95), a);
  VecD low = poly4<6>(z, z * z, 0x1.adfc65bc8b255p-35, -0x1.242486ec0824ap-30, 0x1.efd5dbe21c7a5p-27, -0x1.5e3e6b1821b9ap-23,
                      0x1.b9bf3237e6b28p-20, -0x1.f4cedd00bc7b4p-17, 0x1.f9a2f0a4a279cp-14, -0x1.c02db1c93cabep-11,
                      0x1.565bccff8e337p-8, -0x1.b82ce31211edbp-6, 0x1.ce2f21a040d09p-4, -0x1.812746b0379b4p-2,
                      0x1.06eba8214db68p-3);
  VecD s = poly4<1>(b, b * b, 0x1.18b8a841f349fp-40, -0x1.8aa36bd741bdfp-35, 0x1.f1ff68b76bd5p-31, -0x1.69e4bdec860aap-27,
                    0x1.3f4b50c6471bep-24, -0x1.3eb0be15734p-22, 0x1.b5adaeb490079p-22, 0x1.f05abdf3e36dp-20,
                    -0x1.1150b7832245p-16, 0x1.f79afc14e2eb8p-14, -0x1.291063b7064adp-11, 0x1.07827b1453ceap-12,
                    0x1.ac2a899fab279p-8, -0x1.0d5acd7335291p-9, -0x1.1d434a304ddedp-4, -0x1.20dba660899e5p-3);
  VecD one(0x1.fffff2ac5abb2p-1), r = fma(b, s, one), dropped = fma(b, s, one - r);
  r = fma(r, r, (r + r) * dropped), r = r * r;
  return copysign(select(lt(a, VecD(1.2)), fma(a, low, a), fma(-r, r, VecD(1))), x);
}

// erfc(a) = exp(-a^2) q p(t), q = 1 / (a + 3.75), t = q - 1/16, for 0 <= a <= 27.3. What the last steps up to g = q p(t) drop is
// kept beside g. q's own error is known (1 - q (a + 3.75)), counts 4.2 times (a = 0) to 1.1 times (a = 27.3), by a parabola, and
// goes into the exponential.
TENSOTRON_INLINE VecD erfc(VecD x) {
#if TENSOTRON_HAS_FMA
  VecD a = min(VecD(27.3), abs(x)), d = a + VecD(3.75), q = VecD(1) / d, t = q - VecD(0.0625);
  VecD s = poly4<3>(t, t * t, -0x1.487ebd2c3ea47p+34, 0x1.4f265c2da4f6ap+35, -0x1.25ae7fa77fd38p+35, 0x1.1879f760cc43cp+34,
                 -0x1.31e87faf6247fp+32, 0x1.87738886ead26p+29, -0x1.c6f335d5ff99p+26, 0x1.2cb1bc42b264dp+24,
                 0x1.1c7c762a01bdp+21, -0x1.5f57e4cc01f63p+16, -0x1.a1c74674f544dp+18, -0x1.49fb5c0ac38edp+17,
                 -0x1.fc55d767eb00cp+13, 0x1.2d442312ed6b7p+14, 0x1.dbadcd9bfc582p+13, 0x1.c3d4f4c429c81p+12,
                 0x1.531df8c911264p+11, 0x1.b43f75494bfe1p+9, 0x1.f3854ce157062p+7, 0x1.0425eee5b2623p+6, 0x1.f3f5699184165p+3);
  VecD b(0x1.bf9689430ffafp+1), c(0x1.780c6345b4de9p-1), u = fma(t, s, b), p = fma(t, u, c), g_low, g = product(p, q, g_low);
  g_low = fma(fma(t, fma(t, s, b - u), fma(t, u, c - p)), q, g_low);
  VecD wrong = fma(-q, d, VecD(1)) - q * (a - (d - VecD(3.75)));
  VecD z_low, z = product(a, a, z_low), k, r = exp_sixteenths(-z, k);
  r = r + fma(wrong, fma(t, fma(t, VecD(44.9), VecD(5.396)), VecD(1.258)), fma(k - VecD(ROUND16), VecD(EXP_LOG2_LOW), -z_low));
  VecD power = lookup(EXP_HIGH64, as_int(k)), low, high = product(g, power, low);
  low = fma(g_low, power, fma(g, lookup(EXP_LOW64, as_int(k)), low));
  VecD y = scale_sixteenths(high + fma(high, fma(r * r, exp_quadratic(r, r * r), r), low), k);
  return select(lt(x, VecD(0)), VecD(2) - y, y);
#else
  return lanes_erfc(x);
#endif
}

// ---- powers ---------------------------------------------------------------------------------

#if TENSOTRON_HAS_FMA
// exp(y log(x)) for normal positive x and finite y: the logarithm to 2^-63, its product with y in two parts.
TENSOTRON_INLINE VecD pow_positive(VecD x, VecD y) {
  VecD::Int b = as_int(x) - LOG_FIRST, i = (VecD::Int)((U64)b >> 48);
  VecD e = log_exponent(b), m = as_float(as_int(x) - (b & ~0x000fffffffffffff)), c = lookup(LOG_SCALE64, i);
  VecD p_low, p = product(m, c, p_low), r_low, r = sum(p - VecD(1), p_low, r_low), z_low, z = product(r, r, z_low);
  VecD cubic = poly2(r, z, 0x1.762964e09208dp-4, -0x1.9a70c2d4a0d79p-4, 0x1.c71bc4c9006c9p-4, -0x1.ffffd2d26f511p-4,
                     0x1.2492493058f2dp-3, -0x1.55555557170cdp-3, 0x1.9999999999126p-3, -0x1.fffffffffff69p-3, 0x1.5555555555555p-2);
  VecD first, second, high = sum(fma(e, VecD(LN2_HIGH), lookup(LOG_HIGH64, i)), r, first);
  high = sum(high, VecD(-0.5) * z, second);
  VecD low = fma(-r, r_low, r_low) + fma(e, VecD(LN2_LOW), fma(VecD(-0.5), z_low, lookup(LOG_LOW64, i)));
  high = sum(high, fma(r * z, cubic, low + (first + second)), low);
  // Beyond these y log(x) is 0 or out of exp's range, and its parts would not be numbers.
  y = max(VecD(-0x1p65), min(VecD(0x1p65), y));
  VecD v_low, v = product(y, high, v_low);
  v_low = select(lt(abs(v), VecD(800)), fma(y, low, v_low), VecD(0));
  VecD t, rest, u = exp_sixteenths(max(VecD(-746), min(VecD(710), v)), t);
  u = sum(u, fma(t - VecD(ROUND16), VecD(EXP_LOG2_LOW), v_low), rest);
  VecD power = lookup(EXP_HIGH64, as_int(t));
  VecD tail = fma(power, u + fma(u * u, exp_quadratic(u, u * u), rest), lookup(EXP_LOW64, as_int(t)));
  return scale_sixteenths(power + tail, t);
}
TENSOTRON_INLINE VecD pow(VecD x, VecD y) {
  VecD a = abs(x), r = pow_positive(a, y);
  Mask<double> below = lt(x, VecD(0));
  if (any(below)) {
    VecD half = VecD(0.5) * y;
    VecD s = select(eq(trunc(half), half), r, -r);  // an odd exponent keeps the sign of the base
    r = select(below, select(eq(trunc(y), y), s, VecD(NAN64)), r);
  }
  // Zeros, denormals, infinities and NaN.
  Mask<double> regular = ge(a, VecD(0x1p-1022)) & lt(a, VecD(INF64)) & lt(abs(y), VecD(INF64));
  if (__builtin_expect(!all(regular), 0)) r = select(regular, r, lanes_pow(x, y));
  return r;
}
#else
TENSOTRON_INLINE VecD pow(VecD x, VecD y) { return lanes_pow(x, y); }
#endif

// ---- through the C library ------------------------------------------------------------------

TENSOTRON_INLINE VecD lgamma(VecD x) { return lanes_lgamma(x); }
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

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
