// Part of one ISA's kernels; see kernels.cpp.
#include "elementwise-inl.h"
