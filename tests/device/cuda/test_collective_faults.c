// Collectives of the CUDA device when something is wrong: injected faults, ranks that differ, ranks that are gone, and
// what NCCL would hang on, which the emulation reports.
#include "cuda_ranks.h"
#include "support/cmocka.h"

enum { COUNT = 64 };

typedef struct {
    ls_slab *summed;
    ls_event *given;
} memory;

static memory memory_new(const ranks_job *job) {
    memory m;
    ranks_must(job->api->slab_new(job->device, LS_MEMORY_REDUCED, COUNT * sizeof(float), "a test", &m.summed));
    ranks_must(job->api->event_new(job->device, 0, &m.given));
    ranks_must(job->collectives->register_memory(job->collective, m.summed));
    return m;
}

static memory open_all(ranks_job *job) {
    ranks_must(ranks_open(job, 20));
    return memory_new(job);
}

static void sum(const ranks_job *job, const memory *m, int count, ls_dtype dtype, int tag, ls_queue *queue) {
    job->collectives->all_reduce(
        job->collective, ls_buffer_at(m->summed, 0, COUNT * sizeof(float)), count, dtype, LS_COLLECT_SUM, tag, queue);
}

static void end_all(ranks_job *job, memory *m, double timeout_s) {
    job->collectives->close(job->collective, timeout_s);
    job->api->slab_free(m->summed);
    job->api->event_free(m->given);
    ranks_end(job);
}

// --- opening -------------------------------------------------------------------------------------

static const struct {
    const char *row, *of_rank_1; // settings
    int index_of_rank_1;         // -1: its own
    int absent;                  // rank 1 never comes
    ls_code codes[2];
    const char *texts[2];
} openings[] = {
    { "one fails", "collective_open_fail=1", -1, 0, { LS_COMM, LS_DEVICE },
        { "the 2 ranks did not all meet within 1.0 s: rank 1 has not come", "unhandled system error" } },
    { "one is absent", "", -1, 1, { LS_COMM, LS_OK }, { "rank 1 has not come", "" } },
    { "versions differ", "collective_version=22703", -1, 0, { LS_DEVICE, LS_DEVICE },
        { "Mismatched NCCL version detected : rank 0 22809 rank 1 22703", "Mismatched NCCL version" } },
    { "one GPU for two", "", 0, 0, { LS_DEVICE, LS_DEVICE },
        { "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0000:01:00.0", "Duplicate GPU detected" } },
};
static size_t opening; // the row that is tried

static void open_badly(ranks_job *job) {
    if (job->rank == 1) job->settings = openings[opening].of_rank_1;
    if (job->rank == 1 && openings[opening].index_of_rank_1 >= 0) job->index = openings[opening].index_of_rank_1;
    if (job->rank == 1 && openings[opening].absent) return;
    const double timeout_s = openings[opening].codes[0] == LS_COMM ? 1 : 60; // they do not all meet, or do
    ls_status status = ranks_open(job, timeout_s);
    RANKS_CHECK(job, status.code == openings[opening].codes[job->rank], "code %d, expected %d: %s", status.code,
        openings[opening].codes[job->rank], status.text ? status.text : "");
    RANKS_CHECK(job, strstr(status.text, openings[opening].texts[job->rank]), "no \"%s\" in: %s",
        openings[opening].texts[job->rank], status.text);
    RANKS_CHECK(job, !strchr(status.text, '\n'), "more than one line: %s", status.text);
    ranks_end(job);
}

static void ranks_that_cannot_meet_are_told_why(void **unused) {
    (void)unused;
    for (opening = 0; opening < sizeof openings / sizeof *openings; opening++) {
        ranks_result result = ranks_run(2, "", open_badly);
        RANKS_PASS(openings[opening].row, result, 2);
    }
}

static void look_for_library(ranks_job *job) {
    char version[64] = "";
    setenv("LOCKSTEP_EMULATION", job->settings, 1);
    ranks_must(ls_device_open("cuda", &(ls_device_options){ .index = 0 }, &job->device, NULL));
    job->api = job->device->api;
    ls_status status = job->api->collective->probe(version, sizeof version);
    if (strstr(job->settings, "collective=0"))
        RANKS_CHECK(job, status.code == LS_DEVICE && strstr(status.text, "NCCL was not found"), "%s", status.text);
    else
        RANKS_CHECK(job, status.code == LS_OK && strcmp(version, "NCCL 2.27.3") == 0, "%s", version);
    ls_device_close(job->device);
}

