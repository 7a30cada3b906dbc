// table.c - the table of kernels for one width and storage.
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/winograd.h"

const ls_kernels LS_KERNEL(ls_kernels) = { .width = LS_VL,
    .gemm_rows = LS_GEMM_ROWS,
    .gemm_cols = 2 * LS_VL,
#define ENTRY(name) .name = LS_KERNEL(name),
#define FLOAT_ENTRY(name) .name = LS_FLOAT_KERNEL(name),
#if LS_VL > 1
    .winograd = &LS_KERNEL(ls_winograd),
#endif
    LS_KERNEL_LIST(ENTRY) LS_FLOAT_KERNEL_LIST(FLOAT_ENTRY)
#define ELEMENTWISE(NAME, name, text, output, flops) ENTRY(name)
#define STEP(NAME, name, text, flops) FLOAT_ENTRY(name)
#include "device/ops.def"
#undef ENTRY
#undef FLOAT_ENTRY
};
