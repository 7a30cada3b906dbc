// print.c - what `train doctor` found, for people and for a program. What comes from elsewhere (paths, variables) is escaped.
#include <stdarg.h>
#include <string.h>
#include "base/text.h"
#include "cli/doctor/doctor.h"

static const struct {
    const char *name;
    int in_bytes;
} limits[LS_FACTS_LIMIT_COUNT] = {
#define LIMIT_ROW(NAME, resource, text, in_bytes) { text, in_bytes },
    LS_FACTS_LIMITS(LIMIT_ROW)
#undef LIMIT_ROW
};

// --- for people ----------------------------------------------------------------------------------

static void LS_PRINTF(3, 4) row(FILE *file, const char *name, const char *format, ...) {
    char text[LS_STATUS_TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fprintf(file, "  %-13s ", name);
    ls_text_print(file, text);
    fputc('\n', file);
}

static const char *size_text(int64_t bytes, char text[24]) {
    return bytes == LS_FACTS_UNLIMITED ? "unlimited" : bytes < 0 ? "none" : ls_text_bytes(text, (uint64_t)bytes);
}

static void print_limits(const ls_facts *f, FILE *file) {
    char line[LS_STATUS_TEXT_BYTES] = "", text[24];
    ls_text_room room = { line, sizeof line };
    for (int i = 0; i < LS_FACTS_LIMIT_COUNT; i++) {
        ls_text_put(&room, "%s%s ", i ? ", " : "", limits[i].name);
        if (limits[i].in_bytes || f->limit[i] < 0)
            ls_text_put(&room, "%s", size_text(f->limit[i], text));
        else
            ls_text_put(&room, "%lld", (long long)f->limit[i]);
    }
    row(file, "limits", "%s", line);
}

static void print_launchers(const ls_facts *f, FILE *file) {
    for (int i = 0; i < LS_FACTS_LAUNCHERS_MAX && f->launcher[i].name[0]; i++)
        row(file, i ? "" : "in PATH", "%s of %s, %s", f->launcher[i].name,
            f->launcher[i].version[0] ? f->launcher[i].version : "an unknown MPI", f->launcher[i].path);
    if (f->srun[0])
        row(file, f->launcher[0].name[0] ? "" : "in PATH", "srun %s%s%s, %s", f->srun_speaks[0] ? "(" : "",
            f->srun_speaks[0] ? f->srun_speaks : "", f->srun_speaks[0] ? ")" : "without SLURM", f->srun);
}

static void print_host(const ls_doctor_report *r, FILE *file) {
    const ls_facts *f = r->all;
    char a[24], b[24], quota[32];
    ls_text_cut(quota, sizeof quota, f->quota > 0 ? "quota of %g" : "no quota", f->quota);
    fprintf(file, "host %s%s\n", f->host, r->ranks > 1 ? " (rank 0's; of the others what differs stands above)" : "");
    row(file, "system", "%s%s%s%s", f->kernel, f->container[0] ? ", in " : "", f->container,
        f->is_root ? ", as root" : "");
    row(file, "program", "%s, %s", f->version, f->program);
    row(file, "cores", "%d (processors %s of %d), %s, %d memory node%s%s%s%s", f->mask_cores, f->mask, f->online_cpus,
        quota, f->numa_nodes, f->numa_nodes == 1 ? "" : "s", f->near[0] ? " (" : "", f->near, f->near[0] ? ")" : "");
    row(file, "memory", "%s, %s available", size_text(f->memory, a), size_text(f->memory_available, b));
    row(file, "", "limit of the cgroup: %s", f->memory_limit >= 0 ? size_text(f->memory_limit, a) : "none");
    if (f->shm != LS_FACTS_UNKNOWN)
        row(file, "/dev/shm", "%s, %s free", size_text(f->shm, a), size_text(f->shm_free, b));
    else
        row(file, "/dev/shm", "none");
    row(file, "run folder", "%s (%s), %s free", f->folder, f->file_system,
        f->disk_free < 0 ? "an unknown number of bytes" : size_text(f->disk_free, a));
    print_limits(f, file);
    row(file, "MPI", "%s%s%s", f->mpi, f->started_by[0] ? ", started by " : ", started by hand", f->started_by);
    print_launchers(f, file);
    for (int i = 0; i < LS_FACTS_VARIABLES_MAX && f->variable[i][0]; i++)
        row(file, i ? "" : "variables", "%s", f->variable[i]);
    for (int i = 0; i < LS_FACTS_LIBRARIES_MAX && f->library[i].name[0]; i++) {
        const ls_facts_library *l = &f->library[i];
        if (l->of_gpu) break; // they have a table of their own
        row(file, i ? "" : "libraries", "%s%s%s, %s", l->name, l->version[0] ? " " : "", l->version, l->path);
    }
}

static void print_places(const ls_doctor_report *r, FILE *file) {
    char line[LS_RANK_TABLE_LINE_BYTES];
    fputs("ranks\n", file);
    for (int next = 0; next < r->ranks;) {
        next = ls_rank_table_line(r->places, r->ranks, next, line);
        fprintf(file, "  %s\n", line);
    }
    fputc('\n', file);
}

static void print_line(FILE *file, const char *kind, const char *topic, const char *where, const char *text) {
    fprintf(file, "  %-8s %s", kind, topic);
    if (where[0]) fprintf(file, ", %s", where);
    fputs(": ", file);
    ls_text_print(file, text);
    fputc('\n', file);
}

// The worst first.
static void print_findings(const ls_findings *f, FILE *file) {
    fputs("what fits together and what does not\n", file);
    for (int severity = LS_FINDING_PROBLEM; severity >= LS_FINDING_OK; severity--)
        for (int i = 0; i < f->count; i++)
            if ((int)f->row[i].severity == severity)
                print_line(
                    file, ls_severity_name(f->row[i].severity), f->row[i].topic, f->row[i].where, f->row[i].text);
}

void ls_doctor_print_facts(const ls_doctor_report *r, FILE *file) {
    char lines[LS_LAUNCH_BYTES];
    if (r->findings->differences[0])
        fprintf(file, "%s: %s\n\n", ls_severity_name(r->findings->may_differ ? LS_FINDING_NOTE : LS_FINDING_PROBLEM),
            r->findings->differences);
    else if (r->ranks > 1)
        fprintf(file, "%d ranks: no differences\n\n", r->ranks);
    if (r->places && r->ranks > 1) print_places(r, file);
    print_host(r, file);
    fputc('\n', file);
    ls_devices_print(r->devices, file);
    fputc('\n', file);
    print_findings(r->findings, file);
    fputs("\nto train here\n", file);
    ls_launch_lines(r->all, r->ranks, lines);
    for (char *rest = lines, *line; (line = strsep(&rest, "\n")) && *line;) fprintf(file, "  %s\n", line);
    fputc('\n', file);
}

void ls_doctor_print_test(const ls_test *test, FILE *file) {
    print_line(file, ls_test_result_name(test->result), test->name, "", test->text);
}

int ls_doctor_to_mend(const ls_doctor_report *r, const char **first) {
    const char *text = NULL;
    int count = ls_findings_count(r->findings, LS_FINDING_PROBLEM);
    if (count && r->findings->differences[0] && !r->findings->may_differ)
        text = "ranks differ in what must be the same";
    for (int i = 0; i < r->findings->count && !text; i++)
        if (r->findings->row[i].severity == LS_FINDING_PROBLEM) text = r->findings->row[i].text;
    for (int i = 0; i < r->test_count; i++) {
        if (r->tests[i].result != LS_TEST_FAILED) continue;
        if (!text) text = r->tests[i].text;
        count++;
    }
    if (first) *first = text;
    return count;
}

// --- for a program -------------------------------------------------------------------------------

static void add_number(cJSON *object, const char *name, int64_t value) {
    if (value >= 0)
        ls_json_add_int(object, name, value);
    else if (value == LS_FACTS_UNLIMITED)
        ls_json_add_text(object, name, "unlimited");
    else
        ls_json_add_null(object, name);
}

static void add_libraries(cJSON *object, const char *name, const ls_facts_library *rows, int most) {
    cJSON *list = ls_json_add_array(object, name);
    for (int i = 0; i < most && rows[i].name[0]; i++) {
        cJSON *library = ls_json_append(list, cJSON_CreateObject());
        ls_json_add_known(library, "name", rows[i].name);
        ls_json_add_known(library, "version", rows[i].version);
        ls_json_add_known(library, "path", rows[i].path);
    }
}

static void add_rank(cJSON *list, const ls_facts *f) {
    cJSON *rank = ls_json_append(list, cJSON_CreateObject());
    ls_json_add_int(rank, "rank", f->rank);
    ls_json_add_known(rank, "host", f->host);
    ls_json_add_int(rank, "ranks_of_host", f->local_size);
    ls_json_add_known(rank, "kernel", f->kernel);
    ls_json_add_known(rank, "container", f->container);
    ls_json_add_bool(rank, "root", f->is_root);
    ls_json_add_known(rank, "program", f->version);
    ls_json_add_known(rank, "build", f->build);
    ls_json_add_known(rank, "processor", f->model);
    ls_json_add_known(rank, "instructions", f->features);
    ls_json_add_int(rank, "cores", f->mask_cores);
    ls_json_add_known(rank, "mask", f->mask);
    ls_json_add_int(rank, "processors_of_host", f->host_cpus);
    ls_json_add_real(rank, "quota", f->quota);
    ls_json_add_int(rank, "threads", f->threads);
    ls_json_add_int(rank, "memory_nodes", f->numa_nodes);
    add_number(rank, "memory_bytes", f->memory);
    add_number(rank, "memory_available_bytes", f->memory_available);
    add_number(rank, "memory_limit_bytes", f->memory_limit);
    add_number(rank, "shm_bytes", f->shm);
    add_number(rank, "shm_free_bytes", f->shm_free);
    cJSON *limit = ls_json_add_object(rank, "limits");
    for (int i = 0; i < LS_FACTS_LIMIT_COUNT; i++) add_number(limit, limits[i].name, f->limit[i]);
    cJSON *variables = ls_json_add_array(rank, "variables");
    for (int i = 0; i < LS_FACTS_VARIABLES_MAX && f->variable[i][0]; i++)
        ls_json_append(variables, ls_json_string(f->variable[i]));
    ls_json_add_known(rank, "mpi", f->mpi);
    ls_json_add_known(rank, "started_by", f->started_by);
    ls_json_add_int(rank, "gpus", f->gpus);
    ls_json_add_known(rank, "gpu", f->gpu);
    ls_json_add_known(rank, "driver", f->driver);
    add_libraries(rank, "libraries", f->library, LS_FACTS_LIBRARIES_MAX);
}

static void add_test(cJSON *list, const ls_test *test) {
    cJSON *item = ls_json_append(list, cJSON_CreateObject());
    ls_json_add_known(item, "name", test->name);
    ls_json_add_known(item, "result", ls_test_result_name(test->result));
    ls_json_add_known(item, "text", test->text);
    for (int i = 0; i < LS_TEST_FIGURES_MAX && test->figure[i].name; i++)
        ls_json_add_real(item, test->figure[i].name, test->figure[i].value);
}

void ls_doctor_json(const ls_doctor_report *r, cJSON *tree) {
    char lines[LS_LAUNCH_BYTES];
    ls_json_add_known(tree, "differences", r->findings->differences);
    ls_json_add_bool(tree, "may_differ", r->findings->may_differ);
    cJSON *list = ls_json_add_array(tree, "ranks");
    for (int i = 0; i < r->ranks; i++) add_rank(list, &r->all[i]);
    add_libraries(tree, "launchers", r->all->launcher, LS_FACTS_LAUNCHERS_MAX);
    ls_json_add_known(tree, "srun", r->all->srun);
    ls_devices_json(r->devices, tree);
    list = ls_json_add_array(tree, "findings");
    for (int i = 0; i < r->findings->count; i++) {
        const ls_finding *f = &r->findings->row[i];
        cJSON *item = ls_json_append(list, cJSON_CreateObject());
        ls_json_add_known(item, "severity", ls_severity_name(f->severity));
        ls_json_add_known(item, "topic", f->topic);
        ls_json_add_known(item, "where", f->where);
        ls_json_add_known(item, "text", f->text);
    }
    list = ls_json_add_array(tree, "commands");
    ls_launch_lines(r->all, r->ranks, lines);
    for (char *rest = lines, *line; (line = strsep(&rest, "\n")) && *line;) ls_json_append(list, ls_json_string(line));
    list = ls_json_add_array(tree, "tests");
    for (int i = 0; i < r->test_count; i++) add_test(list, &r->tests[i]);
    ls_json_add_int(tree, "to_mend", ls_doctor_to_mend(r, NULL));
}
