#include "cli/bench/page.h"

#include <time.h>
#include "base/memory.h"
#include "cli/bench/chart.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Lockstep "
    "benchmark</title>\n<style>\n"
    ":root{color-scheme:light dark;--text:#1f2328;--back:#ffffff;--line:#d8dde3;--soft:#57606a}\n"
    "@media (prefers-color-scheme: dark){:root{--text:#dfe3e8;--back:#16181d;--line:#30363d;--soft:#9aa3ad}}\n"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:1100px;margin:2rem "
    "auto;padding:0 1rem}\n"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}.wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.25rem .7rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}\n"
    "th:first-child,td:first-child{text-align:left}th{color:var(--soft);font-weight:600}\n"
    "svg{max-width:100%;height:auto}pre{border:1px solid var(--line);padding:.8rem;overflow-x:auto}\n"
    "</style>\n</head>\n<body>\n";

static const char method[] = "<h2>How it was measured</h2>\n<p>Every round measures every arrangement once, beginning "
                             "with another one each time, "
                             "so that a machine that grows slower or faster does so for all; ranks that take no part "
                             "in one sleep, and a rank has "
                             "the same number of threads in each. A measurement is a number of updates that was fixed "
                             "after warming up, timed by "
                             "the slowest rank, after one update outside of it. On CPU ranks the same updates are then "
                             "made without communication, "
                             "every rank by itself at the same time. The formulas are in docs/scaling.md.</p>\n";

static void put_cell(FILE *file, const char *tag, const char *text) {
    fprintf(file, "<%s>", tag);
    ls_bench_escape(text, file);
    fprintf(file, "</%s>", tag);
}

static void put_table(FILE *file, const ls_bench_table *t) {
    const ls_table *table = &t->table;
    if (!t->head[0]) return;
    fputs("<p>", file);
    ls_bench_escape(t->head, file);
    fputs("</p>\n<div class=\"wide\"><table>\n", file);
    for (int row = 0; row < table->rows; row++) {
        fputs("<tr>", file);
        for (int column = 0; column < table->columns; column++)
            put_cell(file, row ? "td" : "th", table->cell[row * table->columns + column]);
        fputs("</tr>\n", file);
    }
    fputs("</table></div>\n", file);
}

static void put_fact(FILE *file, const char *name, const char *value) {
    if (!value[0]) return;
    fputs("<tr>", file);
    put_cell(file, "th", name);
    put_cell(file, "td", value);
    fputs("</tr>\n", file);
}

static void put_facts(const ls_bench_findings *b, FILE *file) {
    const ls_bench_result *r = &b->results[0];
    char date[32] = "", text[64];
    time_t seconds = (time_t)b->time;
    struct tm utc;
    if (gmtime_r(&seconds, &utc)) strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
    fputs("<div class=\"wide\"><table>\n", file);
    put_fact(file, "network", r->model);
    put_fact(file, "data", r->dataset);
    put_fact(file, "device", r->device_name);
    put_fact(file, "processor", b->processor);
    put_fact(file, "host", b->host);
    snprintf(text, sizeof text, "%d", b->world_size);
    put_fact(file, "ranks started", text);
    snprintf(text, sizeof text, "%d of %.3g s for each arrangement", b->rounds, b->seconds);
    put_fact(file, "rounds", text);
    put_fact(file, "lockstep", b->version);
    put_fact(file, "compiler", b->compiler);
    put_fact(file, "libraries", b->libraries);
    put_fact(file, "MPI", b->mpi);
    put_fact(file, "date", date);
    fputs("</table></div>\n", file);
}

static void put_remarks(const ls_bench_findings *b, FILE *file) {
    char remark[LS_BENCH_REMARK_BYTES + LS_BENCH_NAME_BYTES + 80];
    for (int i = 0; i < b->prediction_count; i++) {
        ls_bench_remark(b, i, remark, sizeof remark);
        if (!remark[0]) continue;
        fputs("<p>(!) ", file);
        ls_bench_escape(remark, file);
        fputs("</p>\n", file);
    }
    for (int i = 0; i < b->count; i++) {
        if (!b->results[i].failure[0]) continue;
        fputs("<p>Left out: ", file);
        ls_bench_escape(b->results[i].failure, file);
        fputs("</p>\n", file);
    }
}

static ls_status put_configuration(const ls_bench_findings *b, FILE *file) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory) return ls_no_memory(0, "bench.html");
    ls_config_write(b->cfg, memory, 0);
    fclose(memory);
    fputs("<h2>Configuration</h2>\n<p>Before what was swept.</p>\n<pre>", file);
    ls_bench_escape(text ? text : "", file);
    fputs("</pre>\n", file);
    free(text);
    return LS_SUCCESS;
}

ls_status ls_bench_page_print(const ls_bench_findings *findings, FILE *file) {
    ls_bench_table tables[LS_BENCH_TABLES];
    LS_TRY(ls_bench_tables_new(findings, tables));
    fputs(head, file);
    fputs("<h1>Lockstep: training throughput</h1>\n", file);
    put_facts(findings, file);
    fputs("<h2>Scaling</h2>\n<figure>\n", file);
    ls_bench_chart_print(findings, file);
    fputs("</figure>\n<h2>Figures</h2>\n", file);
    for (int t = 0; t < LS_BENCH_TABLES; t++) put_table(file, &tables[t]);
    put_remarks(findings, file);
    fputs(method, file);
    ls_status status = put_configuration(findings, file);
    fputs("</body>\n</html>\n", file);
    ls_bench_tables_free(tables);
    return status;
}
