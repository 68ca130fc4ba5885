// Row ids of loss.def and the reductions of losses, for the launching side and the kernels.
#pragma once
#include <cstdint>

namespace tensotron {

enum LossId : uint16_t {
#define LOSS(name, value, dx, dt) LOSS_##name,
#include "loss.def"
#undef LOSS
  NUM_LOSSES
};

enum LossReduction : int { LOSS_NONE = 0, LOSS_MEAN = 1, LOSS_SUM = 2 };

}  // namespace tensotron
