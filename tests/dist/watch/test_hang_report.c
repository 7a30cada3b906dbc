// Who is named as the culprit, for tables of ranks that are made up here, and what the table of a large job looks like.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dist/watch/hang_report.h"
#include "support/cmocka.h"

enum { RANKS = 64 };

typedef struct {
    ls_heartbeat_peer peer[RANKS];
    ls_heartbeat_row row[RANKS];
    ls_heartbeat_table table;
} job;

// All ranks wait for bucket 3 of update 14, and have begun 40 collectives, of which 39 have ended.
static job *new_job(int ranks) {
    job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->table = (ls_heartbeat_table){ 0, ranks, j->peer, j->row };
    for (int r = 0; r < ranks; r++) {
        snprintf(j->peer[r].host, sizeof j->peer[r].host, "%c", 'a' + r / 2 % 26);
        j->peer[r].pid = 100 + r;
        j->row[r].heard = 1;
        j->row[r].silent_s = 0.1;
        j->row[r].last = (ls_heartbeat_record){ .rank = r,
            .gone = -1,
            .state = LS_RANK_WAITS,
            .bucket = 3,
            .device_tag = -1,
            .device_done = -1,
            .update = 14,
            .begun = 40,
            .ended = 39,
            .life_s = 10,
            .phase_s = 10,
            .phase = "reducing gradients",
            .what = "all-reduce of bucket" };
    }
    return j;
}

static void computes(job *j, int rank, const char *phase, float seconds) {
    ls_heartbeat_record *record = &j->row[rank].last;
    record->state = LS_RANK_COMPUTES;
    record->bucket = -1;
    record->begun = record->ended = 36;
    record->life_s = record->phase_s = seconds;
    snprintf(record->phase, sizeof record->phase, "%s", phase);
}

static void nothing(job *j) {
    (void)j;
}
static void reads_data(job *j) {
    computes(j, 2, "reading data", 120);
}
static void has_begun_everything(job *j) {
    computes(j, 2, "forward and backward", 120);
    j->row[2].last.begun = 40;
}
static void computes_on_a_device(job *j) {
    has_begun_everything(j);
    for (int r = 0; r < j->table.world_size; r++) {
        j->row[r].last.device_done = 7;
        j->row[r].last.device_tag = 2;
        j->row[r].last.bucket = -1;
        snprintf(j->row[r].last.what, sizeof j->row[r].last.what, "the device");
    }
}
static void waits_for_what_is_over(job *j) {
    j->row[2].last.begun = 38;
    j->row[2].last.update = 13;
    j->row[2].last.life_s = j->row[2].last.phase_s = 10.3f;
}
static void waits_for_the_silent_one(job *j) {
    waits_for_what_is_over(j);
    j->row[3].silent_s = 9;
}
static void is_silent(job *j) {
    j->row[2].silent_s = 9;
}
static void two_are_silent(job *j) {
    j->row[2].silent_s = 9;
    j->row[3].silent_s = 9.5;
}
static void silent_in_the_data(job *j) {
    computes(j, 2, "reading data", 0.2f);
    j->row[2].silent_s = 9;
}
static void one_computes_for_longer_than_another_is_silent(job *j) {
    computes(j, 1, "reading data", 120);
    j->row[2].silent_s = 9;
}
static void is_gone(job *j) {
    j->row[2].gone = 1;
    j->row[1].silent_s = 9;
}
static void has_left_in_order(job *j) {
    j->row[2].gone = 1;
    j->row[2].last.end = LS_RANK_LEAVES;
}
static void reports_an_error(job *j) {
    snprintf(j->row[1].last.error, sizeof j->row[1].last.error, "NCCL: remote error");
    j->row[1].error_s = 1;
    snprintf(j->row[3].last.error, sizeof j->row[3].last.error, "NCCL: network failed");
    j->row[3].error_s = 1.5;
}
static void nobody_is_heard(job *j) {
    for (int r = 1; r < j->table.world_size; r++) j->row[r] = (ls_heartbeat_row){ 0 };
}
static void one_naps(job *j) {
    j->row[1].last.state = LS_RANK_NAPS;
    j->row[1].last.begun = 41;
}

