// Runs of int32, uint8 and bool in their own width, without the detour by int64 of the rest: rows whose result the width does
// not change, and divisions, exact in double (float for bytes). Of int64: what results in bools.
#pragma once
#include <type_traits>

#include "../_ops/elementwise.h"
#include "record.h"

namespace tensotron {
namespace TENSOTRON_ISA {

// out[i] = f(a[i], b) of dense elements T and a number.
template <class T, class O, class F> __attribute__((noinline)) static void narrow_run(const Record& r) {
  const F f(r);
  const Arg& b = r.arg[2];
  const T* const x = reinterpret_cast<const T*>(r.arg[1].data);
  const T v = b.dtype == I64 ? T(*reinterpret_cast<const int64_t*>(b.data)) : *reinterpret_cast<const T*>(b.data);
  O* const o = reinterpret_cast<O*>(r.arg[0].data);
  const int64_t n = r.size[0];
  // An output is the operand, element by element, or shares nothing with it.
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = O(f(x[i], v, v));
}

// A RowFn: dense operands, one to three of them.
template <class T, class O, class F>
__attribute__((noinline)) static void narrow_tile(void* out, const void* const* in, int64_t n, const Record& r, bool) {
  const F f(r);
  const T *const x = static_cast<const T*>(in[0]), *const y = static_cast<const T*>(in[r.nin > 1 ? 1 : 0]),
          *const z = static_cast<const T*>(in[r.nin > 2 ? 2 : 0]);
  O* const o = static_cast<O*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = O(f(x[i], y[i], z[i]));
}

struct NarrowRow {
  void (*run)(const Record&);  // may be null
  void (*tile)(void*, const void* const*, int64_t, const Record&, bool);
};

// a / b truncated; b is not zero. A quotient that is no integer lies further from one than its rounding error.
template <class T> TENSOTRON_INLINE T narrow_quotient(T a, T b) {
  typedef typename std::conditional<sizeof(T) == 4, double, float>::type Real;
  if (std::is_unsigned<T>::value) return T(int32_t(Real(a) / Real(b)));
  const T d = b == T(-1) ? T(1) : b, q = T(Real(a) / Real(d));  // the quotient of the least integer and -1 wraps
  return b == T(-1) ? T(0u - uint32_t(a)) : q;
}
template <class T> TENSOTRON_INLINE T narrow_modulo(T a, T b) { return T(uint32_t(a) - uint32_t(narrow_quotient(a, b)) * uint32_t(b)); }

// Whether a quotient that leaves `rest` is one less when it is rounded down.
template <class T> TENSOTRON_INLINE bool lies_below(T rest, T b) { return rest != 0 && (rest ^ b) < 0; }

template <class T> struct UnsignedOf { typedef uint64_t type; };
template <> struct UnsignedOf<int32_t> { typedef uint32_t type; };
template <> struct UnsignedOf<uint8_t> { typedef uint8_t type; };

template <class T> struct NarrowNumbers {
  typedef typename UnsignedOf<T>::type U;
  U alpha;
  T low, high;
  explicit NarrowNumbers(const Record& r) : alpha(U(r.ints[0])), low(T(r.ints[0])), high(T(r.ints[1])) {}
};

// ROW(name, whether it results in bools, value)
#define NARROW_TRUTH                 \
  ROW(eq, true, a == b)              \
  ROW(ne, true, a != b)              \
  ROW(lt, true, a < b)               \
  ROW(le, true, a <= b)              \
  ROW(gt, true, a > b)               \
  ROW(ge, true, a >= b)              \
  ROW(isnan, true, 0)                \
  ROW(isinf, true, 0)                \
  ROW(isfinite, true, 1)             \
  ROW(logical_not, true, a == 0)     \
  ROW(logical_and, true, (a != 0) & (b != 0)) \
  ROW(logical_or, true, (a | b) != 0) \
  ROW(logical_xor, true, (a != 0) != (b != 0))
#define NARROW_VALUES                                                       \
  ROW(add, false, U(a) + U(b))                                              \
  ROW(sub, false, U(a) - U(b))                                              \
  ROW(mul, false, U(a) * U(b))                                              \
  ROW(add_alpha, false, U(a) + alpha * U(b))                                \
  ROW(sub_alpha, false, U(a) - alpha * U(b))                                \
  ROW(rsub_alpha, false, U(b) - alpha * U(a))                               \
  ROW(neg, false, U(0) - U(a))                                              \
  ROW(abs, false, a < 0 ? U(0) - U(a) : U(a))                               \
  ROW(sign, false, (a > 0) - (a < 0))                                       \
  ROW(square, false, U(a) * U(a))                                           \
  ROW(relu, false, a < 0 ? T(0) : a)                                        \
  ROW(floor, false, a)                                                      \
  ROW(ceil, false, a)                                                       \
  ROW(trunc, false, a)                                                      \
  ROW(round, false, a)                                                      \
  ROW(maximum, false, a < b ? b : a)                                        \
  ROW(minimum, false, b < a ? b : a)                                        \
  ROW(clamp_min, false, a < low ? low : a)                                  \
  ROW(clamp_max, false, low < a ? low : a)                                  \
  ROW(clamp, false, (a < low ? low : a) < high ? (a < low ? low : a) : high) \
  ROW(clamp_low_tensor, false, a < b ? b : a)                               \
  ROW(clamp_high_tensor, false, b < a ? b : a)                              \
  ROW(clamp_tensor, false, (a < b ? b : a) < c ? (a < b ? b : a) : c)       \
  ROW(addcmul, false, U(a) + alpha * U(b) * U(c))                           \
  ROW(bitwise_and, false, a & b)                                            \
  ROW(bitwise_or, false, a | b)                                             \
  ROW(bitwise_xor, false, a ^ b)                                            \
  ROW(bitwise_not, false, ~a)                                               \
  ROW(div_trunc, false, narrow_quotient(a, b))                              \
  ROW(fmod, false, narrow_modulo(a, b))                                     \
  ROW(div_floor, false, narrow_quotient(a, b) - lies_below(narrow_modulo(a, b), b)) \
  ROW(remainder, false, U(narrow_modulo(a, b)) + (lies_below(narrow_modulo(a, b), b) ? U(b) : U(0)))

namespace narrow_rows {
#define ROW(name, truth, value)                                                                                      \
  template <class T> struct name : NarrowNumbers<T> {                                                                \
    typedef NarrowNumbers<T> Numbers;                                                                                \
    typedef typename Numbers::U U;                                                                                   \
    typedef typename std::conditional<truth, uint8_t, T>::type O;                                                    \
    using Numbers::Numbers;                                                                                          \
    TENSOTRON_MEMBER O operator()(T a, T b, T c) const {                                                             \
      const U alpha = Numbers::alpha;                                                                                \
      const T low = Numbers::low, high = Numbers::high;                                                              \
      return (void)a, (void)b, (void)c, (void)alpha, (void)low, (void)high, O(value);                                \
    }                                                                                                                \
  };
NARROW_TRUTH
NARROW_VALUES
#undef ROW
}  // namespace narrow_rows

// Those that programs write with a number have a loop for it; the others' number fills a tile.
static constexpr bool takes_number(int row) {
  return row == ROW_add || row == ROW_sub || row == ROW_mul || (row >= ROW_eq && row <= ROW_ge) ||
         (row >= ROW_bitwise_and && row <= ROW_bitwise_xor);
}
template <class T, class F, bool WITH_NUMBER> static NarrowRow narrow_functions() {
  if constexpr (WITH_NUMBER) return {narrow_run<T, typename F::O, F>, narrow_tile<T, typename F::O, F>};
  else return {nullptr, narrow_tile<T, typename F::O, F>};
}
#define ROW(name, truth, value) \
  case ROW_##name: return narrow_functions<T, narrow_rows::name<T>, takes_number(ROW_##name) && sizeof(T) < 8>();
template <class T> static NarrowRow truth_row(int row) {
  switch (row) { NARROW_TRUTH }
  return {nullptr, nullptr};
}
template <class T> static NarrowRow narrow_row(int row) {
  switch (row) { NARROW_TRUTH NARROW_VALUES }
  return {nullptr, nullptr};
}
#undef ROW

// Of bools, whose bytes are 0 or 1, those that result in bools.
static NarrowRow bool_row(int row) {
  switch (row) {
    case ROW_mul: case ROW_minimum: row = ROW_bitwise_and; break;
    case ROW_add: case ROW_maximum: row = ROW_bitwise_or; break;
    case ROW_sign: row = ROW_trunc; break;
    case ROW_logical_and: case ROW_logical_or: case ROW_logical_xor: row += ROW_bitwise_and - ROW_logical_and; break;
    case ROW_bitwise_not: row = ROW_logical_not; break;
    case ROW_bitwise_and: case ROW_bitwise_or: case ROW_bitwise_xor: break;
    default: return truth_row<uint8_t>(row);
  }
  return narrow_row<uint8_t>(row);
}

// The row in its operands' own width, `compute`; null if there is none or the operands differ in dtype. An operand may be one
// number, of any integer where it is no bool.
static NarrowRow find_narrow(const Record& r, uint8_t* compute, uint8_t* result) {
  NarrowRow none = {nullptr, nullptr};
  if (r.op % NUM_EXPRESSIONS != FORWARD) return none;
  const uint8_t dtype = r.arg[1].is_const ? r.arg[r.nin > 1 ? 2 : 1].dtype : r.arg[1].dtype;
  for (int k = 1; k <= r.nin; ++k) {
    const Arg& a = r.arg[k];
    if (a.dtype == dtype) continue;
    if (a.dtype != I64 || dtype == BOOL) return none;
    for (int d = 0; d < r.ndim; ++d)
      if (a.stride[d] != 0) return none;
  }
  int row = r.op / NUM_EXPRESSIONS;
  if (row == ROW_ipow_scalar && r.ints[0] == 2) row = ROW_square;
  const bool truth = (row >= ROW_eq && row <= ROW_logical_xor) || (row >= ROW_isnan && row <= ROW_logical_not);
  *compute = dtype;
  *result = truth ? uint8_t(BOOL) : dtype;
  if (r.arg[0].dtype != *result) return none;
  switch (dtype) {
    case I64: return truth ? truth_row<int64_t>(row) : none;
    case I32: return narrow_row<int32_t>(row);
    case U8: return narrow_row<uint8_t>(row);
    case BOOL: return bool_row(row);
  }
  return none;
}

// Whether the operands of a launch, from the first to the `last`, are dense runs.
static bool are_dense(const Record& r, int last) {
  if (r.ndim != 1) return false;
  for (int k = 0; k <= last; ++k)
    if (r.arg[k].stride[0] != 1) return false;
  return true;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
