// cuda_plans - the plan matrix, without a GPU: cuDNN's plans of every convolution of every shipped network,
// at the batch sizes of the shipped configurations and at 512, in every precision, for described devices.
// The plans are made by the code that makes them on a GPU (src/device/cuda/cudnn_plans.c). Besides, which convolutions
// cuDNN's precompiled engines take together with batch norm and ReLU (fused_plans.h): a report, which nothing depends on.
// Started from the repository's root; exit status 1 after lines that say which plan is missing or not as it must be.
//
// A plan that can be made says nothing of its speed. Figures of the devices are published ones:
// what cuDNN reads of a real card may differ.
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "config/config.h"
#include "device/cuda/fused_plans.h"
#include "model/graph.h"
#include "support/shipped.h"

enum { BATCH_ALWAYS = 512, CASES_MAX = 512, SHAPES_MAX = 256, LAYER_BYTES = 32 };

typedef struct {
    const char *name;
    int version, multiprocessors, shared_optin, blocks, threads;
    int64_t memory;
    int clock_khz, memory_khz, l2;
    int half_mib; // workspace that 16-bit plans may have; more means that cuDNN copies into another layout
} device_row;

static const device_row devices[] = {
    { "H100", 900, 132, 232448, 32, 2048, 85520809984, 1980000, 2619000, 52428800, 32 },
    { "H200", 900, 132, 232448, 32, 2048, 150754820096, 1980000, 3201000, 62914560, 32 },
    { "A100", 800, 108, 166912, 32, 2048, 85031714816, 1410000, 1593000, 41943040, 32 },
    { "B200", 1000, 148, 232448, 32, 2048, 191514804224, 1965000, 3996000, 132120576, 32 },
    { "RTX 4090", 890, 128, 101376, 24, 1536, 25393692672, 2520000, 10501000, 75497472, 160 },
    { "T4", 750, 40, 65536, 16, 1024, 15828320256, 1590000, 5001000, 4194304, 160 },
};

static const struct {
    const char *name;
    ls_dtype storage;
    int tf32, tensor_cores; // tensor_cores: the first plan must have them (else: must not)
} precisions[] = {
    { "fp16", LS_F16, 0, 1 },
    { "bf16", LS_BF16, 0, 1 },
    { "tf32", LS_F32, 1, 1 },
    { "fp32", LS_F32, 0, 0 },
};

static const struct {
    ls_op op;
    const char *name;
} passes[] = {
    { LS_OP_CONV_FORWARD, "forward" },
    { LS_OP_CONV_BACKWARD_DATA, "backward data" },
    { LS_OP_CONV_BACKWARD_WEIGHT, "backward weight" },
};

typedef struct { // a network at a batch size
    char model[256];
    int batch;
} network_case;

typedef struct { // a convolution that occurs in it
    char layer[LAYER_BYTES];
    ls_conv_attr attr;
    int needs_input_grad;
} shape;

typedef struct { // a row of the printed table
    int plans, failures;
    size_t workspace;
} outcome;

static void stop(ls_status status) {
    fprintf(stderr, "%s\n", status.text);
    exit(1);
}

#define TRY(expr) \
    do { \
        ls_status status_ = (expr); \
        if (ls_failed(status_)) stop(status_); \
    } while (0)

static void describe(const device_row *d, char *json, size_t bytes) {
    snprintf(json, bytes,
        "{\"deviceVer\":%d,\"multiProcessorCount\":%d,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
        "\"maxSharedMemoryPerBlockOptin\":%d,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
        "\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,\"regsPerBlock\":65536,"
        "\"totalGlobalMem\":%lld,\"smClockRateKHz\":%d,\"memClockRateKHz\":%d,\"l2CacheSize\":%d,"
        "\"maxBlockSize\":[1024,1024,64],\"maxGridSize\":[2147483647,65535,65535],\"supportCoopLaunch\":1,"
        "\"pciDeviceId\":0,\"isTccDriver\":0,\"cudaDeviceId\":0,\"driverVer\":13000,\"deviceName\":\"%s\"}",
        d->version, d->multiprocessors, d->shared_optin, d->blocks, d->threads, (long long)d->memory, d->clock_khz,
        d->memory_khz, d->l2, d->name);
}

