// narrow.c - linked into train_narrow and train_fused: the program on a processor that seems to have no AVX2, so that
// the cpu device takes vectors of 4 floats. train_fused is also linked with the kernels that multiply and add at once,
// as arm64 does; the processor must really have AVX2. The linker's --wrap (cmake/lockstep.cmake) sends calls of
// ls_cpus_detect through here.
#include "system/cpus.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" // __wrap_NAME is called as NAME

void __real_ls_cpus_detect(ls_cpus *cpus);

void __wrap_ls_cpus_detect(ls_cpus *cpus) {
    __real_ls_cpus_detect(cpus);
    cpus->has_avx2 = cpus->has_avx512 = cpus->has_avx512_bf16 = cpus->has_amx_bf16 = 0;
}
