#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <oneapi/dnnl/dnnl.h>
#include "base/memory.h"
#include "device/cpu/onednn.h"

struct ls_onednn {
    dnnl_engine_t engine;
    int threads;
    dnnl_stream_t *streams; // one for each thread
};

enum { CONV_MEMORIES = 5 }; // src, weight, scratch, dst, bias
typedef struct {
    dnnl_memory_t memory[CONV_MEMORIES];
    dnnl_exec_arg_t args[CONV_MEMORIES];
    int count;
} thread_args;

struct ls_onednn_conv {
    ls_onednn *onednn;
    dnnl_primitive_t primitive;
    char name[64];
    int exchanged;
    size_t scratch_bytes, arranged_bytes;
    thread_args *threads;
    dnnl_primitive_t arrange; // NULL: weights need no rearranging
    dnnl_memory_t plain, arranged;
};

static const char *explain(int rc) {
    static const char *const texts[] = { "success", "out of memory", "invalid arguments", "unimplemented",
        "last implementation reached", "runtime error", "not required" };
    return rc >= 0 && rc < (int)(sizeof texts / sizeof *texts) ? texts[rc] : "unknown status";
}
#define TRY_DNNL(call) LS_TRY_LIB(LS_DEVICE, explain, call)

// Sets OpenMP to one thread for the calling thread: oneDNN must neither plan for several threads nor start its own. The
// OpenMP runtime belongs to oneDNN, so its function is looked up rather than linked.
static void use_one_thread(void) {
    static _Thread_local int done;
    if (done) return;
    done = 1;
    union {
        void *symbol;
        void (*function)(int);
    } set_threads = { .symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads") };
    if (set_threads.symbol) set_threads.function(1);
}

static ls_status fill(ls_onednn *onednn) {
    onednn->streams = ls_new(onednn->threads, sizeof *onednn->streams, "oneDNN");
    TRY_DNNL(dnnl_engine_create(&onednn->engine, dnnl_cpu, 0));
    for (int i = 0; i < onednn->threads; i++)
        TRY_DNNL(dnnl_stream_create(&onednn->streams[i], onednn->engine, dnnl_stream_default_flags));
    return LS_SUCCESS;
}

ls_status ls_onednn_new(int threads, ls_onednn **out) {
    use_one_thread();
    ls_onednn *onednn = ls_new(1, sizeof *onednn, "oneDNN");
    onednn->threads = threads;
    ls_status status = fill(onednn);
    return LS_GIVE_OR_FREE(status, onednn, out, ls_onednn_free);
}

void ls_onednn_free(ls_onednn *onednn) {
    if (!onednn) return;
    for (int i = 0; onednn->streams && i < onednn->threads; i++)
        if (onednn->streams[i]) dnnl_stream_destroy(onednn->streams[i]);
    if (onednn->engine) dnnl_engine_destroy(onednn->engine);
    free(onednn->streams);
    free(onednn);
}

void ls_onednn_describe(char *text, size_t bytes) {
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, bytes, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

// The differences between the library's versions: descriptors of memory and of convolutions.
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t memory_desc;
typedef const_dnnl_memory_desc_t memory_desc_ref;
#define REF(desc) (desc)

static ls_status memory_desc_init(
    memory_desc *desc, int rank, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag) {
    TRY_DNNL(dnnl_memory_desc_create_with_tag(desc, rank, dims, type, tag));
    return LS_SUCCESS;
}
static void memory_desc_free(memory_desc *desc) {
    if (*desc) dnnl_memory_desc_destroy(*desc);
}
#else
typedef dnnl_memory_desc_t memory_desc;
typedef const dnnl_memory_desc_t *memory_desc_ref;
#define REF(desc) (&(desc))

static ls_status memory_desc_init(
    memory_desc *desc, int rank, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag) {
    TRY_DNNL(dnnl_memory_desc_init_by_tag(desc, rank, dims, type, tag));
    return LS_SUCCESS;
}
static void memory_desc_free(memory_desc *desc) {
    (void)desc;
}
#endif

typedef struct {
    memory_desc src, weight, bias, dst;
    dnnl_dims_t strides, dilates, pads;
} conv_descs;

static dnnl_format_tag_t weight_tag(const ls_onednn_conv_attr *attr, int exchanged) {
    if (attr->groups > 1) {
        if (exchanged) return attr->block == 8 ? dnnl_gOIhw8o8i : dnnl_gOIhw16o16i;
        return attr->block == 8 ? dnnl_gOIhw8i8o : dnnl_gOIhw16i16o;
    }
    if (exchanged) return attr->block == 8 ? dnnl_OIhw8o8i : dnnl_OIhw16o16i;
    return attr->block == 8 ? dnnl_OIhw8i8o : dnnl_OIhw16i16o;
}

static int is_bf16(const ls_onednn_conv_attr *a) {
    return a->storage == LS_BF16;
}

static dnnl_data_type_t type_of(const ls_onednn_conv_attr *a) {
    return is_bf16(a) ? dnnl_bf16 : dnnl_f32;
}

// Describes the weights to oneDNN: [K][C][R][S], with groups [group][K/groups][C/groups][R][S].
static ls_status weight_desc_init(
    const ls_onednn_conv_attr *a, dnnl_data_type_t type, dnnl_format_tag_t tag, memory_desc *desc) {
    const dnnl_dims_t dims = { a->groups, a->dst_channels / a->groups, a->src_channels / a->groups, a->kernel[0],
        a->kernel[1] };
    const int grouped = a->groups > 1;
    return memory_desc_init(desc, 4 + grouped, dims + !grouped, type, tag);
}

static ls_status conv_descs_init(const ls_onednn_conv_attr *a, int exchanged, conv_descs *d) {
    dnnl_format_tag_t blocked = a->block == 8 ? dnnl_nChw8c : dnnl_nChw16c;
    const dnnl_data_type_t type = type_of(a);
    const int arranged = is_bf16(a) && a->pass != LS_ONEDNN_BACKWARD_WEIGHT;
    LS_TRY(memory_desc_init(&d->src, 4, (dnnl_dims_t){ a->samples, a->src_channels, a->h, a->w }, type, blocked));
    LS_TRY(weight_desc_init(
        a, arranged ? dnnl_bf16 : dnnl_f32, arranged ? dnnl_format_tag_any : weight_tag(a, exchanged), &d->weight));
    LS_TRY(memory_desc_init(&d->bias, 1, (dnnl_dims_t){ a->dst_channels }, dnnl_f32, dnnl_a));
    LS_TRY(memory_desc_init(&d->dst, 4, (dnnl_dims_t){ a->samples, a->dst_channels, a->p, a->q }, type, blocked));
    for (int i = 0; i < 2; i++) {
        d->strides[i] = a->stride[i];
        d->dilates[i] = a->dilation - 1;
        d->pads[i] = a->pad[i];
    }
    return LS_SUCCESS;
}

static void conv_descs_free(conv_descs *d) {
    memory_desc_free(&d->src);
    memory_desc_free(&d->weight);
    memory_desc_free(&d->bias);
    memory_desc_free(&d->dst);
}

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t primitive_desc_new(ls_onednn *onednn, const ls_onednn_conv_attr *a, const conv_descs *d,
    const_dnnl_primitive_attr_t options, dnnl_primitive_desc_t *out) {
    memory_desc_ref bias = a->has_bias ? d->bias : NULL;
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    if (a->pass == LS_ONEDNN_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(out, onednn->engine, dnnl_forward_training, direct,
            d->src, d->weight, bias, d->dst, d->strides, d->dilates, d->pads, d->pads, options);
    if (a->pass == LS_ONEDNN_BACKWARD_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(out, onednn->engine, direct, d->src, d->weight,
            d->dst, d->strides, d->dilates, d->pads, d->pads, NULL, options);
    return dnnl_convolution_backward_weights_primitive_desc_create(out, onednn->engine, direct, d->src, d->weight, bias,
        d->dst, d->strides, d->dilates, d->pads, d->pads, NULL, options);
}
#else
static dnnl_status_t primitive_desc_new(ls_onednn *onednn, const ls_onednn_conv_attr *a, const conv_descs *d,
    const_dnnl_primitive_attr_t options, dnnl_primitive_desc_t *out) {
    memory_desc_ref bias = a->has_bias ? &d->bias : NULL;
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_convolution_desc_t desc;
    dnnl_status_t rc;
    if (a->pass == LS_ONEDNN_FORWARD)
        rc = dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_training, direct, &d->src, &d->weight, bias,
            &d->dst, d->strides, d->dilates, d->pads, d->pads);
    else if (a->pass == LS_ONEDNN_BACKWARD_DATA)
        rc = dnnl_dilated_convolution_backward_data_desc_init(
            &desc, direct, &d->src, &d->weight, &d->dst, d->strides, d->dilates, d->pads, d->pads);
    else
        rc = dnnl_dilated_convolution_backward_weights_desc_init(
            &desc, direct, &d->src, &d->weight, bias, &d->dst, d->strides, d->dilates, d->pads, d->pads);
    return rc == dnnl_success ? dnnl_primitive_desc_create(out, &desc, options, onednn->engine, NULL) : rc;
}
#endif

// Generated code is named jit:... or brg...; other code (ref, gemm) is slow on these layouts or needs other layouts.
static ls_status is_fast(const_dnnl_primitive_desc_t desc, char name[64], int *fast) {
    const char *text = "";
    TRY_DNNL(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &text));
    snprintf(name, 64, "onednn %s", text);
    *fast = strncmp(text, "jit", 3) == 0 || strncmp(text, "brg", 3) == 0;
    return LS_SUCCESS;
}

static ls_status add_memory(ls_onednn_conv *conv, thread_args *t, int argument, memory_desc_ref desc) {
    TRY_DNNL(dnnl_memory_create(&t->memory[t->count], desc, conv->onednn->engine, DNNL_MEMORY_NONE));
    t->args[t->count] = (dnnl_exec_arg_t){ argument, t->memory[t->count] };
    t->count++;
    return LS_SUCCESS;
}

// Makes the memory objects of each thread, in the order of CONV_MEMORIES. ls_onednn_conv_run sets their addresses.
static ls_status add_memories(ls_onednn_conv *conv, const ls_onednn_conv_attr *a, const conv_descs *d,
    memory_desc_ref weight, memory_desc_ref scratch) {
    static const int arguments[][4] = {
        [LS_ONEDNN_FORWARD] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST },
        [LS_ONEDNN_BACKWARD_DATA] = { DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST },
        [LS_ONEDNN_BACKWARD_WEIGHT] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST },
    };
    const int *argument = arguments[a->pass];
    conv->threads = ls_new(conv->onednn->threads, sizeof *conv->threads, "oneDNN convolution");
    for (int i = 0; i < conv->onednn->threads; i++) {
        thread_args *t = &conv->threads[i];
        LS_TRY(add_memory(conv, t, argument[0], REF(d->src)));
        LS_TRY(add_memory(conv, t, argument[1], weight));
        LS_TRY(add_memory(conv, t, DNNL_ARG_SCRATCHPAD, scratch));
        LS_TRY(add_memory(conv, t, argument[3], REF(d->dst)));
        if (a->has_bias) LS_TRY(add_memory(conv, t, argument[2], REF(d->bias)));
    }
    return LS_SUCCESS;
}

