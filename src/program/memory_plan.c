#include "program/memory_plan.h"

#include "base/memory.h"
#include "base/text.h"

// Device memory that the plan does not list: kernels and graph recordings that load at first use, and the driver's
// rounding. The reserve is 1/RESERVE_SHARE of the device's memory, at most RESERVE_MOST bytes.
static const size_t RESERVE_MOST = (size_t)256 << 20, RESERVE_SHARE = 32;

ls_status ls_memory_plan_look(ls_memory_plan *plan, ls_device *device) {
    plan->own_memory = device->api->memory != NULL;
    if (!plan->own_memory) return LS_SUCCESS;
    size_t all;
    LS_TRY(device->api->memory(device, &plan->free_bytes, &all));
    plan->reserve = all / RESERVE_SHARE < RESERVE_MOST ? all / RESERVE_SHARE : RESERVE_MOST;
    return LS_SUCCESS;
}

size_t ls_memory_plan_bytes(const ls_memory_plan *p) {
    return p->weights + p->teacher + p->gradients + p->optimizer + p->activations + p->workspace + p->inputs +
           p->control + (p->own_memory ? 0 : p->ring);
}

int ls_memory_plan_fits(const ls_memory_plan *p) {
    return !p->own_memory || ls_memory_plan_bytes(p) + p->reserve <= p->free_bytes;
}

static void print_row(FILE *file, const char *what, size_t bytes) {
    char text[32];
    fprintf(file, "  %-28s %12s\n", what, ls_text_bytes(text, bytes));
}

void ls_memory_plan_print(const ls_memory_plan *p, FILE *file) {
    fprintf(file, "memory of one rank\n");
    print_row(file, "weights", p->weights);
    if (p->teacher) print_row(file, "teacher's weights", p->teacher);
    print_row(file, "gradients", p->gradients);
    print_row(file, "optimizer state", p->optimizer);
    print_row(file, "activations", p->activations);
    print_row(file, "workspace", p->workspace);
    if (p->inputs) print_row(file, "input slots", p->inputs);
    if (p->control) print_row(file, "control", p->control);
    if (!p->own_memory) print_row(file, "prefetch ring", p->ring);
    print_row(file, "total", ls_memory_plan_bytes(p));
    if (!p->own_memory) return;
    print_row(file, "kept for the driver", p->reserve);
    print_row(file, "free on the device", p->free_bytes);
    if (p->ring) print_row(file, "prefetch ring (host memory)", p->ring);
}

// Prints the remedies that this configuration does not use yet, such as "use train.recompute = blocks or
// train.precision = bf16; or stop what else uses this device".
static void say_remedies(FILE *file, const ls_config *cfg, int micro_batch) {
    const char *remedies[4];
    int count = 0;
    if (!cfg) {
        fprintf(file, "use device.type = cpu; or stop what else uses this device");
        return;
    }
    if (micro_batch > 1 && cfg->train_micro_batch != LS_AUTO)
        remedies[count++] = "a smaller train.micro_batch (auto chooses one)";
    if (cfg->train_recompute == LS_RECOMPUTE_OFF) remedies[count++] = "train.recompute = blocks";
    if (cfg->train_precision == LS_PRECISION_FP32) remedies[count++] = "train.precision = bf16";
    if (cfg->data_loader == LS_LOADER_RESIDENT) remedies[count++] = "data.loader = stream";
    fprintf(file, "use ");
    for (int i = 0; i < count; i++) fprintf(file, "%s%s", i == 0 ? "" : i < count - 1 ? ", " : " or ", remedies[i]);
    fprintf(file, "%sstop what else uses this device", count ? "; or " : "a smaller network, or ");
}

ls_status ls_memory_plan_refuse(const ls_memory_plan *p, const ls_config *cfg, int micro_batch) {
    char *text = NULL, needs[32], unused[32], reserve[32];
    size_t bytes = 0;
    FILE *file = ls_text_stream(&text, &bytes);
    fprintf(file,
        "the %s does not fit into the device's memory: with micro-batches of %d it needs %s, and of %s that are "
        "free %s are kept for the driver\n",
        cfg ? "run" : "network", micro_batch, ls_text_bytes(needs, ls_memory_plan_bytes(p)),
        ls_text_bytes(unused, p->free_bytes), ls_text_bytes(reserve, p->reserve));
    ls_memory_plan_print(p, file);
    say_remedies(file, cfg, micro_batch);
    ls_text_stream_close(file);
    ls_status status = ls_fail(LS_DEVICE, "%s", text);
    free(text);
    return status;
}
