// Part of one ISA's kernels; see kernels.cpp.
#include "reduce-inl.h"
#include "scan-inl.h"
