// Part of one ISA's kernels; see kernels.cpp.
#include "optim-inl.h"
