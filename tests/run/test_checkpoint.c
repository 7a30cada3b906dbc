// A snapshot's files, and the folder of them: what is written comes back; what is damaged is found, named and replaced;
// which are kept; which run may go on from which.
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include "state_run.h"
#include "support/temp.h"
#include "train/trainer_internal.h"
#include "run/manifest.h"

enum { PATH = 512 };

static char network_path[] = "/tmp/lockstep_checkpoint_XXXXXX";
static temp_folder folder;

static int set_up_all(void **state) {
    (void)state;
    return run_write_network(network_path, state_network);
}

static int tear_down_all(void **state) {
    (void)state;
    return unlink(network_path);
}

static int set_up(void **state) {
    (void)state;
    folder = temp_folder_new();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    temp_folder_remove(&folder);
    return 0;
}

static ls_status open_checkpoints(const run *r, ls_checkpoint_manager **out) {
    const ls_trainer *t = r->trainer;
    return ls_checkpoint_manager_open(folder.path, &t->plan.info, t->plan.train_data, out);
}

static const char *const plain[] = { "device.type=cpu", NULL };

// A run after so many updates, and its state.
static ls_snapshot *run_for(run *r, const char *const *options, int updates) {
    must(state_run_open(r, network_path, options));
    must(ls_trainer_updates(r->trainer, updates, NULL));
    return state_take(r);
}

static const char *path_of(int64_t update) {
    static char paths[4][PATH];
    static int next;
    char *path = paths[next++ % 4];
    must(ls_checkpoint_path(folder.path, update, path, PATH));
    return path;
}

static void write_at(int64_t update, const run *r, ls_snapshot *s) {
    int64_t before = s->counters.update;
    s->counters.applied += update - before; // as a run that got there would have it
    s->counters.update = update;
    must(ls_checkpoint_write(path_of(update), s, ls_trainer_get_info(r->trainer), NULL, NULL));
    s->counters.applied += before - update;
    s->counters.update = before;
}

static char *text_of(const char *path, const char *name) {
    char file[PATH + 64], *text;
    size_t bytes;
    snprintf(file, sizeof file, "%s/%s", path, name);
    must(ls_read_file(file, &text, &bytes));
    return text;
}

static void put_text(const char *path, const char *name, const char *text, size_t bytes) {
    char file[PATH + 64];
    snprintf(file, sizeof file, "%s/%s", path, name);
    must(ls_write_file(file, text, bytes));
}

// changed: what is to be told, as text.
static ls_status suits_run(const ls_checkpoint *checkpoint, const ls_train_info *facts, char *changed, size_t bytes) {
    cJSON *changes = cJSON_CreateArray();
    ls_status status = ls_checkpoint_suits(checkpoint, facts, changes);
    ls_manifest_changes_text(changes, changed, bytes);
    cJSON_Delete(changes);
    return status;
}

// --- what is written comes back

static void round_trip(void **state) {
    (void)state;
    static const char *const rows[][RUN_OPTIONS_MAX] = { { "device.type=cpu", NULL },
        { "device.type=ref", "optimizer.kind=adamw", "optimizer.lr=0.01", NULL },
        { "device.type=ref", "train.precision=fp16", "loss_scale.initial=16777216", NULL } };
    for (int i = 0; i < 3; i++) {
        run r = { 0 };
        ls_snapshot *s = run_for(&r, rows[i], 6), *again;
        ls_checkpoint *checkpoint;
        int64_t bytes;
        s->counters.evaluation =
            (ls_train_evaluation){ .update = 4, .epoch = 1, .test_loss = 2.25, .test_samples = 10 };
        s->counters.last_epoch_loss = 1 / 3.0; // needs all digits
        must(ls_checkpoint_write(path_of(6), s, ls_trainer_get_info(r.trainer), NULL, &bytes));
        must(ls_checkpoint_read(path_of(6), &checkpoint));
        must(ls_trainer_snapshot_new(r.trainer, &again));
        must(ls_checkpoint_take(checkpoint, again));
        again->counters.evaluation.seconds = s->counters.evaluation.seconds;
        state_same(rows[i][0], s, again);
        assert_true(again->counters.seconds == s->counters.seconds);
        assert_true(bytes > (int64_t)s->bytes);
        char changed[256];
        must(suits_run(checkpoint, ls_trainer_get_info(r.trainer), changed, sizeof changed));
        assert_string_equal(changed, "");
        ls_checkpoint_free(checkpoint);
        ls_snapshot_free(again);
        ls_snapshot_free(s);
        run_close(&r);
        must(ls_checkpoint_remove(path_of(6)));
        assert_false(ls_path_exists(path_of(6)));
    }
}