static void the_library_may_be_absent(void **unused) {
    (void)unused;
    ranks_result result = ranks_run(1, "collective=0", look_for_library);
    RANKS_PASS("collective=0", result, 1);
    result = ranks_run(1, "collective_version=22703", look_for_library);
    RANKS_PASS("collective_version=22703", result, 1);
}

// --- a collective that does not end --------------------------------------------------------------

// Rank 1's second of three never ends. Both see how far they came, and get away.
static void get_stuck(ranks_job *job) {
    memory m = open_all(job);
    int fails = strstr(job->settings, "collective_fail") != NULL && job->rank == 1;
    for (int i = 0; i < 3; i++) sum(job, &m, COUNT, LS_F32, 40 + i, job->gradients);
    ls_collective_progress progress = { 0 };
    ls_status health = LS_SUCCESS;
    for (int i = 0; i < 10000 && (progress.completed < 1 || (fails && !ls_failed(health))); i++) {
        ls_clock_sleep(1e-3); // no call that waits: the GPU goes on by itself
        progress = job->collectives->progress(job->collective);
        health = job->collectives->health(job->collective);
    }
    ls_clock_sleep(0.05);
    progress = job->collectives->progress(job->collective);
    RANKS_CHECK(job, progress.completed == 1 && progress.last_tag == 40, "%lld completed, the last tag is %d",
        (long long)progress.completed, progress.last_tag);
    RANKS_CHECK(job, ls_failed(health) == fails, "health: %s", health.text ? health.text : "well");
    RANKS_CHECK(job, !fails || (health.code == LS_COMM && strstr(health.text, "remote process exited")), "health: %s",
        health.text);
    atomic_fetch_add(&job->shared->flags[0], 1);
    ranks_wait(&job->shared->flags[0], job->world_size); // what is closed notices no more
    end_all(job, &m, 0.2);
}

static void a_stuck_collective_is_left(void **unused) {
    (void)unused;
    const char *const rows[] = { "collective_hang=2,collective_rank=1", "collective_fail=2,collective_rank=1" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ranks_result result = ranks_run(2, rows[i], get_stuck);
        RANKS_PASS(rows[i], result, 2);
    }
}

static void lose_a_peer(ranks_job *job) {
    memory m = open_all(job);
    if (job->rank == 1) raise(SIGKILL);
    sum(job, &m, COUNT, LS_F32, 0, job->gradients);
    end_all(job, &m, 0.2);
}

static void a_peer_that_was_killed_does_not_keep_the_others(void **unused) {
    (void)unused;
    ranks_result result = ranks_run(2, "", lose_a_peer);
    assert_int_equal(result.codes[1], 128 + SIGKILL);
    if (result.codes[0]) fail_msg("rank 0 ended with %d: %s", result.codes[0], result.text);
}

// --- what the ranks must not do: the emulation ends them, saying so ------------------------------

static void other_tags(ranks_job *job) {
    memory m = open_all(job);
    for (int i = 0; i < 2; i++) sum(job, &m, COUNT, LS_F32, job->rank ? 1 - i : i, job->gradients);
    (void)job->api->queue_sync(job->gradients);
}

static void other_count(ranks_job *job) {
    memory m = open_all(job);
    sum(job, &m, COUNT - job->rank, LS_F32, 0, job->gradients);
    (void)job->api->queue_sync(job->gradients);
}

static void other_type(ranks_job *job) {
    memory m = open_all(job);
    sum(job, &m, COUNT / 2, job->rank ? LS_I32 : LS_F32, 0, job->gradients);
    (void)job->api->queue_sync(job->gradients);
}

static ls_captured_graph *record_sum(ranks_job *job, const memory *m) {
    ls_captured_graph *recording;
    ranks_must(job->api->capture_begin(job->gradients));
    sum(job, m, COUNT, LS_F32, 0, job->gradients);
    ranks_must(job->api->capture_end(job->gradients, &recording));
    return recording;
}

