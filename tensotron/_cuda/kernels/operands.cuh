// A kernel's parameter is the launch record itself, its data pointers rebased to the device by
// launch.py. This reads and writes operands through it.
#pragma once
#include "../../_cpu/record.h"
#include "scalar.cuh"

namespace tensotron {
namespace cuda {

// An inline constant lives in the record: its `data` is an offset from the record's start.
TENSOTRON_DEVICE const char* base(const Record& r, const Arg& a) {
  return a.is_const ? reinterpret_cast<const char*>(&r) + reinterpret_cast<size_t>(a.data) : a.data;
}

TENSOTRON_DEVICE float load(const Record& r, const Arg& a, int64_t i) {
  const char* p = base(r, a);
  switch (a.dtype) {
    case F32: return reinterpret_cast<const float*>(p)[i];
    case F64: return float(reinterpret_cast<const double*>(p)[i]);
    case I64: return float(reinterpret_cast<const int64_t*>(p)[i]);
    case I32: return float(reinterpret_cast<const int32_t*>(p)[i]);
    default: return float(reinterpret_cast<const uint8_t*>(p)[i]);
  }
}

TENSOTRON_DEVICE void store(const Arg& a, int64_t i, float v) {
  switch (a.dtype) {
    case F32: reinterpret_cast<float*>(a.data)[i] = v; break;
    case F64: reinterpret_cast<double*>(a.data)[i] = v; break;
    case I64: reinterpret_cast<int64_t*>(a.data)[i] = int64_t(v); break;
    case I32: reinterpret_cast<int32_t*>(a.data)[i] = int32_t(v); break;
    case U8: reinterpret_cast<uint8_t*>(a.data)[i] = uint8_t(int64_t(v)); break;
    default: reinterpret_cast<uint8_t*>(a.data)[i] = v != 0;
  }
}

// Elements of the dimensions [first, last).
TENSOTRON_DEVICE int64_t count(const Record& r, int first, int last) {
  int64_t n = 1;
  for (int d = first; d < last; ++d) n *= r.size[d];
  return n;
}

// Offset of element i, counted row-major over the dimensions [first, last).
TENSOTRON_DEVICE int64_t offset(const Record& r, const Arg& a, int64_t i, int first, int last) {
  int64_t o = 0;
  for (int d = last - 1; d >= first; --d) {
    o += i % r.size[d] * a.stride[d];
    i /= r.size[d];
  }
  return o;
}

}  // namespace cuda
}  // namespace tensotron
