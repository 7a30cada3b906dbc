#include "cli/bench/chart.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 1000, TOP = 56, BOTTOM = 376, LEGEND = 440, LEGEND_ROW = 22, SERIES_MAX = 16, COLORS = 8 };
static const char *const colors[COLORS] = { "#3b82c4", "#d97706", "#2f9e6e", "#b4549a", "#7c6bd6", "#c2473d", "#8a8a2e",
    "#4d9aa8" };

// What differs in the number of ranks alone: a line in both panels.
typedef struct {
    int base, weak; // number of the result that efficiency is over
    const char *color;
    char name[LS_BENCH_NAME_BYTES + 32];
} series;

// A panel maps ranks and values to the page.
typedef struct {
    double left, right;
    double most_ranks;      // x: log2, from 1
    int is_log;             // y
    double lowest, highest; // of y
} panel;

typedef struct {
    const ls_bench_findings *b;
    FILE *file;
    int count;
    series line[SERIES_MAX];
    panel rate, efficiency;
} chart;

void ls_bench_escape(const char *text, FILE *file) {
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc((unsigned char)*text < ' ' && *text != '\n' && *text != '\t' ? ' ' : *text, file);
        }
    }
}

// --- what is shown -------------------------------------------------------------------------------

static int belongs(const chart *c, const series *s, int index) {
    const ls_bench_result *r = &c->b->results[index];
    return r->base == s->base && !r->failure[0] && r->count > 0 && (index == s->base || r->weak == s->weak);
}

static int has_members(const chart *c, const series *s) {
    int members = 0;
    for (int i = 0; i < c->b->count; i++) members += belongs(c, s, i) && i != s->base;
    return members > 0;
}

static void add_series(chart *c, int base, int weak, int always) {
    const ls_bench_result *r = &c->b->results[base];
    series s = { .base = base, .weak = weak, .color = colors[c->count % COLORS] };
    if (c->count == SERIES_MAX || (!always && !has_members(c, &s))) return;
    snprintf(s.name, sizeof s.name, "%s, %s%s%s", r->device, weak ? "weak" : "strong", r->settings[0] ? ", " : "",
        r->settings);
    c->line[c->count++] = s;
}

static void find_series(chart *c) {
    for (int i = 0; i < c->b->count; i++) {
        const ls_bench_result *r = &c->b->results[i];
        if (r->base != i || r->failure[0] || r->count == 0) continue;
        add_series(c, i, r->weak, 1);
        if (!r->weak) add_series(c, i, 1, 0);
    }
}

static double rate_of(const chart *c, int index) {
    return ls_bench_figures_of(c->b->results, index).images_per_second.median;
}

static const ls_bench_prediction *prediction_at(const chart *c, const series *s, int i) {
    const ls_bench_prediction *p = &c->b->predictions[i];
    return p->base == s->base && p->weak == s->weak ? p : NULL;
}

// The axes hold everything that is drawn, the ideal lines too.
static void find_ranges(chart *c) {
    double most = 2, low = INFINITY, high = 0;
    for (int i = 0; i < c->b->count; i++) {
        ls_bench_figures f = ls_bench_figures_of(c->b->results, i);
        if (!isfinite(f.images_per_second.median)) continue;
        most = fmax(most, c->b->results[i].ranks);
        low = fmin(low, f.images_per_second.lowest);
        high = fmax(high, f.images_per_second.highest);
    }
    for (int i = 0; i < c->b->prediction_count; i++) most = fmax(most, c->b->predictions[i].ranks);
    for (int s = 0; s < c->count; s++) {
        int base = c->line[s].base;
        high = fmax(high, rate_of(c, base) * most / c->b->results[base].ranks);
    }
    if (!(low < high)) low = 1, high = 10;
    c->rate = (panel){ 84, 480, most, 1, low / 1.5, high * 1.5 };
    c->efficiency = (panel){ 576, 972, most, 0, 0, 1.2 };
}

// --- drawing -------------------------------------------------------------------------------------

static double x_of(const panel *p, double ranks) {
    return p->left + (p->right - p->left) * log2(ranks) / log2(p->most_ranks);
}

static double y_of(const panel *p, double value) {
    double share = p->is_log ? log(fmax(value, p->lowest) / p->lowest) / log(p->highest / p->lowest)
                             : (value - p->lowest) / (p->highest - p->lowest);
    return BOTTOM - (BOTTOM - TOP) * fmin(fmax(share, 0), 1);
}