// Makes the primitive that converts weights to the layout that the library chose.
static ls_status arrange_new(ls_onednn_conv *conv, memory_desc_ref plain, memory_desc_ref arranged) {
    dnnl_primitive_desc_t desc = NULL;
    TRY_DNNL(dnnl_memory_create(&conv->plain, plain, conv->onednn->engine, DNNL_MEMORY_NONE));
    TRY_DNNL(dnnl_memory_create(&conv->arranged, arranged, conv->onednn->engine, DNNL_MEMORY_NONE));
    TRY_DNNL(
        dnnl_reorder_primitive_desc_create(&desc, plain, conv->onednn->engine, arranged, conv->onednn->engine, NULL));
    const dnnl_status_t rc = dnnl_primitive_create(&conv->arrange, desc);
    dnnl_primitive_desc_destroy(desc);
    conv->arranged_bytes = dnnl_memory_desc_get_size(arranged);
    return rc == dnnl_success ? LS_SUCCESS : ls_fail(LS_DEVICE, "oneDNN's reorder: %s (%d)", explain((int)rc), (int)rc);
}

static ls_status conv_fill(
    ls_onednn_conv *conv, const ls_onednn_conv_attr *a, const conv_descs *d, dnnl_primitive_desc_t desc) {
    const int arranged = is_bf16(a) && a->pass != LS_ONEDNN_BACKWARD_WEIGHT;
    memory_desc_ref scratch = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    memory_desc_ref weight = arranged ? dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0) : REF(d->weight);
    conv->scratch_bytes = dnnl_memory_desc_get_size(scratch);
    LS_TRY(add_memories(conv, a, d, weight, scratch));
    TRY_DNNL(dnnl_primitive_create(&conv->primitive, desc));
    if (!arranged) return LS_SUCCESS;
    memory_desc plain = { 0 };
    LS_TRY(weight_desc_init(a, dnnl_bf16, weight_tag(a, 0), &plain));
    const ls_status status = arrange_new(conv, REF(plain), weight);
    memory_desc_free(&plain);
    return status;
}

