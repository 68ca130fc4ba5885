#include "allocator.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace tensotron {

namespace {

constexpr size_t ALIGNMENT = 64;
constexpr int MIN_LOG2 = 6;        // 64 bytes
constexpr int MAX_LOG2 = 40;
constexpr int CLASSES = (MAX_LOG2 - MIN_LOG2) * 4 + 1;
constexpr size_t CACHE_LIMIT = size_t(256) << 20;

struct Free {
  Free* next;
};
Free* free_list[CLASSES];
size_t in_use, cached;

// Smallest class that holds n bytes, and its size. Class 4k+j has (4+j)/4 * 2^(k+6) bytes.
inline int class_of(size_t n, size_t* size) {
  if (n <= 64) {
    *size = 64;
    return 0;
  }
  const int log2 = 63 - __builtin_clzll(n - 1);  // 2^log2 < n <= 2^(log2+1)
  const size_t base = size_t(1) << log2, step = base >> 2;
  const int quarter = int((n - 1 - base) / step) + 1;  // 1..4
  *size = base + step * size_t(quarter);
  return (log2 - MIN_LOG2) * 4 + quarter;
}

// Large blocks come from the system itself: malloc would keep those that are freed out of order. AddressSanitizer
// watches only what malloc gives.
#if defined(TENSOTRON_SANITIZE)
constexpr size_t MAPPED = ~size_t(0);
#else
constexpr size_t MAPPED = size_t(1) << 20;
#endif

void* obtain(size_t size) {
  void* p = nullptr;
  if (size < MAPPED) return posix_memalign(&p, ALIGNMENT, size) == 0 ? p : nullptr;
  p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void give_back(void* p, size_t size) {
  if (size < MAPPED)
    free(p);
  else
    munmap(p, size);
}

size_t size_of_class(int c) { return c == 0 ? 64 : (size_t(1) << (c - 1) / 4 << MIN_LOG2) / 4 * size_t(4 + (c - 1) % 4 + 1); }

}  // namespace

void* cpu_alloc(size_t nbytes, size_t* capacity) {
  size_t size;
#if defined(TENSOTRON_SANITIZE)
  size = nbytes ? nbytes : 1;  // exact blocks, so that an overrun is seen
#else
  if (nbytes > (size_t(1) << (MAX_LOG2 - 1))) return nullptr;
  const int c = class_of(nbytes, &size);
  if (Free* f = free_list[c]) {
    free_list[c] = f->next;
    cached -= size;
    in_use += size;
    *capacity = size;
    return f;
  }
#endif
  void* p = obtain(size);
  if (!p) {
    cpu_empty_cache();
    p = obtain(size);
    if (!p) return nullptr;
  }
  in_use += size;
  *capacity = size;
  return p;
}

void cpu_free(void* p, size_t capacity) {
  if (!p) return;
  in_use -= capacity;
#if !defined(TENSOTRON_SANITIZE)
  if (cached + capacity <= CACHE_LIMIT) {
    size_t size;
    const int c = class_of(capacity, &size);
    Free* f = static_cast<Free*>(p);
    f->next = free_list[c];
    free_list[c] = f;
    cached += capacity;
    return;
  }
#endif
  give_back(p, capacity);
}

void cpu_empty_cache() {
  for (int c = 0; c < CLASSES; ++c) {
    while (Free* f = free_list[c]) {
      free_list[c] = f->next;
      give_back(f, size_of_class(c));
    }
  }
  cached = 0;
}

size_t cpu_bytes_in_use() { return in_use; }
size_t cpu_bytes_cached() { return cached; }

}  // namespace tensotron
