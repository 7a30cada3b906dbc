// train.sync_batchnorm inside of a pass: two and three ranks, each a thread with a program of its own, give the
// gradients and the statistics of one program with the joined batch; at every step, with micro-batches of any size,
// and with a rank that has none.
#include <math.h>
#include <pthread.h>
#include "program/fixture.h"

// Batch norm with pooling, with residual and relu, with two gradients, alone, and with gelu; dropout, whose mask is the sample's.
static const char network[] =
    "[network]\ninput = 3x8x8\n"
    "[c1]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\n"
    "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n[p1]\nlayer = maxpool2d\nkernel = 2\n"
    "[c2]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\nbias = false\n"
    "[n2]\nlayer = batchnorm2d\n[a2]\nlayer = add\ninputs = n2, p1\n[r2]\nlayer = relu\n"
    "[c3]\nlayer = conv2d\nout_channels = 12\nkernel = 3\npadding = 1\nbias = false\n"
    "[n3]\nlayer = batchnorm2d\n"
    "[s3]\nlayer = conv2d\ninputs = r2\nout_channels = 12\nkernel = 1\n"
    "[m3]\nlayer = batchnorm2d\n[a3]\nlayer = add\ninputs = n3, m3\n[r3]\nlayer = relu\n"
    "[d3]\nlayer = dropout\np = 0.25\n"
    "[c4]\nlayer = conv2d\nout_channels = 3\nkernel = 3\npadding = 1\n[n4]\nlayer = batchnorm2d\n[g4]\nlayer = gelu\n"
    "[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 5\n";
enum { NORMS = 5, REDUCTIONS = 2 * NORMS };

enum { RANKS_MAX = 3, EVENTS_MAX = 64 };

static const struct {
    const char *device;
    unsigned fusions;
    int recompute, ranks, samples[RANKS_MAX]; // 0: the rank joins without a micro-batch
} rows[] = {
    { "ref", LS_FUSES_NORM_POOL, 0, 2, { 4, 4 } },
    { "ref", 0, 0, 2, { 5, 2 } },
    { "ref", LS_FUSES_NORM_POOL, 1, 3, { 3, 1, 0 } },
    { "cpu", 0, 0, 2, { 6, 6 } },
    { "cpu", 0, 1, 2, { 6, 0 } },
    { "cpu", 0, 0, 3, { 8, 8, 3 } },
};

// Where all ranks meet: each gives the address of its sums, and reads those of the others.
typedef struct {
    pthread_barrier_t barrier;
    int ranks;
    double *sums[RANKS_MAX];
    int64_t count[RANKS_MAX];
} meeting;

typedef struct {
    meeting *meeting; // NULL: sums stay the rank's own
    int rank, joins;
    fixture f;
    int64_t events[EVENTS_MAX]; // sums: their number; gradients: -up_to
    int event_count;
    pthread_t thread;
} member;

static void note(member *m, int64_t event) {
    assert_true(m->event_count < EVENTS_MAX);
    m->events[m->event_count++] = event;
}

static void on_complete(void *context, int up_to) {
    note(context, -up_to);
}

static void on_reduce(void *context, ls_buffer sums, int64_t count) {
    member *m = context;
    meeting *all = m->meeting;
    note(m, count);
    if (!all) return;
    double *mine = ls_buffer_host(sums), *total = calloc((size_t)count, sizeof *total);
    assert_non_null(total);
    assert_true((size_t)count * sizeof(double) <= sums.bytes);
    all->sums[m->rank] = mine;
    all->count[m->rank] = count;
    pthread_barrier_wait(&all->barrier);
    for (int r = 0; r < all->ranks; r++) {
        assert_int_equal(all->count[r], count);
        for (int64_t i = 0; i < count; i++) total[i] += all->sums[r][i];
    }
    pthread_barrier_wait(&all->barrier);
    memcpy(mine, total, (size_t)count * sizeof *mine);
    free(total);
}

static void *run_member(void *context) {
    member *m = context;
    fixture *f = &m->f;
    ls_program_hooks hooks = { .context = m, .complete = on_complete, .reduce = on_reduce };
    *f->result = (ls_micro_result){ 0 };
    f->device->api->zero(ls_buffer_at(f->store->grad, 0, f->store->grad->bytes), f->store->grad->bytes, f->queue);
    if (m->joins) {
        memset(f->session.activations->address, 0xFF,
            f->session.activations->bytes); // what stands there must not count: NaN
        ls_program_join(f->program, f->queue, &hooks);
    } else {
        ls_program_run(f->program, &f->inputs, f->queue, &hooks);
    }
    must(f->device->api->queue_sync(f->queue));
    return NULL;
}

