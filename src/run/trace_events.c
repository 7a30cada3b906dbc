#include "run/trace_events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/memory.h"
#include "base/spans.h"

enum { TEXT_BYTES = 512, ROWS = 64, FLOWS_OF_A_RANK = 1 << 22 };

typedef struct {
    FILE *file;
    int pid, any, failed;
    double zero_s;         // time 0 of the file, on this rank's clock
    const ls_span **spans; // sorted by lane, then start; a lane's spans are first[lane] to first[lane + 1] - 1
    int *row;              // row of each span within its lane
    int count, first[LS_SPANS_LANE_COUNT + 1], rows[LS_SPANS_LANE_COUNT];
} writer;

static const char *const number_names[LS_SPANS_LANE_COUNT] = { [LS_SPANS_WAITS] = "micro_batch",
    [LS_SPANS_COMPUTE] = "instruction",
    [LS_SPANS_GRADIENTS] = "bucket",
    [LS_SPANS_COPIES] = "micro_batch",
    [LS_SPANS_LOADER] = "micro_batch" };

static int by_lane_and_time(const void *a, const void *b) {
    const ls_span *x = *(const ls_span *const *)a, *y = *(const ls_span *const *)b;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    if (x->start_s != y->start_s) return x->start_s < y->start_s ? -1 : 1;
    return x->end_s > y->end_s ? -1 : x->end_s < y->end_s; // an enclosing span comes before the spans in it
}

// Chooses a row for each span of a lane. Spans overlap in the last of ROWS rows only. The host's lane has one row.
static void choose_rows(writer *w, int lane) {
    double end[ROWS] = { 0 };
    for (int i = w->first[lane]; i < w->first[lane + 1]; i++) {
        int row = 0;
        while (lane != LS_SPANS_HOST && row < ROWS - 1 && end[row] > w->spans[i]->start_s) row++;
        end[row] = w->spans[i]->end_s;
        w->row[i] = row;
        if (row >= w->rows[lane]) w->rows[lane] = row + 1;
    }
}

static ls_status sort_spans(writer *w) {
    size_t room = (size_t)ls_spans_count() + 1;
    LS_TRY(ls_try_new(&w->spans, room, sizeof *w->spans, "--trace: %zu spans", room));
    LS_TRY(ls_try_new(&w->row, room, sizeof *w->row, "--trace: %zu spans", room));
    for (int i = 0; i < ls_spans_count(); i++) {
        const ls_span *span = ls_spans_get(i);
        if (span) w->spans[w->count++] = span;
    }
    qsort(w->spans, (size_t)w->count, sizeof *w->spans, by_lane_and_time);
    for (int lane = 0, i = 0; lane <= LS_SPANS_LANE_COUNT; lane++) {
        while (i < w->count && (int)w->spans[i]->lane < lane) i++;
        w->first[lane] = i;
    }
    for (int lane = 0; lane < LS_SPANS_LANE_COUNT; lane++) choose_rows(w, lane);
    return LS_SUCCESS;
}

// --- events --------------------------------------------------------------------------------------

static int64_t ns_of(const writer *w, double seconds) {
    return llround((seconds - w->zero_s) * 1e9);
}

static void add_us(cJSON *event, const char *name, int64_t ns) {
    ls_json_add_real(event, name, (double)ns / 1e3);
}

static int tid_of(int lane, int row) {
    return lane * ROWS + row;
}

static cJSON *new_event(const writer *w, const char *kind, const char *name, int tid) {
    cJSON *event = cJSON_CreateObject();
    ls_json_add_text(event, "ph", kind);
    ls_json_add_text(event, "name", name);
    ls_json_add_int(event, "pid", w->pid);
    if (tid >= 0) ls_json_add_int(event, "tid", tid);
    return event;
}

static void write_event(writer *w, cJSON *event) {
    char *text = ls_json_text(event, 0);
    if (fprintf(w->file, "%s%s", w->any ? ",\n" : "", text) < 0) w->failed = 1;
    w->any = 1;
    cJSON_free(text);
    cJSON_Delete(event);
}

