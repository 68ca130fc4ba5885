// Elementwise launches: Record::op = row_op(row, expression). Operands that are not dense or not of
// the compute dtype pass through tiles in L1; the arithmetic itself only ever sees dense runs.
#pragma once
#include "../_ops/elementwise.h"
#include "convert-inl.h"
#include "elementwise_narrow.h"
#include "parallel.h"
#include "rowfn.h"

namespace tensotron {
namespace TENSOTRON_ISA {

#include "../_ops/functors.inc"

// `scalar`: the run is one that torch would do element by element (see p3 in elementwise.def).
typedef void (*RowFn)(void* out, const void* const* in, int64_t n, const Record& r, bool scalar);

// Expressions that torch has no AVX-512 code for: its turns are two vectors of half the width.
template <class F> static constexpr bool half_turns = false;
#if defined(__AVX512F__)
#define HALF(name)                                                          \
  template <> constexpr bool half_turns<functors::name##_1> = true;         \
  template <> constexpr bool half_turns<functors::name##_backward_0> = true; \
  template <> constexpr bool half_turns<functors::name##_backward_1> = true;
HALF(hardtanh) HALF(hardtanh_result) HALF(hardshrink) HALF(softshrink)
template <> constexpr bool half_turns<functors::softshrink_0> = true;
#undef HALF
#endif

template <class T, class F, int NIN>
static void row_run(void* out, const void* const* in, int64_t n, const Record& r, bool scalar) {
  typedef Vec<T> V;
  V p[4] = {V(T(r.reals[0])), V(T(r.reals[1])), V(T(r.reals[2])), V(T(scalar))};
  T* o = static_cast<T*>(out);
  int64_t i = 0;
  V x[NIN], y[NIN];
  for (; i + 2 * V::size <= n; i += 2 * V::size) {
    for (int k = 0; k < NIN; ++k) {
      x[k] = V::load(static_cast<const T*>(in[k]) + i);
      y[k] = V::load(static_cast<const T*>(in[k]) + i + V::size);
    }
    const V u = F::template apply<V>(x, p), v = F::template apply<V>(y, p);
    u.store(o + i);
    v.store(o + i + V::size);
  }
  if (!half_turns<F>) p[3] = V(T(1));
  for (; i + V::size <= n; i += V::size) {
    for (int k = 0; k < NIN; ++k) x[k] = V::load(static_cast<const T*>(in[k]) + i);
    F::template apply<V>(x, p).store(o + i);
  }
  p[3] = V(T(1));
  if (i < n) {
    const int rest = int(n - i);
    for (int k = 0; k < NIN; ++k) x[k] = V::load(static_cast<const T*>(in[k]) + i, rest);
    F::template apply<V>(x, p).store(o + i, rest);
  }
}

// Integer arithmetic wraps: done on values that the compiler may not assume not to overflow.
template <class F, int NIN>
__attribute__((optimize("wrapv"))) static void row_run_int(void* out, const void* const* in, int64_t n,
                                                           const Record& r, bool) {
  const Int p[4] = {r.ints[0], r.ints[1], r.ints[2], r.ints[3]};
  Int* o = static_cast<Int*>(out);
  Int x[NIN];
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < NIN; ++k) x[k] = static_cast<const Int*>(in[k])[i];
    o[i] = F::template apply<Int>(x, p);
  }
}

// a / b truncated, of numbers below 2^51. AVX2 has no conversions of int64, but sums with 2^52 + 2^51 hold them in their bits.
TENSOTRON_INLINE Int short_quotient(Int a, Int b) {
#if defined(__AVX2__) && !defined(__AVX512DQ__)
  constexpr double magic = 0x1.8p52;
  Int offset, q;
  double x, y;
  __builtin_memcpy(&offset, &magic, 8);
  a += offset, b += offset;
  __builtin_memcpy(&x, &a, 8);
  __builtin_memcpy(&y, &b, 8);
  const double sum = __builtin_trunc((x - magic) / (y - magic)) + magic;
  __builtin_memcpy(&q, &sum, 8);
  return q - offset;
#else
  return Int(double(a) / double(b));
#endif
}