static void manifest_has_no_absolute_paths(void **state) {
    (void)state;
    run r = { 0 };
    ls_snapshot *s = run_for(&r, plain, 2);
    write_at(2, &r, s);
    char *text = text_of(path_of(2), "manifest.json");
    assert_null(strstr(text, "\"/"));
    assert_null(strstr(text, folder.path));
    assert_non_null(strstr(text, strrchr(network_path, '/') + 1)); // the network's name is there
    free(text);
    ls_snapshot_free(s);
    run_close(&r);
}

// --- damage

typedef enum { GONE, CUT, LONGER, FLIPPED, EMPTY } damage;

static void do_damage(const char *path, const char *name, damage kind) {
    char file[PATH + 64], *text;
    size_t bytes;
    snprintf(file, sizeof file, "%s/%s", path, name);
    must(ls_read_file(file, &text, &bytes));
    switch (kind) {
    case GONE:
        assert_int_equal(unlink(file), 0);
        break;
    case CUT:
        put_text(path, name, text, bytes - 1);
        break;
    case LONGER:
        put_text(path, name, text, bytes + 1); // ls_read_file puts a 0 there
        break;
    case FLIPPED:
        text[bytes / 2] ^= 4;
        put_text(path, name, text, bytes);
        break;
    case EMPTY:
        put_text(path, name, text, 0);
        break;
    }
    free(text);
}

static const struct {
    const char *file, *says;
    damage kind;
} damages[] = {
    { "manifest.json", "manifest.json: cannot read", GONE },
    { "manifest.json", "manifest.json: does not end with its own hash", CUT },
    { "manifest.json", "manifest.json: does not end with its own hash", LONGER },
    { "manifest.json", "manifest.json: damaged: its text has the hash", FLIPPED },
    { "manifest.json", "manifest.json: does not end with its own hash", EMPTY },
    { "weights.safetensors", "weights.safetensors: cannot read", GONE },
    { "weights.safetensors", "weights.safetensors: damaged: ", CUT },
    { "weights.safetensors", "weights.safetensors: damaged: ", LONGER },
    { "weights.safetensors", "the first tensor that differs is 'c2.weight'", FLIPPED },
    { "weights.safetensors", "weights.safetensors: damaged: ", EMPTY },
    { "state.safetensors", "state.safetensors: cannot read", GONE },
    { "state.safetensors", "state.safetensors: damaged: ", CUT },
    { "state.safetensors", "state.safetensors: damaged: ", LONGER },
    { "state.safetensors", "the first tensor that differs is 'c2.weight.momentum'", FLIPPED },
    { "state.safetensors", "state.safetensors: damaged: ", EMPTY },
};
enum { DAMAGES = sizeof damages / sizeof damages[0] };

typedef struct {
    int count;
    char text[LS_STATUS_TEXT_BYTES];
} told;

static void tell(void *context, ls_status why) {
    told *t = context;
    t->count++;
    snprintf(t->text, sizeof t->text, "%s", why.text);
}

// The update of the newest good one; -1: none.
static int64_t newest(told *t) {
    ls_checkpoint *checkpoint;
    *t = (told){ 0 };
    must(ls_checkpoint_manager_newest(folder.path, tell, t, &checkpoint));
    int64_t update = checkpoint ? checkpoint->counters.update : -1;
    ls_checkpoint_free(checkpoint);
    return update;
}

static void damage_is_named_and_mended(void **state) {
    (void)state;
    run r = { 0 };
    told t;
    ls_snapshot *s = run_for(&r, plain, 4);
    assert_int_equal(newest(&t), -1);
    write_at(4, &r, s);
    write_at(8, &r, s);
    for (int i = 0; i < DAMAGES; i++) {
        do_damage(path_of(8), damages[i].file, damages[i].kind);
        int64_t found = newest(&t);
        if (found != 4 || t.count != 1 || !strstr(t.text, damages[i].says))
            fail_msg("row %d: went on from update %lld after %d warnings, '%s'; expected 4 and '...%s...'", i,
                (long long)found, t.count, t.text, damages[i].says);
        write_at(8, &r, s); // a damaged one gives way
        found = newest(&t);
        if (found != 8 || t.count) fail_msg("row %d: written again: update %lld, '%s'", i, (long long)found, t.text);
    }
    do_damage(path_of(8), "weights.safetensors", FLIPPED);
    do_damage(path_of(4), "manifest.json", CUT);
    assert_int_equal(newest(&t), -1);
    assert_int_equal(t.count, 2);
    ls_snapshot_free(s);
    run_close(&r);
}

