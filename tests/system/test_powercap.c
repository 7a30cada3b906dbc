// What a made-up tree of the kernel's powercap files counts: which zones, wrap-around, and why where nothing can be read.
#include "system/powercap.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include "support/cmocka.h"
#include "support/temp.h"

static const char base[] = "sys/class/powercap";

// One of the zone's files; `text` NULL: it is taken away.
static void put(const temp_folder *root, const char *zone, const char *file, const char *text) {
    char name[256], path[512];
    snprintf(name, sizeof name, "%s/%s/%s", base, zone, file);
    snprintf(path, sizeof path, "%s/%s", root->path, name);
    if (text)
        temp_file(root, name, text);
    else
        assert_int_equal(unlink(path), 0);
}

static void put_zone(const temp_folder *root, const char *zone, const char *name, const char *microjoules) {
    put(root, zone, "name", name);
    put(root, zone, "energy_uj", microjoules);
    put(root, zone, "max_energy_range_uj", "65532610987\n");
}

// Two packages, one with memory; what is part of another, or shown twice.
static temp_folder server(void) {
    temp_folder root = temp_folder_new();
    put_zone(&root, "intel-rapl:0", "package-0\n", "1000000\n");
    put_zone(&root, "intel-rapl:1", "package-1-die-0\n", "65532000000\n");
    put_zone(&root, "intel-rapl:0:0", "core\n", "500000\n");
    put_zone(&root, "intel-rapl:0:1", "uncore\n", "400000\n");
    put_zone(&root, "intel-rapl:0:2", "dram\n", "7000000\n");
    put_zone(&root, "intel-rapl:2", "psys\n", "9000000\n");
    put_zone(&root, "intel-rapl-mmio:0", "package-0\n", "1000000\n");
    put_zone(&root, "dtpm:0", "package-0\n", "1000000\n");
    put(&root, "intel-rapl", "enabled", "1\n");
    return root;
}

static ls_powercap *start(const temp_folder *root) {
    ls_powercap *powercap;
    char why[LS_POWERCAP_WHY_BYTES];
    assert_int_equal(ls_powercap_start(root->path, &powercap, why).code, LS_OK);
    assert_string_equal(why, "");
    assert_non_null(powercap);
    return powercap;
}

static void counts_packages_and_memory(void **state) {
    (void)state;
    temp_folder root = server();
    ls_powercap *powercap = start(&root);
    int packages, memories;
    ls_powercap_zones(powercap, &packages, &memories);
    assert_int_equal(packages, 2);
    assert_int_equal(memories, 1);
    assert_true(ls_powercap_joules(powercap) == 0);
    static const char *const others[] = { "intel-rapl:0:0", "intel-rapl:0:1", "intel-rapl:2", "intel-rapl-mmio:0",
        "dtpm:0" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) put(&root, others[i], "energy_uj", "900000000\n");
    assert_true(ls_powercap_joules(powercap) == 0);
    put(&root, "intel-rapl:0", "energy_uj", "3500000\n");
    assert_true(fabs(ls_powercap_joules(powercap) - 2.5) < 1e-9);
    put(&root, "intel-rapl:0:2", "energy_uj", "7250000\n");
    assert_true(fabs(ls_powercap_joules(powercap) - 2.75) < 1e-9);
    put(&root, "intel-rapl:1", "energy_uj", "65532000001\n");
    assert_true(fabs(ls_powercap_joules(powercap) - 2.750001) < 1e-9);
    ls_powercap_stop(powercap);
    temp_folder_remove(&root);
}

static void counters_wrap_around(void **state) {
    (void)state;
    temp_folder root = server();
    ls_powercap *powercap = start(&root);
    put(&root, "intel-rapl:1", "energy_uj", "389013\n"); // 610987 to the end of the range, and on
    assert_true(fabs(ls_powercap_joules(powercap) - 1) < 1e-9);
    put(&root, "intel-rapl:1", "energy_uj", "65532610987\n");
    assert_true(fabs(ls_powercap_joules(powercap) - 65533.221974) < 1e-6);
    put(&root, "intel-rapl:1", "energy_uj", "0\n");
    assert_true(fabs(ls_powercap_joules(powercap) - 65533.221974) < 1e-6);
    ls_powercap_stop(powercap);
    temp_folder_remove(&root);
}

