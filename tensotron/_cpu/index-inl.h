// Indexing: gathers, scatters, masks and concatenation.
//
//   index_get   arg[0] = out, arg[1] = source, arg[2..] = n index tensors (I64 or I32)
//   index_put   arg[0] = destination (in place), arg[1] = values, arg[2..] = n index tensors
//               op = IndexMode. Duplicates are taken in iteration order: of assignments the last wins.
//     size[] is the iteration space. The indexed operand (source, destination) has stride 0 along the
//     dimensions that index tensors run over; an index tensor has stride 0 along the others.
//     ints[0] = n (1..6); for each index tensor k: ints[1 + 2k] = size of the dimension it indexes,
//     ints[2 + 2k] = the indexed operand's stride (elements) along it.
//     flags & 1: a negative index counts from the end; otherwise it is out of range.
//     Data has dtype `compute`; only its size matters unless index_put combines.
//     x[i], x[i, j], index_select, gather, take are index_get; index_put, index_add, index_copy,
//     index_fill, scatter and its variants are index_put; gather and scatter iterate over the index's
//     shape with one full index tensor. INDEX_OUT_OF_RANGE: error[0] = index, error[1] = size,
//     error[2] = number of the index tensor.
//   nonzero     op 0: arg[0] = number of non-zero elements (I64 scalar); op 1: arg[0] = out [count][ndim]
//               (I64, stride[0] per element, stride[1] per coordinate). arg[1] = input of dtype `compute`.
//   masked_select   arg[0] = out (contiguous, 1-d), arg[1] = source, arg[2] = mask (BOOL or U8)
//   masked_scatter  arg[0] = destination (in place), arg[1] = mask, arg[2] = source (contiguous), ints[0] = its
//               number of elements. flags & 1: one element, written everywhere. INDEX_OUT_OF_RANGE if the mask needs more: error[0] = needed, error[1] = given.
//   one_hot     arg[0] = out (I64, contiguous [n][classes]), arg[1] = index (I64, contiguous);
//               ints[0] = n, ints[1] = classes. TARGET_OUT_OF_RANGE: error[0] = the class.
//   cat         arg[0] = out, contiguous [ints[0]][ints[1]]; list[i].stride[0] = elements per row that
//               operand i (contiguous) contributes, in order. All of dtype `compute`.
#pragma once
#include <cstdint>
#include <cstring>

#include "copy_short.h"
#include "record.h"