#define WAITED "; rank 0 has waited for 10 s (dist.timeout = 10 s)"

static const struct {
    const char *name;
    void (*happen)(job *j);
    const char *line;
} rows[] = {
    { "all wait", nothing,
        "error: rank 0 on a (pid 100) has waited for its peers for 10 s (dist.timeout = 10 s) in \"reducing "
        "gradients\" "
        "of update 14, for bucket 3: all ranks are alive and wait for each other: the network that carries the data, "
        "or the library that does, hangs" },
    { "one reads data", reads_data,
        "error: rank 2 on b (pid 102) is alive but has not joined bucket 3 of update 14: it has been in \"reading "
        "data\" of update 14 for 120 s" WAITED "; raise dist.timeout if it is only slow" },
    { "one computes, but its buckets are under way", has_begun_everything,
        "error: rank 0 on a (pid 100) has waited for its peers for 10 s (dist.timeout = 10 s) in \"reducing "
        "gradients\" "
        "of update 14, for bucket 3: all ranks are alive and wait for each other: the network that carries the data, "
        "or the library that does, hangs" },
    { "one computes, the others' devices wait", computes_on_a_device,
        "error: rank 2 on b (pid 102) is alive but has not joined the device, after bucket 2 of update 14: it has been "
        "in \"forward and backward\" of update 14 for 120 s" WAITED "; raise dist.timeout if it is only slow" },
    { "one waits for what is over", waits_for_what_is_over,
        "error: rank 2 on b (pid 102) is alive but has not joined bucket 3 of update 14: it has been in \"reducing "
        "gradients\" of update 13, waiting for bucket 3, for 10 s" WAITED },
    { "one waits for what is over, and for one that is silent", waits_for_the_silent_one,
        "error: rank 3 on b (pid 103) has been silent for 9.0 s: stopped, dead, or its host or network is gone; when "
        "last heard, it was in \"reducing gradients\" of update 14, waiting for bucket 3" WAITED },
    { "one is silent", is_silent,
        "error: rank 2 on b (pid 102) has been silent for 9.0 s: stopped, dead, or its host or network is gone; when "
        "last heard, it was in \"reducing gradients\" of update 14, waiting for bucket 3" WAITED },
    { "two are silent", two_are_silent,
        "error: rank 3 on b (pid 103) has been silent for 9.5 s: stopped, dead, or its host or network is gone; when "
        "last heard, it was in \"reducing gradients\" of update 14, waiting for bucket 3; and 1 more rank like "
        "it" WAITED },
    { "one went silent as it computed", silent_in_the_data,
        "error: rank 2 on b (pid 102) has been silent for 9.0 s: stopped, dead, or its host or network is gone; when "
        "last heard, it was in \"reading data\" of update 14" WAITED },
    { "one computes for longer than another is silent", one_computes_for_longer_than_another_is_silent,
        "error: rank 1 on a (pid 101) is alive but has not joined bucket 3 of update 14: it has been in \"reading "
        "data\" of update 14 for 120 s" WAITED "; raise dist.timeout if it is only slow" },
    { "one is gone, another silent", is_gone,
        "error: rank 2 on b (pid 102) is gone: its process was killed or crashed, or it left the run; when last heard, "
        "it was in \"reducing gradients\" of update 14, waiting for bucket 3" },
    { "one has left in order", has_left_in_order,
        "error: rank 0 on a (pid 100) has waited for its peers for 10 s (dist.timeout = 10 s) in \"reducing "
        "gradients\" "
        "of update 14, for bucket 3: all ranks are alive and wait for each other: the network that carries the data, "
        "or the library that does, hangs" },
    { "two report errors: the first one", reports_an_error,
        "error: rank 3 on b (pid 103): NCCL: network failed; it is in \"reducing gradients\" of update 14; and 1 more "
        "rank like it" },
    { "nobody is heard", nobody_is_heard,
        "error: rank 0 on a (pid 100) has waited for its peers for 10 s (dist.timeout = 10 s) in \"reducing "
        "gradients\" "
        "of update 14, for bucket 3: a rank died, hangs or lost its network; raise dist.timeout if it is only slow" },
    { "one naps and is ahead", one_naps,
        "error: rank 0 on a (pid 100) has waited for its peers for 10 s (dist.timeout = 10 s) in \"reducing "
        "gradients\" "
        "of update 14, for bucket 3: all ranks are alive and wait for each other: the network that carries the data, "
        "or the library that does, hangs" },
};

