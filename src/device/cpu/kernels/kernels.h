// kernels.h - what the kernels of this folder share. Each file is compiled several times; LS_VL is the floats in a
// vector:
//   8   AVX2
//   16  AVX-512; and once more for AVX2 (LS_EMULATED), so that the 16-wide layouts are tested on any machine
#ifndef LS_DEVICE_CPU_KERNELS_H
#define LS_DEVICE_CPU_KERNELS_H

#define LS_JOIN2(a, b) a##b
#define LS_JOIN(a, b) LS_JOIN2(a, b)
#ifdef LS_EMULATED
#define LS_KERNEL(name) LS_JOIN(LS_JOIN(name##_v, LS_VL), e)
#else
#define LS_KERNEL(name) LS_JOIN(name##_v, LS_VL)
#endif

typedef float vf __attribute__((vector_size(LS_VL * 4)));
// the same in memory that is aligned to single elements, and may alias
typedef float vfu __attribute__((vector_size(LS_VL * 4), aligned(4), may_alias));

static inline vf load(const float *p) {
    return *(const vfu *)p;
}
static inline void store(float *p, vf v) {
    *(vfu *)p = v;
}

#endif
