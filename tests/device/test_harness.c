// The harness finds what it is there to find: a device that is the reference with one fault at a time must fail.
#include "op_harness.h"
#include "ref_device.h"
#include "support/cmocka.h"

typedef enum {
    NO_FAULT,
    ONE_VALUE_OFF,
    OVERWRITES_SUMS,
    WRITES_BEYOND,
    CHANGES_INPUT,
    READS_WORKSPACE,
    LEAVES_POISON
} fault;

static fault current_fault; // of the device below; tests run one after another
static ls_device faulty;
static ls_device_api faulty_api;

typedef struct {
    ls_plan plan;
    ls_plan *inner;
} faulty_plan;

static ls_buffer last_output(const ls_plan *plan, const ls_buffer *args) {
    int arg = ls_op_args(plan->desc.op) - 1;
    if (plan->desc.op == LS_OP_POOL_FORWARD) return args[LS_POOL_FORWARD_DST]; // not the index
    while (!args[arg].slab) arg--;
    return args[arg];
}

static void run_faulty(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const faulty_plan *outer = (const faulty_plan *)plan;
    ls_buffer out = last_output(plan, args);
    float *values = ls_buffer_host(out), *input = ls_buffer_host(args[0]);
    float kept = values[0];
    if (current_fault == OVERWRITES_SUMS) values[0] = 0;
    outer->inner->run(outer->inner, args, workspace, queue);
    switch (current_fault) {
    case ONE_VALUE_OFF:
        values[out.bytes / sizeof(float) - 1] += 0.01F;
        break;
    case WRITES_BEYOND:
        values[out.bytes / sizeof(float)] = 1;
        break;
    case CHANGES_INPUT:
        input[0] += 1;
        break;
    case READS_WORKSPACE:
        values[0] += ((float *)ls_buffer_host(workspace))[workspace.bytes / sizeof(float) - 1];
        break;
    case LEAVES_POISON:
        values[0] = kept;
        break;
    default:
        break;
    }
}

static ls_status faulty_plan_new(ls_device *device, const ls_op_desc *desc, ls_plan **out) {
    (void)device;
    faulty_plan *plan = case_memory(sizeof *plan);
    ls_status status = ref->api->plan_new(ref, desc, &plan->inner);
    if (ls_failed(status)) {
        free(plan);
        return status;
    }
    plan->plan = *plan->inner;
    plan->plan.run = run_faulty;
    plan->plan.workspace_bytes += sizeof(float); // a word more, which nothing writes
    *out = &plan->plan;
    return LS_SUCCESS;
}

static void faulty_plan_free(ls_plan *plan) {
    ref->api->plan_free(((faulty_plan *)plan)->inner);
    free(plan);
}

static const struct {
    fault fault;
    const char *only;
} rows[] = {
    { NO_FAULT, "1x1 map, padded" },
    { ONE_VALUE_OFF, "conv forward: 1x1 map, padded" },
    { ONE_VALUE_OFF, "batch norm forward: odd channels" },
    { OVERWRITES_SUMS, "conv backward weight: stride 3" },
    { WRITES_BEYOND, "relu forward: odd (" },
    { CHANGES_INPUT, "linear backward data: odd map" },
    { READS_WORKSPACE, "add: odd (" },
    { LEAVES_POISON, "pool forward: 2x2 padded" },
};

static void every_fault_is_found(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        current_fault = rows[i].fault;
        int failed = ls_ops_compare(ref, &faulty, (ls_ops_options){ .storage = LS_F32, .only = rows[i].only });
        if ((failed > 0) != (current_fault != NO_FAULT))
            fail_msg("fault %d in %s: %d cases failed", rows[i].fault, rows[i].only, failed);
    }
}

// A layout with padding: one element more for every activation, which the operators do not know and so leave as it was.
static size_t padded_bytes(const ls_device *device, ls_nchw shape, ls_dtype storage) {
    return ref->api->activation_bytes(device, shape, storage) + sizeof(float);
}

static void padded_import(ls_device *device, ls_nchw shape, ls_dtype storage, const float *host, ls_buffer dst) {
    ref->api->activation_import(device, shape, storage, host, dst);
    ((float *)ls_buffer_host(dst))[ls_nchw_count(shape)] = 0;
}

static void padding_that_is_not_zero_is_found(void **unused) {
    (void)unused;
    current_fault = NO_FAULT;
    faulty_api.activation_bytes = padded_bytes;
    faulty_api.activation_import = padded_import;
    int failed = ls_ops_compare(ref, &faulty, (ls_ops_options){ .storage = LS_F32, .only = "relu forward: odd (" });
    faulty_api.activation_bytes = ref->api->activation_bytes;
    faulty_api.activation_import = ref->api->activation_import;
    assert_int_equal(failed, 1);
}

static void comparing_nothing_is_a_failure(void **unused) {
    (void)unused;
    assert_int_equal(ls_ops_compare(ref, ref, (ls_ops_options){ .storage = LS_F32, .only = "no such case" }), 1);
}

static int open_both(void **unused) {
    (void)unused;
    if (ls_failed(ls_device_open("ref", &(ls_device_options){ .threads = 1 }, &ref, NULL))) return 1;
    faulty_api = *ref->api;
    faulty_api.name = "faulty";
    faulty_api.plan_new = faulty_plan_new;
    faulty_api.plan_free = faulty_plan_free;
    faulty.api = &faulty_api;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_is_found),
        cmocka_unit_test(padding_that_is_not_zero_is_found),
        cmocka_unit_test(comparing_nothing_is_a_failure),
    };
    return cmocka_run_group_tests(tests, open_both, close_ref);
}