// Quotients of int64 (FLOOR: rounded down, else truncated) or what they leave. Blocks of numbers below 2^51 are divided in
// double, as narrow_quotient does it.
template <bool FLOOR, bool MODULO> static void divide_run(void* out, const void* const* in, int64_t n, const Record&, bool) {
  constexpr int64_t BLOCK = 512;
  for (int64_t begin = 0; begin < n; begin += BLOCK) {
    Int* const o = static_cast<Int*>(out) + begin;
    const Int *const a = static_cast<const Int*>(in[0]) + begin, *const b = static_cast<const Int*>(in[1]) + begin;
    const int64_t m = n - begin < BLOCK ? n - begin : BLOCK;
    uint64_t bits = 0;
    for (int64_t i = 0; i < m; ++i) bits |= (uint64_t(a[i]) + (uint64_t(1) << 51)) | (uint64_t(b[i]) + (uint64_t(1) << 51));
    if (bits >> 52) {
      for (int64_t i = 0; i < m; ++i)
        o[i] = FLOOR ? (MODULO ? remainder(a[i], b[i]) : floor_div(a[i], b[i])) : MODULO ? fmod(a[i], b[i]) : trunc_div(a[i], b[i]);
      continue;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < m; ++i) {
      const Int x = a[i], y = b[i], q = short_quotient(x, y), rest = x - q * y;
      const bool down = FLOOR && lies_below(rest, y);
      o[i] = MODULO ? rest + (down ? y : 0) : q - down;
    }
  }
}
template <> void row_run_int<functors::div_floor_0, 2>(void* out, const void* const* in, int64_t n, const Record& r, bool s) {
  divide_run<true, false>(out, in, n, r, s);
}
template <> void row_run_int<functors::div_trunc_0, 2>(void* out, const void* const* in, int64_t n, const Record& r, bool s) {
  divide_run<false, false>(out, in, n, r, s);
}
template <> void row_run_int<functors::remainder_0, 2>(void* out, const void* const* in, int64_t n, const Record& r, bool s) {
  divide_run<true, true>(out, in, n, r, s);
}
template <> void row_run_int<functors::fmod_0, 2>(void* out, const void* const* in, int64_t n, const Record& r, bool s) {
  divide_run<false, true>(out, in, n, r, s);
}

template <class F, int NIN, int TYPES, int WHICH>
struct Entry {
  static constexpr bool real = (TYPES & TYPES_F) != 0;
  static constexpr bool integer = (TYPES & TYPES_I) != 0 && WHICH == FORWARD;
  static constexpr RowFn get(int compute) {
    if constexpr (real) {
      if (compute == F32) return row_run<float, F, NIN>;
      if (compute == F64) return row_run<double, F, NIN>;
    }
    if constexpr (integer) {
      if (compute == I64) return row_run_int<F, NIN>;
    }
    return nullptr;
  }
};