static void put_grid_line(const chart *c, double x1, double y1, double x2, double y2) {
    fprintf(c->file, "<line class=\"lsb-grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x1, y1, x2, y2);
}

static void put_label(const chart *c, double x, double y, const char *anchor, const char *text) {
    fprintf(c->file, "<text class=\"lsb-text\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    ls_bench_escape(text, c->file);
    fputs("</text>\n", c->file);
}

static void put_x_axis(const chart *c, const panel *p) {
    char text[16];
    int every = p->most_ranks > 64 ? 2 : 1, tick = 0;
    for (double ranks = 1; ranks <= p->most_ranks; ranks *= 2, tick++) {
        put_grid_line(c, x_of(p, ranks), TOP, x_of(p, ranks), BOTTOM);
        snprintf(text, sizeof text, "%.0f", ranks);
        if (tick % every == 0) put_label(c, x_of(p, ranks), BOTTOM + 20, "middle", text);
    }
    put_label(c, (p->left + p->right) / 2, BOTTOM + 42, "middle", "ranks");
}

// 1, 2, 5, 10, ... between the bounds; only powers of ten where there are many.
static void put_rate_axis(const chart *c) {
    const panel *p = &c->rate;
    double decades = log10(p->highest / p->lowest);
    for (double ten = pow(10, floor(log10(p->lowest))); ten <= p->highest; ten *= 10)
        for (int digit = 1; digit <= 5; digit += digit == 1 ? 1 : 3) {
            double value = ten * digit;
            char text[32];
            if (value < p->lowest || value > p->highest || (digit > 1 && decades > 3)) continue;
            snprintf(text, sizeof text, "%.10g", value);
            put_grid_line(c, p->left, y_of(p, value), p->right, y_of(p, value));
            put_label(c, p->left - 8, y_of(p, value) + 5, "end", text);
        }
    put_label(c, (p->left + p->right) / 2, TOP - 20, "middle", "images/s");
}

static void put_efficiency_axis(const chart *c) {
    const panel *p = &c->efficiency;
    for (int percent = 0; percent <= 120; percent += 20) {
        char text[16];
        snprintf(text, sizeof text, "%d %%", percent);
        put_grid_line(c, p->left, y_of(p, percent / 100.0), p->right, y_of(p, percent / 100.0));
        put_label(c, p->left - 8, y_of(p, percent / 100.0) + 5, "end", text);
    }
    put_label(c, (p->left + p->right) / 2, TOP - 20, "middle", "efficiency");
}

static void put_ideal(const chart *c, const series *s) {
    const panel *p = &c->rate;
    const int ranks = c->b->results[s->base].ranks;
    const double rate = rate_of(c, s->base);
    fprintf(c->file, "<line class=\"lsb-ideal\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x_of(p, ranks),
        y_of(p, rate), x_of(p, p->most_ranks), y_of(p, rate * p->most_ranks / ranks));
}

static double value_of(const chart *c, const panel *p, const series *s, int ranks, double efficiency) {
    return p == &c->rate ? efficiency * rate_of(c, s->base) * ranks / c->b->results[s->base].ranks : efficiency;
}

// From the base on; which: 0 ring, 1 tree. Ranks that share cores lie beside the curve, which supposes that none do.
static void put_curve(const chart *c, const panel *p, const series *s, int which) {
    const ls_bench_result *base = &c->b->results[s->base];
    int points = 0;
    for (int i = 0; i < c->b->prediction_count; i++) {
        const ls_bench_prediction *row = prediction_at(c, s, i);
        double efficiency = row ? which ? row->tree : row->ring : NAN;
        if (!isfinite(efficiency) || (row->result >= 0 && c->b->results[row->result].shared)) continue;
        if (points++ == 0)
            fprintf(c->file, "<polyline class=\"lsb-line\" stroke=\"%s\" stroke-dasharray=\"%s\" points=\"%.1f,%.1f ",
                s->color, which ? "9 4" : "2 4", x_of(p, base->ranks), y_of(p, value_of(c, p, s, base->ranks, 1)));
        fprintf(c->file, "%.1f,%.1f ", x_of(p, row->ranks), y_of(p, value_of(c, p, s, row->ranks, efficiency)));
    }
    if (points > 0) fputs("\"/>\n", c->file);
}

static void put_diamonds(const chart *c, const panel *p, const series *s) {
    for (int i = 0; i < c->b->prediction_count; i++) {
        const ls_bench_prediction *row = prediction_at(c, s, i);
        if (!row || row->result < 0 || !isfinite(row->efficiency)) continue;
        double x = x_of(p, row->ranks), y = y_of(p, value_of(c, p, s, row->ranks, row->efficiency));
        fprintf(
            c->file, "<path class=\"lsb-line\" stroke=\"%s\" d=\"M%.1f %.1fl7 7l-7 7l-7 -7z\"/>\n", s->color, x, y - 7);
    }
}

// A dot at the median, a bar from the lowest to the highest.
static void put_point(const chart *c, const panel *p, const series *s, int index) {
    const ls_bench_result *r = &c->b->results[index];
    ls_bench_figures f = ls_bench_figures_of(c->b->results, index);
    const ls_bench_spread *rate = &f.images_per_second;
    const double scale = p == &c->rate ? 1 : f.efficiency / rate->median;
    const double x = x_of(p, r->ranks);
    fprintf(c->file, "<line class=\"lsb-line\" stroke=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
        s->color, x, y_of(p, rate->lowest * scale), x, y_of(p, rate->highest * scale));
    fprintf(c->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" fill=\"%s\"><title>", x, y_of(p, rate->median * scale),
        s->color);
    ls_bench_escape(r->name, c->file);
    fprintf(c->file, ": %.1f images/s, %.1f to %.1f</title></circle>\n", rate->median, rate->lowest, rate->highest);
}

// Members in the order of their ranks, joined.
static void put_measured(const chart *c, const panel *p, const series *s) {
    int points = 0;
    for (int ranks = 1; ranks <= (int)p->most_ranks; ranks++)
        for (int i = 0; i < c->b->count; i++) {
            if (c->b->results[i].ranks != ranks || !belongs(c, s, i)) continue;
            ls_bench_figures f = ls_bench_figures_of(c->b->results, i);
            double value = p == &c->rate ? f.images_per_second.median : f.efficiency;
            if (points++ == 0) fprintf(c->file, "<polyline class=\"lsb-line\" stroke=\"%s\" points=\"", s->color);
            fprintf(c->file, "%.1f,%.1f ", x_of(p, ranks), y_of(p, value));
        }
    if (points > 0) fputs("\"/>\n", c->file);
    for (int i = 0; i < c->b->count; i++)
        if (belongs(c, s, i)) put_point(c, p, s, i);
}

static void put_legend(const chart *c) {
    static const struct {
        const char *dashes, *text;
    } lines[] = { { "", "measured: median, lowest to highest" }, { "2 4", "predicted, ring" },
        { "9 4", "predicted, tree" } };
    double y = LEGEND;
    for (int i = 0; i < c->count; i++, y += LEGEND_ROW) {
        fprintf(c->file, "<rect x=\"84\" y=\"%.1f\" width=\"26\" height=\"10\" rx=\"2\" fill=\"%s\"/>\n", y - 9,
            c->line[i].color);
        put_label(c, 120, y, "start", c->line[i].name);
    }
    y = LEGEND;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++, y += LEGEND_ROW) {
        fprintf(c->file,
            "<line class=\"lsb-key\" x1=\"576\" y1=\"%.1f\" x2=\"616\" y2=\"%.1f\" stroke-dasharray=\"%s\"/>\n", y - 4,
            y - 4, lines[i].dashes[0] ? lines[i].dashes : "none");
        put_label(c, 626, y, "start", lines[i].text);
    }
    fprintf(c->file, "<path class=\"lsb-key\" d=\"M596 %.1fl7 7l-7 7l-7 -7z\"/>\n", y - 11);
    put_label(c, 626, y, "start", "predicted for what was measured");
    y += LEGEND_ROW;
    fprintf(c->file, "<line class=\"lsb-ideal\" x1=\"576\" y1=\"%.1f\" x2=\"616\" y2=\"%.1f\"/>\n", y - 4, y - 4);
    put_label(c, 626, y, "start", "ideal");
}

static const char style[] =
    "<style>\n"
    ".lsb-back{fill:#ffffff}.lsb-text{fill:#1f2328;font:14px system-ui,sans-serif}.lsb-head{font-weight:600}\n"
    ".lsb-grid{stroke:#d8dde3;stroke-width:1}.lsb-ideal{stroke:#8b949e;stroke-width:1.5}\n"
    ".lsb-line{fill:none;stroke-width:2}.lsb-key{fill:none;stroke:#6e7781;stroke-width:2}\n"
    "@media (prefers-color-scheme: dark){.lsb-back{fill:#16181d}.lsb-text{fill:#dfe3e8}.lsb-grid{stroke:#30363d}"
    ".lsb-key{stroke:#9aa3ad}}\n"
    "</style>\n";

void ls_bench_chart_print(const ls_bench_findings *findings, FILE *file) {
    chart c = { .b = findings, .file = file };
    find_series(&c);
    find_ranges(&c);
    int rows = c.count > 5 ? c.count : 5, height = LEGEND + rows * LEGEND_ROW;
    fprintf(file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" "
        "aria-label=\"images per second and efficiency over the number of ranks\">\n%s"
        "<rect class=\"lsb-back\" width=\"%d\" height=\"%d\"/>\n",
        WIDTH, height, WIDTH, height, style, WIDTH, height);
    const panel *const panels[] = { &c.rate, &c.efficiency };
    put_rate_axis(&c);
    put_efficiency_axis(&c);
    for (int i = 0; i < 2; i++) put_x_axis(&c, panels[i]);
    fprintf(file, "<line class=\"lsb-ideal\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", c.efficiency.left,
        y_of(&c.efficiency, 1), c.efficiency.right, y_of(&c.efficiency, 1));
    for (int s = 0; s < c.count; s++) {
        put_ideal(&c, &c.line[s]);
        for (int i = 0; i < 2; i++) {
            put_curve(&c, panels[i], &c.line[s], 0);
            put_curve(&c, panels[i], &c.line[s], 1);
            put_diamonds(&c, panels[i], &c.line[s]);
            put_measured(&c, panels[i], &c.line[s]);
        }
    }
    put_legend(&c);
    fputs("</svg>\n", file);
}