static void a_counter_that_goes_is_no_number(void **state) {
    (void)state;
    temp_folder root = server();
    ls_powercap *powercap = start(&root);
    put(&root, "intel-rapl:0", "energy_uj", NULL);
    assert_true(isnan(ls_powercap_joules(powercap)));
    put(&root, "intel-rapl:0", "energy_uj", "2000000\n"); // what went by meanwhile is not known
    assert_true(isnan(ls_powercap_joules(powercap)));
    ls_powercap_stop(powercap);
    temp_folder_remove(&root);
}

static void explains_what_cannot_be_read(void **state) {
    (void)state;
    static const struct {
        const char *name, *zone, *file, *text; // what is put into a server's tree; text NULL: taken away
        const char *expected;
    } rows[] = {
        { "no counter", "intel-rapl:1", "energy_uj", NULL,
            "/intel-rapl:1/energy_uj: cannot be read as a number: No such" },
        { "no range", "intel-rapl:0", "max_energy_range_uj", NULL,
            "/intel-rapl:0/max_energy_range_uj: cannot be read" },
        { "empty", "intel-rapl:0", "energy_uj", "", "/intel-rapl:0/energy_uj: cannot be read as a number: Invalid" },
        { "text", "intel-rapl:0", "energy_uj", "12a\n",
            "/intel-rapl:0/energy_uj: cannot be read as a number: Invalid" },
        { "negative", "intel-rapl:0:2", "energy_uj", "-1\n",
            "/intel-rapl:0:2/energy_uj: cannot be read as a number: Invalid" },
        { "too large", "intel-rapl:0", "energy_uj", "99999999999999999999\n",
            "/intel-rapl:0/energy_uj: cannot be read" },
    };
    ls_powercap *powercap;
    char why[LS_POWERCAP_WHY_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        temp_folder root = server();
        put(&root, rows[i].zone, rows[i].file, rows[i].text);
        assert_int_equal(ls_powercap_start(root.path, &powercap, why).code, LS_OK);
        if (powercap || !strstr(why, rows[i].expected)) fail_msg("%s: '%s'", rows[i].name, why);
        temp_folder_remove(&root);
    }
    temp_folder empty = temp_folder_new(); // as in a container or a virtual machine
    assert_int_equal(ls_powercap_start(empty.path, &powercap, why).code, LS_OK);
    assert_null(powercap);
    assert_non_null(strstr(why, "/sys/class/powercap/intel-rapl:*: the kernel shows no energy counter"));
    put_zone(&empty, "intel-rapl:0", "psys\n", "1\n"); // the platform alone
    assert_int_equal(ls_powercap_start(empty.path, &powercap, why).code, LS_OK);
    assert_null(powercap);
    assert_non_null(strstr(why, "the kernel shows no energy counter"));
    temp_folder_remove(&empty);
}

static void says_who_may_permit_it(void **state) {
    (void)state;
    temp_folder root = server();
    char path[512], why[LS_POWERCAP_WHY_BYTES];
    ls_powercap *powercap;
    snprintf(path, sizeof path, "%s/%s/intel-rapl:0/energy_uj", root.path, base);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(chmod(root.path, 0755), 0);
    const int root_user = geteuid() == 0;
    if (root_user) assert_int_equal(seteuid(65534), 0);
    const ls_status status = ls_powercap_start(root.path, &powercap, why);
    if (root_user) assert_int_equal(seteuid(0), 0);
    assert_int_equal(status.code, LS_OK);
    assert_null(powercap);
    assert_non_null(strstr(why, "/intel-rapl:0/energy_uj: Permission denied (since Linux 5.10 it is root's"));
    assert_non_null(strstr(why, "chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"));
    temp_folder_remove(&root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_packages_and_memory),
        cmocka_unit_test(counters_wrap_around),
        cmocka_unit_test(a_counter_that_goes_is_no_number),
        cmocka_unit_test(explains_what_cannot_be_read),
        cmocka_unit_test(says_who_may_permit_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
