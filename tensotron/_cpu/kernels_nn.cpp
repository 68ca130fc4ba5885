// Part of one ISA's kernels; see kernels.cpp.
#include "conv-inl.h"
#include "pool-inl.h"
