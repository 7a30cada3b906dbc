// op_muon.c - Muon (op_update.h), one tensor at a time, in fp32 with the device's own matrix products; norms in double.
//
// The Newton-Schulz iteration treats all rows alike and all columns alike, and zero rows and columns stay zero. So it
// runs on the matrix as it lies in the store, with the store's order of channels and its padding.
#include <math.h>
#include "device/cpu/cpu.h"

enum { TASK = 65536 }; // elements in a task

// A tensor in the layout [row blocks][columns][lanes]. x is the tensor as a matrix, transposed if it has more rows than
// columns.
typedef struct {
    int blocks, columns, lanes;
    int small, large, transposed; // smaller and larger dimension of x; whether x is transposed
    int true_rows;                // rows of the tensor without padding
} matrix;

typedef struct {
    ls_cpu_plan base;
    size_t next_at, gram_at, factor_at, panels_at, partials_at; // offsets into the workspace in floats; x comes first
} muon_plan;

typedef struct {
    const muon_plan *plan;
    const ls_optimizer_attr *attr;
    const ls_step_segment *segment;
    matrix m;
    const float *grad;
    float *momentum, *weight;
    float *x, *next, *gram, *factor, *panels;
    double (*partials)[2];
    float multiplier, mu, norm, keep, lr, stretched_lr;
    int first;
} muon_run;

static matrix matrix_of(const ls_cpu *cpu, const ls_param_shape *s) {
    const int blocked = s->kind == LS_PARAM_CONV && s->groups == 1, rows = s->dim[0];
    matrix m = { .true_rows = rows, .lanes = blocked ? cpu->block : 1 };
    m.blocks = (rows + m.lanes - 1) / m.lanes;
    m.columns = (int)(ls_cpu_param_elements(&cpu->base, s) / (size_t)(m.blocks * m.lanes));
    const int all_rows = m.blocks * m.lanes;
    m.transposed = all_rows > m.columns;
    m.small = m.transposed ? m.columns : all_rows;
    m.large = m.transposed ? all_rows : m.columns;
    return m;
}

static size_t elements(const matrix *m) {
    return (size_t)m->small * (size_t)m->large;
}

static int tasks_of(size_t count) {
    return (int)((count + TASK - 1) / TASK);
}

static size_t share(const matrix *m, int task, size_t *at) {
    *at = (size_t)task * TASK;
    return elements(m) - *at < TASK ? elements(m) - *at : TASK;
}

// Updates the momentum, writes the step's direction to `next`, in the store's order, and adds up its squares.
static void direction_task(void *context, int task, int thread) {
    (void)thread;
    const muon_run *run = context;
    size_t at, n = share(&run->m, task, &at);
    const float *grad = run->grad + at;
    float *momentum = run->momentum + at, *to = run->next + at;
    for (size_t i = 0; i < n; i++) {
        const float g = grad[i] * run->multiplier, v = run->first ? g : run->mu * momentum[i] + g;
        momentum[i] = v;
        to[i] = run->attr->nesterov ? g + run->mu * v : v;
    }
    run->plan->base.cpu->kernels->grad_stats(to, n, run->partials[task]);
}

static void squares_task(void *context, int task, int thread) {
    (void)thread;
    const muon_run *run = context;
    size_t at, n = share(&run->m, task, &at);
    run->plan->base.cpu->kernels->grad_stats(run->weight + at, n, run->partials[task]);
}

static double sum_of(const muon_run *run) {
    double sum = 0;
    for (int t = 0; t < tasks_of(elements(&run->m)); t++) sum += run->partials[t][0];
    return sum;
}

// Copies one row block of `next`, divided by the norm, to x.
static void pack_task(void *context, int block, int thread) {
    (void)thread;
    const muon_run *run = context;
    const matrix *m = &run->m;
    const float *from = run->next + (size_t)block * (size_t)m->columns * (size_t)m->lanes;
    for (int lane = 0; lane < m->lanes; lane++) {
        const size_t row = (size_t)(block * m->lanes + lane);
        float *to = m->transposed ? run->x + row : run->x + row * (size_t)m->large;
        const size_t step = m->transposed ? (size_t)m->large : 1;
        for (int j = 0; j < m->columns; j++) to[(size_t)j * step] = from[j * m->lanes + lane] / run->norm;
    }
}

static void apply_task(void *context, int block, int thread) {
    (void)thread;
    const muon_run *run = context;
    const matrix *m = &run->m;
    float *weight = run->weight + (size_t)block * (size_t)m->columns * (size_t)m->lanes;
    for (int lane = 0; lane < m->lanes; lane++) {
        const size_t row = (size_t)(block * m->lanes + lane);
        const float *from = m->transposed ? run->x + row : run->x + row * (size_t)m->large;
        const size_t step = m->transposed ? (size_t)m->large : 1;
        for (int j = 0; j < m->columns; j++) {
            float *w = &weight[j * m->lanes + lane];
            *w = *w * run->keep - run->stretched_lr * from[(size_t)j * step];
        }
    }
}

// factor = ns[1] gram + ns[2] gram gram; next = ns[0] x. The following product adds factor x to next.
static void scaled_task(void *context, int row, int thread) {
    (void)thread;
    const muon_run *run = context;
    const size_t small = (size_t)run->m.small, large = (size_t)run->m.large;
    const float *x = run->x + (size_t)row * large, *ns = run->attr->ns;
    const float *square = run->factor + (size_t)row * small, *gram = run->gram + (size_t)row * small;
    float *next = run->next + (size_t)row * large, *factor = run->factor + (size_t)row * small;
    for (size_t i = 0; i < large; i++) next[i] = ns[0] * x[i];
    for (size_t i = 0; i < small; i++) factor[i] = ns[1] * gram[i] + ns[2] * square[i];
}

