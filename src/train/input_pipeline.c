#include "train/input_pipeline.h"

#include <assert.h>
#include "base/clock.h"
#include "base/memory.h"
#include "train/resident.h"

enum { DEVICE_SLOTS = LS_INPUT_PIPELINE_AHEAD + 1, ALIGN = 128 };

// Offsets of the parts of a slot, and its size in bytes.
typedef struct {
    size_t pixels, labels, augment, index, micro, bytes;
} slot_layout;

// A slot on the device, with a micro-batch that is copied into it from the ring's slot batch.slot.
typedef struct {
    ls_batch batch;
    int64_t number;          // number of the micro-batch
    int held;                // 1: the ring's slot has not been given back to the loader
    ls_event *copied, *read; // recorded after the copy into the slot; after programs have read the slot
    int used;                // 1: both events have been recorded at least once
} device_slot;

struct ls_input_pipeline {
    ls_device *device;
    ls_input_pipeline_options options;
    slot_layout layout;
    ls_slab *ring, *staged;      // staged: the device's slots; NULL if the device reads the ring
    const ls_resident *resident; // NULL: the ring has pixels
    ls_slot *slots;              // slots of the ring
    int slot_count;
    ls_queue *copies;
    device_slot on_device[DEVICE_SLOTS];
    ls_loader *loader;
    ls_batches batches;
    int64_t left; // number of micro-batches that may still be acquired
    // Numbers of the next micro-batches to acquire, take and release. They also count those that this rank lacks in a
    // short window. So a number has the same slot on all ranks, and all ranks capture the same updates.
    int64_t acquired, taken, released;
    double wait_seconds; // of loaders that are already stopped
    double device_wait_seconds;
    ls_timeline *timeline;
};

