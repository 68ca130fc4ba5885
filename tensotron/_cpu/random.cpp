// The distributions. Compiled once: what is fast here is the generator, not the arithmetic, and the
// numbers must be torch's whatever ISA the other kernels run with.
//
// torch's own bits depend on the machine: where it has AVX2 and FMA its compiler fuses a * b + c, and
// float32 normals come from polynomials (box_muller.h). `wide()` is that condition.
#include "random.h"

#include <cmath>
#include <cstring>

#include "box_muller.h"
#include "scratch.h"

namespace tensotron {
namespace {

constexpr int CHUNK = 512;  // elements drawn at a time into a stack buffer
constexpr double TWO_53 = 9007199254740992.0;

bool wide() {
#if defined(__x86_64__) || defined(__i386__)
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return yes;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

inline double multiply_add(double a, double b, double c) { return wide() ? std::fma(a, b, c) : a * b + c; }

// ---- one number at a time

inline double uniform53(uint64_t bits) {
  return static_cast<double>(bits & ((1ull << 53) - 1)) * (1.0 / TWO_53);
}
inline double uniform53(Generator& g) { return uniform53(random64(g)); }

// Standard normal; every second one is the sine half of the pair before.
double standard_normal(Generator& g) {
  if (g.has_double_normal) {
    g.has_double_normal = false;
    return g.next_double_normal;
  }
  double u1 = uniform53(g), u2 = uniform53(g);
  double radius = std::sqrt(-2.0 * std::log1p(-u2));
  double theta = 2.0 * M_PI * u1;
  g.next_double_normal = radius * std::sin(theta);
  g.has_double_normal = true;
  return radius * std::cos(theta);
}

// ---- whole runs of contiguous elements

template <class T, bool FUSED>
RANDOM_INLINE T affine(T x, T scale, T from, T to) {
  T y = FUSED ? tensotron_fma(x, scale, from) : x * scale + from;
  return y == to ? from : y;  // rounding may reach the open end
}

template <bool FUSED>
RANDOM_INLINE void uniform_body(const uint32_t* bits, float* out, int n, float from, float to) {
  float scale = to - from;
  for (int i = 0; i < n; i++)
    out[i] = affine<float, FUSED>(static_cast<float>(static_cast<int32_t>(bits[i] & 0xffffff)) * 0x1p-24f,
                                  scale, from, to);
}

template <bool FUSED>
RANDOM_INLINE void uniform_body(const uint32_t* bits, double* out, int n, double from, double to) {
  double scale = to - from;
  for (int i = 0; i < n; i++) {
    // 53 bits, put together in floating point, which vectorises: both parts and their sum are exact
    double high = static_cast<int32_t>(bits[2 * i] & 0x1fffff), low = bits[2 * i + 1];
    out[i] = affine<double, FUSED>(high * 0x1p-21 + low * 0x1p-53, scale, from, to);
  }
}

RANDOM_WIDE void uniform_wide(const uint32_t* bits, float* out, int n, float from, float to) {
  uniform_body<true>(bits, out, n, from, to);
}
RANDOM_WIDE void uniform_wide(const uint32_t* bits, double* out, int n, double from, double to) {
  uniform_body<true>(bits, out, n, from, to);
}

template <class T>
constexpr int words() {
  return sizeof(T) == 8 ? 2 : 1;
}

template <class T>
void fill_uniform(Generator& g, T* out, int64_t n, T from, T to) {
  uint32_t bits[2 * CHUNK];
  for (int64_t done = 0; done < n; done += CHUNK) {
    int m = static_cast<int>(n - done < CHUNK ? n - done : CHUNK);
    random_block(g, bits, static_cast<int64_t>(m) * words<T>());
    if (wide())
      uniform_wide(bits, out + done, m, from, to);
    else
      uniform_body<false>(bits, out + done, m, from, to);
  }
}

// out[i] = hit with probability p, else 0.
template <class T>
void fill_bernoulli(Generator& g, T* out, int64_t n, double p, T hit) {
  const uint64_t limit = static_cast<uint64_t>(std::ceil(p * TWO_53));  // u < p as integers
  const uint32_t high_limit = static_cast<uint32_t>(limit >> 32), low_limit = static_cast<uint32_t>(limit);
  uint32_t bits[2 * CHUNK];
  for (int64_t done = 0; done < n; done += CHUNK) {
    int m = static_cast<int>(n - done < CHUNK ? n - done : CHUNK);
    random_block(g, bits, 2 * static_cast<int64_t>(m));
    for (int i = 0; i < m; i++) {
      uint32_t high = bits[2 * i] & 0x1fffff, low = bits[2 * i + 1];
      bool yes = (high < high_limit) | ((high == high_limit) & (low < low_limit));
      out[done + i] = yes ? hit : T(0);
    }
  }
}

// Box-Muller over groups of 16 numbers: eight radii, eight angles. A tail is made good by drawing the
// last 16 numbers again.
template <class T>
void fill_normal(Generator& g, T* out, int64_t n, T mean, T std) {
  fill_uniform<T>(g, out, n, 0, 1);
  for (int64_t i = 0; i + 16 <= n; i += 16) box_muller_16(out + i, mean, std, wide());
  if (n % 16) {
    fill_uniform<T>(g, out + n - 16, 16, 0, 1);
    box_muller_16(out + n - 16, mean, std, wide());
  }
}

template <class T>
T from_int64(int64_t v) {
  return static_cast<T>(v);
}
template <>
bool from_int64<bool>(int64_t v) {
  return v != 0;
}

template <class T>
void fill_from_to(Generator& g, T* out, int64_t n, uint64_t range, int64_t base) {
  if (range >= 1ull << 28) {
    for (int64_t i = 0; i < n; i++)
      out[i] = from_int64<T>(static_cast<int64_t>(random64(g) % range + static_cast<uint64_t>(base)));
    return;
  }
  const uint32_t narrow = static_cast<uint32_t>(range);
  for (int64_t i = 0; i < n; i++)
    out[i] = from_int64<T>(static_cast<int64_t>(random32(g) % narrow + static_cast<uint64_t>(base)));
}

// random_(): [0, largest value] for integers, [0, 2^mantissa] for floats.
inline void draw(Generator& g, float& y) { y = static_cast<float>(random32(g) % ((1u << 24) + 1)); }
inline void draw(Generator& g, double& y) { y = static_cast<double>(random64(g) % ((1ull << 53) + 1)); }
inline void draw(Generator& g, int64_t& y) { y = static_cast<int64_t>(random64(g) & INT64_MAX); }
inline void draw(Generator& g, int32_t& y) { y = static_cast<int32_t>(random32(g) & INT32_MAX); }
inline void draw(Generator& g, uint8_t& y) { y = static_cast<uint8_t>(random32(g)); }
inline void draw(Generator& g, bool& y) { y = random32(g) & 1; }

template <class T>
void fill_randperm(Generator& g, T* out, int64_t n) {
  if (n < UINT32_MAX / 20) {
    for (int64_t i = 0; i < n; i++) out[i] = static_cast<T>(i);
    for (int64_t i = 0; i < n - 1; i++) {
      int64_t j = i + random32(g) % static_cast<uint32_t>(n - i);
      T saved = out[i];
      out[i] = out[j];
      out[j] = saved;
    }
    return;
  }
  // 32 bits would be skewed: the inside-out shuffle with 64
  for (int64_t i = 0; i < n; i++) {
    int64_t j = static_cast<int64_t>(random64(g) % static_cast<uint64_t>(i + 1));
    out[i] = out[j];
    out[j] = static_cast<T>(i);
  }
}

// ---- walking over strided operands

struct Cursor {
  const Record& r;
  const Arg& arg;
  int64_t index[MAX_DIMS] = {};
  int64_t offset = 0;

  Cursor(const Record& record, int which) : r(record), arg(record.arg[which]) {}

  void advance() {
    for (int d = r.ndim - 1; d >= 0; d--) {
      offset += arg.stride[d];
      if (++index[d] < r.size[d]) return;
      offset -= arg.stride[d] * r.size[d];
      index[d] = 0;
    }
  }
  template <class T>
  void scatter(const T* from, int n) {
    T* base = reinterpret_cast<T*>(arg.data);
    for (int i = 0; i < n; i++, advance()) base[offset] = from[i];
  }
  template <class T>
  void gather(T* to, int n) {
    const T* base = reinterpret_cast<const T*>(arg.data);
    for (int i = 0; i < n; i++, advance()) to[i] = base[offset];
  }
};

int64_t numel(const Record& r) {
  int64_t n = 1;
  for (int d = 0; d < r.ndim; d++) n *= r.size[d];
  return n;
}

bool contiguous(const Record& r, int which) {
  int64_t expected = 1;
  for (int d = r.ndim - 1; d >= 0; d--) {
    if (r.size[d] != 1 && r.arg[which].stride[d] != expected) return false;
    expected *= r.size[d];
  }
  return true;
}

// fill(T* out, n) makes the next n elements.
template <class T, class Fill>
int generate(const Record& r, Fill fill) {
  int64_t n = numel(r);
  if (contiguous(r, 0)) {
    fill(reinterpret_cast<T*>(r.arg[0].data), n);
    return OK;
  }
  T chunk[CHUNK];
  Cursor out(r, 0);
  for (int64_t done = 0; done < n; done += CHUNK) {
    int m = static_cast<int>(n - done < CHUNK ? n - done : CHUNK);
    fill(chunk, m);
    out.scatter(chunk, m);
  }
  return OK;
}

// one() makes the next element, in double.
template <class T, class One>
int generate_each(const Record& r, One one) {
  return generate<T>(r, [&](T* out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = static_cast<T>(one());
  });
}

template <class P>
bool probabilities_valid(const Record& r, int64_t n) {
  Cursor p(r, 1);
  const P* base = reinterpret_cast<const P*>(p.arg.data);
  for (int64_t i = 0; i < n; i++, p.advance())
    if (!(base[p.offset] >= 0 && base[p.offset] <= 1)) return false;
  return true;
}

template <class T, class P>
int bernoulli_tensor(const Record& r, Generator& g) {
  if (!probabilities_valid<P>(r, numel(r))) return PROBABILITY_OUT_OF_RANGE;
  Cursor p(r, 1);
  return generate<T>(r, [&](T* out, int64_t n) {
    P chunk[CHUNK], u[CHUNK];
    for (int64_t done = 0; done < n; done += CHUNK) {
      int m = static_cast<int>(n - done < CHUNK ? n - done : CHUNK);
      p.gather(chunk, m);
      fill_uniform<P>(g, u, m, 0, 1);
      for (int i = 0; i < m; i++) out[done + i] = u[i] < chunk[i];
    }
  });
}

// arg[0] = noise, arg[1] = arg[2] * noise
template <class T>
int dropout(const Record& r, Generator& g, double keep) {
  const T scale = T(1) / static_cast<T>(keep);
  int64_t n = numel(r);
  if (contiguous(r, 0) && contiguous(r, 1) && contiguous(r, 2)) {
    T *noise = reinterpret_cast<T*>(r.arg[0].data), *out = reinterpret_cast<T*>(r.arg[1].data);
    const T* in = reinterpret_cast<const T*>(r.arg[2].data);
    for (int64_t done = 0; done < n; done += CHUNK) {
      int m = static_cast<int>(n - done < CHUNK ? n - done : CHUNK);
      fill_bernoulli<T>(g, noise + done, m, keep, scale);
      for (int64_t i = done; i < done + m; i++) out[i] = in[i] * noise[i];
    }
    return OK;
  }
  Cursor mask(r, 0), out(r, 1), in(r, 2);
  T noise[CHUNK], x[CHUNK];
  for (int64_t done = 0; done < n; done += CHUNK) {
    int m = static_cast<int>(n - done < CHUNK ? n - done : CHUNK);
    fill_bernoulli<T>(g, noise, m, keep, scale);
    mask.scatter(noise, m);
    in.gather(x, m);
    for (int i = 0; i < m; i++) x[i] *= noise[i];
    out.scatter(x, m);
  }
  return OK;
}

// A number is drawn only where it is used, in double between bounds of the dtype.
template <class T>
int rrelu(const Record& r, Generator& g, T lower, T upper) {
  for (int k = 0; k < 3; k++)
    if (!contiguous(r, k)) return UNSUPPORTED;
  T *noise = reinterpret_cast<T*>(r.arg[0].data), *out = reinterpret_cast<T*>(r.arg[1].data);
  const T* x = reinterpret_cast<const T*>(r.arg[2].data);
  uint32_t bits[2 * CHUNK];
  double slope[CHUNK + 1];
  for (int64_t left = numel(r); left > 0; left -= CHUNK, x += CHUNK, noise += CHUNK, out += CHUNK) {
    const int m = static_cast<int>(left < CHUNK ? left : CHUNK);
    int below = 0, next = 0;
    for (int i = 0; i < m; i++) below += x[i] <= 0;
    random_block(g, bits, 2 * static_cast<int64_t>(below));
    uniform_body<false>(bits, slope, below, static_cast<double>(lower), static_cast<double>(upper));
    for (int i = 0; i < m; i++) {
      const bool yes = x[i] <= 0;
      noise[i] = yes ? static_cast<T>(slope[next]) : T(1);
      next += yes;
      out[i] = x[i] * noise[i];
    }
  }
  return OK;
}

// error[0] says what is wrong with a row: 0 an entry below zero, 1 infinity or NaN, 2 no weight at all.
template <class T>
int multinomial(const Record& r, Generator& g) {
  const int64_t rows = r.size[0], draws = r.size[1], n = r.ints[0];
  const Arg &out = r.arg[0], &weights = r.arg[1];
  const T* w = reinterpret_cast<const T*>(weights.data);
  T* cumulated = static_cast<T*>(scratch(static_cast<size_t>(n) * sizeof(T)));
  if (!cumulated) return OUT_OF_MEMORY;
  for (int64_t row = 0; row < rows; row++) {
    T sum = 0;
    for (int64_t j = 0; j < n; j++) {
      T v = w[row * weights.stride[0] + j * weights.stride[1]];
      r.error[0] = !(v >= 0) ? 0 : 1;
      if (!(v >= 0) || !std::isfinite(v)) return PROBABILITY_OUT_OF_RANGE;
      sum += v;
    }
    r.error[0] = 2;
    if (!(sum > 0)) return PROBABILITY_OUT_OF_RANGE;
  }
  for (int64_t row = 0; row < rows; row++) {
    T sum = 0;
    for (int64_t j = 0; j < n; j++) {
      sum += w[row * weights.stride[0] + j * weights.stride[1]];
      cumulated[j] = sum;
    }
    for (int64_t j = 0; j < n; j++) cumulated[j] /= sum;
    cumulated[n - 1] = 1;
    for (int64_t i = 0; i < draws; i++) {
      double u = uniform53(g);
      int64_t low = 0, high = n;  // the first entry that is not below u
      while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (static_cast<double>(cumulated[middle]) < u)
          low = middle + 1;
        else
          high = middle;
      }
      reinterpret_cast<int64_t*>(out.data)[row * out.stride[0] + i * out.stride[1]] = low;
    }
  }
  return OK;
}

// ---- dispatch

template <class T>
int run_any(const Record& r, Generator& g) {
  switch (r.op) {
    case RANDOM_random_from_to:
      return generate<T>(r, [&](T* out, int64_t n) {
        fill_from_to(g, out, n, static_cast<uint64_t>(r.ints[0]), r.ints[1]);
      });
    case RANDOM_random_default:
      return generate<T>(r, [&](T* out, int64_t n) {
        for (int64_t i = 0; i < n; i++) draw(g, out[i]);
      });
    case RANDOM_bernoulli:
      return generate<T>(r, [&](T* out, int64_t n) { fill_bernoulli<T>(g, out, n, r.reals[0], T(1)); });
    case RANDOM_bernoulli_tensor:
      return r.arg[1].dtype == F64 ? bernoulli_tensor<T, double>(r, g) : bernoulli_tensor<T, float>(r, g);
  }
  return UNSUPPORTED;
}

template <class T>
int run_number(const Record& r, Generator& g) {
  if (r.op == RANDOM_geometric) {
    const double log_q = std::log1p(-r.reals[0]);
    return generate_each<T>(r, [&] { return std::ceil(std::log(uniform53(g)) / log_q); });
  }
  if (r.op == RANDOM_randperm) {
    if (!contiguous(r, 0)) return UNSUPPORTED;
    fill_randperm(g, reinterpret_cast<T*>(r.arg[0].data), numel(r));
    return OK;
  }
  return run_any<T>(r, g);
}

template <class T>
int run_full_range(const Record& r, Generator& g) {
  return generate_each<T>(r, [&] { return static_cast<int64_t>(random64(g)); });
}

template <class T>
int run_floating(const Record& r, Generator& g) {
  const double a = r.reals[0], b = r.reals[1];
  switch (r.op) {
    case RANDOM_uniform:
      return generate<T>(
          r, [&](T* out, int64_t n) { fill_uniform<T>(g, out, n, static_cast<T>(a), static_cast<T>(b)); });
    case RANDOM_normal:
      if (r.ints[0] && numel(r) >= 16) {
        if (!contiguous(r, 0)) return UNSUPPORTED;
        fill_normal<T>(g, reinterpret_cast<T*>(r.arg[0].data), numel(r), static_cast<T>(a), static_cast<T>(b));
        return OK;
      }
      return generate_each<T>(r, [&] { return multiply_add(standard_normal(g), b, a); });
    case RANDOM_log_normal:
      return generate_each<T>(r, [&] { return std::exp(multiply_add(standard_normal(g), b, a)); });
    case RANDOM_exponential:
      return generate_each<T>(r, [&] { return -1.0 / a * std::log1p(-uniform53(g)); });
    case RANDOM_cauchy:
      return generate_each<T>(r, [&] { return multiply_add(b, std::tan(M_PI * (uniform53(g) - 0.5)), a); });
    case RANDOM_dropout_noise: {
      const double keep = 1 - a;
      const T scale = T(1) / static_cast<T>(keep);
      return generate<T>(r, [&](T* out, int64_t n) { fill_bernoulli<T>(g, out, n, keep, scale); });
    }
    case RANDOM_dropout:
      return dropout<T>(r, g, 1 - a);
    case RANDOM_rrelu:
      return rrelu<T>(r, g, static_cast<T>(a), static_cast<T>(b));
    case RANDOM_random_full_range:
      return run_full_range<T>(r, g);
  }
  return run_number<T>(r, g);
}

// Whether dimension a should be outside dimension b, by the first operand that moves along both:
// 1 yes, -1 no, 0 all the same. Strides in elements compare as torch's in bytes do.
int outside(const Record& r, int a, int b) {
  for (int k = 0; k < r.nout + r.nin; k++) {
    int64_t sa = r.arg[k].stride[a], sb = r.arg[k].stride[b];
    if (sa == 0 || sb == 0) continue;
    if (sa != sb) return sa > sb ? 1 : -1;
    if (r.size[a] > r.size[b]) return 1;
  }
  return 0;
}

}  // namespace

void random_order(Record& r) {
  int order[MAX_DIMS];  // innermost first
  for (int d = 0; d < r.ndim; d++) order[d] = r.ndim - 1 - d;
  for (int i = 1; i < r.ndim; i++) {
    int at = i;
    for (int j = i - 1; j >= 0; j--) {
      int verdict = outside(r, order[j], order[at]);
      if (verdict < 0) break;
      if (verdict == 0) continue;
      int saved = order[j];
      order[j] = order[at];
      order[at] = saved;
      at = j;
    }
  }
  const Record old = r;
  for (int d = 0; d < r.ndim; d++) {
    int from = order[r.ndim - 1 - d];
    r.size[d] = old.size[from];
    for (int k = 0; k < r.nout + r.nin; k++) r.arg[k].stride[d] = old.arg[k].stride[from];
  }
}

int k_random(const Record& r) {
  Generator& g = *static_cast<Generator*>(r.state);
  if (r.op == RANDOM_multinomial)
    return r.arg[1].dtype == F64 ? multinomial<double>(r, g) : multinomial<float>(r, g);
  switch (r.arg[0].dtype) {
    case F32:
      return run_floating<float>(r, g);
    case F64:
      return run_floating<double>(r, g);
    case I64:
      return r.op == RANDOM_random_full_range ? run_full_range<int64_t>(r, g) : run_number<int64_t>(r, g);
    case I32:
      return run_number<int32_t>(r, g);
    case U8:
      return run_number<uint8_t>(r, g);
    case BOOL:
      return run_any<bool>(r, g);
  }
  return UNSUPPORTED;
}

}  // namespace tensotron
