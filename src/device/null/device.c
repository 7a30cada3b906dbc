// device.c - a device whose operators do nothing: what is left of a run's time is the host's own. Memory, copies
// and layouts are real, so that programs, checkpoints and reductions work on it.
#include <stdio.h>

#include "base/memory.h"
#include "device/host.h"

static ls_status null_open(const ls_device_options *options, ls_device **out) {
    (void)options;
    LS_TRY(LS_NEW(*out, 1, "null device"));
    (*out)->api = &ls_device_null;
    return LS_SUCCESS;
}

static void null_close(ls_device *device) {
    free(device);
}

static void null_info(const ls_device *device, ls_device_info *info) {
    (void)device;
    *info = (ls_device_info){ .name = "null: operators do nothing", .libraries = "none" };
}

static ls_status null_check_precision(const ls_device *device, ls_dtype storage) {
    (void)device;
    (void)storage;
    return LS_SUCCESS;
}

static void run_nothing(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)plan;
    (void)args;
    (void)workspace;
    (void)queue;
}

static ls_status null_plan_new(ls_device *device, const ls_op_desc *desc, ls_plan **out) {
    (void)device;
    LS_TRY(ls_op_check(desc));
    ls_plan *plan;
    LS_TRY(LS_NEW(plan, 1, "plan of %s", ls_op_name(desc->op)));
    *plan = (ls_plan){ .run = run_nothing, .desc = *desc, .algorithm = "nothing" };
    *out = plan;
    return LS_SUCCESS;
}

static void null_plan_free(ls_plan *plan) {
    free(plan);
}

const ls_device_api ls_device_null = {
    .abi = LS_DEVICE_ABI,
    .size = sizeof(ls_device_api),
    .name = "null",
    .open = null_open,
    .close = null_close,
    .info = null_info,
    .check_precision = null_check_precision,
    LS_HOST_MEMORY_ROWS,
    LS_HOST_LAYOUT_ROWS,
    .plan_new = null_plan_new,
    .plan_free = null_plan_free,
};
