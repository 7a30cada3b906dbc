// session.h - everything that a rank needs to compute with a network: a device with its queue, the parameter store with
// the weights, the programs, and the slabs in which they run. Training, evaluation and prediction use it.
//
// A session is opened in this order. No slab is allocated on the device before everything is planned.
//
//   ls_session_open_device   opens the device; ranks that choose devices together set `device` themselves instead
//   ls_session_start         checks that the device can compute in the storage type; makes its queue
//   ls_session_place         decides the place of each tensor in the parameter store
//   ls_session_measure       computes the memory that the programs in `options` need, without making plans; cheap
//   ls_session_compile       makes these programs with their plans; `memory` then includes their workspace
//   ls_session_allocate      allocates the slabs of stores and programs, with weights of 0, and binds the programs
//   ls_session_close
//
// After measure and after compile, ls_memory_plan_fits(memory) tells whether the session fits. Both may be repeated
// with other `options`, measure first. ls_session_build does everything from measure to allocate.
#ifndef LS_PROGRAM_SESSION_H
#define LS_PROGRAM_SESSION_H

#include "config/config.h"
#include "config/values.h"
#include "program/compile.h"
#include "program/memory_plan.h"

// LS_SESSION_PROGRAMS: the most programs that training needs: two for each of its stages, for whole and for short
// micro-batches, and one that evaluates.
enum { LS_STAGE_LIMIT = 16 };
enum { LS_SESSION_PROGRAMS = 2 * LS_STAGE_LIMIT + 1 };

typedef struct { // starts as {0}; parts that do not exist yet are NULL
    ls_device *device;
    ls_queue *queue;                                 // all work of the session runs on it
    ls_param_store *store, *teacher;                 // teacher NULL: the network learns from labels only
    ls_plan *cast, *teacher_cast;                    // cast master weights to 16 bits; NULL if storage is fp32
    ls_compile_options options[LS_SESSION_PROGRAMS]; // micro_batch 0: no program
    ls_program *program[LS_SESSION_PROGRAMS];
    ls_slab *activations, *workspace; // shared by all programs, which never run at the same time
    ls_slab *table;                   // memory of LS_INPUT_TABLE
    ls_slab *class_weights;           // memory of LS_INPUT_CLASS_WEIGHTS; NULL: classes have no weights
    ls_slab *label_sets;              // memory of LS_INPUT_LABEL_SETS; NULL: pictures have one label
    ls_memory_plan memory;            // its inputs, control and ring are set by the code that allocates those
} ls_session;

// Returns device.threads, or if that is 0, this rank's share of its host's cores.
int ls_session_threads(const ls_config *cfg, int ranks_of_host);
ls_device_options ls_session_device_options(const ls_config *cfg, int threads);
// Opens the device that the options device.* name, for the only rank of its host. why_not_gpu: see ls_device_open.
LS_CHECKED ls_status ls_session_open_device(ls_session *session, const ls_config *cfg, const char **why_not_gpu);
// Makes the session's queue. LS_USAGE: the device cannot compute in this storage type.
LS_CHECKED ls_status ls_session_start(ls_session *session, ls_dtype storage);
// Decides the place of each tensor in the parameter store. graph is borrowed.
LS_CHECKED ls_status ls_session_place(
    ls_session *session, const ls_graph *graph, const ls_param_store_options *options);
// The same for the network of a teacher (compile.h), in the storage type of the session's own network. Call it before
// measuring. The programs learn from it if `options` name session->teacher.
LS_CHECKED ls_status ls_session_place_teacher(ls_session *session, const ls_graph *graph);
// Frees the programs of an earlier compile. Sets `memory` without making plans. Activations are computed only for a
// device with its own memory, and the workspace of the programs is not known yet.
LS_CHECKED ls_status ls_session_measure(ls_session *session);
LS_CHECKED ls_status ls_session_compile(ls_session *session);
LS_CHECKED ls_status ls_session_allocate(ls_session *session);
// Measures, compiles and allocates. LS_DEVICE, with a table of the memory: the session does not fit into the device.
LS_CHECKED ls_status ls_session_build(ls_session *session);
void ls_session_close(ls_session *session); // a session of {0} is allowed; the session becomes {0}
// Waits for work that a failed run may have left on the queue. Call it before freeing buffers that such work uses.
void ls_session_drain(ls_session *session);

// Sets all weights and statistics; values[p]: the canonical values of the graph's parameter p.
void ls_session_set_weights(ls_session *session, const float *const *values);
// Enqueues a cast of the master weights to the weights that operators read, also of the teacher's. Call it after
// anything but the optimizer has changed the master weights.
void ls_session_weights_changed(ls_session *session);
// Makes a new slab on the device with these values; the caller frees it. what: names the slab in messages.
LS_CHECKED ls_status ls_session_upload(
    ls_session *session, const char *what, const void *values, size_t bytes, ls_slab **out);
// Sets LS_INPUT_TABLE, float[C][256]. Call it once.
LS_CHECKED ls_status ls_session_set_table(ls_session *session, const float *values);
// Sets LS_INPUT_CLASS_WEIGHTS, float[classes]. Call it once.
LS_CHECKED ls_status ls_session_set_class_weights(ls_session *session, const float *values);
// Sets LS_INPUT_LABEL_SETS, a byte for each of `rows` rows and each class. Call it once.
LS_CHECKED ls_status ls_session_set_label_sets(ls_session *session, const uint8_t *sets, int64_t rows);
// Returns the inputs that belong to the session: table, class weights and label sets. The others are empty.
ls_program_inputs ls_session_inputs(const ls_session *session);

#endif