static size_t align(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static slot_layout layout_of(const ls_input_pipeline_options *o) {
    size_t n = (size_t)o->micro_batch, picture = (size_t)ls_chw_count(ls_dataset_get_info(o->dataset)->shape);
    slot_layout l = { .pixels = 0 };
    l.labels = o->resident ? 0 : align(n * picture);
    l.augment = l.labels + align(n * sizeof(int32_t));
    l.index = l.augment + align(n * sizeof(ls_augment_sample));
    l.micro = l.index + (o->resident ? align(n * sizeof(int32_t)) : 0);
    l.bytes = l.micro + align(sizeof(ls_micro_input));
    return l;
}

static int on_host(const ls_device *device) {
    return !device->api->capture_begin; // operators run at once, in host memory
}

// --- making --------------------------------------------------------------------------------------

static ls_status make_ring(ls_input_pipeline *f) {
    const slot_layout *l = &f->layout;
    f->slot_count = f->options.prefetch + (on_host(f->device) ? 0 : DEVICE_SLOTS);
    LS_TRY(f->device->api->slab_new(
        f->device, LS_MEMORY_PINNED, (size_t)f->slot_count * l->bytes, "prefetch ring", &f->ring));
    f->slots = ls_new(f->slot_count, sizeof *f->slots, "prefetch ring");
    for (int s = 0; s < f->slot_count; s++) {
        char *at = f->ring->address + (size_t)s * l->bytes;
        f->slots[s] = (ls_slot){ .pixels = f->options.resident ? NULL : (uint8_t *)(at + l->pixels),
            .labels = (int32_t *)(void *)(at + l->labels),
            .augment = (ls_augment_sample *)(void *)(at + l->augment),
            .index = f->options.resident ? (int32_t *)(void *)(at + l->index) : NULL };
    }
    return LS_SUCCESS;
}

static ls_status make_device_slots(ls_input_pipeline *f) {
    const ls_device_api *api = f->device->api;
    if (on_host(f->device)) return LS_SUCCESS;
    LS_TRY(api->slab_new(f->device, LS_MEMORY_DEVICE, DEVICE_SLOTS * f->layout.bytes, "input slots", &f->staged));
    LS_TRY(api->queue_new(f->device, "input copies", &f->copies));
    for (int s = 0; s < DEVICE_SLOTS; s++) {
        LS_TRY(api->event_new(f->device, 0, &f->on_device[s].copied));
        LS_TRY(api->event_new(f->device, 0, &f->on_device[s].read));
    }
    return LS_SUCCESS;
}

ls_status ls_input_pipeline_new(ls_device *device, const ls_input_pipeline_options *options, ls_input_pipeline **out) {
    ls_input_pipeline *f = ls_new(1, sizeof *f, "input pipeline");
    *f = (ls_input_pipeline){ .device = device, .options = *options, .layout = layout_of(options) };
    ls_status status = make_ring(f);
    LS_THEN(status, make_device_slots(f));
    if (options->resident) LS_THEN(status, ls_resident_get(device, options->queue, options->dataset, &f->resident));
    return LS_GIVE_OR_FREE(status, f, out, ls_input_pipeline_free);
}

void ls_input_pipeline_free(ls_input_pipeline *f) {
    if (!f) return;
    const ls_device_api *api = f->device->api;
    ls_input_pipeline_stop(f);
    for (int s = 0; s < DEVICE_SLOTS; s++) {
        if (f->on_device[s].copied) api->event_free(f->on_device[s].copied);
        if (f->on_device[s].read) api->event_free(f->on_device[s].read);
    }
    if (f->copies) api->queue_free(f->copies);
    ls_slab *slabs[] = { f->ring, f->staged };
    for (size_t s = 0; s < sizeof slabs / sizeof *slabs; s++)
        if (slabs[s]) api->slab_free(slabs[s]);
    ls_resident_release(f->device, f->resident);
    free(f->slots);
    free(f);
}

size_t ls_input_pipeline_ring_bytes(const ls_input_pipeline *f) {
    return f->ring->bytes;
}

size_t ls_input_pipeline_slot_bytes(ls_device *device, const ls_input_pipeline_options *options) {
    return on_host(device) ? 0 : DEVICE_SLOTS * layout_of(options).bytes;
}

size_t ls_input_pipeline_device_bytes(ls_device *device, const ls_input_pipeline_options *options) {
    const ls_dataset_info *facts = ls_dataset_get_info(options->dataset);
    const size_t data = options->resident ? (size_t)(facts->count * ls_chw_count(facts->shape)) : 0;
    return data + ls_input_pipeline_slot_bytes(device, options);
}

// --- running -------------------------------------------------------------------------------------

ls_status ls_input_pipeline_start(ls_input_pipeline *f, const ls_loader_options *options, int64_t last) {
    assert(!f->loader);
    ls_loader_options o = *options;
    o.dataset = f->options.dataset;
    o.slots = f->slots;
    o.slot_count = f->slot_count;
    o.labels = f->resident ? f->resident->labels : NULL;
    f->batches = o.batches;
    f->left = last < 0 ? INT64_MAX : last;
    f->acquired = f->taken = f->released = (o.first_epoch * o.batches.windows + o.first_window) * o.batches.per_rank;
    for (int i = 0; i < DEVICE_SLOTS; i++) f->on_device[i].held = 0;
    return ls_loader_new(&o, &f->loader);
}

int ls_input_pipeline_started(const ls_input_pipeline *f) {
    return f->loader != NULL;
}

void ls_input_pipeline_stop(ls_input_pipeline *f) {
    if (!f->loader) return;
    // Copies in progress still read the ring, whose slots the next loader will fill. The compute queue reports errors.
    if (f->copies) (void)f->device->api->queue_sync(f->copies);
    f->wait_seconds += ls_loader_wait_seconds(f->loader);
    ls_loader_free(f->loader);
    f->loader = NULL;
}

void ls_input_pipeline_trace(ls_input_pipeline *f, ls_timeline *timeline) {
    f->timeline = timeline;
}

double ls_input_pipeline_wait_seconds(const ls_input_pipeline *f) {
    return f->wait_seconds + (f->loader ? ls_loader_wait_seconds(f->loader) : 0);
}

double ls_input_pipeline_device_wait_seconds(const ls_input_pipeline *f) {
    return f->device_wait_seconds;
}

static ls_status acquire(ls_input_pipeline *f, ls_batch *batch) {
    LS_TRY(ls_loader_acquire(f->loader, batch));
    ls_micro_input *micro = (void *)(f->ring->address + (size_t)batch->slot * f->layout.bytes + f->layout.micro);
    *micro = (ls_micro_input){ .count = batch->count,
        .update = (uint32_t)(batch->epoch * f->batches.windows + batch->window),
        .position = batch->position };
    f->left--;
    return LS_SUCCESS;
}

// Returns the first number, from `number` on, of a micro-batch that has samples for this rank. There must be such a
// number.
static int64_t next_real(const ls_input_pipeline *f, int64_t number) {
    const ls_batches *b = &f->batches;
    while (!ls_batches_micro_samples(
        b, number / b->per_rank % b->windows, b->rank * b->per_rank + (int)(number % b->per_rank)))
        number++;
    return number;
}

// Returns the oldest held slot of the ring to the loader, which gets its slots back in order. Waits until the slot's
// copy to the device is complete.
static ls_status release_oldest(ls_input_pipeline *f) {
    device_slot *slot = &f->on_device[f->released % DEVICE_SLOTS];
    while (!slot->held || slot->number != f->released) slot = &f->on_device[++f->released % DEVICE_SLOTS];
    // The copy waits for the programs that read the device's slot before, and these may wait for other ranks.
    const double start_s = ls_clock_seconds();
    if (f->options.comm) ls_comm_wait_begins(f->options.comm, "the device's sums");
    ls_status status = f->device->api->event_sync(slot->copied);
    if (f->options.comm) ls_comm_wait_ends(f->options.comm);
    f->device_wait_seconds += ls_clock_seconds() - start_s;
    LS_TRY(status);
    ls_loader_release(f->loader, &slot->batch);
    slot->held = 0;
    return LS_SUCCESS;
}

// Copies the next micro-batch to its slot on the device, after the compute queue has read the earlier micro-batch in
// that slot. The earlier one was copied long ago, so its slot of the ring goes back to the loader.
static ls_status stage(ls_input_pipeline *f) {
    const ls_device_api *api = f->device->api;
    f->acquired = next_real(f, f->acquired);
    device_slot *slot = &f->on_device[f->acquired % DEVICE_SLOTS];
    while (slot->held) LS_TRY(release_oldest(f));
    if (slot->used) api->event_wait(slot->read, f->copies);
    size_t to = (size_t)(f->acquired % DEVICE_SLOTS) * f->layout.bytes;
    LS_TRY(acquire(f, &slot->batch));
    slot->held = 1;
    slot->number = f->acquired++;
    size_t from = (size_t)slot->batch.slot * f->layout.bytes;
    ls_timeline_begin(f->timeline,
        &(ls_span){ .lane = LS_SPANS_COPIES,
            .name = "inputs to device",
            .number = slot->batch.micro,
            .update = slot->batch.epoch * f->batches.windows + slot->batch.window,
            .bytes = (double)f->layout.bytes },
        f->copies);
    api->copy(ls_buffer_at(f->staged, to, f->layout.bytes), ls_buffer_at(f->ring, from, f->layout.bytes),
        f->layout.bytes, f->copies);
    ls_timeline_end(f->timeline, LS_SPANS_COPIES, f->copies);
    api->event_record(slot->copied, f->copies);
    return LS_SUCCESS;
}

static void set_inputs(const ls_input_pipeline *f, ls_slab *slab, size_t at, ls_program_inputs *inputs) {
    const slot_layout *l = &f->layout;
    inputs->buffer[LS_INPUT_PIXELS] = f->resident ? ls_buffer_at(f->resident->pixels, 0, f->resident->pixels->bytes)
                                                  : ls_buffer_at(slab, at, l->labels);
    inputs->buffer[LS_INPUT_LABELS] = ls_buffer_at(slab, at + l->labels, l->augment - l->labels);
    inputs->buffer[LS_INPUT_AUGMENT] = ls_buffer_at(slab, at + l->augment, l->index - l->augment);
    inputs->buffer[LS_INPUT_INDEX] =
        f->resident ? ls_buffer_at(slab, at + l->index, l->micro - l->index) : (ls_buffer){ 0 };
    inputs->buffer[LS_INPUT_MICRO] = ls_buffer_at(slab, at + l->micro, sizeof(ls_micro_input));
}

ls_status ls_input_pipeline_next(ls_input_pipeline *f, ls_program_inputs *inputs, ls_batch *batch) {
    f->taken = next_real(f, f->taken);
    device_slot *slot = &f->on_device[f->taken % DEVICE_SLOTS];
    if (!f->staged) {
        LS_TRY(acquire(f, &slot->batch));
        set_inputs(f, f->ring, (size_t)slot->batch.slot * f->layout.bytes, inputs);
    } else {
        if (f->acquired <= f->taken) LS_TRY(stage(f));
        f->device->api->event_wait(slot->copied, f->options.queue);
        set_inputs(f, f->staged, (size_t)(f->taken % DEVICE_SLOTS) * f->layout.bytes, inputs);
    }
    *batch = slot->batch;
    return LS_SUCCESS;
}

const int32_t *ls_input_pipeline_labels(const ls_input_pipeline *f, const ls_batch *batch) {
    return f->slots[batch->slot].labels;
}

// Returns 1 if the next micro-batch may be copied: fewer than LS_INPUT_PIPELINE_AHEAD micro-batches wait on the device.
static int may_stage(const ls_input_pipeline *f) {
    return f->left > 0 && next_real(f, f->acquired) - next_real(f, f->taken) < LS_INPUT_PIPELINE_AHEAD;
}

ls_status ls_input_pipeline_done(ls_input_pipeline *f) {
    device_slot *slot = &f->on_device[f->taken++ % DEVICE_SLOTS];
    if (!f->staged) {
        ls_loader_release(f->loader, &slot->batch);
        return LS_SUCCESS;
    }
    f->device->api->event_record(slot->read, f->options.queue);
    slot->used = 1;
    // The device has work now, so this is a good time to wait for the loader.
    while (may_stage(f)) LS_TRY(stage(f));
    return LS_SUCCESS;
}

ls_status ls_input_pipeline_set_table(ls_session *session, const ls_dataset *dataset) {
    float *values = ls_new(ls_dataset_get_info(dataset)->shape.c * 256, sizeof *values, "normalisation table");
    ls_dataset_table(dataset, values);
    ls_status status = ls_session_set_table(session, values);
    free(values);
    return status;
}
