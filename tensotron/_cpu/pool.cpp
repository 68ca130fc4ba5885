#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <new>

#include "record.h"

namespace tensotron {

std::atomic<int> pool_size{1};
int forks = 0;

namespace {

constexpr int MAX_WORKERS = 255;
constexpr int CLOSED = 1 << 30;
constexpr int64_t SPIN_NS = 30000;  // what a sleeping thread takes to wake up, about

struct Pool {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
  std::atomic<bool> taken{false};       // by whoever runs a job or changes the workers
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> generation{0};  // of jobs
  std::atomic<int> sleepers{0};
  std::atomic<int> gate{CLOSED};        // workers inside the job, plus CLOSED once no more may enter
  pthread_t threads[MAX_WORKERS];
  int workers = 0;
  bool spins = true;
  // the job
  PoolFn fn = nullptr;
  void* context = nullptr;
  int64_t units = 0, grain = 1;
  int team = 1;
  std::atomic<int64_t> next{0};
  std::atomic<int> status{OK};
};

// Never destroyed: workers sleep in it until the process is gone.
Pool& the_pool() {
  alignas(Pool) static char memory[sizeof(Pool)];
  return *reinterpret_cast<Pool*>(memory);
}

// Only the forking thread is left in the child: a fresh pool, whatever the other threads were doing with this one.
void after_fork() {
  new (&the_pool()) Pool;
  ++forks;
}

const bool made = [] {
  new (&the_pool()) Pool;
  pthread_atfork(nullptr, nullptr, after_fork);
  return true;
}();

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

inline void pause_a_little() {
  for (int i = 0; i < 16; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

// Waits for a short while until ready() holds; whether it does.
template <class F>
bool spin_until(bool spins, F ready) {
  if (ready()) return true;
  if (!spins) return false;
  const int64_t end = now_ns() + SPIN_NS;
  do {
    pause_a_little();
    if (ready()) return true;
  } while (now_ns() < end);
  return false;
}

// Large pieces first, for less is done twice in them; small ones last, so that all members end together though one may be
// slower.
void share(Pool& p, int worker) {
  int64_t begin = p.next.load(std::memory_order_relaxed);
  for (;;) {
    if (begin >= p.units) return;
    const int64_t left = p.units - begin, part = left / (2 * p.team), wanted = part > p.grain ? part : p.grain;
    const int64_t end = left < wanted ? p.units : begin + wanted;
    if (!p.next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
    const int status = p.fn(p.context, worker, begin, end);
    if (status != OK) {
      int none = OK;
      p.status.compare_exchange_strong(none, status);
      p.next.store(p.units, std::memory_order_relaxed);
    }
    begin = p.next.load(std::memory_order_relaxed);
  }
}

bool enter(Pool& p) {
  int inside = p.gate.load(std::memory_order_acquire);
  while (!(inside & CLOSED))
    if (p.gate.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire)) return true;
  return false;
}

void leave(Pool& p) {
  if (p.gate.fetch_sub(1, std::memory_order_acq_rel) - 1 != CLOSED) return;
  pthread_mutex_lock(&p.mutex);  // the launching thread may be asleep
  pthread_cond_signal(&p.done);
  pthread_mutex_unlock(&p.mutex);
}

void* work(void* argument) {
  Pool& p = the_pool();
  const int worker = int(reinterpret_cast<intptr_t>(argument));
  uint32_t seen = p.generation.load() - 1;  // the job that this thread was started for may still be open
  for (;;) {
    const auto called = [&] { return p.generation.load() != seen || p.stop.load(); };
    if (!spin_until(p.spins, called)) {
      pthread_mutex_lock(&p.mutex);
      p.sleepers.fetch_add(1);
      while (!called()) pthread_cond_wait(&p.wake, &p.mutex);
      p.sleepers.fetch_sub(1);
      pthread_mutex_unlock(&p.mutex);
    }
    if (p.stop.load()) return nullptr;
    seen = p.generation.load();
    if (!enter(p)) continue;
    if (worker < p.team) share(p, worker);
    leave(p);
  }
}

void wake_sleepers(Pool& p) {
  if (p.sleepers.load() == 0) return;
  pthread_mutex_lock(&p.mutex);
  pthread_cond_broadcast(&p.wake);
  pthread_mutex_unlock(&p.mutex);
}

void start_workers(Pool& p, int wanted) {
  if (wanted > MAX_WORKERS) wanted = MAX_WORKERS;
  if (p.workers >= wanted) return;
  p.spins = pool_size.load() <= pool_available_cpus();
  sigset_t all, before;  // signals are for Python's threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (p.workers < wanted) {
    if (pthread_create(&p.threads[p.workers], nullptr, work, reinterpret_cast<void*>(intptr_t(p.workers + 1)))) break;
    ++p.workers;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

int pool_run(int team, int64_t units, int64_t grain, PoolFn fn, void* context) {
  Pool& p = the_pool();
  if (team < 2 || units <= grain || p.taken.exchange(true, std::memory_order_acquire)) return fn(context, 0, 0, units);
  start_workers(p, team - 1);
  p.fn = fn, p.context = context, p.units = units, p.grain = grain, p.team = team;
  p.next.store(0, std::memory_order_relaxed);
  p.status.store(OK, std::memory_order_relaxed);
  p.gate.store(0, std::memory_order_release);
  p.generation.fetch_add(1);
  wake_sleepers(p);
  share(p, 0);
  // A worker that has not come by now is not waited for.
  p.gate.fetch_or(CLOSED, std::memory_order_acq_rel);
  const auto alone = [&] { return p.gate.load(std::memory_order_acquire) == CLOSED; };
  if (!spin_until(p.spins, alone)) {
    pthread_mutex_lock(&p.mutex);
    while (!alone()) pthread_cond_wait(&p.done, &p.mutex);
    pthread_mutex_unlock(&p.mutex);
  }
  const int status = p.status.load(std::memory_order_relaxed);
  p.taken.store(false, std::memory_order_release);
  return status;
}

void pool_set_size(int threads) {
  Pool& p = the_pool();
  while (p.taken.exchange(true, std::memory_order_acquire)) sched_yield();
  if (threads != pool_size.load()) {
    p.stop.store(true);
    wake_sleepers(p);
    for (int i = 0; i < p.workers; ++i) pthread_join(p.threads[i], nullptr);
    p.workers = 0;
    p.stop.store(false);
    pool_size.store(threads);
  }
  p.taken.store(false, std::memory_order_release);
}

int pool_available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int n = CPU_COUNT(&set);
  return n > 0 ? n : 1;
}

}  // namespace tensotron