// A program for `batch` samples, of which the first is the joined batch's number `first`.
static void new_member(member *m, int row, int batch, int first, const fixture *joined, int sync_norm) {
    fixture_make(&m->f, &(fixture_setup){ .device = rows[row].device,
                            .network = network,
                            .batch = batch,
                            .training = 1,
                            .recompute = rows[row].recompute,
                            .sync_norm = sync_norm,
                            .fusions = rows[row].fusions });
    if (!joined) return;
    size_t picture = (size_t)ls_chw_count(m->f.graph->input);
    memcpy(ls_buffer_host(m->f.inputs.buffer[LS_INPUT_PIXELS]),
        (uint8_t *)ls_buffer_host(joined->inputs.buffer[LS_INPUT_PIXELS]) + (size_t)first * picture,
        (size_t)batch * picture);
    memcpy(ls_buffer_host(m->f.inputs.buffer[LS_INPUT_LABELS]),
        (int32_t *)ls_buffer_host(joined->inputs.buffer[LS_INPUT_LABELS]) + first, (size_t)batch * sizeof(int32_t));
    ((ls_micro_input *)ls_buffer_host(m->f.inputs.buffer[LS_INPUT_MICRO]))->position = (uint64_t)first;
}

typedef struct {
    member joined, rank[RANKS_MAX];
    int ranks;
} group;

static void group_make(group *g, int row, int sync_norm, meeting *all) {
    int samples = 0, first = 0;
    g->ranks = rows[row].ranks;
    for (int r = 0; r < g->ranks; r++) samples += rows[row].samples[r];
    g->joined = (member){ 0 };
    new_member(&g->joined, row, samples, 0, NULL, 0);
    for (int r = 0; r < g->ranks; r++) {
        int mine = rows[row].samples[r], joins = mine == 0;
        g->rank[r] = (member){ .meeting = all, .rank = r, .joins = joins };
        new_member(&g->rank[r], row, joins ? 4 : mine, joins ? 0 : first, &g->joined.f, sync_norm);
        first += mine;
    }
}

static void group_run(group *g) {
    run_member(&g->joined);
    for (int r = 0; r < g->ranks; r++)
        assert_int_equal(pthread_create(&g->rank[r].thread, NULL, run_member, &g->rank[r]), 0);
    for (int r = 0; r < g->ranks; r++) assert_int_equal(pthread_join(g->rank[r].thread, NULL), 0);
}

static void group_free(group *g) {
    fixture_free(&g->joined.f);
    for (int r = 0; r < g->ranks; r++) fixture_free(&g->rank[r].f);
}

// Gradients of one parameter, or sums of one statistic, added over ranks; canonical.
static float *summed(const group *g, int param) {
    const ls_param_shape *shape = &g->joined.f.graph->params[param].shape;
    size_t count = (size_t)ls_param_count(shape);
    float *sum = calloc(count, sizeof *sum), *one = malloc(count * sizeof *one);
    assert_true(sum && one);
    for (int r = 0; r < g->ranks; r++) {
        const fixture *f = &g->rank[r].f;
        f->device->api->param_export(f->device, shape, ls_param_store_grad(f->store, param), one);
        for (size_t i = 0; i < count; i++) sum[i] += one[i];
    }
    free(one);
    return sum;
}

// Largest difference of a parameter's gradients, as a share of its largest gradient. A statistic is the same on every
// rank that has a micro-batch, so its sum is that of the joined batch times their number.
static double difference(const group *g, int param) {
    const fixture *f = &g->joined.f;
    const ls_param_shape *shape = &f->graph->params[param].shape;
    size_t count = (size_t)ls_param_count(shape);
    int busy = 0;
    for (int r = 0; r < g->ranks; r++) busy += !g->rank[r].joins;
    float factor = ls_role_is_statistic(f->graph->params[param].role) ? (float)busy : 1;
    float *got = summed(g, param), *expected = malloc(count * sizeof *expected);
    assert_non_null(expected);
    f->device->api->param_export(f->device, shape, ls_param_store_grad(f->store, param), expected);
    double largest = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        double want = (double)(factor * expected[i]);
        largest = fmax(largest, fabs(want));
        worst = fmax(worst, fabs((double)got[i] - want));
    }
    free(got);
    free(expected);
    return largest > 0 ? worst / largest : worst;
}

// The bias of a convolution before batch norm has no gradient: what is left of it is rounding.
static int vanishes(const fixture *f, int param) {
    const char *name = f->graph->params[param].name;
    return f->graph->params[param].role == LS_ROLE_BIAS && name[0] != 'l';
}

// Both sides add the same fp32 terms, up to 12 * 64 of them, in another order, through at most five layers:
// some sqrt(768) * 5 * 2^-24 = 8e-6 of the largest.
static const double TOLERANCE = 1e-5;

