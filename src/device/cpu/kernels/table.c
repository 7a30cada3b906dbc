// table.c - the kernels of one width.
#include "device/cpu/kernels/kernels.h"

const ls_kernels LS_KERNEL(ls_kernels) = { .width = LS_VL,
    .gemm_rows = LS_GEMM_ROWS,
    .gemm_cols = 2 * LS_VL,
#define ENTRY(name) .name = LS_KERNEL(name),
    LS_KERNEL_LIST(ENTRY)
#define ELEMENTWISE(NAME, name, text, output, flops) ENTRY(name)
#define STEP(NAME, name, text, flops) ENTRY(name)
#include "device/ops.def"
#undef ENTRY
};
