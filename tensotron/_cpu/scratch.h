// Work memory of the kernels: thread-local, 64-byte aligned, kept between launches.
// Nested users hold different slots; a slot's contents last until its next request.
#pragma once
#include <cstddef>

namespace tensotron {

enum ScratchSlot : int { SCRATCH_CALLER = 0, SCRATCH_PACK_A = 1, SCRATCH_PACK_B = 2, SCRATCH_EXTRA = 3, NUM_SCRATCH = 4 };

// At least `bytes` writable bytes plus 64 of slack, or null when memory is exhausted.
void* scratch(int slot, size_t bytes);
inline void* scratch(size_t bytes) { return scratch(SCRATCH_CALLER, bytes); }

}  // namespace tensotron
