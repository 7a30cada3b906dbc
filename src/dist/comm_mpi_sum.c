// comm_mpi_sum.c - MPI's types and operations for sum, maximum and minimum, and sums of bf16, which MPI lacks.
#include <string.h>
#include "dist/comm_mpi.h"

MPI_Datatype ls_mpi_type(ls_dtype dtype) {
    switch (dtype) {
    case LS_F32:
        return MPI_FLOAT;
    case LS_F64:
        return MPI_DOUBLE;
    case LS_I32:
        return MPI_INT32_T;
    case LS_I64:
        return MPI_INT64_T;
    case LS_U8:
        return MPI_UINT8_T;
    case LS_BF16:
        return MPI_UINT16_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

// Adds two bf16 values, without branches and calls, so that the loop below becomes vector instructions. Every NaN
// becomes the same NaN: ranks add in either order and must get the same bits.
static inline uint16_t add_bf16(uint16_t a, uint16_t b) {
    uint32_t wide_a = (uint32_t)a << 16, wide_b = (uint32_t)b << 16, bits;
    float x, y;
    memcpy(&x, &wide_a, sizeof x);
    memcpy(&y, &wide_b, sizeof y);
    float sum = x + y;
    memcpy(&bits, &sum, sizeof bits);
    uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16; // to nearest, ties to even
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC0u : rounded);
}

// Adds bf16 values for MPI: in_out[i] += in[i]. MPI fixes the type of this function, so its parameters are not const.
static void sum_bf16(void *in, void *in_out, int *count, MPI_Datatype *type) { // cppcheck-suppress constParameter
    (void)type;
    const uint16_t *restrict src = in;
    uint16_t *restrict dst = in_out;
    int n = *count;
    for (int i = 0; i < n; i++) dst[i] = add_bf16(src[i], dst[i]);
}

ls_status ls_mpi_sum_new(MPI_Op *out) {
    TRY_MPI(MPI_Op_create(sum_bf16, 1, out));
    return LS_SUCCESS;
}

MPI_Op ls_mpi_op(const ls_comm_mpi *mpi, ls_dtype dtype, ls_reduce op) {
    if (dtype == LS_BF16) return op == LS_REDUCE_SUM ? mpi->sum_bf16 : MPI_OP_NULL;
    if (op == LS_REDUCE_SUM) return MPI_SUM;
    return op == LS_REDUCE_MAX ? MPI_MAX : MPI_MIN;
}