// row_table[op][compute]; compute is F32, F64 or I64.
static const RowFn row_table[NUM_ROWS * NUM_EXPRESSIONS][3] = {
#define ENTRY(name, W)                                                                        \
  {Entry<functors::name##_##W, expression_inputs(ROW_##name, W), rows::info[ROW_##name].types, W>::get(F32), \
   Entry<functors::name##_##W, expression_inputs(ROW_##name, W), rows::info[ROW_##name].types, W>::get(F64), \
   Entry<functors::name##_##W, expression_inputs(ROW_##name, W), rows::info[ROW_##name].types, W>::get(I64)},
#define NO_ENTRY {nullptr, nullptr, nullptr},
#define UNARY(name, ...) ENTRY(name, 0) ENTRY(name, 1) NO_ENTRY NO_ENTRY
#define BINARY(name, ...) ENTRY(name, 0) ENTRY(name, 1) ENTRY(name, 2) NO_ENTRY
#define TERNARY(name, ...) ENTRY(name, 0) ENTRY(name, 1) ENTRY(name, 2) ENTRY(name, 3)
#include "../_ops/elementwise.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#undef ENTRY
#undef NO_ENTRY
};

// Whether a row tells torch's vector code from its scalar code: then where its runs end matters.
static constexpr bool mentions_p3(const char* s) {
  for (; *s; ++s)
    if (s[0] == 'p' && s[1] == '3') return true;
  return false;
}
static constexpr bool reads_p3[NUM_ROWS] = {
#define UNARY(name, ...) mentions_p3(#__VA_ARGS__),
#define BINARY(name, ...) mentions_p3(#__VA_ARGS__),
#define TERNARY(name, ...) mentions_p3(#__VA_ARGS__),
#include "../_ops/elementwise.def"
#undef UNARY
#undef BINARY
#undef TERNARY
};

constexpr int64_t TILE = 512;

// True if any element of the divisor (the second input) is zero.
static bool has_zero_divisor(const Record& whole) {
  Record r = whole;
  const Arg& b = r.arg[r.nout + 1];
  for (int d = 0; d < r.ndim; ++d)
    if (b.stride[d] == 0) r.size[d] = 1;  // what repeats is looked at once
  const ConvertFn load = convert_fn(I64, b.dtype);
  const int last = r.ndim - 1;
  const int64_t n = r.ndim ? r.size[last] : 1, s = r.ndim ? b.stride[last] : 1;
  const int64_t sz = item_size(b.dtype);
  Int tile[TILE];
  Outer it(r);
  do {
    const char* p = b.data + it.offset[r.nout + 1] * sz;
    for (int64_t i = 0; i < n; i += TILE) {
      const int64_t m = n - i < TILE ? n - i : TILE;
      load(reinterpret_cast<char*>(tile), 1, p + i * s * sz, s, m);
      for (int64_t k = 0; k < m; ++k)
        if (tile[k] == 0) return true;
    }
  } while (it.next());
  return false;
}

// Rows of a matrix whose columns are contiguous, read by blocks: as many as a register has lanes, of a tile each. T: a type of
// its elements' size.
template <class T> struct ColumnTile {
  static constexpr int ROWS = 64 / sizeof(T);
  T at[ROWS * TILE];
  // `count` rows of m columns, which lie `step` apart.
  void load(const T* from, int64_t step, int64_t count, int64_t m) { lanes_transpose<T>(from, step, m, count, at, TILE, false); }
};

// What a launch computes in and results in: the compute dtype, or a narrow row's own.
struct Types {
  uint8_t compute, result;
};

static __attribute__((noinline)) ConvertFn conversion(int dst, int src) { return convert_fn(dst, src); }

// Operands that are adjacent along the dimension before the last pass through transposed tiles; the others are adjacent along the
// last. False if there is none of the former, or any of another kind.
template <class T> static bool transposed_rows(const Record& r, RowFn fn, Types types) {
  const int last = r.ndim - 1, nargs = r.nout + r.nin;
  if (r.ndim < 2 || r.size[last] < 8 || r.size[last - 1] < 8 || r.nin > 2) return false;
  bool across[MAX_ARGS] = {};
  int found = 0;
  for (int k = 0; k < nargs; ++k) {
    const Arg& a = r.arg[k];
    if (k > 0 && a.dtype != types.compute) return false;
    if (a.stride[last] == 1) continue;
    if (k == 0 || a.stride[last - 1] != 1 || a.stride[last] == 0) return false;
    across[k] = true;
    ++found;
  }
  if (!found) return false;
  typedef ColumnTile<T> Tile;
  alignas(64) char room[2][sizeof(Tile)];
  const int64_t rows = r.size[last - 1], n = r.size[last], to = item_size(r.arg[0].dtype);
  alignas(64) char results[TILE * 8];
  const bool converts = r.arg[0].dtype != types.result;
  const ConvertFn store = conversion(r.arg[0].dtype, types.result);
  Record matrices = r;
  matrices.ndim = uint8_t(last);
  matrices.size[last - 1] = 1;
  Outer it(matrices);
  do
    for (int64_t row = 0; row < rows; row += Tile::ROWS) {
      const int64_t count = rows - row < Tile::ROWS ? rows - row : Tile::ROWS;
      for (int64_t i = 0; i < n; i += TILE) {
        const int64_t m = n - i < TILE ? n - i : TILE;
        const char* in[MAX_ARGS];
        int64_t step[MAX_ARGS];
        for (int k = 1; k < nargs; ++k) {
          const Arg& a = r.arg[k];
          in[k - 1] = a.data + (it.offset[k] + row * a.stride[last - 1] + i * a.stride[last]) * int64_t(sizeof(T));
          step[k - 1] = a.stride[last - 1] * int64_t(sizeof(T));
          if (!across[k]) continue;
          Tile* const tile = reinterpret_cast<Tile*>(room[k - 1]);
          tile->load(reinterpret_cast<const T*>(in[k - 1]), a.stride[last], count, m);
          in[k - 1] = reinterpret_cast<const char*>(tile->at);
          step[k - 1] = TILE * sizeof(T);
        }
        char* o = r.arg[0].data + (it.offset[0] + row * r.arg[0].stride[last - 1] + i) * to;
        for (int64_t j = 0; j < count; ++j, o += r.arg[0].stride[last - 1] * to) {
          const void* const x[2] = {in[0] + j * step[0], r.nin > 1 ? in[1] + j * step[1] : nullptr};
          fn(converts ? results : o, x, m, r, true);
          if (converts) store(o, 1, results, 1, m);
        }
      }
    }
  while (it.next());
  return true;
}

static int row_general(const Record& r, RowFn fn, Types types) {
  alignas(64) char tile[MAX_ARGS][TILE * 8];
  const int last = r.ndim - 1;
  const int64_t n = r.ndim ? r.size[last] : 1;
  const int nargs = r.nout + r.nin;
  const int compute = types.compute;
  enum Mode { DIRECT, BROADCAST, LOAD };
  Mode mode[MAX_ARGS];
  bool strided = false;
  ConvertFn conv[MAX_ARGS];
  const char* filled[MAX_ARGS];
  int64_t stride[MAX_ARGS], isz[MAX_ARGS];
  for (int k = 0; k < nargs; ++k) {
    const Arg& a = r.arg[k];
    stride[k] = r.ndim ? a.stride[last] : 1;
    isz[k] = item_size(a.dtype);
    filled[k] = nullptr;
    const bool dense = a.dtype == (k ? compute : types.result) && (stride[k] == 1 || n == 1);
    mode[k] = dense ? DIRECT : k > 0 && stride[k] == 0 ? BROADCAST : LOAD;
    strided |= mode[k] == LOAD;
    conv[k] = k == 0 ? convert_fn(a.dtype, types.result) : convert_fn(compute, a.dtype);
  }
  Outer it(r);
  do {
    for (int64_t i = 0; i < n; i += TILE) {
      const int64_t m = n - i < TILE ? n - i : TILE;
      const void* in[MAX_ARGS];
      for (int k = 1; k < nargs; ++k) {
        const char* p = r.arg[k].data + (it.offset[k] + i * stride[k]) * isz[k];
        if (mode[k] == DIRECT) {
          in[k - 1] = p;
          continue;
        }
        in[k - 1] = tile[k];
        if (mode[k] == BROADCAST) {
          if (filled[k] == p) continue;
          filled[k] = p;
          conv[k](tile[k], 1, p, 0, n < TILE ? n : TILE);
        } else {
          conv[k](tile[k], 1, p, stride[k], m);
        }
      }
      char* o = r.arg[0].data + (it.offset[0] + i * stride[0]) * isz[0];
      if (mode[0] == DIRECT) {
        fn(o, in, m, r, strided);
      } else {
        fn(tile[0], in, m, r, strided);
        conv[0](o, stride[0], tile[0], 1, m);
      }
    }
  } while (it.next());
  return OK;
}

// Short rows of operands that are dense, or the same in every row, or one number in each: as many rows as fit a tile make one
// run, for which the others are written out. False if the operands are not of these kinds.
static bool short_rows(const Record& r, RowFn fn, Types types) {
  if (r.ndim != 2 || r.size[1] > TILE / 2 || reads_p3[r.op / NUM_EXPRESSIONS]) return false;
  const int64_t rows = r.size[0], n = r.size[1], item = item_size(types.compute), group = rows < TILE / n ? rows : TILE / n;
  const int nargs = r.nout + r.nin;
  enum Kind { DENSE, PADDED, ROW, COLUMN, NUMBER } kind[MAX_ARGS];
  bool converts[MAX_ARGS];
  for (int k = 0; k < nargs; ++k) {
    const Arg& a = r.arg[k];
    const int64_t s = a.stride[0], t = a.stride[1];
    converts[k] = a.dtype != (k ? types.compute : types.result);
    if (t == 1 && s == n) kind[k] = DENSE;
    else if (k == 0) return false;
    else if (t == 1) kind[k] = s == 0 ? ROW : PADDED;
    else if (t == 0) kind[k] = s == 0 ? NUMBER : COLUMN;
    else return false;
  }
  alignas(64) char tile[MAX_ARGS][TILE * 8], one[TILE * 8];
  for (int k = 1; k < nargs; ++k) {
    const Arg& a = r.arg[k];
    if (kind[k] == NUMBER) {
      conversion(types.compute, a.dtype)(one, 1, a.data, 0, 1);
      spread_number(tile[k], one, group * n, item);
    } else if (kind[k] == ROW) {
      conversion(types.compute, a.dtype)(tile[k], 1, a.data, 1, n);
      for (int64_t i = 1; i < group; ++i) copy_short(tile[k] + i * n * item, tile[k], size_t(n * item));
    }
  }
  for (int64_t row = 0; row < rows; row += group) {
    const int64_t count = rows - row < group ? rows - row : group;
    const void* in[MAX_ARGS];
    for (int k = 1; k < nargs; ++k) {
      const Arg& a = r.arg[k];
      const int64_t size = item_size(a.dtype);
      const char* from = a.data + row * a.stride[0] * size;
      in[k - 1] = tile[k];
      if (kind[k] == DENSE) {
        if (converts[k]) conversion(types.compute, a.dtype)(tile[k], 1, from, 1, count * n);
        else in[k - 1] = from;
      } else if (kind[k] == PADDED) {
        const ConvertFn load = conversion(types.compute, a.dtype);
        for (int64_t i = 0; i < count; ++i, from += a.stride[0] * size) {
          if (converts[k]) load(tile[k] + i * n * item, 1, from, 1, n);
          else copy_short(tile[k] + i * n * item, from, size_t(n * item));
        }
      } else if (kind[k] == COLUMN) {
        const bool direct = !converts[k] && a.stride[0] == 1;
        if (!direct) conversion(types.compute, a.dtype)(one, 1, from, a.stride[0], count);
        for (int64_t i = 0; i < count; ++i) spread_number(tile[k] + i * n * item, (direct ? from : one) + i * item, n, item);
      }
    }
    char* const o = r.arg[0].data + row * n * item_size(r.arg[0].dtype);
    if (!converts[0]) {
      fn(o, in, count * n, r, false);
    } else {
      fn(tile[0], in, count * n, r, false);
      conversion(r.arg[0].dtype, types.result)(o, 1, tile[0], 1, count * n);
    }
  }
  return true;
}

// Dense runs longer than the cache. A run begins at the end of its operands where the last one on this thread stopped: what
// was touched last is still in the cache, be it the result of the launch before or an operand used again. Blocks keep their
// places in the run, so that the order changes no bit.
constexpr int64_t LONG_RUN = 1 << 19, RUN_BLOCK = 4096;  // bytes of all operands, elements

static void row_long(const Record& r, RowFn fn, int nargs, int64_t item) {
  static thread_local const char* stopped[2];  // addresses within the first two operands
  const int64_t n = r.size[0];
  bool down = false;
  for (int k = 0; k < nargs; ++k) {
    const char* end = r.arg[k].data + n * item;
    down |= end == stopped[0] || end == stopped[1];
  }
  const int64_t blocks = (n + RUN_BLOCK - 1) / RUN_BLOCK;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t i = (down ? blocks - 1 - b : b) * RUN_BLOCK, m = n - i < RUN_BLOCK ? n - i : RUN_BLOCK;
    const void* in[MAX_ARGS];
    for (int k = 1; k < nargs; ++k) in[k - 1] = r.arg[k].data + i * item;
    fn(r.arg[0].data + i * item, in, m, r, false);
  }
  for (int k = 0; k < 2; ++k) stopped[k] = r.arg[k].data + (down ? 0 : n * item);
}

