// The named functions of the op tables for one float: the third V, beside vectors and symbols.
#pragma once

#define TENSOTRON_DEVICE static __device__ __forceinline__
#define TENSOTRON_ROW_FUNCTION TENSOTRON_DEVICE

namespace tensotron {
namespace cuda {

#define COMPARE(name, op) \
  TENSOTRON_DEVICE bool name(float a, float b) { return a op b; }
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)
COMPARE(eq, ==)
COMPARE(ne, !=)
#undef COMPARE
TENSOTRON_DEVICE bool land(bool a, bool b) { return a && b; }
TENSOTRON_DEVICE bool lor(bool a, bool b) { return a || b; }
TENSOTRON_DEVICE float select(bool m, float a, float b) { return m ? a : b; }

// The C library's function of the same name, with an f behind it.
#define LIBRARY1(name) \
  TENSOTRON_DEVICE float name(float x) { return ::name##f(x); }
LIBRARY1(sqrt)
LIBRARY1(exp)
LIBRARY1(exp2)
LIBRARY1(expm1)
LIBRARY1(log)
LIBRARY1(log2)
LIBRARY1(log10)
LIBRARY1(log1p)
LIBRARY1(sin)
LIBRARY1(cos)
LIBRARY1(tan)
LIBRARY1(asin)
LIBRARY1(acos)
LIBRARY1(atan)
LIBRARY1(sinh)
LIBRARY1(cosh)
LIBRARY1(tanh)
LIBRARY1(asinh)
LIBRARY1(acosh)
LIBRARY1(atanh)
LIBRARY1(erf)
LIBRARY1(erfc)
LIBRARY1(floor)
LIBRARY1(ceil)
LIBRARY1(trunc)
LIBRARY1(rint)
#undef LIBRARY1
TENSOTRON_DEVICE float abs(float x) { return ::fabsf(x); }
TENSOTRON_DEVICE float pow(float a, float b) { return ::powf(a, b); }
TENSOTRON_DEVICE float atan2(float a, float b) { return ::atan2f(a, b); }
TENSOTRON_DEVICE float muladd(float a, float b, float c) { return ::fmaf(a, b, c); }
TENSOTRON_DEVICE float fmod(float a, float b) { return ::fmodf(a, b); }

TENSOTRON_DEVICE float sign(float x) { return float(x > 0) - float(x < 0); }
TENSOTRON_DEVICE float square(float x) { return x * x; }
TENSOTRON_DEVICE float root(float x) { return ::sqrtf(x); }
TENSOTRON_DEVICE float elu(float x, float negative, float positive, float inner) {
  return x < 0 ? ::expm1f(x * inner) * negative : x * positive;
}
TENSOTRON_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + ::expf(-x)); }

// Python's remainder: fmod moved to the sign of the divisor.
TENSOTRON_DEVICE float remainder(float a, float b) {
  float m = ::fmodf(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
// torch's device code is exact where its vector code overflows.
TENSOTRON_DEVICE float unless_overflow(float m, float, float, float) { return m; }
TENSOTRON_DEVICE float trunc_div(float a, float b) { return ::truncf(a / b); }
// Exact where a / b rounds up to an integer: torch divides what the remainder leaves.
TENSOTRON_DEVICE float floor_div(float a, float b) {
  if (b == 0) return a / b;
  float m = ::fmodf(a, b), quotient = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) quotient -= 1.0f;
  if (quotient == 0) return ::copysignf(0.0f, a / b);
  float whole = ::floorf(quotient);
  return quotient - whole > 0.5f ? whole + 1.0f : whole;
}

TENSOTRON_DEVICE float larger(float a, float b) { return a != a || a > b ? a : b; }
TENSOTRON_DEVICE float smaller(float a, float b) { return a != a || a < b ? a : b; }
template <class V> TENSOTRON_DEVICE V highest() { return HUGE_VALF; }
template <class V> TENSOTRON_DEVICE V lowest() { return -HUGE_VALF; }

}  // namespace cuda
}  // namespace tensotron