static void a_good_one_stays(void **state) {
    (void)state;
    run r = { 0 };
    struct stat before, after;
    char file[PATH + 64];
    ls_snapshot *s = run_for(&r, plain, 4);
    write_at(4, &r, s);
    snprintf(file, sizeof file, "%s/weights.safetensors", path_of(4));
    assert_int_equal(stat(file, &before), 0);
    write_at(4, &r, s);
    assert_int_equal(stat(file, &after), 0);
    assert_true(before.st_ino == after.st_ino);
    ls_snapshot_free(s);
    run_close(&r);
}

#define run_id_a "0123456789abcdef0123456789abcdef"
#define run_id_b "fedcba9876543210fedcba9876543210"
static const ls_run_identity run_a = { .id = run_id_a }, run_b = { .id = run_id_b };

static const char *run_of(const char *path) {
    static char id[LS_RUN_ID_BYTES];
    cJSON *manifest;
    ls_train_counters counters;
    must(ls_checkpoint_read_manifest(path, &manifest, &counters));
    snprintf(id, sizeof id, "%s", ls_manifest_run(manifest));
    cJSON_Delete(manifest);
    return id;
}

// A good one stays only where it is the same state of the same run.
static void one_of_another_run_is_not_kept_for_ones_own(void **state) {
    (void)state;
    run r = { 0 };
    ls_snapshot *s = run_for(&r, plain, 4);
    ls_train_info facts = *ls_trainer_get_info(r.trainer);
    facts.run = run_a;
    must(ls_checkpoint_write(path_of(4), s, &facts, NULL, NULL));
    assert_string_equal(run_of(path_of(4)), run_a.id);
    s->values[0] += 1; // done again, by other options
    must(ls_checkpoint_write(path_of(4), s, &facts, NULL, NULL));
    ls_checkpoint *checkpoint;
    ls_snapshot *again;
    must(ls_checkpoint_read(path_of(4), &checkpoint));
    must(ls_trainer_snapshot_new(r.trainer, &again));
    must(ls_checkpoint_take(checkpoint, again));
    assert_true(again->values[0] == s->values[0]);
    ls_snapshot_free(again);
    ls_checkpoint_free(checkpoint);

    facts.run = run_b;
    ls_status status = ls_checkpoint_write(path_of(4), s, &facts, NULL, NULL);
    assert_int_equal(status.code, LS_STORAGE);
    assert_non_null(strstr(status.text, "is a checkpoint of another run and stays"));
    assert_string_equal(run_of(path_of(4)), run_a.id);
    must(ls_run_identity_adopt(&facts.run, run_a.id, 3)); // not that far
    assert_int_equal(ls_checkpoint_write(path_of(4), s, &facts, NULL, NULL).code, LS_STORAGE);
    must(ls_run_identity_adopt(&facts.run, run_a.id, 4));
    must(ls_checkpoint_write(path_of(4), s, &facts, NULL, NULL));
    assert_string_equal(run_of(path_of(4)), run_a.id); // the same state
    s->values[0] += 1;
    must(ls_checkpoint_write(path_of(4), s, &facts, NULL, NULL));
    assert_string_equal(run_of(path_of(4)), run_b.id);
    ls_snapshot_free(s);
    run_close(&r);
}

// Neither among the best nor removed when its time would come.
static void those_of_another_run_do_not_count(void **state) {
    (void)state;
    static const char *const one[] = { "device.type=cpu", "checkpoint.keep_last=1", "checkpoint.keep_best=1", NULL };
    run r = { 0 };
    ls_checkpoint_manager *checkpoints;
    ls_train_checkpoint event;
    ls_snapshot *s = run_for(&r, one, 2);
    ls_train_info facts = *ls_trainer_get_info(r.trainer);
    facts.run = run_b;
    s->counters.evaluation = (ls_train_evaluation){ .update = 2, .test_accuracy = 0.9, .test_samples = 10 };
    must(ls_checkpoint_write(path_of(2), s, &facts, NULL, NULL));
    must(ls_trainer_set_run(r.trainer, &run_a));
    must(open_checkpoints(&r, &checkpoints));
    for (int64_t update = 4; update <= 8; update += 2) {
        ls_snapshot *next = ls_checkpoint_manager_begin(checkpoints);
        must(ls_trainer_snapshot(r.trainer, next));
        next->counters.update = next->counters.applied = update;
        next->counters.evaluation =
            (ls_train_evaluation){ .update = update, .test_accuracy = 0.1 * (double)(10 - update), .test_samples = 10 };
        ls_checkpoint_manager_write(checkpoints, 0);
        ls_checkpoint_manager_wait(checkpoints, INFINITY);
        assert_true(ls_checkpoint_manager_written(checkpoints, &event));
        must(event.status);
    }
    double accuracy;
    assert_int_equal(ls_checkpoint_manager_best(checkpoints, &accuracy), 4);
    assert_true(accuracy > 0.59 && accuracy < 0.61);
    ls_checkpoint_manager_close(checkpoints);
    assert_true(ls_path_exists(path_of(2)) && ls_path_exists(path_of(4)) && ls_path_exists(path_of(8)));
    assert_false(ls_path_exists(path_of(6)));
    ls_snapshot_free(s);
    run_close(&r);
}

