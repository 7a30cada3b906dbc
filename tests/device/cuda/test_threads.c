// Two host threads on the CUDA device, as in training with sums through host memory: one gives work to its queue
// and hands on buckets, the other waits for each, fetches it, changes it, and brings it back, on a queue of its own.
// On the second GPU, for which a thread must say that it means it. Meant for TSan, too.
#include <pthread.h>
#include <semaphore.h>

#include "device/cuda_device.h"
#include "support/must.h"

enum { BUCKETS = 4, FLOATS = 300, UPDATES = 20, SEEDS = 5 };

typedef struct {
    ls_device *device;
    const ls_device_api *api;
    ls_queue *compute, *staging;
    ls_slab *source, *summed, *staged, *result; // BUCKETS of FLOATS
    ls_slab *rounded;
    ls_plan *cast; // of a bucket, to bf16
    ls_event *ready[BUCKETS], *back[BUCKETS], *fetched;
    sem_t given, taken; // counts of buckets
    ls_status status;   // of the other thread
} job;

static ls_buffer bucket_of(ls_slab *slab, int b) {
    return ls_buffer_at(slab, (size_t)b * FLOATS * sizeof(float), FLOATS * sizeof(float));
}

static ls_status stage(job *j, int b) {
    const size_t bytes = FLOATS * sizeof(float);
    float *values = ls_buffer_host(bucket_of(j->staged, b));
    LS_TRY(j->api->event_sync(j->ready[b]));
    // a kernel, which must be for the queue's GPU
    ls_plan_run(
        j->cast, (ls_buffer[]){ bucket_of(j->summed, b), bucket_of(j->rounded, b) }, (ls_buffer){ 0 }, j->staging);
    j->api->copy(bucket_of(j->staged, b), bucket_of(j->summed, b), bytes, j->staging);
    j->api->event_record(j->fetched, j->staging);
    LS_TRY(j->api->event_sync(j->fetched));
    for (int i = 0; i < FLOATS; i++) values[i] += 1;
    j->api->copy(bucket_of(j->summed, b), bucket_of(j->staged, b), bytes, j->staging);
    j->api->event_record(j->back[b], j->staging);
    return LS_SUCCESS;
}

static void *other_thread(void *context) {
    job *j = context;
    for (int n = 0; n < UPDATES * BUCKETS; n++) {
        while (sem_wait(&j->given) != 0) {}
        ls_keep_first(&j->status, stage(j, n % BUCKETS));
        sem_post(&j->taken);
    }
    return NULL;
}

static void job_new(job *j, const char *settings, int seed) {
    char text[128];
    snprintf(text, sizeof text, "devices=2,seed=%d%s", seed, settings);
    setenv("LOCKSTEP_EMULATION", text, 1);
    *j = (job){ .status = LS_SUCCESS };
    must(ls_device_open("cuda", &(ls_device_options){ .index = cuda_is_real() ? 0 : 1 }, &j->device, NULL));
    j->api = j->device->api;
    must(j->api->queue_new(j->device, "compute", &j->compute));
    must(j->api->queue_new(j->device, "gradients", &j->staging));
    const ls_memory_kind kinds[] = { LS_MEMORY_PINNED, LS_MEMORY_REDUCED, LS_MEMORY_PINNED, LS_MEMORY_PINNED,
        LS_MEMORY_DEVICE };
    ls_slab **slabs[] = { &j->source, &j->summed, &j->staged, &j->result, &j->rounded };
    const ls_op_desc cast = {
        .op = LS_OP_CAST, .layer = "rounded", .attr.flat = { .count = FLOATS, .storage = LS_BF16 }
    };
    must(j->api->plan_new(j->device, &cast, &j->cast));
    for (int i = 0; i < 5; i++)
        must(j->api->slab_new(j->device, kinds[i], BUCKETS * FLOATS * sizeof(float), "a test", slabs[i]));
    for (int b = 0; b < BUCKETS; b++) {
        must(j->api->event_new(j->device, 0, &j->ready[b]));
        must(j->api->event_new(j->device, 0, &j->back[b]));
    }
    must(j->api->event_new(j->device, 0, &j->fetched));
    sem_init(&j->given, 0, 0);
    sem_init(&j->taken, 0, 0);
}