static void recorded_on_one(ranks_job *job) {
    memory m = open_all(job);
    if (job->rank)
        job->api->graph_launch(record_sum(job, &m), job->gradients);
    else
        sum(job, &m, COUNT, LS_F32, 0, job->gradients);
    (void)job->api->queue_sync(job->gradients);
}

static void adopted_on_one(ranks_job *job) {
    ranks_must(ranks_open(job, 20));
    memory m = memory_new(job);
    if (job->rank) ranks_must(job->collectives->register_memory(job->collective, m.summed));
    sum(job, &m, COUNT, LS_F32, 0, job->gradients);
    (void)job->api->queue_sync(job->gradients);
}

static void one_has_fewer(ranks_job *job) {
    memory m = open_all(job);
    for (int i = 0; i < 2 - job->rank; i++) sum(job, &m, COUNT, LS_F32, i, job->gradients);
    ranks_must(job->api->queue_sync(job->gradients));
    end_all(job, &m, 1);
}

static void recording_outlives(ranks_job *job) {
    memory m = open_all(job);
    ls_captured_graph *recording = record_sum(job, &m);
    job->api->graph_launch(recording, job->gradients);
    ranks_must(job->api->queue_sync(job->gradients));
    job->collectives->close(job->collective, 10);
    job->api->graph_free(recording);
}

static const struct {
    const char *row;
    ranks_body *body;
    int peers_end_well; // the last rank does
    const char *text;
} mistakes[] = {
    { "other tags", other_tags, 0, "the ranks differ in collective 1: rank " },
    { "other count", other_count, 0, "gave sum of 63 f32, tag 0, not recorded" },
    { "other type", other_type, 0, "gave sum of 32 i32, tag 0, not recorded" },
    { "recorded on one rank", recorded_on_one, 0, "gave sum of 64 f32, tag 0, recorded" },
    { "adopted on one rank", adopted_on_one, 0, "the ranks differ in what they adopted before collective 1" },
    { "a recording outlives the communicator", recording_outlives, 0, "while recordings hold 1 of its collectives" },
    { "one has fewer", one_has_fewer, 1, "rank 1 closed the communicator after 1 collectives, but rank 0 waits in " },
};

static void what_would_hang_is_reported(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        ranks_result result = ranks_run(2, "", mistakes[i].body);
        if (!strstr(result.text, mistakes[i].text))
            fail_msg("%s: no \"%s\" in: %s", mistakes[i].row, mistakes[i].text, result.text);
        assert_int_equal(result.codes[0], 128 + SIGABRT);
        assert_int_equal(result.codes[1], mistakes[i].peers_end_well ? 0 : 128 + SIGABRT);
    }
}

// Two queues with nothing that orders them: for some seed the second collective comes first.
static void two_queues(ranks_job *job) {
    memory m = open_all(job);
    sum(job, &m, COUNT / 2, LS_F32, 0, job->gradients);
    sum(job, &m, COUNT / 2, LS_F32, 1, job->compute);
    ranks_must(job->api->queue_sync(job->gradients));
    ranks_must(job->api->queue_sync(job->compute));
    end_all(job, &m, 10);
}

static void collectives_that_nothing_orders_are_seen(void **unused) {
    (void)unused;
    int seen = 0;
    for (int seed = 1; seed <= 10; seed++) {
        char settings[32];
        snprintf(settings, sizeof settings, "seed=%d", seed);
        ranks_result result = ranks_run(1, settings, two_queues);
        seen += strstr(result.text, "no queue or event orders the two") != NULL;
    }
    assert_true(seen > 0);
}

int main(void) {
    if (cuda_is_real()) {
        printf("skipped: NCCL does not break on request\n");
        return 77;
    }
    int skipped = cuda_choose();
    if (skipped) return skipped;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_cannot_meet_are_told_why),
        cmocka_unit_test(the_library_may_be_absent),
        cmocka_unit_test(a_stuck_collective_is_left),
        cmocka_unit_test(a_peer_that_was_killed_does_not_keep_the_others),
        cmocka_unit_test(what_would_hang_is_reported),
        cmocka_unit_test(collectives_that_nothing_orders_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