// Which of them a run goes on from.
static void whose_it_is_decides_who_goes_on(void **state) {
    (void)state;
    static const char *const adopting[] = { "device.type=cpu", "run.adopt=true", NULL };
    static const struct {
        const char *of; // the checkpoint's run
        int adopts;
        ls_run_identity run; // that wants to go on
        ls_code code;
        int64_t adopted; // up to this update; -1: nothing
    } rows[] = {
        { run_id_a, 0, { .id = run_id_a }, LS_OK, -1 }, { run_id_a, 0, { .id = run_id_b }, LS_USAGE, -1 },
        { run_id_a, 1, { .id = run_id_b }, LS_OK, 4 },
        { run_id_a, 0, { .id = run_id_b, .adopted = { { run_id_a, 4 } }, .adopted_count = 1 }, LS_OK, 4 },
        { run_id_a, 0, { .id = run_id_b, .adopted = { { run_id_a, 3 } }, .adopted_count = 1 }, LS_USAGE, 3 },
        { "", 0, { .id = run_id_b }, LS_USAGE, -1 }, { "", 1, { .id = run_id_b }, LS_OK, 4 },
        { "", 0, { .id = run_id_b, .adopted = { { "", INT64_MAX } }, .adopted_count = 1 }, LS_OK, 4 }, // a run of then
        { "", 0, { .id = "" }, LS_OK, -1 }, // a trainer without a folder
    };
    run made = { 0 };
    ls_snapshot *s = run_for(&made, plain, 4);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_train_info facts = *ls_trainer_get_info(made.trainer);
        snprintf(facts.run.id, sizeof facts.run.id, "%s", rows[i].of);
        must(ls_checkpoint_write(path_of(4), s, &facts, NULL, NULL));
        run r = { 0 };
        int resumed = 0;
        must(state_run_open(&r, network_path, rows[i].adopts ? adopting : plain));
        must(ls_trainer_set_run(r.trainer, &rows[i].run));
        ls_status status = ls_trainer_resume(r.trainer, folder.path, &resumed);
        const ls_train_info *now = ls_trainer_get_info(r.trainer);
        int64_t adopted = now->run.adopted_count ? now->run.adopted[0].update : -1;
        if (status.code != rows[i].code || resumed != !ls_failed(status) || adopted != rows[i].adopted ||
            cJSON_GetArraySize(now->parts) != 1 + resumed)
            fail_msg("row %zu: code %d (%s), resumed %d, adopted up to %lld, %d parts; expected code %d, %lld", i,
                status.code, ls_failed(status) ? status.text : "", resumed, (long long)adopted,
                cJSON_GetArraySize(now->parts), rows[i].code, (long long)rows[i].adopted);
        run_close(&r);
        must(ls_checkpoint_remove(path_of(4)));
    }
    ls_snapshot_free(s);
    run_close(&made);
}

// A whole checkpoint under another one's name: a copy, or a slip of the hand.
static void a_name_that_lies_is_no_checkpoint(void **state) {
    (void)state;
    run r = { 0 };
    told t;
    char other[PATH];
    ls_checkpoint *checkpoint;
    ls_snapshot *s = run_for(&r, plain, 4);
    write_at(4, &r, s);
    write_at(6, &r, s);
    assert_int_equal(rename(path_of(6), path_of(8)), 0);
    assert_int_equal(newest(&t), 4);
    assert_non_null(strstr(t.text, "holds update 6, which is not what its name says"));
    write_at(8, &r, s); // is not kept for a good one
    assert_int_equal(newest(&t), 8);
    snprintf(other, sizeof other, "%s/best", folder.path);
    assert_int_equal(rename(path_of(8), other), 0);
    must(ls_checkpoint_read(other, &checkpoint)); // a name of the user's own promises nothing
    ls_checkpoint_free(checkpoint);
    ls_snapshot_free(s);
    run_close(&r);
}

