// The folder of a run: which one is taken, what is refused, and that config.ini in it repeats the run from any place.
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "support/cmocka.h"
#include "train/run_folder.h"

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

static void taken(const ls_config *cfg, const char *run_dir, const char *expected) {
    ls_run_folder run;
    ls_status status = ls_run_folder_open(cfg, run_dir, &run);
    if (ls_failed(status)) fail_msg("expected %s, refused: %s", expected, status.text);
    assert_string_equal(run.path, expected);
}

static void refused(const ls_config *cfg, const char *run_dir, ls_code code, const char *text) {
    ls_run_folder run;
    ls_status status = ls_run_folder_open(cfg, run_dir, &run);
    if (status.code != code || strcmp(status.text, text) != 0)
        fail_msg(
            "code %d, text '%s'; expected code %d, text '%s'", status.code, status.text ? status.text : "", code, text);
}

static void numbers_count_on(void **state) {
    (void)state;
    ls_config cfg = config();
    taken(&cfg, NULL, "runs/mine-001");
    taken(&cfg, NULL, "runs/mine-002");
    assert_int_equal(mkdir("runs/mine-003", 0777), 0);
    taken(&cfg, NULL, "runs/mine-004"); // empty, but somebody's
    strcpy(cfg.file, "other");
    taken(&cfg, NULL, "runs/other-001");
}

static void names_are_taken_once(void **state) {
    (void)state;
    ls_config cfg = config();
    strcpy(cfg.run_name, "first");
    taken(&cfg, NULL, "runs/first");
    refused(&cfg, NULL, LS_USAGE,
        "run folder runs/first holds a run already (config.ini) and is never overwritten: go on with it by --resume, "
        "choose another by --run-dir, "
        "or "
        "move this one away");
    taken(&cfg, "a/b/c", "a/b/c"); // --run-dir wins, parents are made
    assert_int_equal(mkdir("empty", 0777), 0);
    taken(&cfg, "empty", "empty");
    assert_int_equal(mkdir("foreign", 0777), 0);
    touch("foreign/notes.txt");
    taken(&cfg, "foreign", "foreign");
    assert_int_equal(mkdir("metrics", 0777), 0);
    touch("metrics/metrics.jsonl");
    refused(&cfg, "metrics", LS_USAGE,
        "run folder metrics holds a run already (metrics.jsonl) and is never overwritten: go on with it by --resume, "
        "choose another by --run-dir, "
        "or "
        "move this one away");
    strcpy(cfg.run_name, "../up");
    refused(&cfg, NULL, LS_USAGE,
        "run.name = ../up: is the name of a folder below runs/, without '/'; for a folder elsewhere use --run-dir");
}

static void what_cannot_be_written(void **state) {
    (void)state;
    ls_config cfg = config();
    touch("file");
    refused(&cfg, "file", LS_USAGE, "run folder file: is a file; choose another by --run-dir");
    ls_run_folder run;
    ls_status status = ls_run_folder_open(&cfg, "file/below", &run);
    assert_int_equal(status.code, LS_STORAGE);
    status = ls_run_folder_open(&cfg, "/proc/lockstep", &run);
    assert_int_equal(status.code, LS_STORAGE);
    assert_non_null(strstr(status.text, "/proc/lockstep"));
    if (geteuid() == 0) return; // root may write anywhere
    assert_int_equal(mkdir("locked", 0555), 0);
    refused(
        &cfg, "locked", LS_STORAGE, "run folder locked: not writable: Permission denied; choose another by --run-dir");
}

// Paths were relative to conf/: they must hold from the run's folder, too.
static void config_repeats_the_run(void **state) {
    (void)state;
    ls_config cfg = config(), again;
    cfg.train_global_batch = 96;
    strcpy(cfg.data_path, "pictures");
    assert_int_equal(mkdir("conf/pictures", 0777), 0);
    taken(&cfg, "run", "run");
    ls_config_defaults(&again);
    ls_status status = ls_config_read_file(&again, "run/config.ini");
    if (ls_failed(status)) fail_msg("%s", status.text);
    assert_int_equal(again.train_global_batch, 96);
    char path[LS_TEXT_BYTES], expected[LS_TEXT_BYTES], *text = NULL;
    size_t bytes = 0;
    assert_false(ls_failed(ls_path_join(path, sizeof path, again.folder, again.model_file)));
    assert_false(ls_failed(ls_read_file(path, &text, &bytes)));
    assert_string_equal(text, "[network]\ninput = 1x8x8\n");
    free(text);
    snprintf(expected, sizeof expected, "%s/conf/pictures", folder);
    assert_string_equal(again.data_path, expected);
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
        cmocka_unit_test_setup_teardown(names_are_taken_once, enter, leave),
        cmocka_unit_test_setup_teardown(what_cannot_be_written, enter, leave),
        cmocka_unit_test_setup_teardown(config_repeats_the_run, enter, leave),
        cmocka_unit_test_setup_teardown(config_repeats_a_run_of_set, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