static void write_metadata(writer *w, const char *name, int tid, const char *key, const char *text, int number) {
    cJSON *event = new_event(w, "M", name, tid), *args = ls_json_add_object(event, "args");
    if (text)
        ls_json_add_text(args, key, text);
    else
        ls_json_add_int(args, key, number);
    write_event(w, event);
}

static void write_process(writer *w, const ls_comm_info *rank, const ls_trace_info *info) {
    char text[TEXT_BYTES];
    cJSON *event = new_event(w, "M", "process_name", -1), *args = ls_json_add_object(event, "args");
    snprintf(text, sizeof text, "rank %d, %s, %s", rank->rank, rank->host, info->device);
    ls_json_add_text(args, "name", text);
    ls_json_add_int(args, "spans", w->count);
    ls_json_add_int(args, "spans_dropped", ls_spans_dropped());
    ls_json_add_text(args, "clock", info->clock.measured ? "measured" : "shared");
    ls_json_add_real(args, "clock_error_us", round(1e9 * info->clock.error_s) / 1e3);
    ls_json_add_real(args, "device_clock_error_us", round(1e9 * info->device_clock_error_s) / 1e3);
    ls_json_add_real(args, "comm_seconds_exposed", info->comm_exposed_s);
    ls_json_add_real(args, "loader_wait_seconds", info->loader_wait_s);
    write_event(w, event);
    write_metadata(w, "process_sort_index", -1, "sort_index", NULL, rank->rank);
    if (ls_spans_dropped() == 0) return;
    snprintf(text, sizeof text, "%lld spans did not fit: trace fewer updates", (long long)ls_spans_dropped());
    write_metadata(w, "process_labels", -1, "labels", text, 0);
}

static void write_threads(writer *w) {
    for (int lane = 0; lane < LS_SPANS_LANE_COUNT; lane++) {
        for (int row = 0; row < w->rows[lane]; row++) {
            char name[64];
            snprintf(name, sizeof name, row ? "%s %d" : "%s", ls_spans_lane_name((ls_span_lane)lane), row + 1);
            write_metadata(w, "thread_name", tid_of(lane, row), "name", name, 0);
            write_metadata(w, "thread_sort_index", tid_of(lane, row), "sort_index", NULL, tid_of(lane, row));
        }
    }
}

static void write_span(writer *w, int index) {
    const ls_span *s = w->spans[index];
    char name[TEXT_BYTES];
    snprintf(name, sizeof name, s->detail ? "%s %s" : "%s%s", s->detail ? s->detail : "", s->name);
    cJSON *event = new_event(w, "X", name, tid_of((int)s->lane, w->row[index]));
    ls_json_add_text(event, "cat", ls_spans_lane_name(s->lane));
    add_us(event, "ts", ns_of(w, s->start_s));
    add_us(event, "dur", ns_of(w, s->end_s) - ns_of(w, s->start_s));
    cJSON *args = ls_json_add_object(event, "args");
    if (s->update >= 0) ls_json_add_int(args, "update", s->update);
    if (s->number >= 0 && number_names[s->lane]) ls_json_add_int(args, number_names[s->lane], s->number);
    if (s->detail) ls_json_add_text(args, "layer", s->detail);
    if (s->detail) ls_json_add_text(args, "op", s->name);
    if (s->algorithm) ls_json_add_text(args, "algorithm", s->algorithm);
    if (s->bytes > 0) ls_json_add_real(args, "bytes", s->bytes);
    if (s->flops > 0) ls_json_add_real(args, "GFLOP", s->flops / 1e9);
    if (s->ready_s > 0) add_us(args, "ready", ns_of(w, s->ready_s));
    write_event(w, event);
}

// --- events computed from several spans ----------------------------------------------------------