// What a process leaves that is killed while it writes, at the worst moments.
static void leftovers_are_removed(void **state) {
    (void)state;
    run r = { 0 };
    told t;
    ls_snapshot *s = run_for(&r, plain, 4);
    write_at(4, &r, s);
    for (int round = 0; round < 2; round++) {
        temp_file(&folder, ".update-000000000008.tmp/weights.safetensors", "whole");
        temp_file(&folder, ".update-000000000008.tmp/state.safetensors.tmp-4711", "half");
        temp_file(&folder, ".update-000000000008.old/weights.safetensors", "old");
        temp_file(&folder, ".update-000000000008.old/manifest.json.tmp-1", "old");
        temp_file(&folder, "update-000000000008/manifest.json", "damaged");
        if (round) { // by the next write
            write_at(8, &r, s);
            assert_int_equal(temp_count_files(&folder), 2);
            assert_int_equal(newest(&t), 8);
        } else { // by a run that begins or goes on
            assert_int_equal(newest(&t), 4);
            assert_int_equal(temp_count_files(&folder), 4);
            ls_checkpoint_manager_clean(folder.path);
            assert_int_equal(temp_count_files(&folder), 2);
            must(ls_checkpoint_remove(path_of(8)));
        }
    }
    ls_snapshot_free(s);
    run_close(&r);
}

// A checkpoint that was moved elsewhere, with a link in its place.
static void of_a_link_the_link_goes(void **state) {
    (void)state;
    run r = { 0 };
    ls_checkpoint *checkpoint;
    ls_snapshot *s = run_for(&r, plain, 4);
    write_at(4, &r, s);
    char elsewhere[PATH];
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder.path);
    assert_int_equal(rename(path_of(4), elsewhere) | symlink(elsewhere, path_of(4)), 0);
    must(ls_checkpoint_remove(path_of(4)));
    assert_false(ls_path_exists(path_of(4)));
    must(ls_checkpoint_read(elsewhere, &checkpoint));
    ls_checkpoint_free(checkpoint);
    must(ls_checkpoint_remove(elsewhere));
    ls_snapshot_free(s);
    run_close(&r);
}

// --- which are kept

static const struct {
    const char *name;
    int last, best;
    struct {
        int64_t update;
        double accuracy; // below 0: no evaluation then
    } written[8];        // in order, up to update 0
    int64_t damaged[2];  // there before, their manifests torn
    const char *left;
} keeps[] = {
    { "the newest one", 1, 0, { { 4, 0.5 }, { 8, 0.4 } }, { 0 }, "8" },
    { "the newest two", 2, 0, { { 4, 0.5 }, { 8, 0.4 }, { 12, -1 }, { 14, -1 } }, { 0 }, "12 14" },
    { "and the best", 2, 1, { { 4, 0.5 }, { 8, 0.4 }, { 12, -1 }, { 14, -1 } }, { 0 }, "4 12 14" },
    { "the best is new", 2, 1, { { 4, 0.3 }, { 8, 0.4 }, { 12, 0.5 }, { 16, 0.2 } }, { 0 }, "12 16" },
    { "two best", 1, 2, { { 4, 0.5 }, { 8, 0.4 }, { 12, 0.45 }, { 16, 0.2 } }, { 0 }, "4 12 16" },
    { "of equal ones the later", 1, 1, { { 4, 0.5 }, { 8, 0.5 }, { 12, 0.1 } }, { 0 }, "8 12" },
    { "unevaluated ones are not best", 1, 3, { { 4, -1 }, { 8, 0 }, { 12, -1 } }, { 0 }, "8 12" },
    { "all", 100, 0, { { 4, 0.5 }, { 8, 0.5 }, { 12, 0.1 } }, { 0 }, "4 8 12" },
    { "a damaged later one pushes none out", 1, 0, { { 4, 0.5 }, { 6, 0.5 } }, { 20 }, "6 20" },
    { "a damaged older one goes", 1, 1, { { 12, 0.5 }, { 16, 0.4 } }, { 4 }, "12 16" },
    { "a damaged later one, written again", 1, 0, { { 4, 0.5 }, { 8, 0.5 } }, { 8 }, "8" },
};
enum { KEEPS = sizeof keeps / sizeof keeps[0] };