static ls_status make_options(dnnl_primitive_attr_t *options) {
    TRY_DNNL(dnnl_primitive_attr_create(options));
    TRY_DNNL(dnnl_primitive_attr_set_scratchpad_mode(*options, dnnl_scratchpad_mode_user));
    return LS_SUCCESS;
}

// Tries one weight layout. *out stays NULL if there is no fast code for it.
static ls_status try_layout(ls_onednn *onednn, const ls_onednn_conv_attr *a, int exchanged, ls_onednn_conv **out) {
    ls_status status;
    conv_descs d = { 0 };
    dnnl_primitive_attr_t options = NULL;
    dnnl_primitive_desc_t desc = NULL;
    char name[64];
    int fast = 0;
    LS_TRY_GOTO(conv_descs_init(a, exchanged, &d));
    LS_TRY_GOTO(make_options(&options));
    dnnl_status_t rc = primitive_desc_new(onednn, a, &d, options, &desc);
    if (rc == dnnl_unimplemented || rc == dnnl_invalid_arguments) goto done;
    if (rc != dnnl_success) {
        status = ls_fail(LS_DEVICE, "oneDNN's convolution: %s (%d)", explain((int)rc), (int)rc);
        goto done;
    }
    LS_TRY_GOTO(is_fast(desc, name, &fast));
    if (!fast) goto done;
    ls_onednn_conv *conv = ls_new(1, sizeof *conv, "oneDNN convolution");
    conv->onednn = onednn;
    conv->exchanged = exchanged;
    memcpy(conv->name, name, sizeof name);
    status = conv_fill(conv, a, &d, desc);
    if (ls_failed(status))
        ls_onednn_conv_free(conv);
    else
        *out = conv;
done:
    if (desc) dnnl_primitive_desc_destroy(desc);
    if (options) dnnl_primitive_attr_destroy(options);
    conv_descs_free(&d);
    return status;
}

