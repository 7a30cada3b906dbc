// op_muon.c - Muon (op_update.h), one tensor at a time, in plain loops.
#include <math.h>
#include "device/ref/ref.h"

// One tensor as a matrix. In the canonical layout its rows follow each other.
typedef struct {
    int rows, columns; // of the tensor
    int small, large;  // rows and columns of x, which is transposed if the tensor has more rows than columns
    double *x, *next, *gram, *factor;
    const float *ns;
} muon_matrix;

static muon_matrix matrix_of(const ls_param_shape *shape, const ls_optimizer_attr *a) {
    const int rows = shape->dim[0], columns = (int)(ls_param_count(shape) / rows), wide = rows <= columns;
    return (muon_matrix){
        .rows = rows, .columns = columns, .small = wide ? rows : columns, .large = wide ? columns : rows, .ns = a->ns
    };
}

// Index of the tensor's element i in x.
static int64_t place(const muon_matrix *m, int64_t i) {
    if (m->small == m->rows) return i;
    return i % m->columns * m->large + i / m->columns;
}

static double norm_of(const double *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i] * values[i];
    return sqrt(sum);
}

static void gram_row(void *context, int row, int thread) {
    (void)thread;
    const muon_matrix *m = context;
    for (int j = 0; j < m->small; j++) {
        const double *a = m->x + (int64_t)row * m->large, *b = m->x + (int64_t)j * m->large;
        double sum = 0;
        for (int i = 0; i < m->large; i++) sum += a[i] * b[i];
        m->gram[(int64_t)row * m->small + j] = sum;
    }
}

static void step_row(void *context, int row, int thread) {
    (void)thread;
    const muon_matrix *m = context;
    const double *gram = m->gram + (int64_t)row * m->small;
    double *factor = m->factor + (int64_t)row * m->small, *next = m->next + (int64_t)row * m->large;
    for (int j = 0; j < m->small; j++) factor[j] = (double)m->ns[1] * gram[j];
    for (int k = 0; k < m->small; k++) // gram is symmetric
        for (int j = 0; j < m->small; j++) factor[j] += (double)m->ns[2] * gram[k] * m->gram[(int64_t)k * m->small + j];
    for (int i = 0; i < m->large; i++) next[i] = (double)m->ns[0] * m->x[(int64_t)row * m->large + i];
    for (int k = 0; k < m->small; k++)
        for (int i = 0; i < m->large; i++) next[i] += factor[k] * m->x[(int64_t)k * m->large + i];
}

static void orthogonalise(const ls_plan *plan, muon_matrix *m) {
    for (int s = 0; s < plan->desc.attr.optimizer.ns_steps; s++) {
        ls_ref_run_tasks(plan, gram_row, m, m->small);
        ls_ref_run_tasks(plan, step_row, m, m->small);
        double *x = m->x;
        m->x = m->next;
        m->next = x;
    }
}

static double renormalised(const muon_matrix *m, const float *weight, const ls_train_state *state) {
    double sum = 0;
    for (int64_t i = 0; i < (int64_t)m->rows * m->columns; i++) sum += (double)weight[i] * (double)weight[i];
    return state->renormalise && sum > 0 ? sqrt(m->rows / sum) : 1;
}

static void step_tensor(
    const ls_plan *plan, const ls_step_segment *segment, const ls_buffer *args, int64_t first, double *workspace) {
    const ls_optimizer_attr *a = &plan->desc.attr.optimizer;
    const ls_train_state *state = ls_buffer_host(args[LS_STEP_STATE]);
    const float *grad = (const float *)ls_buffer_host(args[LS_STEP_GRAD]) + first;
    float *momentum = (float *)ls_buffer_host(args[LS_STEP_KEPT]) + first;
    float *weight = (float *)ls_buffer_host(args[LS_MUON_WEIGHT]) + first;
    muon_matrix m = matrix_of(segment->shape, a);
    const int64_t count = (int64_t)m.rows * m.columns;
    m.x = workspace, m.next = m.x + count, m.gram = m.next + count, m.factor = m.gram + (int64_t)m.small * m.small;
    const double mu = (double)segment->momentum, lr = (double)state->lr[segment->rate] * (double)segment->lr_factor;
    for (int64_t i = 0; i < count; i++) {
        double g = (double)grad[i] * (double)state->multiplier;
        double v = state->applied == 1 ? g : mu * (double)momentum[i] + g;
        momentum[i] = (float)v;
        m.x[place(&m, i)] = a->nesterov ? g + mu * v : v;
    }
    if (lr == 0) return;
    const double norm = norm_of(m.x, count) + LS_MUON_EPS;
    for (int64_t i = 0; i < count; i++) m.x[i] /= norm;
    orthogonalise(plan, &m);
    const double keep = renormalised(&m, weight, state) * (1 - lr * (double)segment->decay);
    void *copy = a->storage == LS_F32 ? NULL : ls_buffer_host(args[LS_MUON_COPY]);
    for (int64_t i = 0; i < count; i++) {
        weight[i] = (float)((double)weight[i] * keep - lr * (double)segment->stretch * m.x[place(&m, i)]);
        if (copy) ls_store_float(copy, a->storage, first + i, weight[i]);
    }
}

void ls_ref_muon(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    const ls_optimizer_attr *a = &plan->desc.attr.optimizer;
    const ls_train_state *state = ls_buffer_host(args[LS_STEP_STATE]);
    if (state->skip) return;
    int64_t first = 0;
    for (int s = 0; s < a->segment_count; first += a->segments[s++].count)
        if (a->segments[s].rate != LS_SEGMENT_IDLE)
            step_tensor(plan, &a->segments[s], args, first, ls_buffer_host(workspace_buffer));
}

size_t ls_ref_optimizer_workspace(const ls_op_desc *desc) {
    const ls_optimizer_attr *a = &desc->attr.optimizer;
    int64_t most = 0;
    for (int s = 0; desc->op == LS_OP_MUON && s < a->segment_count; s++) {
        if (a->segments[s].rate == LS_SEGMENT_IDLE) continue;
        const muon_matrix m = matrix_of(a->segments[s].shape, a);
        const int64_t doubles = 2 * ((int64_t)m.rows * m.columns + (int64_t)m.small * m.small);
        if (doubles > most) most = doubles;
    }
    return (size_t)most * sizeof(double);
}