static void keep_row(int i) {
    char last[64], best[64], left[128] = "";
    snprintf(last, sizeof last, "checkpoint.keep_last=%d", keeps[i].last);
    snprintf(best, sizeof best, "checkpoint.keep_best=%d", keeps[i].best);
    const char *options[] = { "device.type=cpu", last, best, NULL };
    run r = { 0 };
    ls_checkpoint_manager *checkpoints;
    ls_train_checkpoint event;
    for (int d = 0; d < 2 && keeps[i].damaged[d]; d++) {
        char name[64];
        snprintf(name, sizeof name, "update-%012lld/manifest.json", (long long)keeps[i].damaged[d]);
        temp_file(&folder, name, "torn");
    }
    must(state_run_open(&r, network_path, options));
    must(open_checkpoints(&r, &checkpoints));
    for (int w = 0; keeps[i].written[w].update; w++) {
        ls_snapshot *s = ls_checkpoint_manager_begin(checkpoints);
        assert_non_null(s);
        must(ls_trainer_snapshot(r.trainer, s));
        int64_t update = keeps[i].written[w].update;
        double accuracy = keeps[i].written[w].accuracy;
        s->counters.update = s->counters.applied = update;
        s->counters.evaluation = (ls_train_evaluation){ .update = accuracy < 0 ? update - 1 : update,
            .test_accuracy = accuracy < 0 ? 1 : accuracy,
            .test_samples = 10 };
        ls_checkpoint_manager_write(checkpoints, 0);
        ls_checkpoint_manager_wait(checkpoints, INFINITY);
        assert_true(ls_checkpoint_manager_written(checkpoints, &event));
        must(event.status);
        assert_int_equal(event.update, update);
        assert_false(ls_checkpoint_manager_written(checkpoints, &event)); // once
    }
    ls_checkpoint_manager_close(checkpoints);
    run_close(&r);
    int64_t *updates;
    int count;
    must(ls_checkpoint_manager_list(folder.path, &updates, &count));
    for (int u = 0; u < count; u++) {
        size_t used = strlen(left);
        snprintf(left + used, sizeof left - used, "%s%lld", u ? " " : "", (long long)updates[u]);
        if (updates[u] != keeps[i].damaged[0]) must(ls_checkpoint_remove(path_of(updates[u])));
    }
    free(updates);
    if (strcmp(left, keeps[i].left) != 0)
        fail_msg("%s: '%s' are left, expected '%s'", keeps[i].name, left, keeps[i].left);
}

static void as_many_are_kept_as_asked_for(void **state) {
    for (int i = 0; i < KEEPS; i++) {
        keep_row(i);
        tear_down(state);
        set_up(state);
    }
}

// --- which run may go on from it

static const struct {
    const char *options[4]; // of the run that wants to go on
    ls_code code;
    const char *says; // part of the refusal; or all of what is told to have changed
} suits[] = {
    { { NULL }, LS_OK, "" },
    { { "device.type=ref", "device.threads=1" }, LS_OK, "" },
    { { "checkpoint.every_updates=7", "run.max_minutes=3", "run.name=x", "log.every=1" }, LS_OK, "" },
    { { "data.workers=2", "data.prefetch=9", "dist.bucket_bytes=4096" }, LS_OK, "" },
    { { "train.epochs=9" }, LS_OK, "train.epochs 4, now 9" },
    { { "optimizer.lr=0.05", "schedule.kind=cosine" }, LS_OK,
        "optimizer.lr 0.1, now 0.05; schedule.kind constant, now cosine" },
    { { "data.pad=0", "data.flip=false" }, LS_OK, "data.pad 1, now 0; data.flip true, now false" },
    { { "data.cutout=3" }, LS_OK, "data.cutout 0, now 3" },
    { { "data.validation_fraction=0.1" }, LS_USAGE, "was made with data.validation_fraction = 0, but now it is 0.1" },
    { { "train.micro_batch=8" }, LS_OK, "train.micro_batch 4, now 8" },
    { { "run.seed=2" }, LS_USAGE, "was made with run.seed = 1, but now it is 2: that would be another run" },
    { { "train.global_batch=32" }, LS_USAGE, "was made with train.global_batch = 16, but now it is 32" },
    { { "data.shuffle=false" }, LS_USAGE, "data.shuffle = true" },
    { { "data.balance=classes" }, LS_USAGE, "data.balance = off" },
    { { "data.drop_last=true" }, LS_USAGE, "data.drop_last = false" },
    { { "data.train_samples=55" }, LS_USAGE, "data.train_samples = 54" },
    { { "data.test_samples=11" }, LS_USAGE, "data.test_samples = 10" },
    { { "device.tf32=true", "dist.reduce_dtype=bf16" }, LS_OK,
        "device.tf32 false, now true; dist.reduce_dtype fp32, now bf16" },
    { { "optimizer.kind=adamw" }, LS_USAGE, "optimizer.kind = sgd" },
    { { "device.type=ref", "train.precision=fp16" }, LS_USAGE, "train.precision = fp32" },
};
enum { SUITS = sizeof suits / sizeof suits[0] };

