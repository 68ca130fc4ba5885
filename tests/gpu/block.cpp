// Runs a grid block by block. The threads of a block are tasks on fibers: a fiber runs one thread
// after another and is left behind, suspended, where a thread waits at a barrier. A kernel without
// barriers therefore needs a single fiber and no switch.
#include "block.h"

#include <ucontext.h>

#include <memory>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {

constexpr int WARP = 32;
constexpr size_t STACK = 256 << 10;

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[STACK]};
};

enum State { STARTED, AT_BLOCK_BARRIER, AT_WARP_BARRIER, DONE };

struct Thread {
  State state;
  uint3 index;
  Fiber* fiber;
  int site;
  unsigned mask;
  uint64_t value;
};

ucontext_t scheduler;
std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Fiber*> idle;
std::vector<Thread> threads;  // of the current block
size_t next_thread;
int current;
const HostKernel* kernel;
void** kernel_params;

void resume(Fiber* fiber) { swapcontext(&scheduler, &fiber->context); }

void fiber_main(unsigned high, unsigned low) {
  Fiber* self = reinterpret_cast<Fiber*>(uintptr_t(high) << 32 | low);
  for (;;) {
    while (next_thread < threads.size()) {
      current = int(next_thread++);
      Thread& t = threads[current];
      t.fiber = self;
      threadIdx = t.index;
      kernel->call(kernel_params);
      threads[current].state = DONE;
    }
    idle.push_back(self);
    swapcontext(&self->context, &scheduler);
  }
}

Fiber* new_fiber() {
  fibers.emplace_back(new Fiber);
  Fiber* f = fibers.back().get();
  uintptr_t p = reinterpret_cast<uintptr_t>(f);
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack.get();
  f->context.uc_stack.ss_size = STACK;
  f->context.uc_link = nullptr;
  makecontext(&f->context, reinterpret_cast<void (*)()>(fiber_main), 2, unsigned(p >> 32),
              unsigned(p));
  return f;
}

Fiber* idle_fiber() {
  if (idle.empty()) return new_fiber();
  Fiber* f = idle.back();
  idle.pop_back();
  return f;
}

void wait(State where) {
  int me = current;
  threads[me].state = where;
  swapcontext(&threads[me].fiber->context, &scheduler);
  current = me;
  threadIdx = threads[me].index;
}

// In order: a thread that reaches its next barrier meanwhile is behind us.
void release(size_t from, size_t to, State where) {
  for (size_t i = from; i < to; ++i)
    if (threads[i].state == where) {
      threads[i].state = STARTED;
      resume(threads[i].fiber);
    }
}

// A warp may go on when every lane named by a waiting lane's mask waits too.
bool release_warp(size_t first) {
  size_t end = first + WARP < threads.size() ? first + WARP : threads.size();
  unsigned waiting = 0, named = 0;
  for (size_t i = first; i < end; ++i)
    if (threads[i].state == AT_WARP_BARRIER) {
      waiting |= 1u << (i - first);
      named |= threads[i].mask;
    }
  if (end - first < WARP) named &= (1u << (end - first)) - 1;
  if (!waiting || named != waiting) return false;
  release(first, end, AT_WARP_BARRIER);
  return true;
}

const char* run_block() {
  next_thread = 0;
  while (next_thread < threads.size()) resume(idle_fiber());
  for (;;) {
    size_t done = 0, at_block = 0;
    int site = 0;
    bool one_site = true, moved = false;
    for (const Thread& t : threads) {
      done += t.state == DONE;
      if (t.state != AT_BLOCK_BARRIER) continue;
      one_site = one_site && (!at_block || t.site == site);
      site = t.site;
      ++at_block;
    }
    if (done == threads.size()) return nullptr;
    if (at_block == threads.size()) {
      if (!one_site) return "threads of one block wait at different __syncthreads";
      release(0, threads.size(), AT_BLOCK_BARRIER);
      continue;
    }
    for (size_t first = 0; first < threads.size(); first += WARP) moved |= release_warp(first);
    if (!moved)
      return done ? "some threads returned before a barrier that others wait at"
                  : "threads wait at barriers that the others cannot reach";
  }
}

}  // namespace

void host_barrier(int site) {
  threads[current].site = site;
  wait(AT_BLOCK_BARRIER);
}

uint64_t host_exchange(unsigned mask, uint64_t value, int source) {
  Thread& me = threads[current];
  me.mask = mask;
  me.value = value;
  wait(AT_WARP_BARRIER);
  size_t from = size_t(current) / WARP * WARP + source;
  if (from < threads.size()) value = threads[from].value;
  wait(AT_WARP_BARRIER);  // nobody brings the next value before all have read this one
  return value;
}

const char* host_run(const HostKernel& k, void** params, dim3 grid, dim3 block) {
  kernel = &k;
  kernel_params = params;
  gridDim = grid;
  blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        threads.clear();
        for (unsigned c = 0; c < block.z; ++c)
          for (unsigned b = 0; b < block.y; ++b)
            for (unsigned a = 0; a < block.x; ++a)
              threads.push_back({STARTED, {a, b, c}, nullptr, 0, 0, 0});
        if (const char* error = run_block()) {
          idle.clear();  // fibers of this block stay suspended for good
          return error;
        }
      }
  return nullptr;
}
