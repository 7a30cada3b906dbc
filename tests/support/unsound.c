// unsound.c - linked into train_unsound: the program on a machine that computes, sums or stores wrongly, to see that
// `train doctor` notices. The linker's --wrap (cmake/lockstep.cmake) sends calls of these functions through here.
//
// Environment
//   LOCKSTEP_TEST_UNSOUND   what is wrong: the name of an operator ("conv forward": its first 16 output values are doubled
//                           on any device but ref), "allreduce", "disk" (a byte of a checkpoint's file), "memory"
//                           (a value that was read back)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dist/device_assignment.h"
#include "run/checkpoint.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" // __wrap_NAME is called as NAME

static int is_unsound(const char *what) {
    const char *text = getenv("LOCKSTEP_TEST_UNSOUND");
    return text && strcmp(text, what) == 0;
}

enum { PLANS_MAX = 64 };
static ls_device_api device_api; // the device's own, but for plan_new
static ls_status (*sound_plan_new)(ls_device *device, const ls_op_desc *desc, ls_plan **out);
static struct {
    const ls_plan *plan;
    void (*run)(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue);
} sound[PLANS_MAX];
static int plans;

static void run_wrongly(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    for (int i = plans - 1; i >= 0; i--) {
        if (sound[i].plan != plan) continue;
        sound[i].run(plan, args, workspace, queue);
        break;
    }
    for (int i = ls_op_args(plan->desc.op) - 1; i >= 0; i--) {
        float *values = ls_buffer_host(args[i]);
        if (!values || args[i].bytes < 64 || values[0] == 0) continue;
        for (int k = 0; k < 16; k++) values[k] *= 2;
        return;
    }
}

static ls_status plan_new_wrongly(ls_device *device, const ls_op_desc *desc, ls_plan **out) {
    LS_TRY(sound_plan_new(device, desc, out));
    if (!is_unsound(ls_op_name(desc->op)) || plans == PLANS_MAX) return LS_SUCCESS;
    sound[plans].plan = *out;
    sound[plans++].run = (*out)->run;
    (*out)->run = run_wrongly;
    return LS_SUCCESS;
}

ls_status __real_ls_device_assignment_open(
    ls_device_assignment *assignment, ls_comm *comm, const ls_device_options *options, ls_device **out);
ls_status __wrap_ls_device_assignment_open(
    ls_device_assignment *assignment, ls_comm *comm, const ls_device_options *options, ls_device **out) {
    LS_TRY(__real_ls_device_assignment_open(assignment, comm, options, out));
    if (strcmp((*out)->api->name, "ref") == 0) return LS_SUCCESS;
    device_api = *(*out)->api;
    sound_plan_new = device_api.plan_new;
    device_api.plan_new = plan_new_wrongly;
    (*out)->api = &device_api;
    return LS_SUCCESS;
}

ls_status __real_ls_comm_allreduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduce op);
ls_status __wrap_ls_comm_allreduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduce op) {
    LS_TRY(__real_ls_comm_allreduce(comm, data, count, dtype, op));
    if (is_unsound("allreduce") && dtype == LS_F32) ((float *)data)[count / 2] += 1;
    return LS_SUCCESS;
}

ls_status __real_ls_checkpoint_read(const char *path, ls_checkpoint **out);
ls_status __wrap_ls_checkpoint_read(const char *path, ls_checkpoint **out) {
    char name[4096];
    snprintf(name, sizeof name, "%s/weights.safetensors", path);
    FILE *file = is_unsound("disk") ? fopen(name, "r+") : NULL;
    if (file && (fseek(file, -7, SEEK_END) != 0 || fputc('x', file) == EOF)) abort();
    if (file) fclose(file);
    return __real_ls_checkpoint_read(path, out);
}

ls_status __real_ls_checkpoint_take(const ls_checkpoint *checkpoint, ls_snapshot *snapshot);
ls_status __wrap_ls_checkpoint_take(const ls_checkpoint *checkpoint, ls_snapshot *snapshot) {
    LS_TRY(__real_ls_checkpoint_take(checkpoint, snapshot));
    if (is_unsound("memory")) snapshot->values[10] += 1;
    return LS_SUCCESS;
}