static void refusals_and_changes_are_named(void **state) {
    (void)state;
    run made = { 0 };
    ls_checkpoint *checkpoint;
    ls_snapshot *s = run_for(&made, plain, 6);
    write_at(6, &made, s);
    must(ls_checkpoint_read(path_of(6), &checkpoint));
    for (int i = 0; i < SUITS; i++) {
        const char *options[6] = { "device.type=cpu" };
        for (int o = 0; o < 4; o++) options[o + 1] = suits[i].options[o];
        run r = { 0 };
        char changed[512] = "";
        must(state_run_open(&r, network_path, options));
        ls_status status = suits_run(checkpoint, ls_trainer_get_info(r.trainer), changed, sizeof changed);
        int good = status.code == suits[i].code &&
                   (ls_failed(status) ? strstr(status.text, suits[i].says) != NULL : !strcmp(changed, suits[i].says));
        if (!good)
            fail_msg("row %d (%s): code %d, '%s'; expected %d, '%s'", i, suits[i].options[0], status.code,
                ls_failed(status) ? status.text : changed, suits[i].code, suits[i].says);
        run_close(&r);
    }
    char changed[512];
    // The same number of other pictures.
    ls_train_info facts = *ls_trainer_get_info(made.trainer);
    ls_dataset_info data = *facts.train_data;
    data.checksum ^= 1;
    facts.train_data = &data;
    ls_status status = suits_run(checkpoint, &facts, changed, sizeof changed);
    assert_int_equal(status.code, LS_DATA);
    assert_non_null(strstr(status.text, "the training data are not those that it was made with"));
    facts = *ls_trainer_get_info(made.trainer);
    data = *facts.test_data;
    data.checksum ^= 1;
    facts.test_data = &data;
    status = suits_run(checkpoint, &facts, changed, sizeof changed);
    assert_int_equal(status.code, LS_DATA);
    assert_non_null(strstr(status.text, "the test data are not those that it was made with"));
    // Pictures of the same names and sizes. An earlier version of the program wrote no content: a warning, for nobody
    // knows.
    facts = *ls_trainer_get_info(made.trainer);
    data = *facts.test_data;
    data.content = 5;
    facts.test_data = &data;
    must(suits_run(checkpoint, &facts, changed, sizeof changed));
    cJSON *set = cJSON_GetObjectItem(checkpoint->manifest, "test_data");
    ls_json_add_hash(set, "content", 5);
    must(suits_run(checkpoint, &facts, changed, sizeof changed));
    data.content = 6;
    status = suits_run(checkpoint, &facts, changed, sizeof changed);
    assert_int_equal(status.code, LS_DATA);
    assert_non_null(strstr(status.text, "of the same names and sizes, but their contents have changed"));
    ls_checkpoint_free(checkpoint);
    ls_snapshot_free(s);
    run_close(&made);
}

// An earlier version of the program knew fewer options, and behaved like the defaults of those that have come since.
static void an_option_of_a_later_version_had_its_default(void **state) {
    (void)state;
    run made = { 0 }, other = { 0 };
    ls_checkpoint *checkpoint;
    ls_snapshot *s = run_for(&made, plain, 6);
    char changed[512], value[LS_TEXT_BYTES], preset[LS_TEXT_BYTES];
    const char *name;
    int dropped = 0;
    ls_config defaults;
    ls_config_defaults(&defaults);
    write_at(6, &made, s);
    must(ls_checkpoint_read(path_of(6), &checkpoint));
    const ls_train_info *info = ls_trainer_get_info(made.trainer);
    for (int i = 0; ls_config_value(info->cfg, i, &name, value, sizeof value); i++) {
        if (!ls_config_value(&defaults, i, &name, preset, sizeof preset) || strcmp(value, preset) != 0) continue;
        cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItem(checkpoint->manifest, "config"), name);
        dropped++;
    }
    assert_true(dropped > LS_OPTION_COUNT / 2);
    must(suits_run(checkpoint, info, changed, sizeof changed));
    assert_string_equal(changed, "");
    must(state_run_open(&other, network_path, (const char *[]){ "device.type=cpu", "data.balance=classes", NULL }));
    ls_status status = suits_run(checkpoint, ls_trainer_get_info(other.trainer), changed, sizeof changed);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, "was made with data.balance = off, but now it is classes"));
    run_close(&other);
    ls_checkpoint_free(checkpoint);
    ls_snapshot_free(s);
    run_close(&made);
}

static const struct {
    const char *name;
    int64_t epoch, window, update, samples;
    int good;
} cursors[] = {
    { "after six updates", 1, 2, 6, 86, 1 },
    { "at an epoch's end", 2, 0, 8, 108, 1 },
    { "at the start", 0, 0, 0, 0, 1 },
    { "far on", 1000000, 3, 4000003, 54000048, 1 },
    { "no such window", 1, 4, 8, 108, 0 },
    { "another epoch", 2, 2, 6, 86, 0 },
    { "another update", 1, 2, 7, 86, 0 },
    { "a sample more", 1, 2, 6, 87, 0 },
    { "an epoch's samples less", 1, 2, 6, 32, 0 },
    { "too few samples", 1, 2, 6, 0, 0 },
    { "huge", INT64_C(9007199254740992), 0, INT64_C(9007199254740992), INT64_C(9007199254740992), 0 },
    { "huge window", 0, INT64_C(9007199254740992), INT64_C(9007199254740992), 0, 0 },
};

