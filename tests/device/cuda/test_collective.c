// Collectives of the CUDA device: sums over 1, 2 and 4 ranks, each a process with its own emulated GPU, eager and
// recorded, with random orders and delays.
#include "base/half.h"
#include "cuda_ranks.h"
#include "support/cmocka.h"

static const int worlds[] = { 1, 2, 4 };
static const char *const settings[] = { "seed=1", "seed=2,collective_delay=5", "seed=3,collective_delay=2,idle=0" };
enum { WORLDS = sizeof worlds / sizeof *worlds, SETTINGS = sizeof settings / sizeof *settings };

static void run_everywhere(ranks_body *body) {
    for (int w = 0; w < WORLDS; w++) {
        if (cuda_is_real() && worlds[w] > 1) continue;
        for (int s = 0; s < SETTINGS; s++) {
            ranks_result result = ranks_run(worlds[w], settings[s], body);
            RANKS_PASS(settings[s], result, worlds[w]);
        }
    }
}

// --- sums and maxima of every type ---------------------------------------------------------------

enum { COUNT = 1000, BUFFERS = 3 };

static const ls_dtype types[] = { LS_F32, LS_F64, LS_BF16, LS_I32, LS_I64 };

// Element i of rank r's buffer b, as the type holds it. Sums of these depend on their order in fp32 and bf16.
static void fill(char *to, ls_dtype dtype, int rank, int b, int count) {
    for (int i = 0; i < count; i++) {
        double v = (rank + 1) * 0.37 * (i % 97 - 48) + b + 1e-3 * i;
        int64_t n = (int64_t)(rank + 1) * 1000003 * (i - 500) + b;
        switch (dtype) {
        case LS_F32:
            ((float *)(void *)to)[i] = (float)v;
            break;
        case LS_F64:
            ((double *)(void *)to)[i] = v;
            break;
        case LS_I32:
            ((int32_t *)(void *)to)[i] = (int32_t)(uint32_t)(uint64_t)n;
            break;
        case LS_I64:
            ((int64_t *)(void *)to)[i] = n * 1000003;
            break;
        default:
            ls_store_float(to, dtype, i, (float)v);
        }
    }
}

static void combine(char *to, const char *from, ls_dtype dtype, ls_collect op, int count) {
#define EACH(type, sum) \
    for (int i = 0; i < count; i++) { \
        type a = ((type *)(void *)to)[i], b = ((const type *)(const void *)from)[i]; \
        ((type *)(void *)to)[i] = op == LS_COLLECT_MAX ? (a > b ? a : b) : (type)(sum); \
    }
    switch (dtype) {
    case LS_F32:
        EACH(float, a + b) break;
    case LS_F64:
        EACH(double, a + b) break;
    case LS_I32:
        EACH(int32_t, (uint32_t)a + (uint32_t)b) break;
    case LS_I64:
        EACH(int64_t, (uint64_t)a + (uint64_t)b) break;
    default:
        for (int i = 0; i < count; i++) {
            float a = ls_load_float(to, dtype, i), b = ls_load_float(from, dtype, i);
            ls_store_float(to, dtype, i, op == LS_COLLECT_MAX ? (a > b ? a : b) : a + b);
        }
    }
#undef EACH
}

static void expect(char *expected, char *scratch, ls_dtype dtype, ls_collect op, int world_size, int b, int count) {
    fill(expected, dtype, 0, b, count);
    for (int r = 1; r < world_size; r++) {
        fill(scratch, dtype, r, b, count);
        combine(expected, scratch, dtype, op, count);
    }
}

typedef struct {
    ls_slab *host, *summed; // BUFFERS of COUNT elements of 8 bytes
    ls_event *ready, *done;
} tensors;

static tensors tensors_new(const ranks_job *job) {
    tensors t;
    ranks_must(job->api->slab_new(job->device, LS_MEMORY_PINNED, BUFFERS * COUNT * 8, "a test", &t.host));
    ranks_must(job->api->slab_new(job->device, LS_MEMORY_REDUCED, BUFFERS * COUNT * 8, "a test", &t.summed));
    ranks_must(job->collectives->register_memory(job->collective, t.summed));
    ranks_must(job->api->event_new(job->device, 0, &t.ready));
    ranks_must(job->api->event_new(job->device, 0, &t.done));
    return t;
}