static void is_the_joined_batch(void **state) {
    (void)state;
    double worst = 0;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        meeting all = { .ranks = rows[row].ranks };
        pthread_barrier_init(&all.barrier, NULL, (unsigned)all.ranks);
        group g;
        group_make(&g, (int)row, 1, &all);
        group_run(&g);
        double loss = 0;
        for (int r = 0; r < g.ranks; r++) loss += g.rank[r].f.result->loss_sum;
        if (!(fabs(loss - g.joined.f.result->loss_sum) <= 1e-5 * loss))
            fail_msg("row %zu: loss %.9g, of the joined batch %.9g", row, loss, g.joined.f.result->loss_sum);
        for (int p = 0; p < g.joined.f.graph->param_count; p++) {
            if (vanishes(&g.joined.f, p)) continue;
            double d = difference(&g, p);
            worst = fmax(worst, d);
            if (!(d <= TOLERANCE))
                fail_msg("row %zu (%s): gradients of %s differ from the joined batch's by %.3g of the largest", row,
                    rows[row].device, g.joined.f.graph->params[p].name, d);
        }
        group_free(&g);
        pthread_barrier_destroy(&all.barrier);
    }
    print_message("largest difference: %.2g of a parameter's largest gradient\n", worst);
}

// What the test above would see without the sums over ranks.
static void without_it_differs(void **state) {
    (void)state;
    for (int sync_norm = 0; sync_norm < 2; sync_norm++) { // 1: the operators' halves, and nobody adds
        group g;
        group_make(&g, 0, sync_norm, NULL);
        group_run(&g);
        int seen = 0, looked = 0;
        for (int p = 0; p < g.joined.f.graph->param_count; p++) {
            if (vanishes(&g.joined.f, p)) continue;
            looked++;
            seen += difference(&g, p) > 100 * TOLERANCE;
        }
        if (seen * 2 < looked) fail_msg("only %d of %d parameters differ", seen, looked);
        group_free(&g);
    }
}

// All ranks meet in the same order, one that only joins, one that recomputes, and one with another micro-batch.
static void one_order_of_meetings(void **state) {
    (void)state;
    static const struct {
        int batch, recompute, joins;
    } members[] = { { 6, 0, 0 }, { 2, 0, 0 }, { 6, 1, 0 }, { 64, 1, 0 }, { 6, 0, 1 }, { 64, 1, 1 } };
    member first = { 0 };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        member m = { .joins = members[i].joins };
        fixture_make(&m.f, &(fixture_setup){ .device = "ref",
                               .network = network,
                               .batch = members[i].batch,
                               .training = 1,
                               .recompute = members[i].recompute,
                               .sync_norm = 1 });
        run_member(&m);
        int sums = 0, last = 0;
        for (int e = 0; e < m.event_count; e++) sums += m.events[e] > 0;
        for (int e = 0; e < m.event_count; e++) last = m.events[e] < 0 ? (int)-m.events[e] : last;
        assert_int_equal(sums, REDUCTIONS); // none of them for the second time
        assert_int_equal(last, m.f.store->trained_params);
        if (members[i].recompute) assert_true(m.f.program->blocks > 1);
        if (i == 0) memcpy(&first, &m, sizeof m);
        assert_int_equal(m.event_count, first.event_count);
        assert_memory_equal(m.events, first.events, (size_t)m.event_count * sizeof *m.events);
        fixture_free(&m.f);
    }
}

static void recomputation_keeps_the_bits(void **state) {
    (void)state;
    for (int cpu = 0; cpu < 2; cpu++) {
        fixture off, on;
        fixture_setup setup = {
            .device = cpu ? "cpu" : "ref", .network = network, .batch = 24, .training = 1, .sync_norm = 1
        };
        fixture_make(&off, &setup);
        setup.recompute = 1;
        fixture_make(&on, &setup);
        assert_true(on.program->blocks > 1);
        assert_true(fixture_run(&on) == fixture_run(&off));
        assert_memory_equal(on.store->grad->address, off.store->grad->address, off.store->grad->bytes);
        fixture_free(&on);
        fixture_free(&off);
    }
}

static void the_table_says_where(void **state) {
    (void)state;
    fixture f;
    fixture_make(
        &f, &(fixture_setup){ .device = "ref", .network = network, .batch = 4, .training = 1, .sync_norm = 1 });
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    ls_program_print(f.program, file);
    fclose(file);
    int lines = 0;
    for (const char *at = text; (at = strstr(at, "  sum over ranks ")) != NULL; at++) lines++;
    assert_int_equal(lines, REDUCTIONS);
    assert_non_null(strstr(text, "batch norm backward apply"));
    assert_null(strstr(text, "batch norm forward"));
    free(text);
    fixture_free(&f);
}

static void evaluation_knows_nothing_of_it(void **state) {
    (void)state;
    fixture f;
    fixture_make(&f, &(fixture_setup){ .device = "ref", .network = network, .batch = 4, .sync_norm = 1 });
    for (int i = 0; i < f.program->count; i++) {
        assert_int_equal(f.program->instructions[i].reduce_count, 0);
        assert_int_not_equal(f.program->instructions[i].plan->desc.op, LS_OP_NORM_APPLY);
    }
    fixture_free(&f);
}

int main(void) {
    alarm(300); // ranks that do not meet would wait for ever
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_joined_batch),
        cmocka_unit_test(without_it_differs),
        cmocka_unit_test(one_order_of_meetings),
        cmocka_unit_test(recomputation_keeps_the_bits),
        cmocka_unit_test(the_table_says_where),
        cmocka_unit_test(evaluation_knows_nothing_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
