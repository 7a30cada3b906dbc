// op_linear.c - fully connected layers as matrix products C = A * B: B is packed into panels, tiles of C are tasks.
//                    rows  columns  depth  A                     B
//   forward           N     O        K     src [N][K]            weight [O][K], transposed
//   backward data     N     K        O     grad_dst [N][O]       weight [O][K]
//   backward weight   O     K        N     grad_dst, transposed  src [N][K]
#include "device/cpu/cpu.h"

enum { TILE_ROWS = 36, PACK_DEPTH = 512 }; // a tile: rows x two panels; a packing task: one panel, so deep

typedef struct {
    ls_cpu_plan base;
    int m, n, k;
    int columns; // of B; forward: C has more, the padding, which comes out as zero as panels and bias are zero there
    int panels, row_tiles, depth_tiles;
    size_t a_m, a_k, b_k, b_n, c_m;
} linear_plan;

typedef struct {
    const linear_plan *plan;
    const float *a, *b, *bias;
    float *panels, *c;
    float *grad_bias;
} linear_run;

static void pack_task(void *context, int task, int thread) {
    (void)thread;
    const linear_run *run = context;
    const linear_plan *plan = run->plan;
    const ls_kernels *kernels = plan->base.cpu->kernels;
    int panel = task / plan->depth_tiles, k = task % plan->depth_tiles * PACK_DEPTH, cols = kernels->gemm_cols;
    int depth = plan->k - k < PACK_DEPTH ? plan->k - k : PACK_DEPTH;
    int n = plan->columns - panel * cols < cols ? plan->columns - panel * cols : cols;
    const float *b = run->b + (size_t)k * plan->b_k + (size_t)(panel * cols) * plan->b_n;
    kernels->gemm_pack(
        b, plan->b_k, plan->b_n, depth, n, run->panels + ((size_t)panel * (size_t)plan->k + (size_t)k) * (size_t)cols);
}

static void tile_task(void *context, int task, int thread) {
    (void)thread;
    const linear_run *run = context;
    const linear_plan *plan = run->plan;
    const ls_kernels *kernels = plan->base.cpu->kernels;
    int cols = kernels->gemm_cols, m = task % plan->row_tiles * TILE_ROWS, panel = task / plan->row_tiles * 2;
    int n = plan->n - panel * cols < 2 * cols ? plan->n - panel * cols : 2 * cols;
    ls_kernel_gemm gemm = { .a = run->a + (size_t)m * plan->a_m,
        .a_m = plan->a_m,
        .a_k = plan->a_k,
        .panel_stride = (size_t)plan->k * (size_t)cols,
        .c_m = plan->c_m,
        .n = n,
        .k = plan->k,
        .accumulate = plan->base.base.desc.op == LS_OP_LINEAR_BACKWARD_WEIGHT };
    gemm.m = plan->m - m < TILE_ROWS ? plan->m - m : TILE_ROWS;
    gemm.b = run->panels + (size_t)panel * gemm.panel_stride;
    gemm.c = run->c + (size_t)m * plan->c_m + panel * cols;
    if (run->bias) gemm.bias = run->bias + panel * cols;
    kernels->gemm(&gemm);
}

static void multiply(const linear_plan *plan, linear_run *run) {
    ls_pool_run(plan->base.cpu->pool, pack_task, run, plan->panels * plan->depth_tiles);
    ls_pool_run(plan->base.cpu->pool, tile_task, run, plan->row_tiles * ((plan->panels + 1) / 2));
}

static void linear_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    const linear_plan *own = (const linear_plan *)plan;
    linear_run run = { .plan = own, .panels = ls_buffer_host(workspace) };
    if (plan->desc.op == LS_OP_LINEAR_FORWARD) {
        run.a = ls_cpu_floats_at(args[LS_LINEAR_FORWARD_SRC]);
        run.b = ls_cpu_floats_at(args[LS_LINEAR_FORWARD_WEIGHT]);
        run.c = ls_cpu_floats_at(args[LS_LINEAR_FORWARD_DST]);
        if (plan->desc.attr.linear.has_bias) run.bias = ls_cpu_floats_at(args[LS_LINEAR_FORWARD_BIAS]);
    } else if (plan->desc.op == LS_OP_LINEAR_BACKWARD_DATA) {
        run.a = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_DATA_GRAD_DST]);
        run.b = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_DATA_WEIGHT]);
        run.c = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_DATA_GRAD_SRC]);
    } else {
        run.a = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST]);
        run.b = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_WEIGHT_SRC]);
        run.c = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT]);
    }
    if (!plan->desc.attr.linear.bias_only) multiply(own, &run);
    if (plan->desc.op == LS_OP_LINEAR_BACKWARD_WEIGHT && plan->desc.attr.linear.has_bias)
        own->base.cpu->kernels->column_sums(
            run.a, own->a_k, own->k, own->m, ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS]));
}

ls_status ls_cpu_linear_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    const ls_linear_attr *attr = &desc->attr.linear;
    linear_plan *plan;
    LS_TRY(ls_cpu_plan_make(cpu, desc, sizeof *plan, linear_plan_run, "own sgemm", &plan));
    int o = attr->out_features, k = (int)ls_cpu_sample(cpu, attr->src);
    size_t row = (size_t)k, out_row = (size_t)ls_cpu_channels(cpu, o);
    if (desc->op == LS_OP_LINEAR_FORWARD) {
        plan->m = attr->src.n, plan->n = (int)out_row, plan->k = k;
        plan->a_m = row, plan->a_k = 1, plan->b_k = 1, plan->b_n = row, plan->c_m = out_row;
    } else if (desc->op == LS_OP_LINEAR_BACKWARD_DATA) {
        plan->m = attr->src.n, plan->n = k, plan->k = o;
        plan->a_m = out_row, plan->a_k = 1, plan->b_k = row, plan->b_n = 1, plan->c_m = row;
    } else {
        plan->m = o, plan->n = k, plan->k = attr->src.n;
        plan->a_m = 1, plan->a_k = out_row, plan->b_k = row, plan->b_n = 1, plan->c_m = row;
    }
    plan->columns = desc->op == LS_OP_LINEAR_FORWARD ? o : plan->n;
    int cols = cpu->kernels->gemm_cols;
    plan->panels = (plan->n + cols - 1) / cols;
    plan->row_tiles = (plan->m + TILE_ROWS - 1) / TILE_ROWS;
    plan->depth_tiles = (plan->k + PACK_DEPTH - 1) / PACK_DEPTH;
    plan->base.base.workspace_bytes = (size_t)plan->panels * (size_t)plan->k * (size_t)cols * sizeof(float);
    *out = &plan->base.base;
    return LS_SUCCESS;
}