// Returns the index of the last instruction that had ended at time time_s; -1: no instruction had ended.
static int last_before(const writer *w, double time_s) {
    int low = w->first[LS_SPANS_COMPUTE], high = w->first[LS_SPANS_COMPUTE + 1];
    const int begin = low;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (w->spans[middle]->end_s <= time_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low > begin ? low - 1 : -1;
}

static void write_flow_end(writer *w, const char *kind, int64_t id, int index) {
    const ls_span *s = w->spans[index];
    cJSON *event = new_event(w, kind, "completes", tid_of((int)s->lane, w->row[index]));
    ls_json_add_text(event, "cat", "gradients");
    ls_json_add_int(event, "id", id);
    if (kind[0] == 'f') ls_json_add_text(event, "bp", "e");
    add_us(event, "ts", ns_of(w, s->start_s));
    write_event(w, event);
}

static void write_flows(writer *w) {
    int64_t id = (int64_t)w->pid * FLOWS_OF_A_RANK;
    for (int i = w->first[LS_SPANS_GRADIENTS]; i < w->first[LS_SPANS_GRADIENTS + 1]; i++) {
        int from = w->spans[i]->ready_s > 0 ? last_before(w, w->spans[i]->ready_s) : -1;
        if (from < 0) continue;
        write_flow_end(w, "s", id, from);
        write_flow_end(w, "f", id++, i);
    }
}

// Returns the time in [from_s, to_s) that no instruction covers.
static double uncovered(const writer *w, double from_s, double to_s) {
    double seconds = 0;
    int i = last_before(w, from_s) + 1;
    if (i < w->first[LS_SPANS_COMPUTE]) i = w->first[LS_SPANS_COMPUTE];
    for (; i < w->first[LS_SPANS_COMPUTE + 1] && w->spans[i]->start_s < to_s; i++) {
        if (w->spans[i]->start_s > from_s) seconds += w->spans[i]->start_s - from_s;
        if (w->spans[i]->end_s > from_s) from_s = w->spans[i]->end_s;
    }
    return to_s > from_s ? seconds + to_s - from_s : seconds;
}

static double since(const ls_span *bucket) {
    return bucket->ready_s > 0 ? bucket->ready_s : bucket->start_s;
}

// Writes the counter "exposed communication" for each update. Buckets of an update are neighbours in the list, and
// become ready in the order in which they start.
static void write_exposed(writer *w) {
    const int end = w->first[LS_SPANS_GRADIENTS + 1];
    for (int i = w->first[LS_SPANS_GRADIENTS]; i < end;) {
        const int64_t update = w->spans[i]->update;
        double from_s = since(w->spans[i]), to_s = from_s, exposed_s = 0;
        for (; i < end && w->spans[i]->update == update; i++) {
            if (since(w->spans[i]) > to_s) { // no bucket was in flight in between
                exposed_s += uncovered(w, from_s, to_s);
                from_s = since(w->spans[i]);
            }
            to_s = fmax(to_s, w->spans[i]->end_s);
        }
        exposed_s += uncovered(w, from_s, to_s);
        cJSON *event = new_event(w, "C", "exposed communication", -1);
        add_us(event, "ts", ns_of(w, to_s));
        ls_json_add_real(ls_json_add_object(event, "args"), "ms", round(exposed_s * 1e6) / 1e3);
        write_event(w, event);
    }
}

static void write_all(writer *w, const ls_comm_info *rank, const ls_trace_info *info) {
    write_process(w, rank, info);
    write_threads(w);
    for (int i = 0; i < w->count; i++) write_span(w, i);
    write_flows(w);
    write_exposed(w);
}

ls_status ls_trace_events_text(
    const ls_comm_info *rank, const ls_trace_info *info, double zero_s, char **text, size_t *bytes) {
    *text = NULL;
    writer w = { .pid = rank->rank, .zero_s = zero_s - info->clock.offset_s };
    ls_status status = sort_spans(&w);
    if (!ls_failed(status)) {
        w.file = open_memstream(text, bytes);
        if (w.file) write_all(&w, rank, info);
        if (!w.file || fclose(w.file) != 0 || w.failed) status = ls_no_memory(0, "--trace: %d spans", w.count);
    }
    free(w.spans);
    free(w.row);
    if (!ls_failed(status)) return status;
    free(*text);
    *text = NULL;
    return status;
}
