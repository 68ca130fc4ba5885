// V = Sym: instantiating a row with symbols yields its expression as a list of steps, which the
// autograd executes with public tensor ops when the backward itself is to be differentiated.
#pragma once
#include "elementwise.h"

namespace tensotron {
namespace symbolic {

enum StepKind : int { STEP_INPUT, STEP_PARAM, STEP_CONST, STEP_CALL };

struct Step {
  int kind;
  const char* name;  // of the function called
  int arg[3];        // indices of earlier steps, or the number of the input or parameter
  double value;
};

constexpr int MAX_STEPS = 256;
struct Tape {
  Step step[MAX_STEPS];
  int n;
};

inline Tape& tape() {
  static Tape t;
  return t;
}

struct Sym {
  int id;
  Sym() : id(-1) {}
  explicit Sym(double v) : id(push({STEP_CONST, nullptr, {0, 0, 0}, v})) {}
  static Sym at(int id) {
    Sym s;
    s.id = id;
    return s;
  }
  static int push(const Step& s) {
    Tape& t = tape();
    if (t.n < MAX_STEPS) t.step[t.n] = s;
    return t.n++;
  }
  static Sym call(const char* name, Sym a, Sym b = Sym(), Sym c = Sym()) {
    return at(push({STEP_CALL, name, {a.id, b.id, c.id}, 0}));
  }
};

inline Sym operator+(Sym a, Sym b) { return Sym::call("add", a, b); }
inline Sym operator-(Sym a, Sym b) { return Sym::call("sub", a, b); }
inline Sym operator*(Sym a, Sym b) { return Sym::call("mul", a, b); }
inline Sym operator/(Sym a, Sym b) { return Sym::call("div", a, b); }
inline Sym operator-(Sym a) { return Sym::call("neg", a); }
inline Sym select(Sym m, Sym a, Sym b) { return Sym::call("where", m, a, b); }
#define SYM1(name) \
  inline Sym name(Sym a) { return Sym::call(#name, a); }
#define SYM2(name, op) \
  inline Sym name(Sym a, Sym b) { return Sym::call(#op, a, b); }
SYM1(abs) SYM1(sign) SYM1(square) SYM1(sqrt) SYM1(exp) SYM1(exp2) SYM1(expm1) SYM1(log) SYM1(log2) SYM1(log10)
SYM1(log1p) SYM1(sin) SYM1(cos) SYM1(tan) SYM1(asin) SYM1(acos) SYM1(atan) SYM1(sinh) SYM1(cosh) SYM1(tanh)
SYM1(asinh) SYM1(acosh) SYM1(atanh) SYM1(erf) SYM1(erfc) SYM1(sigmoid) SYM1(floor) SYM1(ceil) SYM1(trunc)
inline Sym rint(Sym a) { return Sym::call("round", a); }
SYM2(pow, pow) SYM2(atan2, atan2) SYM2(lt, lt) SYM2(le, le) SYM2(gt, gt) SYM2(ge, ge) SYM2(eq, eq) SYM2(ne, ne)
SYM2(land, logical_and) SYM2(lor, logical_or) SYM2(floor_div, div_floor) SYM2(trunc_div, div_trunc)
SYM2(fmod, fmod) SYM2(remainder, remainder)
#undef SYM1
#undef SYM2

#include "functors.inc"

typedef Sym (*Trace)(const Sym* in, const Sym* p);

// Fills the tape with one derivative of a row; the index of its result.
inline int trace(int row, int expression) {
  static const Trace traces[NUM_ROWS][3] = {
#define UNARY(name, ...) {functors::name##_1::apply<Sym>, nullptr, nullptr},
#define BINARY(name, ...) {functors::name##_1::apply<Sym>, functors::name##_2::apply<Sym>, nullptr},
#define TERNARY(name, ...) \
  {functors::name##_1::apply<Sym>, functors::name##_2::apply<Sym>, functors::name##_3::apply<Sym>},
#include "elementwise.def"
#undef UNARY
#undef BINARY
#undef TERNARY
  };
  Tape& t = tape();
  t.n = 0;
  const int nin = expression_inputs(row, expression);
  Sym in[5], p[4];
  for (int k = 0; k < nin; ++k) in[k] = Sym::at(Sym::push({STEP_INPUT, nullptr, {k, 0, 0}, 0}));
  for (int k = 0; k < 4; ++k) p[k] = Sym::at(Sym::push({STEP_PARAM, nullptr, {k, 0, 0}, 0}));
  return traces[row][expression - 1](in, p).id;
}

}  // namespace symbolic
}  // namespace tensotron
