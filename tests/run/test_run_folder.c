// The folder of a run: which one is taken, what is refused, and that config.ini in it repeats the run from any place.
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "support/cmocka.h"
#include "run/run_folder.h"

static char start_folder[LS_TEXT_BYTES], folder[] = "/tmp/lockstep_test_XXXXXX";

static int enter(void **state) {
    (void)state;
    if (!getcwd(start_folder, sizeof start_folder)) return -1;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    if (!mkdtemp(folder) || chdir(folder) != 0) return -1;
    const char network[] = "[network]\ninput = 1x8x8\n";
    return mkdir("conf", 0777) != 0 || ls_failed(ls_write_file("conf/net.ini", network, sizeof network - 1));
}

static int leave(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir(start_folder) != 0 || system(command) != 0;
}

static ls_config config(void) {
    ls_config cfg;
    ls_config_defaults(&cfg);
    strcpy(cfg.file, "conf/mine.ini");
    strcpy(cfg.folder, "conf");
    strcpy(cfg.model_file, "net.ini");
    return cfg;
}

static void touch(const char *path) {
    assert_false(ls_failed(ls_write_file(path, "x", 1)));
}

static void make(const char *path) {
    assert_int_equal(mkdir(path, 0777), 0);
}

// A run begins in it.
static void begin(const ls_config *cfg, ls_run_folder *run) {
    static const ls_comm_info comm = { .world_size = 1 };
    char text[] = "[network]\ninput = 1x8x8\n";
    ls_graph graph = { .path = "conf/net.ini", .text = text };
    ls_train_info facts = { .cfg = cfg, .comm = &comm, .graph = &graph, .run = run->run };
    ls_status status = ls_run_folder_begin(run, &facts);
    if (ls_failed(status)) fail_msg("%s: %s", run->path, status.text);
}

static ls_run_folder open_folder(const ls_config *cfg, const char *run_dir, const char *expected) {
    ls_run_folder run;
    ls_status status = ls_run_folder_open(cfg, run_dir, &run);
    if (ls_failed(status)) fail_msg("expected %s, refused: %s", expected, status.text);
    assert_string_equal(run.path, expected);
    return run;
}

// Looked at only: nothing is written into it.
static void opened(const ls_config *cfg, const char *run_dir, const char *expected, int holds_run) {
    ls_run_folder run = open_folder(cfg, run_dir, expected);
    assert_int_equal(run.holds_run, holds_run);
    ls_run_folder_close(&run);
}

static void taken(const ls_config *cfg, const char *run_dir, const char *expected) {
    ls_run_folder run = open_folder(cfg, run_dir, expected);
    begin(cfg, &run);
    ls_run_folder_close(&run);
}

static void refused(const ls_config *cfg, const char *run_dir, ls_code code, const char *text) {
    ls_run_folder run;
    ls_status status = ls_run_folder_open(cfg, run_dir, &run);
    if (status.code != code || !strstr(status.text ? status.text : "", text))
        fail_msg("code %d, text '%s'; expected code %d, text '...%s...'", status.code, status.text ? status.text : "",
            code, text);
}

static void numbers_count_on(void **state) {
    (void)state;
    ls_config cfg = config();
    taken(&cfg, NULL, "runs/mine-001");
    taken(&cfg, NULL, "runs/mine-002");
    make("runs/mine-003");
    taken(&cfg, NULL, "runs/mine-004"); // empty, but somebody's
    cfg.run_resume = LS_RESUME_MUST;
    opened(&cfg, NULL, "runs/mine-004", 1);
    strcpy(cfg.file, "conf/other.ini");
    refused(&cfg, NULL, LS_USAGE, "conf/other.ini: no run of it below runs/ to go on with");
    cfg.run_resume = LS_RESUME_AUTO;
    opened(&cfg, NULL, "runs/other-001", 0);
}

static void without_runs_there_is_none_to_go_on_with(void **state) {
    (void)state;
    ls_config cfg = config();
    cfg.run_resume = LS_RESUME_AUTO;
    taken(&cfg, NULL, "runs/mine-001");
}

static void names_are_taken_once(void **state) {
    (void)state;
    ls_config cfg = config();
    strcpy(cfg.run_name, "first");
    taken(&cfg, NULL, "runs/first");
    refused(&cfg, NULL, LS_USAGE,
        "run folder runs/first holds a run already (run.json) and is never overwritten: go on with it by --resume, or "
        "choose another by --run-dir");
    taken(&cfg, "a/b/c", "a/b/c"); // --run-dir wins, parents are made
    make("empty");
    make("empty/checkpoints");
    taken(&cfg, "empty", "empty");
    make("foreign");
    touch("foreign/notes.txt");
    taken(&cfg, "foreign", "foreign");
    strcpy(cfg.run_name, "../up");
    refused(&cfg, NULL, LS_USAGE,
        "run.name = ../up: is the name of a folder below runs/, without '/'; for a folder elsewhere use --run-dir");
}

