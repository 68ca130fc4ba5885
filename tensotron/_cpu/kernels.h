// The kernel tables, one per compiled ISA.
#pragma once
#include "record.h"

namespace tensotron {
#define TENSOTRON_DECLARE_ISA(name)              \
  namespace name {                               \
  extern const KernelFn table[NUM_KERNELS];      \
  }
TENSOTRON_DECLARE_ISA(baseline)
TENSOTRON_DECLARE_ISA(avx2)
TENSOTRON_DECLARE_ISA(avx512)
TENSOTRON_DECLARE_ISA(neon)
#undef TENSOTRON_DECLARE_ISA
}  // namespace tensotron
