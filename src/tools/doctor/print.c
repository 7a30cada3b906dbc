// print.c - the report of `train doctor` as text and as JSON. Texts from elsewhere (paths, variables) are escaped.
#include <string.h>
#include "base/text.h"
#include "tools/doctor/doctor.h"

// --- for people ----------------------------------------------------------------------------------

static void print_fact(void *file, const char *name, const char *value, const char *path) {
    const int is_known = strcmp(value, "none") != 0;
    if (!is_known && !path[0]) return;
    fprintf(file, "  %-18s ", name);
    if (is_known) ls_text_print(file, value);
    if (is_known && path[0]) fputs(", ", file);
    ls_text_print(file, path);
    fputc('\n', file);
}

static void print_host(const ls_doctor_report *r, FILE *file) {
    cJSON *facts = cJSON_CreateObject();
    ls_facts_json(r->all, facts);
    ls_facts_launchers_json(r->all, facts);
    fprintf(
        file, "host %s%s\n", r->all->host, r->ranks > 1 ? " (rank 0's; of the others what differs stands above)" : "");
    ls_facts_each(facts, print_fact, file);
    cJSON_Delete(facts);
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

// Prints problems first, then notes.
static void print_findings(const ls_findings *f, FILE *file) {
    fprintf(file, "findings%s\n", f->count ? "" : ": none");
    for (int severity = LS_FINDING_PROBLEM; severity >= LS_FINDING_NOTE; severity--)
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
    for (int i = 0; i < r->ranks; i++) ls_facts_json(&r->all[i], ls_json_append(list, cJSON_CreateObject()));
    ls_facts_launchers_json(r->all, tree);
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