// Files that a run would replace, and that none has written.
static void what_no_run_has_written_stays(void **state) {
    (void)state;
    static const char *const names[] = { "config.ini", "network.ini", "metrics.jsonl", "summary.json",
        "evaluation.json", "weights.safetensors", "run.json" };
    ls_config cfg = config();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[64], text[128];
        make("mine");
        snprintf(path, sizeof path, "mine/%s", names[i]);
        if (i % 2)
            assert_int_equal(symlink("nowhere", path), 0);
        else
            touch(path);
        snprintf(text, sizeof text, "run folder mine holds a %s that no run has written", names[i]);
        cfg.run_resume = LS_RESUME_OFF;
        refused(&cfg, "mine", LS_USAGE, text);
        cfg.run_resume = LS_RESUME_AUTO;
        refused(&cfg, "mine", LS_USAGE, text);
        cfg.run_resume = LS_RESUME_MUST;
        refused(&cfg, "mine", LS_USAGE, "holds no run to go on with (its ");
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir("mine"), 0); // nothing else
    }
}

static void checkpoints_alone_are_of_another_run(void **state) {
    (void)state;
    ls_config cfg = config();
    make("found");
    make("found/checkpoints");
    make("found/checkpoints/update-000000000007");
    for (int resume = LS_RESUME_OFF; resume <= LS_RESUME_MUST; resume++) {
        cfg.run_resume = resume;
        refused(&cfg, "found", LS_USAGE, "run folder found holds checkpoints of another run");
    }
    cfg.run_adopt = 1;
    opened(&cfg, "found", "found", 1);
    cfg.run_resume = LS_RESUME_OFF;
    refused(&cfg, "found", LS_USAGE, "run folder found holds checkpoints of another run");
    make("linked");
    assert_int_equal(symlink("unmounted", "linked/checkpoints"), 0);
    refused(&cfg, "linked", LS_STORAGE, "linked/checkpoints: is a link to what is not there");
}

static void going_on_needs_a_run(void **state) {
    (void)state;
    ls_config cfg = config();
    cfg.run_resume = LS_RESUME_MUST;
    refused(&cfg, "nowhere", LS_USAGE, "run folder nowhere holds no run to go on with");
    assert_false(ls_path_exists("nowhere"));
    make("empty");
    refused(&cfg, "empty", LS_USAGE, "run folder empty holds no run to go on with");
    cfg.run_resume = LS_RESUME_AUTO;
    opened(&cfg, "new", "new", 0);
    cfg.run_resume = LS_RESUME_OFF;
    taken(&cfg, "run", "run");
    cfg.run_resume = LS_RESUME_MUST;
    opened(&cfg, "run", "run", 1);
    strcpy(cfg.file, "run/config.ini");
    strcpy(cfg.folder, "run");
    opened(&cfg, NULL, "run", 1); // it lies there
}

// Of a version of the program that wrote no run.json.
static void earlier_runs_are_known_by_their_metrics(void **state) {
    (void)state;
    static const char metrics[] = "{\"event\":\"start\",\"update\":0}\n";
    ls_config cfg = config();
    make("earlier");
    touch("earlier/config.ini");
    assert_false(ls_failed(ls_write_file("earlier/metrics.jsonl", metrics, sizeof metrics - 1)));
    refused(&cfg, "earlier", LS_USAGE, "run folder earlier holds a run already (metrics.jsonl)");
    cfg.run_resume = LS_RESUME_MUST;
    ls_run_folder run = open_folder(&cfg, "earlier", "earlier");
    assert_int_equal(run.holds_run, 1);
    assert_true(ls_run_identity_owns(&run.run, "", 12));
    assert_false(ls_run_identity_owns(&run.run, "0123456789abcdef0123456789abcdef", 12));
    ls_run_identity_close(&run.run, 12);
    begin(&cfg, &run);
    char id[LS_RUN_ID_BYTES];
    strcpy(id, run.run.id);
    ls_run_folder_close(&run);
    run = open_folder(&cfg, "earlier", "earlier");
    assert_string_equal(run.run.id, id);
    assert_true(ls_run_identity_owns(&run.run, "", 12));
    assert_false(ls_run_identity_owns(&run.run, "", 13));
    ls_run_folder_close(&run);
}

static void a_damaged_identity_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "{\"format\":\"lockstep run\",\"format_version\":1}", "run/run.json: damaged: names no run" },
        { "{\"format\":\"lockstep run\",\"format_version\":1,\"run\":\"../x\"}", "damaged: names no run" },
        { "{\"format\":\"lockstep run\",\"format_version\":2,\"run\":\"0123456789abcdef0123456789abcdef\"}",
            "is of another version of the program" },
        { "{\"format\":\"lockstep run\",\"format_version\":1,\"run\":\"0123456789abcdef0123456789abcdef\","
          "\"adopted\":[{\"run\":\"\"}]}",
            "a run is adopted without an update" },
        { "{\"format\":\"lockstep run\",\"format_ver", "damaged: no valid JSON" },
    };
    ls_config cfg = config();
    make("run");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_false(ls_failed(ls_write_file("run/run.json", rows[i].text, strlen(rows[i].text))));
        refused(&cfg, "run", LS_STORAGE, rows[i].says);
    }
}

