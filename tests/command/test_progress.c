// The texts of progress: lines, bars of every width, durations; and which display is chosen.
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "command/progress.h"
#include "support/cmocka.h"

static void durations(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } rows[] = { { 0, "0:00" }, { 7.4, "0:07" }, { 59.6, "1:00" }, { 754, "12:34" }, { 3599.4, "59:59" },
        { 3600, "1:00:00" }, { 90061, "25:01:01" }, { -1, "-" }, { NAN, "-" }, { INFINITY, "-" } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[32];
        ls_progress_duration(text, sizeof text, rows[i].seconds);
        if (strcmp(text, rows[i].text) != 0) fail_msg("%g s: '%s', expected '%s'", rows[i].seconds, text, rows[i].text);
    }
}

static const ls_train_progress halfway = { .record = 1,
    .update = 1172,
    .epoch = 2,
    .epoch_progress = 0.5,
    .train_loss = 0.31234,
    .train_accuracy = 0.88765,
    .images_per_second = 2345.6,
    .seconds_left = 61 };
static const ls_train_progress finished = { .record = 1,
    .update = 2345,
    .epoch = 5,
    .epoch_progress = 1,
    .train_loss = 0.2,
    .train_accuracy = 0.9,
    .images_per_second = 2345.6,
    .seconds_left = 0 };
static const ls_train_progress unknown = { .update = 1, .train_loss = NAN, .train_accuracy = NAN, .seconds_left = NAN };

static const struct {
    const char *name;
    const ls_train_progress *p;
    int width, colour, unicode;
    const char *bar, *line;
} rows[] = {
    { "halfway", &halfway, 100, 0, 0,
        "epoch 3/5  ============-------------  49 %  loss 0.3123  accuracy 88.77 %  2346 images/s  left 1:01",
        "epoch 3/5  update 1172/2345  loss 0.3123  accuracy 88.77 %  2346 images/s  left 1:01" },
    { "finished", &finished, 85, 0, 0,
        "epoch 5/5  ========== 100 %  loss 0.2000  accuracy 90.00 %  2346 images/s  left 0:00",
        "epoch 5/5  update 2345/2345  loss 0.2000  accuracy 90.00 %  2346 images/s  left 0:00" },
    { "nothing known yet", &unknown, 80, 0, 0,
        "epoch 1/5  ----------------------   0 %  loss -  accuracy -  - images/s  left -",
        "epoch 1/5  update 1/2345  loss -  accuracy -  - images/s  left -" },
    { "just enough for all", &halfway, 80, 0, 0,
        "epoch 3/5  ==---  49 %  loss 0.3123  accuracy 88.77 %  2346 images/s  left 1:01", NULL },
    { "a column less: no speed", &halfway, 79, 0, 0,
        "epoch 3/5  =========----------  49 %  loss 0.3123  accuracy 88.77 %  left 1:01", NULL },
    { "a bar rather than the speed", &unknown, 60, 0, 0, "epoch 1/5  --------------   0 %  loss -  accuracy -  left -",
        NULL },
    { "no bar", &halfway, 60, 0, 0, "epoch 3/5   49 %  loss 0.3123  accuracy 88.77 %  left 1:01", NULL },
    { "no accuracy", &halfway, 41, 0, 0, "epoch 3/5   49 %  loss 0.3123  left 1:01", NULL },
    { "no loss", &halfway, 40, 0, 0, "epoch 3/5  =====------  49 %  left 1:01", NULL },
    { "no loss and no bar", &halfway, 30, 0, 0, "epoch 3/5   49 %  left 1:01", NULL },
    { "no field", &halfway, 20, 0, 0, "epoch 3/5   49 %", NULL },
    { "no epoch", &halfway, 12, 0, 0, " 49 %", NULL },
    { "lines of a terminal that knows more", &unknown, 64, 1, 1,
        "epoch 1/5  \033[32m\033[0m\033[2m\u2500\u2500\u2500\u2500\u2500\u2500\033[0m   0 %  loss -  accuracy -  - "
        "images/s  left -",
        NULL },
};

static void texts(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_progress progress = { .epochs = 5,
            .updates_planned = 2345,
            .style = { .width = rows[i].width, .colour = rows[i].colour, .unicode = rows[i].unicode } };
        char text[LS_PROGRESS_TEXT_BYTES];
        ls_progress_bar(text, &progress, rows[i].p);
        if (strcmp(text, rows[i].bar) != 0) fail_msg("%s: bar\n'%s', expected\n'%s'", rows[i].name, text, rows[i].bar);
        if (!rows[i].line) continue;
        ls_progress_line(text, &progress, rows[i].p);
        if (strcmp(text, rows[i].line) != 0)
            fail_msg("%s: line\n'%s', expected\n'%s'", rows[i].name, text, rows[i].line);
    }
}

