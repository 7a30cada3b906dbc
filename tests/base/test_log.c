// A bar in a terminal's last line, and the lines that are logged between.
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "support/cmocka.h"

#define AWAY "\r\033[K"

// What was written to stderr since `pipes` took its place; puts it back.
static const char *written(const int pipes[2], int before) {
    static char text[4096];
    dup2(before, STDERR_FILENO);
    close(before);
    close(pipes[1]);
    const ssize_t bytes = read(pipes[0], text, sizeof text - 1);
    close(pipes[0]);
    text[bytes > 0 ? bytes : 0] = '\0';
    return text;
}

static int catch_stderr(int pipes[2]) {
    assert_int_equal(pipe(pipes), 0);
    const int before = dup(STDERR_FILENO);
    dup2(pipes[1], STDERR_FILENO);
    return before;
}

static void lines_take_a_bar_away(void **state) {
    (void)state;
    int pipes[2];
    const int before = catch_stderr(pipes);
    ls_info("no bar yet");
    ls_log_bar("half");
    ls_log_bar("whole");
    ls_warn("between");
    ls_info("below");
    ls_log_bar("again");
    ls_log_bar("");
    ls_log_bar("");
    ls_info("end");
    assert_string_equal(written(pipes, before), "no bar yet\n"
                                                "\rhalf\033[K\rwhole\033[K" AWAY "warning: between\nbelow\n"
                                                "\ragain\033[K" AWAY "end\n");
}

static void lines_beside_another_ranks_bar(void **state) {
    (void)state;
    int pipes[2];
    const int before = catch_stderr(pipes);
    ls_log_setup(1, 2, LS_LOG_INFO);
    ls_warn("first");
    ls_log_beside_bar();
    ls_warn("second");
    ls_warn("third");
    assert_string_equal(written(pipes, before),
        "rank 1: warning: first\n" AWAY "rank 1: warning: second\n" AWAY "rank 1: warning: third\n");
}

// A bar of several lines goes whole, once: whether a bar or a line comes next.
static void broken_bars_go_whole(void **state) {
    (void)state;
    int pipes[2];
    ls_log_setup(0, 1, LS_LOG_INFO);
    int before = catch_stderr(pipes);
    ls_log_bar("long");
    ls_log_bar_broken(2);
    ls_log_bar("short");
    ls_log_bar_broken(1);
    ls_log(LS_LOG_WARNING, "line");
    ls_log_bar("bar");
    ls_log_bar("");
    assert_string_equal(
        written(pipes, before), "\rlong\033[K\r\033[2A\033[Jshort\033[K\r\033[1A\033[Jwarning: line\n\rbar\033[K" AWAY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_take_a_bar_away),
        cmocka_unit_test(lines_beside_another_ranks_bar),
        cmocka_unit_test(broken_bars_go_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
