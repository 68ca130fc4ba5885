// Part of one ISA's kernels; see kernels.cpp.
#include "index-inl.h"
