#include "dispatch.h"

#include <cstring>

#include "kernels.h"

namespace tensotron {

namespace {

struct Isa {
  const char* name;
  const KernelFn* table;
  bool (*supported)();
};

bool always() { return true; }
#if defined(TENSOTRON_HAVE_AVX2) || defined(TENSOTRON_HAVE_AVX512)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"); }
#endif
#if defined(TENSOTRON_HAVE_AVX512)
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

// worst to best
const Isa isas[] = {
    {"baseline", baseline::table, always},
#if defined(TENSOTRON_HAVE_NEON)
    {"neon", neon::table, always},
#endif
#if defined(TENSOTRON_HAVE_AVX2)
    {"avx2", avx2::table, has_avx2},
#endif
#if defined(TENSOTRON_HAVE_AVX512)
    {"avx512", avx512::table, has_avx512},
#endif
};
const Isa* active = &isas[0];

}  // namespace

#if defined(__x86_64__)
// 16 numbers of Adam's step take 5.3 ns with the instruction and 6.4 without on Zen 4, but 7.6 and 6.4 on a Xeon (ADR 0038).
const bool slow_roots = !__builtin_cpu_is("amd");
#else
const bool slow_roots = true;
#endif

const KernelFn* active_table = baseline::table;

bool isa_available(const char* name) {
  for (const Isa& isa : isas)
    if (strcmp(isa.name, name) == 0) return isa.supported();
  return false;
}

bool select_isa(const char* name) {
  const Isa* found = nullptr;
  for (const Isa& isa : isas)
    if (isa.supported() && (!name || strcmp(isa.name, name) == 0)) found = &isa;
  if (!found) return false;
  active = found;
  active_table = found->table;
  return true;
}

const char* active_isa() { return active->name; }

}  // namespace tensotron
