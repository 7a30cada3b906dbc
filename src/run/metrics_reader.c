#include "run/metrics_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/files.h"
#include "base/memory.h"

enum { PATH_BYTES = 4096, BLOCK_BYTES = 1 << 16 };

struct ls_metrics_reader {
    char path[PATH_BYTES];
    ls_input input;
    ls_metrics_state state;
    // By start event: the update from which its part continues, lowered by find_parts to the lowest update from which
    // this part or a later one continues.
    int64_t *resumed_at;
    int64_t starts;
    char *line;
    size_t line_bytes; // size of line: the file's length, at most LS_METRICS_LINE_BYTES_MAX
    char block[BLOCK_BYTES];
};

// --- lines ---------------------------------------------------------------------------------------

// A position in the file; reading starts at its beginning.
typedef struct {
    ls_metrics_reader *reader;
    size_t offset;     // bytes of the file that were read into blocks so far
    size_t at, filled; // position in the block; length of the block
    size_t length;     // length of the present line
    int64_t number;    // number of the present line
    int too_long;
} cursor;

static ls_status fill(cursor *c) {
    const ls_input *input = &c->reader->input;
    const size_t left = input->bytes - c->offset;
    c->at = 0;
    c->filled = left < BLOCK_BYTES ? left : BLOCK_BYTES;
    LS_TRY(ls_input_read(input, c->offset, c->reader->block, c->filled));
    c->offset += c->filled;
    return LS_SUCCESS;
}

static void append(cursor *c, const char *from, size_t bytes) {
    const size_t room = c->reader->line_bytes - c->length;
    c->too_long |= bytes > room;
    if (bytes > room) bytes = room;
    memcpy(c->reader->line + c->length, from, bytes);
    c->length += bytes;
}

// Reads the next line into reader->line, without '\n'. At the end of the file *there becomes 0, and if the last line is
// unfinished, state.cut becomes its number.
static ls_status next_line(cursor *c, int *there) {
    c->length = 0;
    c->too_long = 0;
    c->number++;
    for (;;) {
        if (c->at == c->filled) LS_TRY(fill(c));
        *there = c->filled > 0;
        if (!*there) {
            if (c->length > 0) c->reader->state.cut = c->number;
            return LS_SUCCESS;
        }
        const char *from = c->reader->block + c->at, *end = memchr(from, '\n', c->filled - c->at);
        const size_t bytes = end ? (size_t)(end - from) : c->filled - c->at;
        append(c, from, bytes);
        c->at += bytes + (end != NULL);
        if (end) return LS_SUCCESS;
    }
}

// --- events --------------------------------------------------------------------------------------

// Parses the line that was read last. Returns the JSON tree, from which *line borrows, or NULL if it is not an event.
static cJSON *parse(const cursor *c, ls_metrics_line *line) {
    const char *text = c->reader->line, *end = NULL;
    cJSON *tree = c->too_long ? NULL : cJSON_ParseWithLengthOpts(text, c->length, &end, 0);
    while (tree && end < text + c->length && strchr(" \t\r", *end) && *end) end++;
    *line = (ls_metrics_line){ .json = tree, .kind = ls_json_get_text(tree, "event"), .line = c->number };
    const cJSON *time = ls_json_get(tree, "time");
    if (tree && end == text + c->length && line->kind && cJSON_IsNumber(time) &&
        ls_json_whole(ls_json_get(tree, "update"), LS_JSON_WHOLE_MAX, &line->update) &&
        ls_json_whole(ls_json_get(tree, "epoch"), LS_JSON_WHOLE_MAX, &line->epoch)) {
        line->time = time->valuedouble;
        return tree;
    }
    cJSON_Delete(tree);
    return NULL;
}

// Calls `take` for each event and counts the lines anew.
static ls_status each(
    ls_metrics_reader *r, ls_status (*take)(void *context, const ls_metrics_line *line), void *context) {
    cursor c = { .reader = r };
    int64_t part = 0;
    int there = 1;
    r->state = (ls_metrics_state){ 0 };
    for (;;) {
        ls_metrics_line line;
        LS_TRY(next_line(&c, &there));
        if (!there) return LS_SUCCESS;
        cJSON *tree = parse(&c, &line);
        if (!tree) {
            if (r->state.damaged < LS_METRICS_NAMED) r->state.named[r->state.damaged] = c.number;
            r->state.damaged++;
            continue;
        }
        r->state.events++;
        part += strcmp(line.kind, "start") == 0;
        line.part = part;
        line.redone = part < r->starts && line.update > r->resumed_at[part];
        ls_status status = take(context, &line);
        cJSON_Delete(tree);
        LS_TRY(status);
    }
}

static ls_status note_start(void *context, const ls_metrics_line *line) {
    ls_metrics_reader *r = context;
    if (strcmp(line->kind, "start") != 0) return LS_SUCCESS;
    r->resumed_at = ls_grow(r->resumed_at, r->starts, sizeof *r->resumed_at, "%s", r->path);
    // Without this member the part begins at update 0.
    if (!ls_json_whole(ls_json_get(line->json, "resumed_at_update"), LS_JSON_WHOLE_MAX, &r->resumed_at[r->starts]))
        r->resumed_at[r->starts] = 0;
    r->starts++;
    return LS_SUCCESS;
}

static ls_status find_parts(ls_metrics_reader *r) {
    ls_status status = each(r, note_start, r);
    for (int64_t i = r->starts - 1; i > 0; i--)
        if (r->resumed_at[i] < r->resumed_at[i - 1]) r->resumed_at[i - 1] = r->resumed_at[i];
    if (ls_failed(status) || r->state.events > 0) return status;
    return ls_fail(LS_STORAGE, "%s: is no metrics.jsonl of a run: no line of it is an event", r->path);
}

static ls_status find_file(const char *path, char *dst) {
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return ls_path_join(dst, PATH_BYTES, path, "metrics.jsonl");
    return ls_path_join(dst, PATH_BYTES, "", path);
}

ls_status ls_metrics_reader_open(const char *path, ls_metrics_reader **out) {
    ls_metrics_reader *r = ls_new(1, sizeof *r, "%s", path);
    r->input.fd = -1;
    ls_status status = find_file(path, r->path);
    LS_THEN(status, ls_input_open(r->path, &r->input));
    r->line_bytes = r->input.bytes < LS_METRICS_LINE_BYTES_MAX ? r->input.bytes : LS_METRICS_LINE_BYTES_MAX;
    LS_THEN(status, ls_try_new(&r->line, r->line_bytes + 1, 1, "%s", path));
    LS_THEN(status, find_parts(r));
    return LS_GIVE_OR_FREE(status, r, out, ls_metrics_reader_close);
}

ls_status ls_metrics_reader_each(
    ls_metrics_reader *reader, ls_status (*take)(void *context, const ls_metrics_line *line), void *context) {
    return each(reader, take, context);
}

const char *ls_metrics_reader_path(const ls_metrics_reader *reader) {
    return reader->path;
}

const ls_metrics_state *ls_metrics_reader_state(const ls_metrics_reader *reader) {
    return &reader->state;
}

void ls_metrics_reader_close(ls_metrics_reader *reader) {
    ls_input_close(&reader->input);
    free(reader->line);
    free(reader->resumed_at);
    free(reader);
}
