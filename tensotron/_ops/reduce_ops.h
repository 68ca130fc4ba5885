// Ids of the reductions.
#pragma once
#include <cstdint>

namespace tensotron {

// Rows of reduce.def, the `op` of a K_reduce record.
enum ReduceId : uint16_t {
#define FOLD(name, identity, map, join) REDUCE_##name,
#define FLOAT_FOLD(name, identity, map, join) REDUCE_##name,
#define TRUTH(name, identity, map, join) REDUCE_##name,
#define FINISHED(name, fold, finish) REDUCE_##name,
#define SCAN(name, best) REDUCE_##name,
#define MOMENT(name) REDUCE_##name,
#define LOGSUMEXP(name) REDUCE_##name,
#include "reduce.def"
  NUM_REDUCTIONS
};

}  // namespace tensotron
