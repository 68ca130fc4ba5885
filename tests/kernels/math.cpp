// Every function of math.h, and root, over arrays, by vectors and by scalars, for test_math_accuracy.py.
#include "tensotron/_cpu/rowfn.h"

#define EXPORT extern "C" __attribute__((visibility("default"))) void

namespace tensotron { namespace TENSOTRON_ISA {

#define ONE(name, T, prefix)                                                        \
  EXPORT prefix##_##name(const T* x, T* y, int n) {                                 \
    int i = 0;                                                                      \
    for (; i + Vec<T>::size <= n; i += Vec<T>::size) name(Vec<T>::load(x + i)).store(y + i); \
    if (i < n) name(Vec<T>::load(x + i, n - i)).store(y + i, n - i);                \
  }                                                                                 \
  EXPORT prefix##_scalar_##name(const T* x, T* y, int n) {                          \
    for (int i = 0; i < n; i++) y[i] = name(x[i]);                                  \
  }
#define TWO(name, T, prefix)                                                        \
  EXPORT prefix##_##name(const T* a, const T* b, T* y, int n) {                     \
    for (int i = 0; i < n; i += Vec<T>::size) {                                     \
      int k = n - i < Vec<T>::size ? n - i : Vec<T>::size;                          \
      name(Vec<T>::load(a + i, k), Vec<T>::load(b + i, k)).store(y + i, k);         \
    }                                                                               \
  }
#define UNARY(name) ONE(name, float, f32) ONE(name, double, f64)
#define BINARY(name) TWO(name, float, f32) TWO(name, double, f64)

UNARY(exp) UNARY(exp2) UNARY(expm1) UNARY(log) UNARY(log2) UNARY(log10) UNARY(log1p)
UNARY(sin) UNARY(cos) UNARY(tan) UNARY(asin) UNARY(acos) UNARY(atan)
UNARY(sinh) UNARY(cosh) UNARY(tanh) UNARY(asinh) UNARY(acosh) UNARY(atanh)
UNARY(sigmoid) UNARY(erf) UNARY(erfc) UNARY(erfinv)
UNARY(floor) UNARY(ceil) UNARY(trunc) UNARY(rint) UNARY(sqrt) UNARY(root) UNARY(abs)
EXPORT long_erf(const long double* x, long double* y, int n) { for (int i = 0; i < n; i++) y[i] = __builtin_erfl(x[i]); }
EXPORT long_erfc(const long double* x, long double* y, int n) { for (int i = 0; i < n; i++) y[i] = __builtin_erfcl(x[i]); }
BINARY(pow) BINARY(atan2) BINARY(hypot) BINARY(fmod) BINARY(remainder) BINARY(copysign)

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