// A run of at most a tile, of operands that are dense or one number; false if some are neither.
__attribute__((noinline)) static bool run_with_numbers(const Record& r, RowFn fn) {
  const int nargs = r.nout + r.nin;
  const int64_t n = r.size[0], item = item_size(r.compute);
  unsigned numbers = 0;
  for (int k = 0; k < nargs; ++k) {
    const Arg& a = r.arg[k];
    if (a.dtype == r.compute && (a.stride[0] == 1 || n == 1)) continue;
    if (k == 0 || n > TILE || (a.stride[0] != 0 && n != 1)) return false;
    numbers |= 1u << k;
  }
  alignas(64) char tile[MAX_ARGS][TILE * 8];
  const void* in[MAX_ARGS];
  for (int k = 1; k < nargs; ++k) {
    in[k - 1] = r.arg[k].data;
    if (!(numbers >> k & 1)) continue;
    in[k - 1] = tile[k];
    alignas(8) char number[8];
    convert_fn(r.compute, r.arg[k].dtype)(number, 1, r.arg[k].data, 0, 1);
    spread_number(tile[k], number, n, item);
  }
  fn(r.arg[0].data, in, n, r, false);
  return true;
}

static __attribute__((noinline)) int row_strided(const Record& r, RowFn fn, Types types) {
  if (is_empty(r) || short_rows(r, fn, types)) return OK;
  const int64_t item = item_size(types.compute);
  if (item == 4 ? transposed_rows<float>(r, fn, types) : item == 8 && transposed_rows<double>(r, fn, types)) return OK;
  return row_general(r, fn, types);
}

