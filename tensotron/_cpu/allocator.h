// Caching allocator of the CPU backend: 64-byte aligned blocks in size classes, four per power of
// two. Called under the GIL. A block is returned with the capacity it was given out with.
#pragma once
#include <cstddef>

namespace tensotron {

void* cpu_alloc(size_t nbytes, size_t* capacity);  // null if out of memory
void cpu_free(void* p, size_t capacity);
void cpu_empty_cache();
size_t cpu_bytes_in_use();
size_t cpu_bytes_cached();

}  // namespace tensotron
