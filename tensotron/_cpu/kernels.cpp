// Every kernel of one ISA. Compiled once per ISA with -DTENSOTRON_ISA=<name>; exports one symbol.
#include "convert-inl.h"
#include "elementwise-inl.h"
#include "conv-inl.h"
#include "index-inl.h"
#include "kernels.h"
#include "pool-inl.h"
#include "random.h"

namespace tensotron {
namespace TENSOTRON_ISA {

const KernelFn table[NUM_KERNELS] = {
#define KERNEL(name) k_##name,
#include "kernels.def"
#undef KERNEL
};

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
