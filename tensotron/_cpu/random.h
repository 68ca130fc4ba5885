// Random numbers of the CPU: torch's mt19937 generator and the distributions drawn from it.
#pragma once
#include "record.h"

namespace tensotron {

constexpr int MT_N = 624;
constexpr int64_t GENERATOR_STATE_BYTES = 5056;  // size of torch's CPU generator state

// Plain data. Whoever draws from a generator serialises its use: the launcher keeps the GIL while a
// random record runs.
struct Generator {
  uint64_t seed;
  int32_t left;   // numbers left in the block, plus one
  uint32_t next;  // position of the next number in the block
  uint32_t state[MT_N];
  double next_double_normal;  // second half of a Box-Muller pair
  float next_float_normal;    // kept for the state's sake: CPU draws are in double
  bool has_double_normal, has_float_normal, seeded;
};

enum RandomOp : uint16_t {
#define RANDOM(name) RANDOM_##name,
#include "random.def"
#undef RANDOM
  NUM_RANDOM_OPS
};

constexpr uint64_t DEFAULT_SEED = 67280421310721ull;  // of a Generator nobody has seeded

void generator_seed(Generator& g, uint64_t seed);
uint32_t random32(Generator& g);
uint64_t random64(Generator& g);
// n successive numbers of random32.
void random_block(Generator& g, uint32_t* out, int64_t n);
// torch's get_rng_state() bytes. set returns false, and changes nothing, if they are no valid state.
void generator_get_state(const Generator& g, uint8_t* bytes);
bool generator_set_state(Generator& g, const uint8_t* bytes);

// op = RandomOp, state = Generator*. Elements are drawn in the order of the record's iteration
// space, outermost dimension first.
int k_random(const Record& r);

// Brings a record with the dimensions of its tensors into the order in which torch draws: by falling
// strides of the output, then of the inputs. Nothing changes for contiguous tensors; not for randperm,
// multinomial and normals with ints[0] set, which are contiguous.
void random_order(Record& r);

}  // namespace tensotron
