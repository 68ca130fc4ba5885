// Every row of the elementwise and reduction tables, and matrix products, on fixed inputs, results to standard
// output: run for two instruction sets and compared by tests/test_kernels_isa.py. TENSOTRON_ISA names the one of this build.
// Output, repeated: name, dtype and count as one line of text, then the raw results.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tensotron/_cpu/kernels.h"
#include "tensotron/_ops/elementwise.h"

using namespace tensotron;

namespace {

enum ReduceId : int {
#define FOLD(name, ...) REDUCE_##name,
#define FLOAT_FOLD(name, ...) REDUCE_##name,
#define TRUTH(name, ...) REDUCE_##name,
#define FINISHED(name, ...) REDUCE_##name,
#define SCAN(name, ...) REDUCE_##name,
#define MOMENT(name) REDUCE_##name,
#define LOGSUMEXP(name) REDUCE_##name,
#include "tensotron/_ops/reduce.def"
  NUM_REDUCTIONS
};

struct Reduction {
  const char* name;
  int outputs;
  bool index_first, floating_only;
};
const Reduction reductions[] = {
#define FOLD(name, ...) {#name, 1, false, false},
#define FLOAT_FOLD(name, ...) {#name, 1, false, true},
#define TRUTH(name, ...) {#name, 1, true, false},
#define FINISHED(name, ...) {#name, 1, false, true},
#define SCAN(name, ...) {#name, 0, true, false},
#define MOMENT(name) {#name, 0, false, true},
#define LOGSUMEXP(name) {#name, 1, false, true},
#include "tensotron/_ops/reduce.def"
};

uint64_t seed = 1;
double uniform() {  // [0, 1), the same on every machine
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return double(seed >> 11) / 9007199254740992.0;
}

template <class T>
std::vector<T> inputs(int64_t n, int salt, bool special) {
  static const double odd[] = {0.0, -0.0, 1.0, -1.0, 0.5, -2.0, INFINITY, -INFINITY, NAN, 1e-40, 1e-30, 1e30, 88.7, -103.0};
  seed = uint64_t(salt) * 977 + 13;
  std::vector<T> v(n);
  for (auto& x : v) {
    if (T(0.5) == 0)
      x = T(uniform() * 40 - 20);
    else
      x = T(special && uniform() < 0.2 ? odd[int(uniform() * 14)] : (uniform() * 2 - 1) * std::exp(uniform() * 6 - 3));
  }
  return v;
}

void emit(const std::string& name, int dtype, const void* data, int64_t count) {
  std::printf("%s %d %lld\n", name.c_str(), dtype, (long long)count);
  std::fwrite(data, item_size(dtype), size_t(count), stdout);
}

Arg dense(void* data, int dtype, int64_t stride = 1) {
  Arg a{};
  a.data = static_cast<char*>(data);
  a.dtype = uint8_t(dtype);
  a.stride[0] = stride;
  return a;
}

int run(Record& r) { return TENSOTRON_ISA::table[r.kernel](r); }

template <class T>
void elementwise(int dtype, int64_t n) {
  for (int row = 0; row < NUM_ROWS; ++row) {
    const RowInfo& info = rows::info[row];
    const bool integer = dtype == I64;
    if (!(info.types & (integer ? TYPES_I : TYPES_F))) continue;
    for (int which = FORWARD; which <= (integer ? 0 : int(info.nin)); ++which) {
      Record r{};
      r.kernel = K_elementwise;
      r.op = uint16_t(row_op(row, which));
      r.nout = 1;
      r.nin = uint8_t(expression_inputs(row, which));
      r.ndim = 1;
      r.compute = uint8_t(dtype);
      r.size[0] = n;
      for (int k = 0; k < 4; ++k) r.reals[k] = 0.5 + k, r.ints[k] = 2 + k;
      std::vector<T> out(n), in[4];
      r.arg[0] = dense(out.data(), dtype);
      for (int k = 0; k < r.nin; ++k) {
        in[k] = inputs<T>(n, k, which == FORWARD);
        if (integer && k > 0)
          for (auto& x : in[k]) x = x == 0 ? 3 : x;
        r.arg[1 + k] = dense(in[k].data(), dtype);
      }
      if (run(r) == OK) emit("elementwise " + std::string(info.name) + " " + std::to_string(which), dtype, out.data(), n);
    }
  }
}

// kept x reduced, the reduced dimension contiguous or strided
template <class T>
void reduce(int dtype, int64_t kept, int64_t reduced, bool columns) {
  for (int row = 0; row < NUM_REDUCTIONS; ++row) {
    const Reduction& info = reductions[row];
    if (info.outputs != 1 || (dtype == I64 && info.floating_only)) continue;
    std::vector<T> in = inputs<T>(kept * reduced, row, false), out(kept);
    std::vector<int64_t> index(kept);
    Record r{};
    r.kernel = K_reduce;
    r.op = uint16_t(row);
    r.nout = r.nin = 1;
    r.ndim = 2;
    r.compute = uint8_t(dtype);
    r.size[0] = kept, r.size[1] = reduced;
    r.ints[0] = 1;
    r.arg[0] = info.index_first ? dense(index.data(), I64) : dense(out.data(), dtype);
    r.arg[1] = dense(in.data(), dtype, columns ? 1 : reduced);
    r.arg[1].stride[1] = columns ? kept : 1;
    if (run(r) != OK) continue;
    const std::string name = std::string("reduce ") + info.name + (columns ? " columns" : " rows");
    if (info.index_first)
      emit(name, I64, index.data(), kept);
    else
      emit(name, dtype, out.data(), kept);
  }
}

// act(alpha A B + beta bias) in all four transpose forms; C by rows or by columns
template <class T>
void products(int dtype, int64_t m, int64_t n, int64_t k, int activation) {
  std::vector<T> a = inputs<T>(m * k, 1, false), b = inputs<T>(k * n, 2, false), bias = inputs<T>(n, 3, false), c(m * n);
  for (int form = 0; form < 8; ++form) {
    auto matrix = [&](std::vector<T>& v, int64_t rows, int64_t cols, bool by_columns) {
      Arg x = dense(v.data(), dtype, 0);
      x.stride[1] = by_columns ? 1 : cols;
      x.stride[2] = by_columns ? rows : 1;
      return x;
    };
    Record r{};
    r.kernel = K_gemm;
    r.op = uint16_t(activation);
    r.nout = 1;
    r.nin = 3;
    r.compute = uint8_t(dtype);
    r.ints[0] = 1, r.ints[1] = m, r.ints[2] = n, r.ints[3] = k, r.ints[4] = 2, r.ints[5] = 3;
    r.reals[0] = activation < 2 ? 2 : 0.002, r.reals[1] = activation < 2 ? 3 : 0.003;  // tanh and sigmoid near 0
    r.arg[0] = matrix(c, m, n, form & 4);
    r.arg[1] = matrix(a, m, k, form & 1);
    r.arg[2] = matrix(b, k, n, form & 2);
    r.arg[3] = dense(bias.data(), dtype, 0);
    r.arg[3].stride[2] = 1;
    if (run(r) == OK) emit("gemm " + std::to_string(activation) + " " + std::to_string(form), dtype, c.data(), m * n);
  }
}

void conversions() {
  for (int from = 0; from < NUM_DTYPES; ++from)
    for (int to = 0; to < NUM_DTYPES; ++to) {
      const int64_t n = 37;
      std::vector<double> source = inputs<double>(n, 5, false);
      char a[37 * 8], b[37 * 8];
      std::memset(b, 0, sizeof b);
      for (auto& x : source) x = std::fabs(x) * 10;
      Record r{};
      r.kernel = K_copy;
      r.nout = r.nin = 1;
      r.ndim = 1;
      r.size[0] = n;
      r.arg[0] = dense(a, from);
      r.arg[1] = dense(source.data(), F64);
      if (run(r) != OK) continue;
      r.arg[0] = dense(b, to);
      r.arg[1] = dense(a, from);
      if (run(r) == OK) emit("copy " + std::to_string(from) + " to", to, b, n);
    }
}

}  // namespace

int main() {
  for (int64_t n : {1, 3, 16, 131}) {
    elementwise<float>(F32, n);
    elementwise<double>(F64, n);
    elementwise<int64_t>(I64, n);
  }
  for (bool columns : {false, true})
    for (int64_t reduced : {1, 5, 64, 1000}) {
      reduce<float>(F32, 7, reduced, columns);
      reduce<double>(F64, 7, reduced, columns);
      reduce<int64_t>(I64, 7, reduced, columns);
    }
  for (auto& size : {std::vector<int64_t>{1, 1, 70}, {1, 40, 33}, {3, 5, 7}, {19, 23, 64}, {33, 70, 300}})
    for (int activation = 0; activation < 4; ++activation) {
      products<float>(F32, size[0], size[1], size[2], activation);
      products<double>(F64, size[0], size[1], size[2], activation);
      if (!activation) products<int64_t>(I64, size[0], size[1], size[2], 0);
    }
  conversions();
  return 0;
}
