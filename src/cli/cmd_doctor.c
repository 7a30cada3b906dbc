// cmd_doctor.c - `train doctor [--quick] [--json] [--run-dir DIR]`: prints the equipment of these ranks and hosts, the
// problems that must be mended, the command lines for a run here, and a self-test. Exit code 4 if something must be
// mended.
#include <string.h>
#include "base/memory.h"
#include "command/commands.h"
#include "tools/doctor/doctor.h"
#include "dist/device_assignment.h"

enum { TESTS_MAX = 8 };
static const double timeout_s = 60; // timeout of an exchange between ranks; all exchanges of this command are short

static struct { // facts about this process, collected before the communicator starts
    ls_devices devices;
    ls_facts facts;
} own;

void ls_doctor_look(const ls_args *args) {
    ls_devices_look(&own.devices);
    ls_facts_collect(&own.devices, args->run_dir, &own.facts);
}

typedef struct {
    const ls_args *args;
    ls_comm *comm;
    const char *no_device;  // why no device opens; NULL: a device is open
    const char *not_joined; // why the ranks could not be joined; NULL: they are joined
    ls_device_assignment *assignment;
    ls_device *device;
    ls_facts *all; // [ranks], facts of each rank
    ls_findings *findings;
    ls_test_bed bed;
    ls_test tests[TESTS_MAX];
    int test_count;
} doctor;

static ls_doctor_report report_of(doctor *d, int ranks) {
    return (ls_doctor_report){ .all = d->all,
        .ranks = ranks,
        .devices = &own.devices,
        .places = d->device ? ls_device_assignment_ranks(d->assignment) : NULL,
        .findings = d->findings,
        .tests = d->tests,
        .test_count = d->test_count };
}

static void find(doctor *d, int ranks) {
    d->findings = ls_findings_new(&(ls_doctor_view){ d->all, ranks, d->not_joined, d->no_device });
}

static ls_status print_json(const ls_doctor_report *report) {
    cJSON *tree = cJSON_CreateObject();
    ls_doctor_json(report, tree);
    ls_status status = ls_json_write_line(stdout, "standard output", tree);
    cJSON_Delete(tree);
    return status;
}

ls_status ls_doctor_alone(const ls_args *args, ls_status failure) {
    doctor d = { .args = args, .not_joined = failure.text, .all = &own.facts };
    ls_devices_take(&own.devices, NULL, "not tried: the ranks are not joined");
    find(&d, 1);
    ls_status status = LS_SUCCESS;
    ls_doctor_report report = report_of(&d, 1);
    if (args->json)
        status = print_json(&report);
    else
        ls_doctor_print_facts(&report, stdout);
    LS_THEN(status, ls_command_flush(stdout));
    free(d.findings);
    return ls_failed(status) ? status : failure;
}

// Opens the device that a run with the default options would use. A device that does not open is a finding; this
// function fails only if the ranks can no longer exchange data.
static ls_status open_device(doctor *d) {
    ls_config *cfg = ls_new(1, sizeof *cfg, "configuration");
    ls_config_defaults(cfg);
    ls_status status = ls_device_assignment_new(d->comm, LS_SUCCESS, cfg, &d->assignment);
    const ls_device_options options = { .threads = own.facts.threads };
    LS_THEN(status, ls_device_assignment_open(d->assignment, d->comm, &options, &d->device));
    free(cfg);
    if (ls_failed(status)) {
        if (ls_comm_broken(d->comm)) return ls_command_agree_or_abort(d->comm, status);
        d->no_device = status.text;
    }
    ls_devices_take(
        &own.devices, d->device, d->no_device ? d->no_device : ls_device_assignment_why_not_gpu(d->assignment));
    return LS_SUCCESS;
}

static ls_status gather(doctor *d) {
    const ls_comm_info *info = ls_comm_get_info(d->comm);
    d->all = ls_new(info->world_size, sizeof *d->all, "facts of %d ranks", info->world_size);
    ls_status status = ls_comm_allgather(d->comm, &own.facts, d->all, sizeof own.facts);
    return ls_command_agree_or_abort(d->comm, status);
}

static ls_status try_all(doctor *d, int prints) {
    d->bed = (ls_test_bed){ .comm = d->comm,
        .device = d->device,
        .folder = own.facts.folder,
        .shares = d->device && ls_device_assignment_shares(d->assignment) };
    if (prints) fputs("self-test\n", stdout);
    for (int i = 0; i < ls_test_count && i < TESTS_MAX; i++) {
        LS_TRY(ls_command_agree_or_abort(d->comm, ls_test_run(&d->bed, i, &d->tests[d->test_count])));
        if (prints) ls_doctor_print_test(&d->tests[d->test_count], stdout);
        if (prints) fflush(stdout); // show each test at once: the next one may take a second
        d->test_count++;
    }
    if (prints) fputc('\n', stdout);
    return LS_SUCCESS;
}

// Rank 0: prints the end of the report, or with --json the whole report. LS_DEVICE: something must be mended.
static ls_status conclude(doctor *d, int ranks) {
    ls_doctor_report report = report_of(d, ranks);
    const char *first;
    const int count = ls_doctor_to_mend(&report, &first), notes = ls_findings_count(d->findings, LS_FINDING_NOTE);
    if (d->args->json) LS_TRY(print_json(&report));
    if (!d->args->json && !count)
        printf("nothing must be mended; %d note%s%s\n", notes, notes == 1 ? "" : "s",
            d->test_count ? "" : "; without a self-test (--quick)");
    LS_TRY(ls_command_flush(stdout));
    if (!count) return LS_SUCCESS;
    if (count == 1) return ls_fail(LS_DEVICE, "train doctor: to be mended: %s", first);
    return ls_fail(LS_DEVICE, "train doctor: %d things are to be mended; the first: %s", count, first);
}

static ls_status examine(doctor *d) {
    const ls_comm_info *info = ls_comm_get_info(d->comm);
    const int prints = info->rank == 0 && !d->args->json;
    LS_TRY(open_device(d));
    LS_TRY(gather(d));
    if (info->rank == 0) find(d, info->world_size);
    ls_doctor_report report = report_of(d, info->world_size);
    if (prints) ls_doctor_print_facts(&report, stdout);
    if (!d->args->quick) LS_TRY(try_all(d, prints));
    return ls_command_agree(d->comm, info->rank == 0 ? conclude(d, info->world_size) : LS_SUCCESS);
}

ls_status ls_cmd_doctor(const ls_args *args, ls_comm *comm) {
    doctor *d = ls_new(1, sizeof *d, "doctor");
    d->args = args;
    d->comm = comm;
    ls_comm_set_timeout(comm, timeout_s);
    ls_facts_of_rank(ls_comm_get_info(comm), &own.devices, &own.facts);
    ls_status status = examine(d);
    ls_test_end(&d->bed);
    ls_device_close(d->device);
    ls_device_assignment_free(d->assignment);
    free(d->findings);
    free(d->all);
    free(d);
    return status;
}
