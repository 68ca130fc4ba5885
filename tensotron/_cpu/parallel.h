// How a kernel shares its work with the pool.
#pragma once
#include "pool.h"
#include "record.h"

namespace tensotron {
namespace TENSOTRON_ISA {

constexpr int64_t SHARED_NS = 40000;  // below this, waking a thread costs what it brings

// Threads for work that takes one thread about `ns` nanoseconds.
static inline int team_for(double ns) {
  const int size = pool_size.load(std::memory_order_relaxed);
  return size == 1 || ns < double(SHARED_NS) ? 1 : size;
}

// f(worker, begin, end) for all of [0, units), in pieces of at least `grain`; a Status. Scratch memory that f
// asks for is its thread's own. It works on a copy of f, so that what f holds by value may stay in registers.
template <class F> static inline int parallel(int team, int64_t units, int64_t grain, const F& f) {
  if (team == 1 || units <= grain) {
    const F own = f;
    return own(0, int64_t(0), units);
  }
  return pool_run(team, units, grain,
                  [](void* c, int worker, int64_t begin, int64_t end) {
                    const F own = *static_cast<const F*>(c);
                    return int(own(worker, begin, end));
                  },
                  const_cast<F*>(&f));
}

// run(part) for parts of the iteration space of a record whose kernel treats all elements alike. Parts of the last
// dimension begin at multiples of PART_ALIGN: the tiles and vectors within are those of the whole.
constexpr int64_t PART_ALIGN = 4096;
template <class F> static inline int in_parts(const Record& r, double ns, const F& run) {
  const int team = team_for(ns);
  if (team == 1 || r.ndim == 0) return run(r);
  int d = 0;
  if (r.size[0] < 4 * team)
    for (int e = 1; e < r.ndim; ++e)
      if (r.size[e] > r.size[d]) d = e;
  const int64_t align = d == r.ndim - 1 ? PART_ALIGN : 1, units = (r.size[d] + align - 1) / align;
  return parallel(team, units, 1, [&](int, int64_t begin, int64_t end) {
    Record part = r;
    begin *= align;
    end = end * align < r.size[d] ? end * align : r.size[d];
    part.size[d] = end - begin;
    for (int k = 0; k < r.nout + r.nin; ++k)
      if (!r.arg[k].is_const) part.arg[k].data += begin * r.arg[k].stride[d] * item_size(r.arg[k].dtype);
    return run(part);
  });
}

static inline double elements_of(const Record& r) {
  double n = 1;
  for (int d = 0; d < r.ndim; ++d) n *= double(r.size[d]);
  return n;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