static void names_the_culprit(void **state) {
    (void)state;
    int failures = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job *j = new_job(4);
        rows[i].happen(j);
        char text[LS_HANG_REPORT_BYTES];
        int bytes = ls_hang_report_write(&j->table, (ls_hang_report_limits){ 10, 5 }, text);
        assert_int_equal(bytes, strlen(text));
        text[strcspn(text, "\n")] = 0;
        if (strcmp(text, rows[i].line) != 0) {
            failures++;
            printf("%s:\n  is       %s\n  expected %s\n", rows[i].name, text, rows[i].line);
        }
        free(j);
    }
    assert_int_equal(failures, 0);
}

static int lines_of(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

static void shows_few_ranks_one_by_one(void **state) {
    (void)state;
    job *j = new_job(LS_HANG_REPORT_ROWS);
    computes(j, 5, "reading data", 120);
    char text[LS_HANG_REPORT_BYTES];
    ls_hang_report_write(&j->table, (ls_hang_report_limits){ 10, 5 }, text);
    assert_int_equal(lines_of(text), 1 + 1 + LS_HANG_REPORT_ROWS);
    assert_null(strstr(text, "like rank"));
    assert_non_null(strstr(text, "    40      39  -    ")); // no collective is known
    free(j);
}

static void puts_alike_ranks_together(void **state) {
    (void)state;
    job *j = new_job(RANKS);
    computes(j, 40, "reading data", 120);
    computes(j, 41, "reading data", 119);
    j->row[7].last.begun = 41;
    char text[LS_HANG_REPORT_BYTES];
    ls_hang_report_write(&j->table, (ls_hang_report_limits){ 10, 5 }, text);
    // line, header, culprits with what is like them, rank 7, rank 0 with what is like it
    assert_int_equal(lines_of(text), 1 + 1 + 2 + 1 + 2);
    const char *culprit = strstr(text, "\n    40  "), *alike = strstr(text, "and 1 rank like rank 40"),
               *odd = strstr(text, "\n     7  "), *most = strstr(text, "and 60 ranks like rank 0");
    assert_true(culprit && alike && odd && most);
    assert_true(culprit < alike && alike < odd && odd < most);
    free(j);
}

static void fits_however_different_they_are(void **state) {
    (void)state;
    job *j = new_job(RANKS);
    for (int r = 0; r < RANKS; r++) {
        memset(j->peer[r].host, 'h', sizeof j->peer[r].host - 1);
        memset(j->row[r].last.phase, 'p', sizeof j->row[r].last.phase - 1);
        memset(j->row[r].last.what, 'w', sizeof j->row[r].last.what - 1);
        memset(j->row[r].last.error, 'e', sizeof j->row[r].last.error - 1);
        j->row[r].last.tail_count = LS_HEARTBEAT_TAIL;
        j->row[r].last.begun = INT64_MAX - r;
    }
    char text[LS_HANG_REPORT_BYTES];
    int bytes = ls_hang_report_write(&j->table, (ls_hang_report_limits){ 10, 5 }, text);
    assert_true(bytes == (int)strlen(text) && bytes < LS_HANG_REPORT_BYTES);
    assert_non_null(strstr(text, "and 48 other ranks"));
    free(j);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(names_the_culprit),
        cmocka_unit_test(shows_few_ranks_one_by_one), cmocka_unit_test(puts_alike_ranks_together),
        cmocka_unit_test(fits_however_different_they_are) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
