// record.h - a run's folder as `train audit` reads it: the points between which the run can be computed again, the
// options of its parts, and the lines of metrics.jsonl. Only rank 0 reads it, and nothing in it is changed.
#ifndef LS_TOOLS_AUDIT_RECORD_H
#define LS_TOOLS_AUDIT_RECORD_H

#include "tools/compare/side.h"

typedef struct { // an event of metrics.jsonl
    cJSON *json; // owned
    const char *kind;
    int64_t number, update; // line number, from 1; update of the event
} ls_audit_line;

typedef struct {
    int redone;          // set before reading. 1: also the events of updates that a later part has done again
    ls_audit_line *line; // events of the kinds start, train, eval, checkpoint and nonfinite
    int count;
    int64_t damaged;   // line number of the first line that is not an event; 0: every line is one
    int64_t completed; // update at which the last part was completed, by its end event; 0: it was not
} ls_audit_lines;

// Reads metrics.jsonl (path: the file or the run's folder) into *lines. The caller sets `redone` before, the rest to 0.
// LS_STORAGE: the file cannot be read or has no event. Free the lines, even after a failure.
LS_CHECKED ls_status ls_audit_lines_read(const char *path, ls_audit_lines *lines);
void ls_audit_lines_free(ls_audit_lines *lines);
// Returns the first event of this kind and update, or NULL.
const ls_audit_line *ls_audit_lines_find(const ls_audit_lines *lines, const char *kind, int64_t update);
int ls_audit_is(const ls_audit_line *line, const char *kind);

typedef struct {
    int64_t update;
    char path[2 * LS_TEXT_BYTES]; // folder of the checkpoint; "": the start of the run, or an end without a checkpoint
    cJSON *manifest;              // NULL: not a checkpoint, or its manifest is damaged. Owned
} ls_audit_point;

typedef struct {
    ls_side *side; // side->config is not NULL
    ls_audit_lines lines;
    ls_audit_point *point; // by rising update, the start first
    int count;
    int64_t final;  // number of updates of a complete run; -1: the run is not complete
    int64_t begins; // lines has the events after this update; not 0: the run began with a checkpoint of another run
} ls_record;

// Reads a run's folder. LS_STORAGE: it holds no run, or a file cannot be read. LS_USAGE: the path is a checkpoint or
// weights.
LS_CHECKED ls_status ls_record_read(const char *run, ls_record **out);
void ls_record_free(ls_record *record); // NULL is allowed

// Consecutive updates that one part of the run has computed, with the same options.
typedef struct {
    int64_t to;            // number of updates done after the leg; the next leg begins here
    int part;              // number of the part, from 1; 0: unknown
    int ranks;             // ranks of the part; 0: unknown
    const cJSON *manifest; // manifest that names the options of the part; NULL: config.ini does
    const cJSON *facts;    // the part in that manifest (run_parts.h), or its start event
    const cJSON *start;    // the part's start event; NULL: not found
    int other_network;     // 1: a later part has another network, so the network of this part is not known
    ls_config cfg;         // the part's options; paths are those of config.ini
} ls_audit_leg;

// Describes the leg that begins after `at` updates, on the way to `end`. sets: assignments of --set, made last.
// LS_USAGE: an option has no valid value.
LS_CHECKED ls_status ls_record_leg(
    const ls_record *record, int64_t at, int64_t end, const char *const *sets, int set_count, ls_audit_leg *out);
// Calls `found` for each option whose value in config.ini differs from the newest manifest, unless the last start event
// has the change.
LS_CHECKED ls_status ls_record_check_config(const ls_record *record,
    void (*found)(void *context, const char *name, const char *file, const char *manifest), void *context);

#endif