// The launch in its operands' own width; false if it is none of those.
static __attribute__((noinline)) bool run_narrow(const Record& r) {
  Types types;
  const NarrowRow narrow = find_narrow(r, &types.compute, &types.result);
  if (!narrow.tile) return false;
  if (are_dense(r, r.nin)) {
    const void* const in[3] = {r.arg[1].data, r.arg[2].data, r.arg[3].data};
    narrow.tile(r.arg[0].data, in, r.size[0], r, false);
  } else if (narrow.run && r.nin == 2 && are_dense(r, 1) && r.arg[2].stride[0] == 0) {
    narrow.run(r);
  } else {
    row_strided(r, narrow.tile, types);
  }
  return true;
}

static int row_part(const Record& r, RowFn fn) {
  if (r.compute == I64 && run_narrow(r)) return OK;
  if (r.ndim == 1) {
    const int nargs = r.nout + r.nin;
    bool dense = true;
    const void* in[MAX_ARGS];
    for (int k = 0; k < nargs; ++k) {
      dense &= r.arg[k].stride[0] == 1 && r.arg[k].dtype == r.compute;
      in[k] = r.arg[k].data;
    }
    if (dense) {
      const int64_t item = item_size(r.compute);
      if (r.size[0] * item * nargs >= LONG_RUN) {
        row_long(r, fn, nargs, item);
        return OK;
      }
      fn(r.arg[0].data, in + 1, r.size[0], r, false);
      return OK;
    }
    if (r.size[0] && run_with_numbers(r, fn)) return OK;
  }
  return row_strided(r, fn, {r.compute, r.compute});
}

int k_elementwise(const Record& r) {
  const RowFn fn = row_table[r.op][r.compute];
  if (!fn) return UNSUPPORTED;
  if (r.compute == I64) {
    const int row = r.op / NUM_EXPRESSIONS;
    const bool divides = row == ROW_div_floor || row == ROW_div_trunc || row == ROW_remainder || row == ROW_fmod;
    if (divides && !is_empty(r) && has_zero_divisor(r)) return DIVISION_BY_ZERO;
  }
  if (pool_size.load(std::memory_order_relaxed) == 1) return row_part(r, fn);
  return in_parts(r, elements_of(r) / 2, [fn](const Record& part) { return row_part(part, fn); });
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