static void add_case(network_case *cases, int *count, const char *model, int batch) {
    for (int i = 0; i < *count; i++)
        if (strcmp(cases[i].model, model) == 0 && cases[i].batch == batch) return;
    if (*count == CASES_MAX || strlen(model) >= sizeof cases[0].model) {
        fprintf(stderr, "%s: too many networks or too long a name\n", model);
        exit(1);
    }
    strcpy(cases[*count].model, model);
    cases[(*count)++].batch = batch;
}

// Known networks are made for larger pictures and smaller batches than these.
static int is_known(const char *path) {
    static const char *const names[] = {
#define X(name, tensors, parameters, hash) "/" name ".ini",
#include "model/known_networks.def"
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(path, names[i])) return 1;
    return 0;
}

static int find_cases(network_case *cases) {
    int count = 0;
    glob_t files = { 0 };
    if (glob("configs/models/*.ini", 0, NULL, &files) == 0) {
        for (size_t i = 0; i < files.gl_pathc; i++)
            if (!is_known(files.gl_pathv[i])) add_case(cases, &count, files.gl_pathv[i], BATCH_ALWAYS);
        globfree(&files);
    }
    if (glob("configs/*.ini", 0, NULL, &files) == 0) {
        for (size_t i = 0; i < files.gl_pathc; i++) {
            ls_config cfg;
            char model[LS_TEXT_BYTES * 2];
            ls_config_defaults(&cfg);
            TRY(ls_config_read_file(&cfg, files.gl_pathv[i]));
            if (!cfg.model_file[0]) continue;
            TRY(ls_path_join(model, sizeof model, cfg.folder, cfg.model_file));
            int64_t batch = cfg.train_micro_batch > 0 ? cfg.train_micro_batch : cfg.train_global_batch;
            if (batch > BATCH_ALWAYS) batch = BATCH_ALWAYS; // what is derived of it
            add_case(cases, &count, model, (int)batch);
        }
        globfree(&files);
    }
    return count;
}

// The different convolutions of a network, for any storage type.
static int find_shapes(const network_case *of, shape *shapes) {
    ls_graph *graph = NULL;
    int count = 0;
    TRY(read_shipped(of->model, &graph));
    for (int i = 0; i < graph->layer_count; i++) {
        const ls_layer *layer = &graph->layers[i];
        if (layer->kind != LS_LAYER_CONV2D) continue;
        const ls_layer_conv2d *c = &layer->attr.conv2d;
        if (c->groups > 1 && c->groups == c->out_channels)
            continue; // depthwise: bound by memory, no use for tensor cores
        shape found = { .attr = { .src = ls_batch_of(of->batch, ls_graph_physical(graph, layer->inputs[0])),
                            .dst = ls_batch_of(of->batch, layer->physical),
                            .kernel_h = c->kernel.h,
                            .kernel_w = c->kernel.w,
                            .stride_h = c->stride.h,
                            .stride_w = c->stride.w,
                            .pad_h = c->padding.h,
                            .pad_w = c->padding.w,
                            .dilation = c->dilation,
                            .groups = c->groups },
            .needs_input_grad = layer->needs_input_grad };
        snprintf(found.layer, sizeof found.layer, "%.*s", LAYER_BYTES - 1, layer->name);
        int at = 0;
        while (at < count && memcmp(&shapes[at].attr, &found.attr, sizeof found.attr) != 0) at++;
        if (at < count) {
            shapes[at].needs_input_grad |= found.needs_input_grad;
        } else if (count < SHAPES_MAX) {
            shapes[count++] = found;
        }
    }
    ls_graph_free(graph);
    return count;
}