// Below its width, always: a bar that wraps fills the screen with its copies.
static void no_bar_wraps(void **state) {
    (void)state;
    for (int width = 1; width < 300; width++) {
        ls_progress progress = { .epochs = 5, .updates_planned = 2345, .style = { .width = width } };
        char text[LS_PROGRESS_TEXT_BYTES];
        int columns = (int)strlen(ls_progress_bar(text, &progress, &halfway));
        if (columns > width) fail_msg("width %d: %d columns: %s", width, columns, text);
    }
}

static void evaluation(void **state) {
    (void)state;
    ls_progress progress = { .epochs = 5, .epoch = 2 };
    ls_train_evaluation e = {
        .epoch = 2, .test_loss = 0.26789, .test_accuracy = 0.9057, .test_samples = 10000, .seconds = 1.6
    };
    char text[LS_PROGRESS_TEXT_BYTES];
    assert_string_equal(ls_progress_evaluation(text, &progress, &e),
        "epoch 2/5  test accuracy 90.57 %  loss 0.2679  (10000 samples in 0:02)");
    e.tta_samples = 2500;
    e.tta_accuracy = 0.9111;
    e.tta_loss = 0.25;
    assert_string_equal(ls_progress_evaluation(text, &progress, &e),
        "epoch 2/5  test accuracy 90.57 %  loss 0.2679; with test-time augmentation 91.11 %  loss 0.2500  (10000 "
        "samples "
        "in 0:02)");
    e = (ls_train_evaluation){ .val_loss = 0.3, .val_accuracy = 0.9, .val_samples = 500, .seconds = 1.6 };
    assert_string_equal(ls_progress_evaluation(text, &progress, &e),
        "epoch 2/5  validation accuracy 90.00 %  loss 0.3000  (500 samples in 0:02)");
    e.test_samples = 1000;
    e.test_accuracy = 0.89;
    e.test_loss = 0.4;
    assert_string_equal(ls_progress_evaluation(text, &progress, &e),
        "epoch 2/5  validation accuracy 90.00 %  loss 0.3000; test accuracy 89.00 %  loss 0.4000  (1500 samples in "
        "0:02)");
}

// stderr of a test is no terminal: auto means lines.
static void choice(void **state) {
    (void)state;
    static const struct {
        int option, quiet;
        ls_display display;
    } cases[] = {
        { LS_PROGRESS_AUTO, 0, LS_DISPLAY_LINES },
        { LS_PROGRESS_BAR, 0, LS_DISPLAY_BAR },
        { LS_PROGRESS_LINES, 0, LS_DISPLAY_LINES },
        { LS_PROGRESS_OFF, 0, LS_DISPLAY_OFF },
        { LS_PROGRESS_AUTO, 1, LS_DISPLAY_OFF },
        { LS_PROGRESS_BAR, 1, LS_DISPLAY_OFF },
    };
    setenv("TERM", "dumb", 1); // also when a person runs it in a terminal
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_config cfg = { .log_progress = cases[i].option, .log_every_seconds = 7 };
        ls_comm_info comm = { .backend = "self" };
        ls_progress_style style = ls_progress_choose(&cfg, &comm, cases[i].quiet);
        if (style.display != cases[i].display)
            fail_msg("row %zu: display %d, expected %d", i, style.display, cases[i].display);
        assert_true(style.every_seconds == 7);
        assert_false(style.colour);
    }
}

// 100 columns are one line beyond the bar's own in a terminal of 60, two in one of 40.
static void narrower_terminals_break_bars(void **state) {
    (void)state;
    static const int widths[][3] = { { 100, 120, 0 }, { 100, 100, 0 }, { 100, 99, 1 }, { 100, 60, 1 }, { 100, 50, 1 },
        { 100, 49, 2 }, { 100, 40, 2 }, { 0, 60, 0 }, { 100, 0, 0 } };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        assert_int_equal(ls_progress_broken(widths[i][0], widths[i][1]), widths[i][2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations),
        cmocka_unit_test(texts),
        cmocka_unit_test(no_bar_wraps),
        cmocka_unit_test(narrower_terminals_break_bars),
        cmocka_unit_test(evaluation),
        cmocka_unit_test(choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
