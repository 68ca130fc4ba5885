// What an optimiser's step and its kernels (optim-inl.h) agree on.
#pragma once
#include <cstdint>

namespace tensotron {

enum OptimAlgorithm : uint16_t { OPTIM_SGD, OPTIM_ADAM, OPTIM_RMSPROP };

// ints[0] of a K_optim record: what makes a different computation, not a different number.
enum OptimFlags : int64_t {
  OPTIM_MAXIMIZE = 1,
  OPTIM_MOMENTUM = 2,   // SGD, RMSprop: there is a momentum buffer
  OPTIM_NESTEROV = 4,   // SGD
  OPTIM_AMSGRAD = 8,    // Adam
  OPTIM_DECOUPLED = 16, // Adam: weight decay of AdamW
  OPTIM_CENTERED = 32,  // RMSprop
};

// Places in the block of doubles behind Record::state.
enum OptimNumber {
  OPTIM_LR,
  OPTIM_WEIGHT_DECAY,
  OPTIM_EPS,
  OPTIM_BETA1,  // RMSprop: alpha; SGD: dampening
  OPTIM_BETA2,  // RMSprop, SGD: momentum
  OPTIM_NUMBERS,
};

}  // namespace tensotron