// What is wrong with the chosen plan, or NULL.
static const char *fault_of(const ls_cudnn_plans *plans, size_t limit, int tensor_cores) {
    if (plans->count == 0) return "no plan";
    const ls_cudnn_plan *first = &plans->plans[0];
    int has = (first->notes & 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != 0;
    if (first->notes & 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return "the plan is not deterministic";
    if (first->workspace > limit) return "the workspace is beyond the limit";
    if (tensor_cores && !has) return "the plan does without tensor cores";
    if (!tensor_cores && has) return "the plan rounds fp32 to TF32";
    return NULL;
}

static void plan_all(const ls_cudnn_target *target, const network_case *of, const shape *shapes, int count,
    const device_row *device, int precision, outcome *out) {
    int half = precisions[precision].storage != LS_F32;
    size_t limit = half ? (size_t)device->half_mib << 20 : target->workspace_limit;
    for (int i = 0; i < count; i++) {
        for (size_t p = 0; p < sizeof passes / sizeof passes[0]; p++) {
            if (passes[p].op == LS_OP_CONV_BACKWARD_DATA && !shapes[i].needs_input_grad) continue;
            ls_conv_attr attr = shapes[i].attr;
            attr.storage = precisions[precision].storage;
            ls_cudnn_plans plans;
            const ls_cudnn_request request = { passes[p].op, &attr, shapes[i].layer, .most = 1 };
            ls_status status = ls_cudnn_plans_make(target, &request, &plans);
            const char *fault =
                ls_failed(status) ? status.text : fault_of(&plans, limit, precisions[precision].tensor_cores);
            out->plans++;
            if (fault) {
                out->failures++;
                printf("FAILED: %s, batch %d, layer %s, %s, %s on %s: %s\n", of->model, of->batch, shapes[i].layer,
                    passes[p].name, precisions[precision].name, device->name, fault);
            } else if (plans.plans[0].workspace > out->workspace) {
                out->workspace = plans.plans[0].workspace;
            }
            if (!ls_failed(status)) ls_cudnn_plans_free(&plans);
        }
    }
}

static int plan_network(const network_case *of, const cudnnBackendDescriptor_t *described) {
    static shape shapes[SHAPES_MAX];
    int count = find_shapes(of, shapes), failures = 0;
    for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) {
        for (int p = 0; p < (int)(sizeof precisions / sizeof precisions[0]); p++) {
            if (devices[d].version < 10 * LS_CUDA_BF16 && (precisions[p].storage == LS_BF16 || precisions[p].tf32))
                continue;
            ls_cudnn_target target = {
                .described = described[d], .tf32 = precisions[p].tf32, .workspace_limit = LS_CUDA_WORKSPACE_LIMIT
            };
            outcome row = { 0 };
            plan_all(&target, of, shapes, count, &devices[d], p, &row);
            printf("%-28s %5d  %-8s  %-4s  %5d  %7d  %9.1f MiB\n", of->model, of->batch, devices[d].name,
                precisions[p].name, row.plans, row.failures, (double)row.workspace / (1 << 20));
            failures += row.failures;
        }
    }
    return failures;
}

// What timing relies on: all plans of a list keep to a limit that leaves out
// the first ones, and have names of their own.
static int check_lists(const network_case *of, cudnnBackendDescriptor_t described) {
    static shape shapes[SHAPES_MAX];
    char tags[LS_CUDNN_PLANS_MAX][LS_CUDNN_TAG_BYTES];
    int count = find_shapes(of, shapes), failures = 0, made = 0;
    ls_cudnn_target target = { .described = described, .workspace_limit = 1 << 20 };
    for (int i = 0; i < count; i++) {
        ls_cudnn_plans plans;
        const ls_cudnn_request request = { LS_OP_CONV_FORWARD, &shapes[i].attr, shapes[i].layer,
            .most = LS_CUDNN_PLANS_MAX };
        TRY(ls_cudnn_plans_make(&target, &request, &plans));
        made += plans.count;
        for (int p = 0; p < plans.count; p++) {
            const char *fault = plans.plans[p].workspace > target.workspace_limit ? "is beyond the limit" : NULL;
            ls_cudnn_plan_tag(&plans.plans[p], tags[p], sizeof tags[p]);
            for (int q = 0; q < p; q++)
                if (strcmp(tags[p], tags[q]) == 0) fault = "has the name of another";
            if (!fault) continue;
            failures++;
            printf("FAILED: %s, layer %s: plan %d (%s, %zu bytes) %s\n", of->model, shapes[i].layer, p, tags[p],
                plans.plans[p].workspace, fault);
        }
        ls_cudnn_plans_free(&plans);
    }
    if (made <= count) {
        failures++;
        printf("FAILED: %s: %d plans for %d layers: no lists to choose from\n", of->model, made, count);
    }
    return failures;
}

// --- convolutions planned together with batch norm and ReLU ---------------------------------------

enum { REASONS_MAX = 64 };

static struct {
    char text[sizeof(((fused_outcome *)NULL)->why)];
    int count;
} reasons[REASONS_MAX];
static int reason_count;

static int reason_of(const char *text) {
    int at = 0;
    while (at < reason_count && strcmp(reasons[at].text, text) != 0) at++;
    if (at == REASONS_MAX) return -1;
    if (at == reason_count) strcpy(reasons[reason_count++].text, text);
    reasons[at].count++;
    return at;
}

static void print_fused(const network_case *of, const device_row *device, cudnnBackendDescriptor_t described,
    const char *type_name, cudnnDataType_t type, const shape *shapes, int count) {
    for (int pattern = 0; pattern < FUSED_PATTERNS; pattern++) {
        size_t workspace = 0;
        int planned = 0, all = 0, varies = 0;
        char engines[64] = "", why[64] = "";
        for (int i = 0; i < count; i++) {
            fused_outcome o;
            char word[16];
            if (shapes[i].attr.groups > 1 || (pattern != FUSED_STATISTICS && !shapes[i].needs_input_grad)) continue;
            fused_plan(described, (fused_pattern)pattern, &shapes[i].attr, type, &o);
            all++;
            planned += o.plans > 0;
            if (o.plans > 0) {
                if (o.workspace > workspace) workspace = o.workspace;
                varies |= (o.notes & 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != 0;
                snprintf(word, sizeof word, " %lld", (long long)o.engine);
                if (!strstr(engines, word)) strncat(engines, word, sizeof engines - strlen(engines) - 1);
            } else {
                snprintf(word, sizeof word, " %d", reason_of(o.why) + 1);
                if (!strstr(why, word)) strncat(why, word, sizeof why - strlen(why) - 1);
            }
        }
        printf("%-28s %5d  %-8s  %-4s  %-21s  %3d of %3d  %6.1f MiB%s%s%s%s%s\n", of->model, of->batch, device->name,
            type_name, fused_name((fused_pattern)pattern), planned, all, (double)workspace / (1 << 20),
            engines[0] ? "  engine" : "", engines, varies ? ", not deterministic" : "", why[0] ? "  reason" : "", why);
    }
}

// Each network once, each generation of devices once. What bf16 lacks it lacks everywhere: one network shows it.
static void fuse_network(const network_case *of, int is_first, const cudnnBackendDescriptor_t *described) {
    static shape shapes[SHAPES_MAX];
    if (of->batch != BATCH_ALWAYS) return;
    const int count = find_shapes(of, shapes);
    for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) {
        if (d > 0 && devices[d].version == devices[d - 1].version) continue;
        print_fused(of, &devices[d], described[d], "fp16", CUDNN_DATA_HALF, shapes, count);
        if (is_first) print_fused(of, &devices[d], described[d], "bf16", CUDNN_DATA_BFLOAT16, shapes, count);
    }
}

int main(void) {
    static network_case cases[CASES_MAX];
    cudnnBackendDescriptor_t described[sizeof devices / sizeof devices[0]];
    double begin = ls_clock_seconds();
    int count = find_cases(cases), failures = 0;
    if (count == 0) {
        fprintf(stderr, "configs/models/*.ini: none; start this from the repository's root\n");
        return 1;
    }
    for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) {
        char json[2048];
        describe(&devices[d], json, sizeof json);
        TRY(ls_cudnn_describe(json, &described[d]));
    }
    printf("cuDNN %zu\n%-28s %5s  %-8s  %-4s  %5s  %7s  %s\n", cudnnGetVersion(), "network", "batch", "device", "type",
        "plans", "failed", "largest workspace");
    for (int i = 0; i < count; i++) failures += plan_network(&cases[i], described);
    for (int i = 0; i < count; i++) failures += check_lists(&cases[i], described[0]);
    for (int i = 0; i < count; i++) fuse_network(&cases[i], i == 0, described);
    for (int i = 0; i < reason_count; i++)
        printf("reason %d, %d times: %s\n", i + 1, reasons[i].count, reasons[i].text);
    for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) cudnnBackendDestroyDescriptor(described[d]);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%d failed; %.1f s, %ld MiB\n", failures, ls_clock_seconds() - begin, used.ru_maxrss / 1024);
    return failures != 0;
}
