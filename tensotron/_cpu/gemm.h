// What the GEMM kernel's callers name: its epilogues.
#pragma once
#include <cstdint>

namespace tensotron {

enum GemmActivation : uint16_t { GEMM_NONE = 0, GEMM_RELU = 1, GEMM_TANH = 2, GEMM_SIGMOID = 3 };

}  // namespace tensotron
