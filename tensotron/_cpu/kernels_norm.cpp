// Part of one ISA's kernels; see kernels.cpp.
#include "loss-inl.h"
#include "norm-inl.h"
#include "softmax-inl.h"
