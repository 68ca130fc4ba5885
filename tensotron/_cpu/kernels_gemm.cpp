// Part of one ISA's kernels; see kernels.cpp.
#include "gemm-inl.h"
