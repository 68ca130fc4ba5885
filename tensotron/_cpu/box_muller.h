// Sixteen uniform numbers to sixteen normal ones, with the rounding of torch's CPU kernels.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#define RANDOM_INLINE static inline __attribute__((always_inline))
// Code for the machines on which torch runs its AVX2 or AVX-512 kernels. On arm64 FMA is a given.
#if defined(__x86_64__) || defined(__i386__)
#define RANDOM_WIDE static __attribute__((target("avx2,fma"), noinline))
#else
#define RANDOM_WIDE static __attribute__((noinline))
#endif

namespace tensotron {
namespace {

RANDOM_INLINE float tensotron_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
RANDOM_INLINE double tensotron_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

RANDOM_INLINE uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
RANDOM_INLINE float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

// Natural logarithm of a normal number in (0, 1]: mantissa in [sqrt(1/2), sqrt(2)), the polynomial of
// Cephes' logf. Where torch's compiler fuses, so does this.
RANDOM_INLINE float cephes_log(float x) {
  uint32_t u = bits_of(x);
  float e = static_cast<float>(static_cast<int32_t>(u >> 23) - 126);
  float m = float_of((u & 0x007fffffu) | 0x3f000000u);
  bool small = m < 0.707106781186547524f;
  float t = m - 1.0f;
  e = small ? e - 1.0f : e;
  t = small ? t + m : t;
  float z = t * t;
  float y = 7.0376836292e-2f;
  y = tensotron_fma(y, t, -1.1514610310e-1f);
  y = tensotron_fma(y, t, 1.1676998740e-1f);
  y = tensotron_fma(y, t, -1.2420140846e-1f);
  y = tensotron_fma(y, t, 1.4249322787e-1f);
  y = tensotron_fma(y, t, -1.6668057665e-1f);
  y = tensotron_fma(y, t, 2.0000714765e-1f);
  y = tensotron_fma(y, t, -2.4999993993e-1f);
  y = tensotron_fma(y, t, 3.3333331174e-1f);
  y = y * t;
  y = tensotron_fma(y, z, e * -2.12194440e-4f);
  y = tensotron_fma(z, -0.5f, y);
  return tensotron_fma(e, 0.693359375f, t + y);
}

// Sine and cosine of x in [0, 2 pi], by octants, with Cephes' polynomials.
RANDOM_INLINE void cephes_sincos(float x, float* sine, float* cosine) {
  int32_t octant = (static_cast<int32_t>(x * 1.27323954473516f) + 1) & ~1;
  float k = static_cast<float>(octant);
  x = tensotron_fma(k, -0.78515625f, x);  // pi / 4 in three parts
  x = tensotron_fma(k, -2.4187564849853515625e-4f, x);
  x = tensotron_fma(k, -3.77489497744594108e-8f, x);
  float z = x * x;
  float c = 2.443315711809948e-5f;
  c = tensotron_fma(c, z, -1.388731625493765e-3f);
  c = tensotron_fma(c, z, 4.166664568298827e-2f);
  c = tensotron_fma(c * z, z, -(z * 0.5f)) + 1.0f;
  float s = -1.9515295891e-4f;
  s = tensotron_fma(s, z, 8.3321608736e-3f);
  s = tensotron_fma(s, z, -1.6666654611e-1f);
  s = tensotron_fma(s * z, x, x);
  bool swapped = octant & 2;
  uint32_t sign_s = static_cast<uint32_t>(octant & 4) << 29;
  uint32_t sign_c = static_cast<uint32_t>(~(octant - 2) & 4) << 29;
  *sine = float_of(bits_of(swapped ? c : s) ^ sign_s);
  *cosine = float_of(bits_of(swapped ? s : c) ^ sign_c);
}

RANDOM_WIDE void box_muller_16_wide(float* data, float mean, float std) {
  for (int j = 0; j < 8; j++) {
    float radius = std::sqrt(-2.0f * cephes_log(1.0f - data[j]));
    float s, c;
    cephes_sincos(static_cast<float>(2.0 * M_PI) * data[j + 8], &s, &c);
    data[j] = tensotron_fma(radius * c, std, mean);
    data[j + 8] = tensotron_fma(radius * s, std, mean);
  }
}

template <class T>
static void box_muller_16_libm(T* data, T mean, T std) {
  for (int j = 0; j < 8; j++) {
    T radius = std::sqrt(-2 * std::log(1 - data[j]));
    T theta = static_cast<T>(2.0 * M_PI * data[j + 8]);
    T c = std::cos(theta), s = std::sin(theta);
    data[j] = std::fma(radius * c, std, mean);
    data[j + 8] = std::fma(radius * s, std, mean);
  }
}

RANDOM_INLINE void box_muller_16(double* data, double mean, double std, bool) {
  box_muller_16_libm(data, mean, std);
}
RANDOM_INLINE void box_muller_16(float* data, float mean, float std, bool wide) {
#if defined(__x86_64__) || defined(__i386__)
  if (wide) return box_muller_16_wide(data, mean, std);
#endif
  box_muller_16_libm(data, mean, std);
}

}  // namespace
}  // namespace tensotron