static void job_free(job *j) {
    ls_slab *slabs[] = { j->source, j->summed, j->staged, j->result, j->rounded };
    j->api->plan_free(j->cast);
    for (int i = 0; i < 5; i++) j->api->slab_free(slabs[i]);
    for (int b = 0; b < BUCKETS; b++) {
        j->api->event_free(j->ready[b]);
        j->api->event_free(j->back[b]);
    }
    j->api->event_free(j->fetched);
    j->api->queue_free(j->compute);
    j->api->queue_free(j->staging);
    sem_destroy(&j->given);
    sem_destroy(&j->taken);
    ls_device_close(j->device);
}

// All buckets go to the other thread and come back while this one gives more.
static void update(job *j) {
    const size_t bytes = FLOATS * sizeof(float);
    for (int b = 0; b < BUCKETS; b++) {
        j->api->copy(bucket_of(j->summed, b), bucket_of(j->source, b), bytes, j->compute);
        j->api->event_record(j->ready[b], j->compute);
        sem_post(&j->given);
    }
    for (int b = 0; b < BUCKETS; b++) {
        while (sem_wait(&j->taken) != 0) {}
        j->api->event_wait(j->back[b], j->compute);
        j->api->copy(bucket_of(j->result, b), bucket_of(j->summed, b), bytes, j->compute);
    }
}

static void fill(job *j, int number) {
    float *source = ls_buffer_host(bucket_of(j->source, 0));
    for (int i = 0; i < BUCKETS * FLOATS; i++) source[i] = (float)(i % 89 + 1000 * number);
}

static void check(job *j, int seed, int number) {
    const float *source = ls_buffer_host(bucket_of(j->source, 0)), *result = ls_buffer_host(bucket_of(j->result, 0));
    for (int i = 0; i < BUCKETS * FLOATS; i++)
        if (result[i] != source[i] + 1)
            fail_msg("seed %d, update %d, bucket %d, element %d: %g, expected %g", seed, number, i / FLOATS, i % FLOATS,
                (double)result[i], (double)source[i] + 1);
}

static void buckets_travel_between_two_threads(void **unused) {
    (void)unused;
    for (int seed = 1; seed <= SEEDS; seed++) {
        job j;
        pthread_t other;
        job_new(&j, "", seed);
        assert_int_equal(pthread_create(&other, NULL, other_thread, &j), 0);
        for (int number = 0; number < UPDATES; number++) {
            fill(&j, number);
            update(&j);
            must(j.api->queue_sync(j.compute));
            check(&j, seed, number);
        }
        pthread_join(other, NULL);
        must(j.status);
        job_free(&j);
    }
}

// A GPU that breaks: both threads are told the same, once.
static void both_threads_get_the_first_error(void **unused) {
    (void)unused;
    if (cuda_is_real()) skip();
    job j;
    pthread_t other;
    job_new(&j, ",launch_fail=1", 1);
    assert_int_equal(pthread_create(&other, NULL, other_thread, &j), 0);
    for (int number = 0; number < UPDATES; number++) update(&j);
    ls_status mine = j.api->queue_sync(j.compute);
    pthread_join(other, NULL);
    assert_int_equal(mine.code, LS_DEVICE);
    assert_non_null(strstr(mine.text, "CUDA error 700"));
    assert_ptr_equal(mine.text, j.status.text);
    job_free(&j);
}

int main(void) {
    int skipped = cuda_choose();
    if (skipped) return skipped;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_travel_between_two_threads),
        cmocka_unit_test(both_threads_get_the_first_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
