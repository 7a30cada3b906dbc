// cmd_metrics.c - `train metrics RUN [--event KIND]`: writes a run's metrics.jsonl as CSV.
#include <stdio.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "command/commands.h"
#include "run/metrics_export.h"

static ls_status write_to(const ls_args *args, ls_metrics_reader *reader, FILE *file) {
    return ls_metrics_write_csv(reader, args->event ? args->event : "train", file);
}

static ssize_t pass_on(void *file, const char *data, size_t bytes) {
    ls_atomic_file_write(file, data, bytes); // ls_atomic_file_commit reports a failure
    return (ssize_t)bytes;
}

static ls_status write_file(const ls_args *args, ls_metrics_reader *reader) {
    ls_atomic_file *target;
    LS_TRY(ls_check_output("--out", args->output, "table of this program", "part,*"));
    LS_TRY(ls_atomic_file_open(args->output, &target));
    FILE *file = fopencookie(target, "w", (cookie_io_functions_t){ .write = pass_on });
    ls_status status = file ? write_to(args, reader, file) : ls_no_memory(0, "%s", args->output);
    if (file && fclose(file) != 0) LS_THEN(status, ls_no_memory(0, "%s", args->output));
    if (!ls_failed(status)) return ls_atomic_file_commit(target);
    ls_atomic_file_abandon(target);
    return status;
}

static ls_status write_stdout(const ls_args *args, ls_metrics_reader *reader) {
    LS_TRY(write_to(args, reader, stdout));
    return ls_command_flush(stdout);
}

// Fails with LS_STORAGE if lines of metrics.jsonl were damaged and left out. Only warns of a last line without a
// newline, because the run may be writing it.
static ls_status check_lines(const ls_metrics_reader *reader) {
    const ls_metrics_state *state = ls_metrics_reader_state(reader);
    const char *path = ls_metrics_reader_path(reader);
    if (state->cut)
        ls_warn("%s: line %lld has no end and is left out: the run is writing it, or was killed", path,
            (long long)state->cut);
    if (state->damaged == 0) return LS_SUCCESS;
    char numbers[32 * LS_METRICS_NAMED] = "";
    ls_text_room room = { numbers, sizeof numbers };
    for (int64_t i = 0; i < state->damaged && i < LS_METRICS_NAMED; i++)
        ls_text_put(&room, "%s%lld", i ? ", " : "", (long long)state->named[i]);
    const int several = state->damaged > 1;
    return ls_fail(LS_STORAGE, "%s: %lld line%s damaged (number %s%s) and left out; the other lines are written", path,
        (long long)state->damaged, several ? "s are" : " is", numbers,
        state->damaged > LS_METRICS_NAMED ? ", ..." : "");
}

static ls_status work(const ls_args *args) {
    ls_metrics_reader *reader;
    LS_TRY(ls_metrics_reader_open(args->files[0], &reader));
    ls_status status = args->output ? write_file(args, reader) : write_stdout(args, reader);
    LS_THEN(status, check_lines(reader));
    ls_metrics_reader_close(reader);
    return status;
}

ls_status ls_cmd_metrics(const ls_args *args, ls_comm *comm) {
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? work(args) : LS_SUCCESS);
}