static void tensors_free(const ranks_job *job, tensors *t) { // after close, as memory that was adopted must be
    job->api->slab_free(t->host);
    job->api->slab_free(t->summed);
    job->api->event_free(t->ready);
    job->api->event_free(t->done);
}

static ls_buffer part(ls_slab *slab, int b) {
    return ls_buffer_at(slab, (size_t)b * COUNT * 8, (size_t)COUNT * 8);
}

// Buffers come to the device on `compute`, are summed on `gradients` while the next one comes, and go back on compute.
static void sum_all(const ranks_job *job, const tensors *t, ls_dtype dtype, ls_collect op, int first_tag) {
    const ls_device_api *api = job->api;
    for (int b = 0; b < BUFFERS; b++) {
        api->copy(part(t->summed, b), part(t->host, b), COUNT * 8, job->compute);
        api->event_record(t->ready, job->compute);
        api->event_wait(t->ready, job->gradients);
        job->collectives->all_reduce(
            job->collective, part(t->summed, b), COUNT - b, dtype, op, first_tag + b, job->gradients);
    }
    api->event_record(t->done, job->gradients);
    api->event_wait(t->done, job->compute);
    for (int b = 0; b < BUFFERS; b++) api->copy(part(t->host, b), part(t->summed, b), COUNT * 8, job->compute);
}

static void fill_all(const ranks_job *job, const tensors *t, ls_dtype dtype) {
    for (int b = 0; b < BUFFERS; b++) fill(t->host->address + (size_t)b * COUNT * 8, dtype, job->rank, b, COUNT);
}

static void check_all(const ranks_job *job, const tensors *t, const char *how, ls_dtype dtype, ls_collect op) {
    static char expected[COUNT * 8], scratch[COUNT * 8];
    for (int b = 0; b < BUFFERS; b++) {
        expect(expected, scratch, dtype, op, job->world_size, b, COUNT - b);
        const char *got = t->host->address + (size_t)b * COUNT * 8;
        size_t bytes = (size_t)(COUNT - b) * ls_dtype_bytes(dtype), i = 0;
        while (i < bytes && got[i] == expected[i]) i++;
        RANKS_CHECK(job, i == bytes, "%s %s of %s, buffer %d: element %zu differs", how,
            op == LS_COLLECT_MAX ? "maximum" : "sum", ls_dtype_name(dtype), b, i / ls_dtype_bytes(dtype));
        fill(scratch, dtype, job->rank, b, COUNT); // what lies behind is untouched
        RANKS_CHECK(job, memcmp(got + bytes, scratch + bytes, (size_t)b * ls_dtype_bytes(dtype)) == 0,
            "%s: buffer %d: elements behind the end were touched", how, b);
    }
}

static void sums_eager_and_recorded(ranks_job *job) {
    ranks_must(ranks_open(job, 20));
    tensors t = tensors_new(job);
    int64_t given = 0;
    for (size_t d = 0; d < sizeof types / sizeof *types; d++) {
        for (int op = LS_COLLECT_SUM; op <= LS_COLLECT_MAX; op++) {
            ls_captured_graph *recording;
            fill_all(job, &t, types[d]);
            sum_all(job, &t, types[d], (ls_collect)op, 10);
            ranks_must(job->api->queue_sync(job->compute));
            check_all(job, &t, "eager", types[d], (ls_collect)op);
            ranks_must(job->api->capture_begin(job->compute));
            sum_all(job, &t, types[d], (ls_collect)op, 20);
            ranks_must(job->api->capture_end(job->compute, &recording));
            for (int launch = 0; launch < 2; launch++) {
                fill_all(job, &t, types[d]);
                job->api->graph_launch(recording, job->compute);
                ranks_must(job->api->queue_sync(job->compute));
                check_all(job, &t, "recorded", types[d], (ls_collect)op);
            }
            given += 3 * BUFFERS;
            ranks_must(job->api->queue_sync(job->gradients));
            ls_collective_progress progress = job->collectives->progress(job->collective);
            RANKS_CHECK(job, progress.completed == given && progress.last_tag == 20 + BUFFERS - 1,
                "progress: %lld collectives, tag %d; expected %lld, tag %d", (long long)progress.completed,
                progress.last_tag, (long long)given, 20 + BUFFERS - 1);
            job->api->graph_free(recording);
        }
    }
    ranks_must(job->collectives->health(job->collective));
    job->collectives->close(job->collective, 10);
    tensors_free(job, &t);
    ranks_end(job);
}

