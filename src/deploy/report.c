#include "deploy/report.h"

#include <string.h>
#include "base/text.h"

// Estimated cycles of the kernels' loops, by processor. dense: of a multiplication in a convolution or linear layer;
// depthwise: of one in a depthwise convolution, or of an element of a pooling window; output: of each number of an
// output (rescaling and activation, or the work of other steps).
typedef struct {
    const char *name;
    struct {
        double dense, depthwise, output;
    } floats, integers;
} processor;

static const processor processors[] = {
    { "Cortex-M4", { 7, 9, 12 }, { 5, 9, 40 } },
    { "Cortex-M7", { 3.5, 5, 7 }, { 2.5, 5, 22 } },
    { "Cortex-M55", { 1.5, 2, 5 }, { 0.75, 2, 15 } },
};
enum { PROCESSORS = sizeof processors / sizeof *processors };

static double cycles_of(const ls_network *n, const ls_step *s, const processor *p) {
    const int depthwise = s->kind == LS_STEP_DEPTHWISE,
              pool = s->kind == LS_STEP_MAX_POOL || s->kind == LS_STEP_MEAN_POOL;
    const double numbers = (double)s->floats.w.out_c * s->floats.w.out_h * s->floats.w.out_w;
    const double each = n->integer ? (depthwise || pool ? p->integers.depthwise : p->integers.dense)
                                   : (depthwise || pool ? p->floats.depthwise : p->floats.dense);
    double products = (double)s->multiplications;
    if (pool) products = numbers * s->floats.w.kernel_h * s->floats.w.kernel_w; // elements of the windows
    return products * each + numbers * (n->integer ? p->integers.output : p->floats.output);
}

static void print_step(const ls_network *n, int index, FILE *file) {
    const ls_step *s = &n->steps[index];
    char shape[48];
    snprintf(shape, sizeof shape, "%dx%dx%d", s->floats.w.out_c, s->floats.w.out_h, s->floats.w.out_w);
    ls_text_print(file, s->name);
    fprintf(file, "%*s%-12s %14lld %12lld %12lld%s\n", (int)(strlen(s->name) < 24 ? 25 - strlen(s->name) : 1), "",
        shape, (long long)s->multiplications, (long long)ls_step_constant_bytes(n, s), (long long)s->ram_bytes,
        index == n->peak_step ? "  <- most" : "");
}

void ls_deploy_report(const ls_network *n, FILE *file) {
    fprintf(file, "%-25s%-12s %14s %12s %12s\n", "layer", "output", "multiplications", "flash bytes", "RAM in use");
    for (int i = 0; i < n->step_count; i++) print_step(n, i, file);
    fprintf(
        file, "\nflash             %lld bytes of constants, and the code\n", (long long)ls_network_constant_bytes(n));
    fprintf(file, "RAM               %lld bytes of buffers, and a small stack; layer '",
        (long long)ls_network_slab_bytes(n));
    ls_text_print(file, n->steps[n->peak_step].name);
    fprintf(file, "' needs the most\nmultiplications   %lld\n", (long long)ls_network_multiplications(n));
    for (int p = 0; p < PROCESSORS; p++) {
        double cycles = 0;
        for (int i = 0; i < n->step_count; i++) cycles += cycles_of(n, &n->steps[i], &processors[p]);
        fprintf(file, "%-17s about %.0f million cycles (an estimate: docs/deploy.md)\n", processors[p].name,
            cycles < 1e7 ? cycles / 1e6 + 0.5 : cycles / 1e6);
    }
}
