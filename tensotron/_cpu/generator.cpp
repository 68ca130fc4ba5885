// mt19937 with torch's counters and torch's state bytes.
#include <cstddef>
#include <cstring>

#include "random.h"

namespace tensotron {
namespace {

constexpr int MT_M = 397;

inline uint32_t twist(uint32_t upper, uint32_t lower) {
  uint32_t mixed = (upper & 0x80000000u) | (lower & 0x7fffffffu);
  return (mixed >> 1) ^ (0x9908b0dfu & (0u - (lower & 1u)));
}

void next_block(Generator& g) {
  uint32_t* s = g.state;
  for (int i = 0; i < MT_N - MT_M; i++) s[i] = s[i + MT_M] ^ twist(s[i], s[i + 1]);
  // Each element reads one written 227 places before: safe to vectorise, which GCC must be told.
#pragma GCC ivdep
  for (int i = MT_N - MT_M; i < MT_N - 1; i++) s[i] = s[i + MT_M - MT_N] ^ twist(s[i], s[i + 1]);
  s[MT_N - 1] = s[MT_M - 1] ^ twist(s[MT_N - 1], s[0]);
  g.left = MT_N;
  g.next = 0;
}

inline uint32_t temper(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

// torch's layout: the struct of a former generator, with 64-bit words, and the float cache behind it.
struct LegacyPart {
  uint64_t seed;
  int32_t left, seeded;
  uint64_t next;
  uint64_t state[MT_N];
  double normal_x, normal_y, normal_rho;
  int32_t normal_is_valid;
};

struct TorchState {
  LegacyPart legacy;
  float next_float_normal;
  bool float_is_valid;
};
static_assert(sizeof(TorchState) == GENERATOR_STATE_BYTES, "torch's state size");

}  // namespace

void generator_seed(Generator& g, uint64_t seed) {
  memset(&g, 0, sizeof g);
  g.seed = seed;
  g.seeded = true;
  g.state[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < MT_N; i++)
    g.state[i] = 1812433253u * (g.state[i - 1] ^ (g.state[i - 1] >> 30)) + i;
  g.left = 1;
}

uint32_t random32(Generator& g) {
  if (--g.left == 0) next_block(g);
  return temper(g.state[g.next++]);
}

uint64_t random64(Generator& g) {
  uint64_t high = random32(g);
  return high << 32 | random32(g);
}

void random_block(Generator& g, uint32_t* out, int64_t n) {
  while (n > 0) {
    if (g.left == 1) {
      next_block(g);
      g.left++;
    }
    int64_t take = g.left - 1 < n ? g.left - 1 : n;
    const uint32_t* s = g.state + g.next;
    for (int64_t i = 0; i < take; i++) out[i] = temper(s[i]);
    g.next += static_cast<uint32_t>(take);
    g.left -= static_cast<int32_t>(take);
    out += take;
    n -= take;
  }
}

void generator_get_state(const Generator& g, uint8_t* bytes) {
  TorchState s;
  memset(&s, 0, sizeof s);
  s.legacy.seed = g.seed;
  s.legacy.left = g.left;
  s.legacy.seeded = g.seeded;
  s.legacy.next = g.next;
  for (int i = 0; i < MT_N; i++) s.legacy.state[i] = g.state[i];
  s.legacy.normal_is_valid = g.has_double_normal;
  s.legacy.normal_y = g.has_double_normal ? g.next_double_normal : 0;
  s.next_float_normal = g.has_float_normal ? g.next_float_normal : 0;
  s.float_is_valid = g.has_float_normal;
  memcpy(bytes, &s, sizeof s);
}

bool generator_set_state(Generator& g, const uint8_t* bytes) {
  TorchState s;
  memcpy(&s.legacy, bytes, sizeof s.legacy);
  memcpy(&s.next_float_normal, bytes + offsetof(TorchState, next_float_normal), sizeof(float));
  s.float_is_valid = bytes[offsetof(TorchState, float_is_valid)] != 0;
  uint32_t next = static_cast<uint32_t>(s.legacy.next);
  if (!s.legacy.seeded || s.legacy.left < 1 || s.legacy.left > MT_N || next > MT_N) return false;
  memset(&g, 0, sizeof g);
  g.seed = s.legacy.seed;
  g.left = s.legacy.left;
  g.next = next;
  g.seeded = true;
  for (int i = 0; i < MT_N; i++) g.state[i] = static_cast<uint32_t>(s.legacy.state[i]);
  g.has_double_normal = s.legacy.normal_is_valid != 0;
  g.next_double_normal = g.has_double_normal ? s.legacy.normal_y : 0;
  g.has_float_normal = s.float_is_valid;
  g.next_float_normal = g.has_float_normal ? s.next_float_normal : 0;
  return true;
}

}  // namespace tensotron