static void every_type_is_summed(void **unused) {
    (void)unused;
    run_everywhere(sums_eager_and_recorded);
}

// --- a rank whose host is elsewhere takes part all the same --------------------------------------

static void host_elsewhere(ranks_job *job) {
    ranks_must(ranks_open(job, 20));
    tensors t = tensors_new(job);
    fill_all(job, &t, LS_F32);
    sum_all(job, &t, LS_F32, LS_COLLECT_SUM, 0);
    if (job->rank > 0) ranks_wait(&job->shared->flags[0], 1); // as in an MPI call that rank 0 does not come to before
    ranks_must(job->api->queue_sync(job->compute));
    atomic_store(&job->shared->flags[0], 1);
    check_all(job, &t, "eager", LS_F32, LS_COLLECT_SUM);
    job->collectives->close(job->collective, 10);
    tensors_free(job, &t);
    ranks_end(job);
}

static void no_rank_depends_on_the_host_of_another(void **unused) {
    (void)unused;
    run_everywhere(host_elsewhere);
}

// Sums in a recording keep the priority of their queue. Kernels that count them have it, too; copies do not.
static void record_once(ranks_job *job) {
    ranks_must(ranks_open(job, 20));
    tensors t = tensors_new(job);
    ls_captured_graph *recording;
    ranks_must(job->api->capture_begin(job->compute));
    sum_all(job, &t, LS_F32, LS_COLLECT_SUM, 0);
    ranks_must(job->api->capture_end(job->compute, &recording));
    job->api->graph_free(recording);
    job->collectives->close(job->collective, 1);
    tensors_free(job, &t);
    ranks_end(job);
}

static void recorded_sums_go_first(void **unused) {
    (void)unused;
    if (cuda_is_real()) skip();
    ranks_result result = ranks_run(1, "report=1", record_once);
    RANKS_PASS("report=1", result, 1);
    static const char wanted[] =
        "graph of 12 nodes; 6 of priority -5, 3 of them collectives; 6 of priority 0, 0 of them";
    if (!strstr(result.text, wanted)) fail_msg("no \"%s\" in: %s", wanted, result.text);
}

// The tests above see what they are there for: without one of the waits, sums are wrong for some seed.
static void sum_once(ranks_job *job) {
    ranks_must(ranks_open(job, 20));
    tensors t = tensors_new(job);
    fill_all(job, &t, LS_F32);
    sum_all(job, &t, LS_F32, LS_COLLECT_SUM, 0);
    ranks_must(job->api->queue_sync(job->compute));
    ranks_must(job->api->queue_sync(job->gradients));
    check_all(job, &t, "eager", LS_F32, LS_COLLECT_SUM);
    job->collectives->close(job->collective, 1);
    tensors_free(job, &t);
    ranks_end(job);
}

static void a_missing_wait_is_seen(void **unused) {
    (void)unused;
    if (cuda_is_real()) skip();
    for (int wait = 1; wait <= BUFFERS + 1; wait += BUFFERS) { // for what comes to be summed, and for the sums
        int wrong = 0;
        for (int seed = 1; seed <= 10; seed++) {
            char text[64];
            snprintf(text, sizeof text, "drop_wait=%d,seed=%d", wait, seed);
            ranks_result result = ranks_run(2, text, sum_once);
            wrong += strstr(result.text, "differs") != NULL;
        }
        if (wrong == 0) fail_msg("without wait %d all sums were right", wait);
    }
}

int main(void) {
    int skipped = cuda_choose();
    if (skipped) return skipped;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_summed),
        cmocka_unit_test(no_rank_depends_on_the_host_of_another),
        cmocka_unit_test(recorded_sums_go_first),
        cmocka_unit_test(a_missing_wait_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