static void multiply(const muon_run *run, const float *a, const float *b, int b_transposed, float *c, int n, int k) {
    ls_cpu_product_run(&(ls_cpu_product){ .cpu = run->plan->base.cpu,
        .m = run->m.small,
        .n = n,
        .k = k,
        .columns = n,
        .a_m = (size_t)k,
        .a_k = 1,
        .b_k = b_transposed ? 1 : (size_t)n,
        .b_n = b_transposed ? (size_t)k : 1,
        .c_m = (size_t)n,
        .accumulate = c == run->next,
        .a = a,
        .b = b,
        .c = c,
        .panels = run->panels });
}

static void orthogonalise(muon_run *run) {
    const int small = run->m.small, large = run->m.large;
    ls_pool *pool = run->plan->base.cpu->pool;
    for (int s = 0; s < run->attr->ns_steps; s++) {
        multiply(run, run->x, run->x, 1, run->gram, small, large);
        multiply(run, run->gram, run->gram, 0, run->factor, small, small);
        ls_pool_run(pool, scaled_task, run, small);
        multiply(run, run->factor, run->x, 0, run->next, large, small);
        float *x = run->x;
        run->x = run->next;
        run->next = x;
    }
}

static void step_tensor(muon_run *run, const ls_train_state *state) {
    ls_pool *pool = run->plan->base.cpu->pool;
    const int tasks = tasks_of(elements(&run->m));
    run->multiplier = state->multiplier;
    run->mu = run->segment->momentum;
    run->first = state->applied == 1;
    run->lr = state->lr[run->segment->rate] * run->segment->lr_factor;
    ls_pool_run(pool, direction_task, run, tasks);
    if (run->lr == 0) return;
    run->norm = (float)(sqrt(sum_of(run)) + (double)LS_MUON_EPS);
    ls_pool_run(pool, pack_task, run, run->m.blocks);
    orthogonalise(run);
    run->keep = 1 - run->lr * run->segment->decay;
    run->stretched_lr = run->lr * run->segment->stretch;
    if (state->renormalise) {
        ls_pool_run(pool, squares_task, run, tasks);
        const double squares = sum_of(run);
        if (squares > 0) run->keep = (float)((double)run->keep * sqrt(run->m.true_rows / squares));
    }
    ls_pool_run(pool, apply_task, run, run->m.blocks);
}

typedef struct {
    const muon_run *run;
    uint16_t *copy; // 16-bit copy of the tensor's weights
} copy_run;

static void copy_task(void *context, int task, int thread) {
    (void)thread;
    const copy_run *c = context;
    size_t at, n = share(&c->run->m, task, &at);
    c->run->plan->base.cpu->kernels_bf16->from_floats(c->run->weight + at, c->copy + at, n);
}

static void muon_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    const muon_plan *own = (const muon_plan *)plan;
    const ls_optimizer_attr *attr = &plan->desc.attr.optimizer;
    const ls_train_state *state = ls_buffer_host(args[LS_STEP_STATE]);
    float *room = ls_buffer_host(workspace);
    uint16_t *const copy = attr->storage == LS_BF16 ? ls_buffer_host(args[LS_MUON_COPY]) : NULL;
    if (state->skip) return;
    size_t first = 0;
    for (const ls_step_segment *s = attr->segments; s < attr->segments + attr->segment_count;
         first += (size_t)s++->count) {
        if (s->rate == LS_SEGMENT_IDLE) continue;
        muon_run run = { .plan = own,
            .attr = attr,
            .segment = s,
            .m = matrix_of(own->base.cpu, s->shape),
            .grad = ls_cpu_floats_at(args[LS_STEP_GRAD]) + first,
            .momentum = ls_cpu_floats_at(args[LS_STEP_KEPT]) + first,
            .weight = ls_cpu_floats_at(args[LS_MUON_WEIGHT]) + first,
            .x = room,
            .next = room + own->next_at,
            .gram = room + own->gram_at,
            .factor = room + own->factor_at,
            .panels = room + own->panels_at,
            .partials = (void *)(room + own->partials_at) };
        step_tensor(&run, state);
        if (copy)
            ls_pool_run(own->base.cpu->pool, copy_task, &(copy_run){ &run, copy + first }, tasks_of(elements(&run.m)));
    }
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

ls_status ls_cpu_muon_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    const ls_optimizer_attr *attr = &desc->attr.optimizer;
    muon_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, muon_plan_run, "own sgemm");
    size_t x = 0, gram = 0, partials = 0;
    for (int s = 0; s < attr->segment_count; s++) {
        if (attr->segments[s].rate == LS_SEGMENT_IDLE) continue;
        const matrix m = matrix_of(cpu, attr->segments[s].shape);
        x = larger(x, ls_cpu_round(elements(&m) * sizeof(float)));
        gram = larger(gram, ls_cpu_round((size_t)m.small * (size_t)m.small * sizeof(float)));
        partials = larger(partials, (size_t)tasks_of(elements(&m)) * sizeof(double[2]));
    }
    plan->next_at = x / sizeof(float);
    plan->gram_at = plan->next_at + x / sizeof(float);
    plan->factor_at = plan->gram_at + gram / sizeof(float);
    plan->panels_at = plan->factor_at + gram / sizeof(float);
    plan->partials_at = plan->panels_at + ls_cpu_round(ls_cpu_product_bytes(cpu)) / sizeof(float);
    plan->base.base.workspace_bytes = plan->partials_at * sizeof(float) + partials;
    *out = &plan->base.base;
    return LS_SUCCESS;
}
