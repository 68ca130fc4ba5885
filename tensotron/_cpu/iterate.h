// Geometry of a launch: the strides of several operands over one broadcast shape, reordered so that
// memory is walked in order, with neighbouring dimensions merged.
#pragma once
#include "record.h"

namespace tensotron {

constexpr int TENSOR_DIMS = 64;

struct Iteration {
  int ndim;
  int nargs;
  int64_t size[TENSOR_DIMS];
  int64_t stride[MAX_ARGS][TENSOR_DIMS];

  void begin(int nd, const int64_t* sizes) {
    ndim = nd;
    nargs = 0;
    for (int d = 0; d < nd; ++d) size[d] = sizes[d];
  }

  // Adds an operand of a shape that broadcasts to the iteration's.
  void operand(int nd, const int64_t* sizes, const int64_t* strides) {
    int64_t* s = stride[nargs++];
    for (int d = 0; d < ndim; ++d) {
      const int e = d - (ndim - nd);
      s[d] = e < 0 || (sizes[e] == 1 && size[d] != 1) ? 0 : strides[e];
    }
  }

  // An operand that is one element everywhere.
  void constant() {
    int64_t* s = stride[nargs++];
    for (int d = 0; d < ndim; ++d) s[d] = 0;
  }

  // Order of two dimensions by the first operand in which they differ: true if `a` should be
  // outside `b`. Zero strides say nothing.
  bool outside(int a, int b) const {
    for (int k = 0; k < nargs; ++k) {
      const int64_t sa = stride[k][a] < 0 ? -stride[k][a] : stride[k][a];
      const int64_t sb = stride[k][b] < 0 ? -stride[k][b] : stride[k][b];
      if (sa == 0 || sb == 0 || sa == sb) continue;
      return sa > sb;
    }
    return a < b;
  }

  void swap_dims(int a, int b) {
    int64_t t = size[a];
    size[a] = size[b], size[b] = t;
    for (int k = 0; k < nargs; ++k) {
      t = stride[k][a];
      stride[k][a] = stride[k][b], stride[k][b] = t;
    }
  }

  // Drops dimensions of size 1, sorts (insertion sort: few dimensions, mostly in order), merges.
  void simplify(bool reorder = true) {
    int n = 0;
    for (int d = 0; d < ndim; ++d) {
      if (size[d] == 1) continue;
      if (n != d) {
        size[n] = size[d];
        for (int k = 0; k < nargs; ++k) stride[k][n] = stride[k][d];
      }
      ++n;
    }
    ndim = n;
    if (reorder)
      for (int i = 1; i < ndim; ++i)
        for (int j = i; j > 0 && !outside(j - 1, j); --j) swap_dims(j - 1, j);
    int last = 0;
    for (int d = 1; d < ndim; ++d) {
      bool merge = true;
      for (int k = 0; k < nargs && merge; ++k) merge = stride[k][last] == stride[k][d] * size[d];
      if (merge) {
        size[last] *= size[d];
        for (int k = 0; k < nargs; ++k) stride[k][last] = stride[k][d];
      } else {
        ++last;
        size[last] = size[d];
        for (int k = 0; k < nargs; ++k) stride[k][last] = stride[k][d];
      }
    }
    if (ndim > 0) ndim = last + 1;
    if (ndim == 0) {
      ndim = 1;
      size[0] = 1;
      for (int k = 0; k < nargs; ++k) stride[k][0] = 1;
    }
  }

  // Runs `launch` on the record, once, or once per index of the dimensions beyond MAX_DIMS.
  template <class Launch>
  int run(Record& r, Launch launch) const {
    const int extra = ndim > MAX_DIMS ? ndim - MAX_DIMS : 0;
    r.ndim = uint8_t(ndim - extra);
    for (int d = extra; d < ndim; ++d) {
      r.size[d - extra] = size[d];
      for (int k = 0; k < nargs; ++k) r.arg[k].stride[d - extra] = stride[k][d];
    }
    if (!extra) return launch(r);
    for (int d = 0; d < ndim; ++d)
      if (size[d] == 0) return OK;
    int64_t at[TENSOR_DIMS] = {0};
    for (;;) {
      if (const int status = launch(r)) return status;
      int d = extra - 1;
      for (; d >= 0; --d) {
        for (int k = 0; k < nargs; ++k) r.arg[k].data += stride[k][d] * item_size(r.arg[k].dtype);
        if (++at[d] < size[d]) break;
        for (int k = 0; k < nargs; ++k)
          r.arg[k].data -= stride[k][d] * size[d] * item_size(r.arg[k].dtype);
        at[d] = 0;
      }
      if (d < 0) return OK;
    }
  }
};

}  // namespace tensotron
