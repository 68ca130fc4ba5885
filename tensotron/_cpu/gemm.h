// What the GEMM kernel's callers name: its epilogues.
#pragma once
#include <cstdint>

namespace tensotron {

// The last three: C = (A @ B) f'(Y), as in the backward pass behind Y = f(...).
enum GemmActivation : uint16_t {
  GEMM_NONE = 0,
  GEMM_RELU = 1,
  GEMM_TANH = 2,
  GEMM_SIGMOID = 3,
  GEMM_RELU_GRAD = 4,
  GEMM_TANH_GRAD = 5,
  GEMM_SIGMOID_GRAD = 6,
};

}  // namespace tensotron
