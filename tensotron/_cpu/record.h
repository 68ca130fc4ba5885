// The launch record: everything a kernel needs to know, as plain data.
// Python, Cython and C++ share this header; it must stay free of Python.h and of the STL.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tensotron {

enum DType : uint8_t { F32 = 0, F64 = 1, I64 = 2, I32 = 3, U8 = 4, BOOL = 5, NUM_DTYPES = 6 };

constexpr int64_t item_size(int dtype) {
  return dtype == F32 || dtype == I32 ? 4 : dtype == F64 || dtype == I64 ? 8 : 1;
}

constexpr int MAX_DIMS = 8;  // after coalescing; the launcher loops over what remains above
constexpr int MAX_ARGS = 8;
constexpr int MAX_INTS = 28;
constexpr int MAX_REALS = 8;

// One kernel entry of a family; see kernels.def.
enum KernelId : uint16_t {
#define KERNEL(name) K_##name,
#include "kernels.def"
#undef KERNEL
  NUM_KERNELS
};

enum Status : int {
  OK = 0,
  INDEX_OUT_OF_RANGE = 1,   // error[0] = offending index, error[1] = dimension size
  TARGET_OUT_OF_RANGE = 2,  // error[0] = offending class
  DIVISION_BY_ZERO = 3,     // integer division
  OUT_OF_MEMORY = 4,
  PROBABILITY_OUT_OF_RANGE = 5,
  NEGATIVE_POWER = 6,       // integer base, negative integer exponent
  UNSUPPORTED = 7,          // a kernel does not implement this combination: a bug of the caller
};

// One operand. Strides are in elements; an operand that does not move along a dimension has
// stride 0 there. `buffer` names the storage for capture (null for inline constants).
struct Arg {
  char* data;
  void* buffer;
  int64_t stride[MAX_DIMS];
  uint8_t dtype;
  uint8_t is_const;  // data points into Record::reals or Record::ints; in a recorded copy, its offset
};

// Layout convention: arg[0 .. nout) are outputs, arg[nout .. nout+nin) inputs.
struct Record {
  uint16_t kernel;  // KernelId
  uint16_t op;      // row of the family's table (RowId for elementwise kernels)
  uint8_t nout, nin, ndim;
  uint8_t compute;  // dtype the arithmetic is done in
  uint8_t device;
  uint8_t flags;
  uint32_t nlist;             // number of operands behind `list`
  int64_t size[MAX_DIMS];     // iteration space, outermost first
  Arg arg[MAX_ARGS];
  Arg* list;                  // variable-length operand list (cat, multi-tensor steps) or null
  void* state;                // generator, optimiser scalars
  int64_t ints[MAX_INTS];     // kernel's own parameters
  double reals[MAX_REALS];
  mutable int64_t error[4];   // detail of a non-zero status
};

typedef int (*KernelFn)(const Record&);

}  // namespace tensotron