ls_status ls_onednn_conv_new(ls_onednn *onednn, const ls_onednn_conv_attr *attr, ls_onednn_conv **out) {
    use_one_thread();
    *out = NULL;
    LS_TRY(try_layout(onednn, attr, 0, out));
    if (!*out && attr->pass == LS_ONEDNN_BACKWARD_DATA) LS_TRY(try_layout(onednn, attr, 1, out));
    return LS_SUCCESS;
}

void ls_onednn_conv_free(ls_onednn_conv *conv) {
    if (!conv) return;
    for (int i = 0; conv->threads && i < conv->onednn->threads; i++)
        for (int j = 0; j < conv->threads[i].count; j++) dnnl_memory_destroy(conv->threads[i].memory[j]);
    if (conv->primitive) dnnl_primitive_destroy(conv->primitive);
    if (conv->arrange) dnnl_primitive_destroy(conv->arrange);
    if (conv->plain) dnnl_memory_destroy(conv->plain);
    if (conv->arranged) dnnl_memory_destroy(conv->arranged);
    free(conv->threads);
    free(conv);
}

const char *ls_onednn_conv_name(const ls_onednn_conv *conv) {
    return conv->name;
}

int ls_onednn_conv_exchanged(const ls_onednn_conv *conv) {
    return conv->exchanged;
}

