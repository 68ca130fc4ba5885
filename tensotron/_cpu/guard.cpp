// The CPU backend, and a guarded one for tests: tensor memory is inaccessible except during a launch
// or a copy of the backend, so that anything else that touches it faults; it also counts.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <unordered_map>

#include "allocator.h"
#include "backend.h"
#include "dispatch.h"

namespace tensotron {

namespace {

void cpu_copy(void* dst, const void* src, size_t n) { memcpy(dst, src, n); }
void cpu_expose(void*) {}

struct Block {
  size_t bytes;
  bool exposed;
};
std::unordered_map<void*, Block>* blocks;
size_t launches, copies;

void protect_all(int mode) {
  for (auto& b : *blocks)
    if (!b.second.exposed) mprotect(b.first, b.second.bytes, mode);
}

void* guard_alloc(size_t nbytes, size_t* capacity) {
  if (!blocks) blocks = new std::unordered_map<void*, Block>;
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  const size_t bytes = (nbytes / page + 1) * page;
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  (*blocks)[p] = Block{bytes, false};
  *capacity = bytes;
  return p;
}

void guard_release(void* p, size_t capacity) {
  if (blocks && blocks->erase(p))
    munmap(p, capacity);
  else
    cpu_free(p, capacity);  // from before the guard was switched on
}

int guard_launch(const Record& r) {
  ++launches;
  if (!blocks) return cpu_launch(r);
  protect_all(PROT_READ | PROT_WRITE);
  const int status = cpu_launch(r);
  protect_all(PROT_NONE);
  return status;
}

void guard_copy(void* dst, const void* src, size_t n) {
  ++copies;
  if (blocks) protect_all(PROT_READ | PROT_WRITE);
  memcpy(dst, src, n);
  if (blocks) protect_all(PROT_NONE);
}

void guard_expose(void* p) {
  if (!blocks) return;
  auto b = blocks->find(p);
  if (b == blocks->end() || b->second.exposed) return;
  mprotect(p, b->second.bytes, PROT_READ | PROT_WRITE);
  b->second.exposed = true;
}

// A block guarded when it was made is unmapped whichever backend is active when it dies.
void cpu_release(void* p, size_t capacity) {
  if (blocks && blocks->count(p))
    guard_release(p, capacity);
  else
    cpu_free(p, capacity);
}

}  // namespace

const Backend cpu_backend = {cpu_launch, cpu_alloc, cpu_release, cpu_copy, cpu_expose};
const Backend guard_backend = {guard_launch, guard_alloc, guard_release, guard_copy, guard_expose};
const Backend* active_backend = &cpu_backend;

size_t guard_launches() { return launches; }
size_t guard_copies() { return copies; }

}  // namespace tensotron
