// A persistent pool of threads that shares the iterations of a kernel among the launching thread and workers.
//
// One job at a time: whoever finds the pool taken (another thread, or a job inside a job) does all of its work
// itself. Which thread does what is decided as they go; results cannot depend on it, for kernels cut their work
// between independent outputs and never through a sum. No thread exists until the first job, none after a fork.
#pragma once
#include <atomic>
#include <cstdint>

namespace tensotron {

// Does units [begin, end) as member `worker` of the team; a Status.
typedef int (*PoolFn)(void* context, int worker, int64_t begin, int64_t end);

extern std::atomic<int> pool_size;  // threads wanted, the launching one among them; 1: no pool

// Calls fn for all of [0, units), in pieces of at least `grain`, on up to `team` threads; each has a number below `team` that no
// other one has meanwhile. The first status that is not OK, after which no new units are started.
int pool_run(int team, int64_t units, int64_t grain, PoolFn fn, void* context);

void pool_set_size(int threads);
int pool_available_cpus();  // of this process

extern int forks;  // between the process that loaded this and the present one

}  // namespace tensotron
