#include "train/gpu_records.h"

#include <math.h>
#include "base/memory.h"

struct ls_gpu_records {
    ls_comm *comm;
    ls_gpu_monitor *monitor; // NULL: this rank cannot monitor its GPU, but other ranks can
    ls_gpu_sample *samples;  // [world_size]
};

ls_status ls_gpu_records_start(ls_comm *comm, const ls_device_info *facts, ls_gpu_records **out) {
    *out = NULL;
    if (!facts->uuid[0] && !facts->pci[0]) return LS_SUCCESS; // no rank computes on a GPU
    int32_t world_size = ls_comm_get_info(comm)->world_size, some = 0;
    ls_gpu_records *r = ls_new(1, sizeof *r, "GPUs of %d ranks", world_size);
    r->samples = ls_new(world_size, sizeof *r->samples, "GPUs of %d ranks", world_size);
    r->comm = comm;
    r->monitor = ls_gpu_monitor_start(facts->uuid, facts->pci);
    some = r->monitor != NULL;
    ls_status status = ls_comm_allreduce(comm, &some, 1, LS_I32, LS_REDUCE_MAX);
    if (some && !ls_failed(status))
        *out = r;
    else
        ls_gpu_records_free(r);
    return status;
}

static ls_status gather(ls_gpu_records *r, const ls_gpu_sample *mine) {
    return ls_comm_allgather(r->comm, mine, r->samples, sizeof *mine);
}

ls_status ls_gpu_records_gather(ls_gpu_records *records, const ls_gpu_sample **samples) {
    ls_gpu_sample last = { .samples = 0 };
    *samples = NULL;
    if (!records) return LS_SUCCESS;
    if (records->monitor) ls_gpu_monitor_read(records->monitor, &last, NULL);
    LS_TRY(gather(records, &last));
    *samples = records->samples;
    return LS_SUCCESS;
}

// The mean of a value over the ranks that have the value.
typedef struct {
    double sum;
    int count;
} average;

static void add(average *a, double value) {
    if (isnan(value)) return;
    a->sum += value;
    a->count++;
}

static double average_of(const average *a) {
    return a->count > 0 ? a->sum / a->count : NAN;
}

ls_status ls_gpu_records_sum(ls_gpu_records *records, ls_gpu_sample *all) {
    *all = (ls_gpu_sample){ 0, NAN, NAN, NAN, NAN, NAN, 0, NAN, 0 };
    if (!records) return LS_SUCCESS;
    ls_gpu_sample mine = *all;
    average utilisation = { 0, 0 }, clock = { 0, 0 };
    if (records->monitor) ls_gpu_monitor_read(records->monitor, NULL, &mine);
    LS_TRY(gather(records, &mine));
    for (int r = 0; r < ls_comm_get_info(records->comm)->world_size; r++) {
        const ls_gpu_sample *s = &records->samples[r];
        add(&utilisation, s->utilisation);
        add(&clock, s->clock_mhz);
        all->samples += s->samples;
        all->memory_bytes = fmax(all->memory_bytes, s->memory_bytes); // fmax of a number and NaN is the number
        all->power_watts = fmax(all->power_watts, s->power_watts);
        all->temperature_c = fmax(all->temperature_c, s->temperature_c);
        all->slowed |= s->slowed;
    }
    all->utilisation = average_of(&utilisation);
    all->clock_mhz = average_of(&clock);
    return LS_SUCCESS;
}

void ls_gpu_records_free(ls_gpu_records *records) {
    if (!records) return;
    ls_gpu_monitor_stop(records->monitor);
    free(records->samples);
    free(records);
}
