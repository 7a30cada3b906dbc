#include "base/status.h"
#include "support/cmocka.h"

static void messages_are_one_line(void **state) {
    (void)state;
    ls_status status = ls_fail(LS_DATA, "%s: \xC3\xA4 %d%%", "a\nb\x1b[2J\x7f\t", 5);
    assert_int_equal(status.code, LS_DATA);
    assert_string_equal(status.text, "a?b?[2J??: \xC3\xA4 5%");
    status = ls_fail(LS_COMM, "%s", "a table\n  of two lines"); // passed on as it is
    assert_string_equal(status.text, "a table\n  of two lines");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(messages_are_one_line) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