size_t ls_onednn_conv_scratch_bytes(const ls_onednn_conv *conv) {
    return conv->scratch_bytes;
}

size_t ls_onednn_conv_arranged_bytes(const ls_onednn_conv *conv) {
    return conv->arranged_bytes;
}

ls_status ls_onednn_conv_arrange(const ls_onednn_conv *conv, const void *weight, void *arranged) {
    ls_allocation_of_library(1);
    use_one_thread();
    const dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, conv->plain }, { DNNL_ARG_TO, conv->arranged } };
    int rc = dnnl_memory_set_data_handle(conv->plain, (void *)(uintptr_t)weight);
    if (rc == dnnl_success) rc = dnnl_memory_set_data_handle(conv->arranged, arranged);
    if (rc == dnnl_success) rc = dnnl_primitive_execute(conv->arrange, conv->onednn->streams[0], 2, args);
    ls_allocation_of_library(0);
    return rc == dnnl_success ? LS_SUCCESS : ls_fail(LS_DEVICE, "oneDNN's reorder: %s (%d)", explain(rc), rc);
}

int ls_onednn_conv_alike(const ls_onednn_conv *a, const ls_onednn_conv *b) {
    if (a->exchanged != b->exchanged || !a->arrange != !b->arrange) return 0;
    if (!a->arrange) return 1;
    memory_desc_ref of_a = NULL, of_b = NULL;
    dnnl_memory_get_memory_desc(a->arranged, &of_a);
    dnnl_memory_get_memory_desc(b->arranged, &of_b);
    return dnnl_memory_desc_equal(of_a, of_b);
}

ls_status ls_onednn_conv_run(const ls_onednn_conv *conv, int thread, const ls_onednn_conv_args *args) {
    ls_allocation_of_library(1);
    use_one_thread();
    thread_args *t = &conv->threads[thread];
    void *address[CONV_MEMORIES] = { args->src, args->weight, args->scratch, args->dst, args->bias };
    int rc = dnnl_success;
    const char *call = "dnnl_memory_set_data_handle";
    for (int i = 0; rc == dnnl_success && i < t->count; i++) rc = dnnl_memory_set_data_handle(t->memory[i], address[i]);
    if (rc == dnnl_success) {
        call = "dnnl_primitive_execute";
        rc = dnnl_primitive_execute(conv->primitive, conv->onednn->streams[thread], t->count, t->args);
    }
    ls_allocation_of_library(0);
    return rc == dnnl_success ? LS_SUCCESS : ls_fail(LS_DEVICE, "%s: %s (%d)", call, explain(rc), rc);
}