static void what_cannot_be_written(void **state) {
    (void)state;
    ls_config cfg = config();
    touch("file");
    refused(&cfg, "file", LS_USAGE, "run folder file: is a file; choose another by --run-dir");
    refused(&cfg, "file/below", LS_STORAGE, "file");
    refused(&cfg, "/proc/lockstep", LS_STORAGE, "/proc/lockstep");
    if (geteuid() == 0) return; // root may write anywhere
    assert_int_equal(mkdir("locked", 0555), 0);
    refused(
        &cfg, "locked", LS_STORAGE, "run folder locked: not writable: Permission denied; choose another by --run-dir");
}

static void content_is(const char *path, const char *expected) {
    char *text = NULL;
    size_t bytes = 0;
    assert_false(ls_failed(ls_read_file(path, &text, &bytes)));
    assert_string_equal(text, expected);
    free(text);
}

// Paths were relative to conf/: they must hold from the run's folder, too.
static void config_repeats_the_run(void **state) {
    (void)state;
    ls_config cfg = config(), again;
    cfg.train_global_batch = 96;
    strcpy(cfg.data_path, "pictures");
    make("conf/pictures");
    taken(&cfg, "run", "run");
    ls_config_defaults(&again);
    ls_status status = ls_config_read_file(&again, "run/config.ini");
    if (ls_failed(status)) fail_msg("%s", status.text);
    assert_int_equal(again.train_global_batch, 96);
    char path[LS_TEXT_BYTES], expected[LS_TEXT_BYTES];
    assert_false(ls_failed(ls_path_join(path, sizeof path, again.folder, again.model_file)));
    content_is(path, "[network]\ninput = 1x8x8\n");
    snprintf(expected, sizeof expected, "%s/conf/pictures", folder);
    assert_string_equal(again.data_path, expected);
}

// A run that goes on writes its configuration anew, but for the file that it reads, by whatever name that goes.
static void the_file_that_is_read_stays(void **state) {
    (void)state;
    static const char own[] = "; my own words\n[train]\nglobal_batch = 32\n";
    static const char *const names[] = { "run/config.ini", "link.ini", "hard.ini", "run/../run/config.ini" };
    ls_config cfg = config();
    taken(&cfg, "run", "run");
    assert_false(ls_failed(ls_write_file("run/config.ini", own, sizeof own - 1)));
    assert_int_equal(symlink("run/config.ini", "link.ini"), 0);
    assert_int_equal(link("run/config.ini", "hard.ini"), 0);
    cfg.run_resume = LS_RESUME_MUST;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        strcpy(cfg.file, names[i]);
        taken(&cfg, "run", "run");
        content_is("run/config.ini", own);
    }
    strcpy(cfg.file, "conf/mine.ini");
    taken(&cfg, "run", "run");
    content_is("hard.ini", own);
    ls_config again;
    ls_config_defaults(&again);
    assert_false(ls_failed(ls_config_read_file(&again, "run/config.ini")));
    assert_int_equal(again.train_global_batch, cfg.train_global_batch);
}

// As --set gave it, data.path was relative to the current folder.
static void config_repeats_a_run_of_set(void **state) {
    (void)state;
    ls_config cfg = config(), again;
    assert_int_equal(mkdir("pictures", 0777), 0);
    assert_false(ls_failed(ls_config_set(&cfg, "data.path=pictures")));
    taken(&cfg, "run", "run");
    ls_config_defaults(&again);
    assert_false(ls_failed(ls_config_read_file(&again, "run/config.ini")));
    char expected[LS_TEXT_BYTES];
    snprintf(expected, sizeof expected, "%s/pictures", folder);
    assert_string_equal(again.data_path, expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_count_on, enter, leave),
        cmocka_unit_test_setup_teardown(without_runs_there_is_none_to_go_on_with, enter, leave),
        cmocka_unit_test_setup_teardown(names_are_taken_once, enter, leave),
        cmocka_unit_test_setup_teardown(what_no_run_has_written_stays, enter, leave),
        cmocka_unit_test_setup_teardown(checkpoints_alone_are_of_another_run, enter, leave),
        cmocka_unit_test_setup_teardown(going_on_needs_a_run, enter, leave),
        cmocka_unit_test_setup_teardown(earlier_runs_are_known_by_their_metrics, enter, leave),
        cmocka_unit_test_setup_teardown(a_damaged_identity_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(what_cannot_be_written, enter, leave),
        cmocka_unit_test_setup_teardown(config_repeats_the_run, enter, leave),
        cmocka_unit_test_setup_teardown(the_file_that_is_read_stays, enter, leave),
        cmocka_unit_test_setup_teardown(config_repeats_a_run_of_set, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
