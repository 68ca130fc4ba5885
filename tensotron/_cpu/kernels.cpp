// The kernel table of one ISA. This file and kernels_*.cpp are compiled once per ISA, with
// -DTENSOTRON_ISA=<name>; nothing but the table is referred to from outside.
#include "kernels.h"
#include "random.h"

namespace tensotron {
namespace TENSOTRON_ISA {

#define KERNEL(name) int k_##name(const Record&);
#include "kernels.def"
#undef KERNEL
inline int k_random(const Record& r) { return ::tensotron::k_random(r); }  // the same code for every ISA

const KernelFn table[NUM_KERNELS] = {
#define KERNEL(name) k_##name,
#include "kernels.def"
#undef KERNEL
};

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
