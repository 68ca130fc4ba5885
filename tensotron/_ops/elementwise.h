// Expands elementwise.def: row ids, what each derivative reads, and one functor per expression,
// templated on the value type V (a vector, a scalar, or Sym).
#pragma once
#include <cstdint>

namespace tensotron {

enum RowId : int {
#define UNARY(name, ...) ROW_##name,
#define BINARY(name, ...) ROW_##name,
#define TERNARY(name, ...) ROW_##name,
#include "elementwise.def"
#undef UNARY
#undef BINARY
#undef TERNARY
  NUM_ROWS
};

// Record::op of an elementwise launch: the row and which of its expressions.
enum Expression : int { FORWARD = 0, GRAD_A = 1, GRAD_B = 2, GRAD_C = 3, NUM_EXPRESSIONS = 4 };
constexpr int row_op(int row, int expression) { return row * NUM_EXPRESSIONS + expression; }

enum Uses : uint8_t { NONE = 0, USES_A = 1, USES_B = 2, USES_C = 4, USES_Y = 8 };
enum RowTypes : uint8_t { TYPES_F = 1, TYPES_I = 2, TYPES_A = 3 };

struct RowInfo {
  const char* name;
  uint8_t nin, types;
  uint8_t uses[3];
};

namespace rows {
// Short names of the table, visible to it only.
constexpr uint8_t X = USES_A, A = USES_A, B = USES_B, C = USES_C, Y = USES_Y;
constexpr RowInfo info[NUM_ROWS] = {
#define UNARY(name, TYPES, FWD, U, G) {#name, 1, TYPES_##TYPES, {uint8_t(U), 0, 0}},
#define BINARY(name, TYPES, FWD, UA, GA, UB, GB) \
  {#name, 2, TYPES_##TYPES, {uint8_t(UA), uint8_t(UB), 0}},
#define TERNARY(name, TYPES, FWD, UA, GA, UB, GB, UC, GC) \
  {#name, 3, TYPES_##TYPES, {uint8_t(UA), uint8_t(UB), uint8_t(UC)}},
#include "elementwise.def"
#undef UNARY
#undef BINARY
#undef TERNARY
};
}  // namespace rows

constexpr int popcount4(int u) { return (u & 1) + (u >> 1 & 1) + (u >> 2 & 1) + (u >> 3 & 1); }
constexpr int expression_inputs(int row, int expression) {
  return expression == FORWARD ? rows::info[row].nin
                               : 1 + popcount4(rows::info[row].uses[expression - 1]);
}
}  // namespace tensotron

#ifndef TENSOTRON_ROW_FUNCTION  // CUDA has words of its own
#define TENSOTRON_ROW_FUNCTION static inline __attribute__((always_inline))
#endif

// `in` holds the inputs of the expression: a, b, c for FORWARD; g and then what it USES, in the
// order a, b, c, y, for a derivative.
#define TENSOTRON_EXPRESSION(NAME, WHICH, OPERANDS, EXPR)                               \
  struct NAME##_##WHICH {                                                              \
    template <class V>                                                                 \
    TENSOTRON_ROW_FUNCTION V apply(const V* in, const V* p) {                          \
      OPERANDS const V p0 = p[0], p1 = p[1], p2 = p[2], p3 = p[3];                     \
      (void)p0, (void)p1, (void)p2, (void)p3;                                          \
      return EXPR;                                                                     \
    }                                                                                  \
  };
#define TENSOTRON_FWD1 const V x = in[0];
#define TENSOTRON_FWD2 const V a = in[0], b = in[1];
#define TENSOTRON_FWD3 const V a = in[0], b = in[1], c = in[2];
// operands that are not read alias g and are optimised away
#define TENSOTRON_BWD(NAME, I)                                                              \
  constexpr int u = ::tensotron::rows::info[::tensotron::ROW_##NAME].uses[I], ia = 1,       \
                ib = ia + !!(u & USES_A), ic = ib + !!(u & USES_B), iy = ic + !!(u & USES_C); \
  const V g = in[0], a = in[u & USES_A ? ia : 0], b = in[u & USES_B ? ib : 0],              \
          c = in[u & USES_C ? ic : 0], y = in[u & USES_Y ? iy : 0], &x = a;                 \
  (void)g, (void)a, (void)b, (void)c, (void)y, (void)x;