static void a_cursor_must_fit_the_epochs(void **state) {
    (void)state;
    run r = { 0 };
    ls_snapshot *s = run_for(&r, plain, 6);
    for (size_t i = 0; i < sizeof cursors / sizeof cursors[0]; i++) {
        char changed[256];
        ls_checkpoint *checkpoint;
        s->counters.epoch = cursors[i].epoch;
        s->counters.window = cursors[i].window;
        s->counters.update = s->counters.applied = cursors[i].update;
        s->counters.samples = cursors[i].samples;
        must(ls_checkpoint_write(path_of(cursors[i].update), s, ls_trainer_get_info(r.trainer), NULL, NULL));
        must(ls_checkpoint_read(path_of(cursors[i].update), &checkpoint));
        ls_status status = suits_run(checkpoint, ls_trainer_get_info(r.trainer), changed, sizeof changed);
        if (status.code != (cursors[i].good ? LS_OK : LS_STORAGE))
            fail_msg("%s: code %d (%s)", cursors[i].name, status.code, ls_failed(status) ? status.text : "");
        if (!cursors[i].good) assert_non_null(strstr(status.text, "fits no epoch"));
        ls_checkpoint_free(checkpoint);
        must(ls_checkpoint_remove(path_of(cursors[i].update)));
    }
    ls_snapshot_free(s);
    run_close(&r);
}

// --- another network's

static const struct {
    const char *network, *says;
} others[] = {
    { "[network]\ninput = 3x6x6\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 10\n",
        "weights.safetensors: has the tensor 'c1.weight', which this run has not" },
    { "[network]\ninput = 3x6x6\n[c1]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\nbias = false\n"
      "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n"
      "[c2]\nlayer = conv2d\nout_channels = 7\nkernel = 3\npadding = 1\n"
      "[n2]\nlayer = batchnorm2d\n[r2]\nlayer = relu\n"
      "[p]\nlayer = globalavgpool\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 10\n",
        "tensor 'c1.weight' has shape (5, 3, 3, 3), expected (6, 3, 3, 3)" },
    { "[network]\ninput = 3x6x6\n[c1]\nlayer = conv2d\nout_channels = 5\nkernel = 3\npadding = 1\n"
      "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n"
      "[c2]\nlayer = conv2d\nout_channels = 7\nkernel = 3\npadding = 1\n"
      "[n2]\nlayer = batchnorm2d\n[r2]\nlayer = relu\n"
      "[p]\nlayer = globalavgpool\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 10\n",
        "has no tensor 'c1.bias'" },
};

static void another_networks_is_refused(void **state) {
    (void)state;
    run made = { 0 };
    ls_checkpoint *checkpoint;
    ls_snapshot *s = run_for(&made, plain, 6);
    write_at(6, &made, s);
    must(ls_checkpoint_read(path_of(6), &checkpoint));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char path[] = "/tmp/lockstep_checkpoint_XXXXXX";
        assert_int_equal(run_write_network(path, others[i].network), 0);
        run r = { 0 };
        ls_snapshot *room;
        must(state_run_open(&r, path, plain));
        must(ls_trainer_snapshot_new(r.trainer, &room));
        ls_status status = ls_checkpoint_take(checkpoint, room);
        if (status.code != LS_STORAGE || !strstr(status.text, others[i].says))
            fail_msg("row %zu: code %d, '%s'; expected 7, '%s'", i, status.code, ls_failed(status) ? status.text : "",
                others[i].says);
        for (size_t b = 0; b < room->bytes / sizeof(float); b++) assert_true(room->values[b] == 0); // all or nothing
        ls_snapshot_free(room);
        run_close(&r);
        unlink(path);
    }
    ls_checkpoint_free(checkpoint);
    ls_snapshot_free(s);
    run_close(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(manifest_has_no_absolute_paths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_named_and_mended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_good_one_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_of_another_run_is_not_kept_for_ones_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(those_of_another_run_do_not_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whose_it_is_decides_who_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_that_lies_is_no_checkpoint, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leftovers_are_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_a_link_the_link_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(as_many_are_kept_as_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refusals_and_changes_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_option_of_a_later_version_had_its_default, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cursor_must_fit_the_epochs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_networks_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
