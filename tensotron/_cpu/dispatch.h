// Run-time choice of the ISA, and the CPU backend's launch.
#pragma once
#include "record.h"

namespace tensotron {

extern const KernelFn* active_table;

// Chooses the kernels: "baseline", "avx2", "avx512", "neon", or null for the best the CPU has.
// False if the name is unknown or this machine or build lacks it; nothing changes then.
bool select_isa(const char* name);
const char* active_isa();
bool isa_available(const char* name);

// Whether a square root by instruction takes longer than by a dozen multiplications, where both wait for nothing else.
extern const bool slow_roots;

inline int cpu_launch(const Record& r) { return active_table[r.kernel](r); }

}  // namespace tensotron