namespace tensotron {
namespace TENSOTRON_ISA {

enum IndexMode { INDEX_ASSIGN = 0, INDEX_ADD = 1, INDEX_MULTIPLY = 2, INDEX_MAXIMUM = 3, INDEX_MINIMUM = 4 };

constexpr int INDEX_WRAP = 1;       // flags
constexpr int INDEX_ONE_VALUE = 1;  // flags of masked_scatter
constexpr int INDEX_MAX_TENSORS = 6;

// The iteration space with neighbouring dimensions merged where every operand allows it.
struct IndexSpace {
  int ndim, nargs;
  int64_t size[MAX_DIMS];
  int64_t stride[MAX_ARGS][MAX_DIMS];
};

static inline bool index_space(const Record& r, int nargs, IndexSpace& s) {
  s.nargs = nargs;
  s.ndim = 0;
  for (int d = 0; d < r.ndim; d++) {
    if (r.size[d] == 0) return false;
    if (r.size[d] == 1) continue;
    bool merge = s.ndim > 0;
    for (int a = 0; merge && a < nargs; a++)
      merge = s.stride[a][s.ndim - 1] == r.arg[a].stride[d] * r.size[d];
    if (!merge) s.size[s.ndim++] = 1;
    s.size[s.ndim - 1] *= r.size[d];
    for (int a = 0; a < nargs; a++) s.stride[a][s.ndim - 1] = r.arg[a].stride[d];
  }
  if (s.ndim == 0) {
    s.ndim = 1;
    s.size[0] = 1;
    for (int a = 0; a < nargs; a++) s.stride[a][0] = 0;
  }
  return true;
}

// Steps all but the innermost dimension; false when the space is done. at[] are element offsets.
static inline bool index_next(const IndexSpace& s, int64_t* count, int64_t* at) {
  for (int d = s.ndim - 2; d >= 0; d--) {
    for (int a = 0; a < s.nargs; a++) at[a] += s.stride[a][d];
    if (++count[d] < s.size[d]) return true;
    for (int a = 0; a < s.nargs; a++) at[a] -= s.stride[a][d] * s.size[d];
    count[d] = 0;
  }
  return false;
}

// ---------------------------------------------------------------- index tensors
template <class I>
static inline bool index_check_row(const I* p, int64_t n, int64_t step, int64_t low, int64_t size, int64_t* bad) {
  if (step == 1) {  // by vectors
    uint64_t outside = 0;
    for (int64_t i = 0; i < n; i++) outside |= uint64_t(int64_t(p[i]) - low) >= uint64_t(size - low);
    if (!outside) return true;
  }
  for (int64_t i = 0; i < n; i++) {
    const int64_t v = p[i * step];
    if (v < low || v >= size) {
      *bad = v;
      return false;
    }
  }
  return true;
}

// First pass: every element of every index tensor, before anything is written.
static inline int index_check(const Record& r, const IndexSpace& s) {
  for (int k = 0; k < r.ints[0]; k++) {
    const int64_t size = r.ints[1 + 2 * k], low = r.flags & INDEX_WRAP ? -size : 0;
    IndexSpace t;  // the dimensions this tensor runs over
    t.ndim = 0;
    t.nargs = 1;
    for (int d = 0; d < s.ndim; d++)
      if (s.stride[2 + k][d] != 0) {
        t.size[t.ndim] = s.size[d];
        t.stride[0][t.ndim++] = s.stride[2 + k][d];
      }
    if (t.ndim == 0) {
      t.size[0] = 1;
      t.stride[0][t.ndim++] = 0;
    }
    int64_t count[MAX_DIMS] = {}, at[1] = {0}, bad = 0;
    const int64_t n = t.size[t.ndim - 1], step = t.stride[0][t.ndim - 1];
    do {
      const char* p = r.arg[2 + k].data;
      const bool good = r.arg[2 + k].dtype == I32
                            ? index_check_row((const int32_t*)p + at[0], n, step, low, size, &bad)
                            : index_check_row((const int64_t*)p + at[0], n, step, low, size, &bad);
      if (!good) {
        r.error[0] = bad;
        r.error[1] = size;
        r.error[2] = k;
        return INDEX_OUT_OF_RANGE;
      }
    } while (index_next(t, count, at));
  }
  return OK;
}

static inline int64_t index_value(const Arg& a, int64_t at, int64_t size) {
  const int64_t v = a.dtype == I32 ? ((const int32_t*)a.data)[at] : ((const int64_t*)a.data)[at];
  return v < 0 ? v + size : v;
}

// What to do with one element: `direct` follows the iteration space, `indexed` the index tensors.
template <class T>
struct IndexGet {
  typedef T Data;
  static constexpr bool reads = true, copies = true;
  static void one(T* direct, T* indexed) { *direct = *indexed; }
};
struct IndexChanges {
  static constexpr bool reads = false, copies = false;
};
template <class T>
struct IndexAssign : IndexChanges {
  typedef T Data;
  static constexpr bool copies = true;
  static void one(T* direct, T* indexed) { *indexed = *direct; }
};
template <class T>
struct IndexAdd : IndexChanges {
  typedef T Data;
  static void one(T* direct, T* indexed) { *indexed = T(*indexed + *direct); }
};
template <>
struct IndexAdd<bool> : IndexChanges {
  typedef bool Data;
  static void one(bool* direct, bool* indexed) { *indexed = *indexed | *direct; }
};
template <class T>
struct IndexMultiply : IndexChanges {
  typedef T Data;
  static void one(T* direct, T* indexed) { *indexed = T(*indexed * *direct); }
};
template <class T>
struct IndexMaximum : IndexChanges {  // a NaN on either side stays
  typedef T Data;
  static void one(T* direct, T* indexed) { *indexed = *direct > *indexed || *direct != *direct ? *direct : *indexed; }
};
template <class T>
struct IndexMinimum : IndexChanges {
  typedef T Data;
  static void one(T* direct, T* indexed) { *indexed = *direct < *indexed || *direct != *direct ? *direct : *indexed; }
};

// One index tensor that moves along the innermost dimension.
template <class Op, class I, class T>
static inline void index_walk_row(T* d, int64_t sd, T* x, int64_t si, const I* p, int64_t sk, int64_t n, int64_t size, int64_t step) {
  if (Op::reads && sd == 1 && si == 0 && sk == 1 && step == 1) {  // gather along rows
    for (int64_t i = 0; i < n; i++) d[i] = x[p[i] < 0 ? p[i] + size : p[i]];
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    const int64_t v = p[i * sk];
    Op::one(d + i * sd, x + i * si + (v < 0 ? v + size : v) * step);
  }
}

// Rows of adjacent elements, one index each.
template <class Op, class I>
static inline void index_rows(const Record& r, const IndexSpace& s, int direct, int indexed) {
  typedef typename Op::Data T;
  const int64_t rows = s.size[0], inner = s.size[1], size = r.ints[1], step = r.ints[2], sd = s.stride[direct][1];
  const int64_t down = s.stride[direct][0], along = s.stride[indexed][0], next = s.stride[2][0];
  const I* p = (const I*)r.arg[2].data;
  T* d = (T*)r.arg[direct].data;
  T* x = (T*)r.arg[indexed].data;
  constexpr int64_t AHEAD = 8;  // rows that are asked for before their turn
  for (int64_t i = 0; i < rows; i++, p += next, d += down, x += along) {
    if (i + AHEAD < rows) {
      const int64_t soon = p[AHEAD * next];
      __builtin_prefetch(x + AHEAD * along + (soon < 0 ? soon + size : soon) * step);
    }
    T* const e = x + (*p < 0 ? *p + size : *p) * step;
    if (sd == 1) copy_short((char*)(Op::reads ? d : e), (const char*)(Op::reads ? e : d), size_t(inner) * sizeof(T));
    else for (int64_t k = 0; k < inner; k++) Op::one(d + k * sd, e + k);
  }
}

template <class Op>
static inline void index_walk(const Record& r, const IndexSpace& s, int direct, int indexed) {
  typedef typename Op::Data T;
  const int n = int(r.ints[0]), last = s.ndim - 1;
  const int64_t inner = s.size[last], sd = s.stride[direct][last], si = s.stride[indexed][last];
  bool moves = false;  // does an index tensor move along the innermost dimension
  for (int k = 0; k < n; k++) moves |= s.stride[2 + k][last] != 0;
  if constexpr (Op::copies)
    if (n == 1 && s.ndim == 2 && !moves && si == 1) {
      if (r.arg[2].dtype == I32) index_rows<Op, int32_t>(r, s, direct, indexed);
      else index_rows<Op, int64_t>(r, s, direct, indexed);
      return;
    }
  int64_t count[MAX_DIMS] = {}, at[MAX_ARGS] = {};
  do {
    T* d = (T*)r.arg[direct].data + at[direct];
    T* x = (T*)r.arg[indexed].data + at[indexed];
    if (!moves) {
      for (int k = 0; k < n; k++) x += index_value(r.arg[2 + k], at[2 + k], r.ints[1 + 2 * k]) * r.ints[2 + 2 * k];
      if (sd == 1 && si == 1)
        for (int64_t i = 0; i < inner; i++) Op::one(d + i, x + i);
      else
        for (int64_t i = 0; i < inner; i++) Op::one(d + i * sd, x + i * si);
    } else if (n == 1) {
      const int64_t size = r.ints[1], step = r.ints[2], sk = s.stride[2][last];
      const char* p = r.arg[2].data;
      if (r.arg[2].dtype == I32)
        index_walk_row<Op>(d, sd, x, si, (const int32_t*)p + at[2], sk, inner, size, step);
      else
        index_walk_row<Op>(d, sd, x, si, (const int64_t*)p + at[2], sk, inner, size, step);
    } else {
      for (int64_t i = 0; i < inner; i++) {
        T* e = x + i * si;
        for (int k = 0; k < n; k++)
          e += index_value(r.arg[2 + k], at[2 + k] + i * s.stride[2 + k][last], r.ints[1 + 2 * k]) * r.ints[2 + 2 * k];
        Op::one(d + i * sd, e);
      }
    }
  } while (index_next(s, count, at));
}

template <template <class> class Op>
static inline int index_walk_sized(const Record& r, const IndexSpace& s, int direct, int indexed) {
  switch (item_size(r.compute)) {
    case 1: index_walk<Op<uint8_t>>(r, s, direct, indexed); return OK;
    case 4: index_walk<Op<uint32_t>>(r, s, direct, indexed); return OK;
    case 8: index_walk<Op<uint64_t>>(r, s, direct, indexed); return OK;
  }
  return UNSUPPORTED;
}

template <template <class> class Op>
static inline int index_walk_typed(const Record& r, const IndexSpace& s) {
  switch (r.compute) {
    case F32: index_walk<Op<float>>(r, s, 1, 0); return OK;
    case F64: index_walk<Op<double>>(r, s, 1, 0); return OK;
    case I64: index_walk<Op<int64_t>>(r, s, 1, 0); return OK;
    case I32: index_walk<Op<int32_t>>(r, s, 1, 0); return OK;
    case U8: index_walk<Op<uint8_t>>(r, s, 1, 0); return OK;
    case BOOL: index_walk<Op<bool>>(r, s, 1, 0); return OK;
  }
  return UNSUPPORTED;
}

int k_index_get(const Record& r) {
  IndexSpace s;
  if (r.ints[0] < 1 || r.ints[0] > INDEX_MAX_TENSORS) return UNSUPPORTED;
  if (!index_space(r, 2 + int(r.ints[0]), s)) return OK;
  if (int status = index_check(r, s)) return status;
  return index_walk_sized<IndexGet>(r, s, 0, 1);
}

int k_index_put(const Record& r) {
  IndexSpace s;
  if (r.ints[0] < 1 || r.ints[0] > INDEX_MAX_TENSORS) return UNSUPPORTED;
  if (!index_space(r, 2 + int(r.ints[0]), s)) return OK;
  if (int status = index_check(r, s)) return status;
  switch (r.op) {
    case INDEX_ASSIGN: return index_walk_sized<IndexAssign>(r, s, 1, 0);
    case INDEX_ADD: return index_walk_typed<IndexAdd>(r, s);
    case INDEX_MULTIPLY: return index_walk_typed<IndexMultiply>(r, s);
    case INDEX_MAXIMUM: return index_walk_typed<IndexMaximum>(r, s);
    case INDEX_MINIMUM: return index_walk_typed<IndexMinimum>(r, s);
  }
  return UNSUPPORTED;
}

constexpr int PICKED = 64;  // elements picked at a time, without branches that nobody can foresee

// ---------------------------------------------------------------- nonzero
template <class T>
static inline int64_t nonzero_count(const char* data, const IndexSpace& s, int arg) {
  int64_t count[MAX_DIMS] = {}, at[MAX_ARGS] = {}, total = 0;
  const int last = s.ndim - 1;
  const int64_t inner = s.size[last], step = s.stride[arg][last];
  do {
    const T* p = (const T*)data + at[arg];
    if (step == 1)
      for (int64_t i = 0; i < inner; i++) total += p[i] != T(0);
    else
      for (int64_t i = 0; i < inner; i++) total += p[i * step] != T(0);
  } while (index_next(s, count, at));
  return total;
}

template <class T>
static inline int nonzero_run(const Record& r) {
  if (r.op == 0) {
    // Only the input: the scalar output does not walk the space.
    Record in = r;
    in.arg[0] = r.arg[1];
    IndexSpace s;
    *(int64_t*)r.arg[0].data = index_space(in, 1, s) ? nonzero_count<T>(r.arg[1].data, s, 0) : 0;
    return OK;
  }
  int64_t at[MAX_DIMS] = {}, *out = (int64_t*)r.arg[0].data;
  const int64_t row = r.arg[0].stride[0], column = r.arg[0].stride[1];
  for (int d = 0; d < r.ndim; d++)
    if (r.size[d] == 0) return OK;
  const T* p = (const T*)r.arg[1].data;
  const int last = r.ndim - 1;
  const int64_t n = last < 0 ? 1 : r.size[last], step = last < 0 ? 0 : r.arg[1].stride[last];
  for (;;) {
    for (int64_t i = 0; i < n; i += PICKED) {
      const int m = int(n - i < PICKED ? n - i : PICKED);
      int picked[PICKED], k = 0;
      for (int j = 0; j < m; j++) picked[k] = j, k += p[(i + j) * step] != T(0);
      for (int j = 0; j < k; j++, out += row) {
        for (int d = 0; d < last; d++) out[d * column] = at[d];
        if (last >= 0) out[last * column] = i + picked[j];
      }
    }
    int d = last - 1;
    for (; d >= 0; d--) {
      p += r.arg[1].stride[d];
      if (++at[d] < r.size[d]) break;
      p -= r.arg[1].stride[d] * r.size[d];
      at[d] = 0;
    }
    if (d < 0) return OK;
  }
}

int k_nonzero(const Record& r) {
  switch (r.compute) {
    case F32: return nonzero_run<float>(r);
    case F64: return nonzero_run<double>(r);
    case I64: return nonzero_run<int64_t>(r);
    case I32: return nonzero_run<int32_t>(r);
    case U8:
    case BOOL: return nonzero_run<uint8_t>(r);
  }
  return UNSUPPORTED;
}

// ---------------------------------------------------------------- masks
template <class T>
static inline void masked_select_run(const Record& r, const IndexSpace& s) {
  int64_t count[MAX_DIMS] = {}, at[MAX_ARGS] = {};
  const int last = s.ndim - 1;
  T* out = (T*)r.arg[0].data;
  do {
    const T* x = (const T*)r.arg[1].data + at[0];
    const uint8_t* m = (const uint8_t*)r.arg[2].data + at[1];
    const int64_t sx = s.stride[0][last], sm = s.stride[1][last];
    for (int64_t i = 0; i < s.size[last]; i += PICKED) {
      const int n = int(s.size[last] - i < PICKED ? s.size[last] - i : PICKED);
      T picked[PICKED];
      int k = 0;
      for (int j = 0; j < n; j++, x += sx, m += sm) picked[k] = *x, k += *m != 0;
      std::memcpy(out, picked, k * sizeof(T));
      out += k;
    }
  } while (index_next(s, count, at));
}

template <class T>
static inline void masked_scatter_run(const Record& r, const IndexSpace& s) {
  int64_t count[MAX_DIMS] = {}, at[MAX_ARGS] = {};
  const int last = s.ndim - 1;
  const T* from = (const T*)r.arg[2].data;
  const int step = r.flags & INDEX_ONE_VALUE ? 0 : 1;
  do {
    T* x = (T*)r.arg[0].data + at[0];
    const uint8_t* m = (const uint8_t*)r.arg[1].data + at[1];
    for (int64_t i = 0; i < s.size[last]; i++)
      if (m[i * s.stride[1][last]]) x[i * s.stride[0][last]] = *from, from += step;
  } while (index_next(s, count, at));
}

int k_masked_select(const Record& r) {
  Record in = r;  // the packed operand does not walk the space
  in.arg[0] = r.arg[1];
  in.arg[1] = r.arg[2];
  IndexSpace s;
  if (!index_space(in, 2, s)) return OK;
  switch (item_size(r.compute)) {
    case 1: masked_select_run<uint8_t>(r, s); return OK;
    case 4: masked_select_run<uint32_t>(r, s); return OK;
    case 8: masked_select_run<uint64_t>(r, s); return OK;
  }
  return UNSUPPORTED;
}

int k_masked_scatter(const Record& r) {
  IndexSpace s;
  if (!index_space(r, 2, s)) return OK;
  const int64_t needed = r.flags & INDEX_ONE_VALUE ? 0 : nonzero_count<uint8_t>(r.arg[1].data, s, 1);
  if (needed > r.ints[0]) {
    r.error[0] = needed;
    r.error[1] = r.ints[0];
    return INDEX_OUT_OF_RANGE;
  }
  switch (item_size(r.compute)) {
    case 1: masked_scatter_run<uint8_t>(r, s); return OK;
    case 4: masked_scatter_run<uint32_t>(r, s); return OK;
    case 8: masked_scatter_run<uint64_t>(r, s); return OK;
  }
  return UNSUPPORTED;
}

// ---------------------------------------------------------------- one_hot, cat
int k_one_hot(const Record& r) {
  const int64_t n = r.ints[0], classes = r.ints[1];
  int64_t* out = (int64_t*)r.arg[0].data;
  const int64_t* index = (const int64_t*)r.arg[1].data;
  for (int64_t i = 0; i < n; i++)
    if (index[i] < 0 || index[i] >= classes) {
      r.error[0] = index[i];
      return TARGET_OUT_OF_RANGE;
    }
  memset(out, 0, n * classes * sizeof(int64_t));
  for (int64_t i = 0; i < n; i++) out[i * classes + index[i]] = 1;
  return OK;
}

template <class T> static inline void cat_elements(char* to, const char* from, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; row++, to += width, from += sizeof(T)) memcpy(to, from, sizeof(T));
}

int k_cat(const Record& r) {
  const int64_t item = item_size(r.compute), rows = r.ints[0], width = r.ints[1] * item;
  // By blocks of rows that stay in the cache until all operands have written theirs.
  constexpr int64_t BLOCK = 1 << 15;
  const int64_t block = width >= BLOCK ? 1 : BLOCK / width;
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t count = rows - first < block ? rows - first : block;
    char* column = r.arg[0].data + first * width;
    for (uint32_t i = 0; i < r.nlist; i++) {
      const int64_t bytes = r.list[i].stride[0] * item;
      const char* from = r.list[i].data + first * bytes;
      char* to = column;
      switch (bytes) {
        case 0: break;
        case 1: cat_elements<uint8_t>(to, from, count, width); break;
        case 4: cat_elements<uint32_t>(to, from, count, width); break;
        case 8: cat_elements<uint64_t>(to, from, count, width); break;
        default:
          for (int64_t row = 0; row < count; row++, to += width, from += bytes) {
            if (bytes <= 64) copy_short(to, from, size_t(bytes));
            else memcpy(to, from, size_t(bytes));
          }
      }
      column += bytes;
    }
  }
  return OK;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
