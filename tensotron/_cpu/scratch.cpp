#include "scratch.h"

#include <cstdlib>

namespace tensotron {
namespace {

struct Slot {
  void* data = nullptr;
  size_t size = 0;
};

struct Slots {
  Slot slot[NUM_SCRATCH];
  ~Slots() {
    for (Slot& s : slot) std::free(s.data);
  }
};

thread_local Slots slots;

}  // namespace

void* scratch(int slot, size_t bytes) {
  Slot& s = slots.slot[slot];
  if (s.size >= bytes) return s.data;
  // Grow by half at least, so that slowly rising requests do not reallocate each time.
  size_t size = bytes > s.size + s.size / 2 ? bytes : s.size + s.size / 2;
  size = (size + 4095) & ~size_t(4095);
  std::free(s.data);
  s.data = nullptr;
  s.size = 0;
  void* p = nullptr;
  if (posix_memalign(&p, 64, size + 64) != 0) return nullptr;
  s.data = p;
  s.size = size;
  return p;
}

}  // namespace tensotron
