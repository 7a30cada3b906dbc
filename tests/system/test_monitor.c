// What is told of a GPU, by a fake NVML (support/fake_cuda.c). Each situation
// is a process of its own: libraries stay open.
#include "system/monitor.h"
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "support/cmocka.h"
#include "support/temp.h"

typedef struct {
    const char *name, *uuid, *pci, *values; // of the environment, "NAME=VALUE NAME=VALUE"
    int library;                            // there is one
    const char
        *expected; // "-": no library; "": nothing is ever known; else utilisation memory power temperature clock slowed
} situation;

static const situation situations[] = {
    { "no NVML", "GPU-1", "0000:01:00.0", "", 0, "-" },
    { "by its UUID", "GPU-1", "", "", 1, "0.50 6 350.5 61 1980 ''" },
    { "a card without a counter of its energy", "GPU-1", "", "FAKE_NO_COUNTER=1", 1, "0.50 6 350.5 61 1980 ''" },
    { "by its PCI address", "", "0000:01:00.0", "", 1, "0.50 6 350.5 61 1980 ''" },
    { "the UUID is not known, the address is", "MIG-1", "0000:01:00.0", "", 1, "0.50 6 350.5 61 1980 ''" },
    { "slowed", "GPU-1", "", "FAKE_SLOWED=5", 1, "0.50 6 350.5 61 1980 'power cap'" },
    { "slowed twice", "GPU-1", "", "FAKE_SLOWED=36", 1, "0.50 6 350.5 61 1980 'power cap, heat'" },
    { "a card that tells little", "GPU-1", "", "FAKE_MUTE=1", 1, "nan 6 nan nan nan ''" },
    { "another card", "GPU-1", "0000:01:00.0", "FAKE_CARD_UNKNOWN=1", 1, "" },
    { "NVML does not start", "GPU-1", "0000:01:00.0", "FAKE_NVML=9", 1, "" },
};

static void describe(const ls_gpu_sample *s, char text[256]) {
    char slowed[96];
    ls_gpu_slowed_text(s->slowed, slowed);
    snprintf(text, 256, "%.2f %g %g %g %g '%s'", s->utilisation, s->memory_bytes / (1 << 30), s->power_watts,
        s->temperature_c, s->clock_mhz, slowed);
}

// Since the first sample: by the counter 100 J a sample; else at 350.5 W, for so long as this process is there at most.
static int is_energy(const ls_gpu_sample *s) {
    const double n = (double)s->samples;
    if (getenv("FAKE_MUTE")) return isnan(s->joules);
    if (!getenv("FAKE_NO_COUNTER")) return !s->integrated && fabs(s->joules - 100 * (n - 1)) < 1e-9;
    return s->integrated && (n == 1 ? s->joules == 0 : s->joules > 0 && s->joules <= 350.5 * ls_clock_since_start());
}

// In a process of its own: 0 as expected.
static int look(const situation *row) {
    char values[128], text[256] = "";
    snprintf(values, sizeof values, "%s", row->values);
    for (char *rest = values, *pair; (pair = strsep(&rest, " "));)
        if (*pair) putenv(pair);
    ls_gpu_monitor *monitor = ls_gpu_monitor_start(row->uuid, row->pci);
    if (!monitor) {
        snprintf(text, sizeof text, "-");
    } else {
        ls_gpu_sample first = { .samples = 0 }, all;
        double until = ls_clock_seconds() + (row->expected[0] ? 60 : 0.2);
        while (first.samples == 0 && ls_clock_seconds() < until) {
            ls_clock_sleep(0.005);
            ls_gpu_monitor_read(monitor, NULL, &first);
        }
        if (first.samples > 0) describe(&first, text);
        if (first.samples > 0 && !is_energy(&first)) snprintf(text, sizeof text, "%g J at first", first.joules);
        // later: the mean of 50, 51, ... per cent, and the newest
        while (first.samples > 0 && first.samples < 3 && !isnan(first.utilisation) && ls_clock_seconds() < until) {
            ls_clock_sleep(0.01);
            ls_gpu_monitor_read(monitor, &first, &all);
            double n = (double)all.samples;
            if (!is_energy(&first) || all.joules != first.joules || all.integrated != first.integrated)
                snprintf(text, sizeof text, "sample %g: %g J, all %g J", n, first.joules, all.joules);
            if (fabs(first.utilisation - (49 + n) / 100) > 1e-9 || fabs(all.utilisation - (49.5 + n / 2) / 100) > 1e-9)
                snprintf(text, sizeof text, "sample %g: %g, mean %g", n, first.utilisation, all.utilisation);
        }
        ls_gpu_monitor_stop(monitor);
    }
    if (strcmp(text, row->expected) == 0) return 0;
    print_message("%s: '%s', expected '%s'\n", row->name, text, row->expected);
    return 1;
}

static void sampling(void **state) {
    const char *program = *state;
    for (size_t s = 0; s < sizeof situations / sizeof *situations; s++) {
        temp_folder folder = temp_folder_new(), empty = temp_folder_new();
        char command[1024];
        snprintf(command, sizeof command,
            "%s cc -shared -fPIC -o %s/libnvidia-ml.so.1 tests/support/fake_cuda.c && LD_LIBRARY_PATH=%s %s %zu",
            situations[s].library ? "" : ": ||", folder.path, situations[s].library ? folder.path : empty.path, program,
            s);
        int rc = system(command);
        temp_folder_remove(&folder);
        temp_folder_remove(&empty);
        if (rc != 0) fail_msg("%s: see above (%d)", situations[s].name, rc);
    }
}

int main(int argc, char **argv) {
    if (argc == 2) return look(&situations[atoi(argv[1])]);
    if (system("cc --version >/dev/null 2>&1") != 0) {
        puts("skipped: no C compiler for the fake libraries");
        return 77;
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(sampling, argv[0]) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
