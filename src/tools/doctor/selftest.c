#include "tools/doctor/selftest.h"

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/checkpoint.h"
#include "train/diagnose/state_diff.h"

static ls_status agreed(const ls_test_bed *bed, ls_status mine) {
    return ls_comm_agree(bed->comm, mine, NULL);
}

// --- update --------------------------------------------------------------------------------------

// The network of the update test. The convolution before the batch norm has no bias, because the true gradient of such
// a bias is 0: only rounding errors would be compared.
static const char network[] = "[network]\ninput = 3x16x16\n"
                              "[conv1]\nlayer = conv2d\nout_channels = 24\nkernel = 3\npadding = 1\nbias = false\n"
                              "[norm1]\nlayer = batchnorm2d\n[relu1]\nlayer = relu\n"
                              "[pool1]\nlayer = maxpool2d\nkernel = 2\n"
                              "[conv2]\nlayer = conv2d\nout_channels = 16\nkernel = 5\nstride = 2\npadding = 2\n"
                              "[relu2]\nlayer = relu\n[flat]\nlayer = flatten\n"
                              "[fc1]\nlayer = linear\nout_features = 10\n";
enum { MICRO = 16 };              // pictures per rank
static const double bound = 1e-4; // largest allowed error in a tensor, as a share of the tensor's largest value

static ls_status prepare(ls_test_bed *bed) {
    const int ranks = ls_comm_get_info(bed->comm)->world_size;
    ls_config *cfg = &bed->cfg;
    ls_config_defaults(cfg);
    bed->network = memfd_create("network", MFD_CLOEXEC);
    if (bed->network < 0 || write(bed->network, network, sizeof network - 1) != (ssize_t)sizeof network - 1)
        return ls_fail(LS_STORAGE, "no file can be made in memory: %s", strerror(errno));
    ls_text_cut(cfg->model_file, sizeof cfg->model_file, "/proc/self/fd/%d", bed->network);
    cfg->data_dataset = LS_DATASET_SYNTHETIC;
    ls_text_cut(cfg->data_shape, sizeof cfg->data_shape, "3x16x16");
    cfg->data_train_samples = cfg->data_test_samples = MICRO * ranks;
    cfg->train_micro_batch = MICRO;
    cfg->train_global_batch = MICRO * ranks;
    cfg->train_epochs = 1;
    cfg->optimizer_lr = 1; // large, so that the step is visible in the weights
    cfg->device_tf32 = 0;
    cfg->dist_timeout = 60;
    return LS_SUCCESS;
}

// Does one update on a device of `type` (LS_DEVICE_TYPE_*). *state: this rank's state after it. All ranks call it.
static ls_status update_on(ls_test_bed *bed, int type, ls_trainer **trainer, ls_snapshot **state) {
    bed->cfg.device_type = type;
    LS_TRY(agreed(bed, ls_trainer_new(&bed->cfg, bed->comm, trainer)));
    LS_TRY(agreed(bed, ls_trainer_snapshot_new(*trainer, state)));
    LS_TRY(ls_trainer_updates(*trainer, 1, NULL));
    return agreed(bed, ls_trainer_snapshot(*trainer, *state));
}

// Compares the state after the update with the expected state. *largest: the largest error over all tensors, as a share
// of the largest value in the tensor.
static ls_status check_update(const char *device, const ls_snapshot *is, const ls_snapshot *expected, double *largest) {
    *largest = 0;
    for (int i = 0; i < is->count; i++) {
        const ls_snapshot_tensor *x = &is->tensors[i], *y = &expected->tensors[i];
        ls_tensor_difference d;
        double scale = 0;
        ls_tensor_compare(LS_F32, x->elements, x->values, y->values, &d);
        for (int64_t k = 0; k < y->elements; k++) scale = fmax(scale, fabs((double)y->values[k]));
        const double error = d.differing ? d.largest_absolute / scale : 0;
        if (!(error <= bound))
            return ls_fail(LS_DEVICE,
                "after one update on %s, %s is off by %.3g of its largest value: the first of its values that differs "
                "is "
                "%.9g, on ref %.9g; this device computes wrong, or this is a bug of Lockstep's: do not train on it",
                device, x->name, error, d.first_a, d.first_b);
        *largest = fmax(*largest, error);
    }
    return LS_SUCCESS;
}

static ls_status try_update(ls_test_bed *bed, ls_test *out) {
    ls_trainer *trainer = NULL;
    ls_snapshot *state = NULL;
    double error = 0;
    LS_TRY(agreed(bed, prepare(bed)));
    LS_TRY(update_on(bed, LS_DEVICE_TYPE_REF, &bed->ref, &bed->expected));
    if (!bed->device) {
        out->result = LS_TEST_SKIPPED;
        ls_text_cut(out->text, sizeof out->text, "no device opens");
        return LS_SUCCESS;
    }
    const char *name = bed->device->api->name;
    bed->cfg.device_share = bed->shares;
    ls_status status = update_on(bed, LS_DEVICE_TYPE_AUTO, &trainer, &state);
    LS_THEN(status, agreed(bed, check_update(name, state, bed->expected, &error)));
    if (!ls_failed(status)) {
        const ls_train_info *info = ls_trainer_get_info(trainer);
        const int ranks = info->comm->world_size;
        ls_text_cut(out->text, sizeof out->text,
            "%d pictures through %d layers on %s against ref: largest error %.1e of a tensor's largest value%s%s",
            MICRO * ranks, info->graph->layer_count, name, error, ranks > 1 ? "; gradients summed by " : "",
            ranks > 1 ? info->sums : "");
    }
    out->figure[0].name = "largest_relative_error";
    out->figure[0].value = error;
    ls_snapshot_free(state);
    ls_trainer_free(trainer);
    return status;
}

// --- sum over ranks ------------------------------------------------------------------------------

enum { SUM_BYTES = 1 << 20, SUM_COUNT = SUM_BYTES / 4, REPEATS = 20 };

// Returns the value that a rank adds at place i: a whole number, so that sums in fp32 are exact in any order.
static float addend(int rank, int i) {
    return (float)((rank + 1) * (i % 3 + 1));
}

static ls_status sum_and_check(ls_comm *comm, float *data) {
    const int rank = ls_comm_get_info(comm)->rank, ranks = ls_comm_get_info(comm)->world_size;
    for (int i = 0; i < SUM_COUNT; i++) data[i] = addend(rank, i);
    LS_TRY(ls_comm_allreduce(comm, data, SUM_COUNT, LS_F32, LS_REDUCE_SUM));
    for (int i = 0; i < SUM_COUNT; i++) {
        const float expected = addend(ranks * (ranks + 1) / 2 - 1, i);
        if (data[i] != expected)
            return ls_fail(LS_COMM,
                "element %d of a sum over %d ranks by %s is %.9g, expected %.9g: the library or the network gives "
                "wrong bytes; do not train over it before that is found (another version, another transport, another "
                "host)",
                i, ranks, ls_comm_library(), (double)data[i], (double)expected);
    }
    return LS_SUCCESS;
}

// Measures the time of a sum over ranks, on the slowest rank, and writes it into *out.
static ls_status time_sums(ls_comm *comm, float *data, ls_test *out) {
    const ls_comm_info *info = ls_comm_get_info(comm);
    const double n = info->world_size, since = ls_clock_seconds();
    char text[24];
    for (int i = 0; i < REPEATS; i++) LS_TRY(ls_comm_allreduce(comm, data, SUM_COUNT, LS_F32, LS_REDUCE_SUM));
    double took = (ls_clock_seconds() - since) / REPEATS;
    LS_TRY(ls_comm_allreduce(comm, &took, 1, LS_F64, LS_REDUCE_MAX));
    const double bandwidth = 2 * (n - 1) / n * SUM_BYTES / took; // bytes per second over each link of a ring
    ls_text_cut(out->text, sizeof out->text, "1 MiB over %d ranks on %d host%s: exact; %.2f ms each, %sB/s over a link",
        info->world_size, info->hosts, info->hosts == 1 ? "" : "s", took * 1e3, ls_text_si(text, bandwidth));
    out->figure[0].name = "seconds";
    out->figure[0].value = took;
    out->figure[1].name = "bytes_per_second";
    out->figure[1].value = bandwidth;
    return LS_SUCCESS;
}

// Tests sums over ranks through MPI. The update test tries the library that sums gradients on GPUs.
static ls_status try_allreduce(ls_test_bed *bed, ls_test *out) {
    if (ls_comm_get_info(bed->comm)->world_size == 1) {
        out->result = LS_TEST_SKIPPED;
        ls_text_cut(out->text, sizeof out->text, "one rank; started by mpirun or srun, ranks sum here");
        return LS_SUCCESS;
    }
    float *data = ls_new(SUM_COUNT, sizeof *data, "the self-test");
    ls_status status = agreed(bed, sum_and_check(bed->comm, data));
    LS_THEN(status, time_sums(bed->comm, data, out));
    free(data);
    return status;
}

// --- checkpoint ----------------------------------------------------------------------------------

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info, (void)where;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static void take_name(void *first, const ls_state_difference *d) {
    char *name = first;
    if (!name[0]) ls_text_cut(name, LS_SNAPSHOT_NAME_BYTES, "%s", d->name);
}

static ls_status check_back(const ls_test_bed *bed, const ls_snapshot *back, const char *path) {
    char first[LS_SNAPSHOT_NAME_BYTES] = "";
    ls_state a = ls_state_of_snapshot(bed->expected), b = ls_state_of_snapshot(back);
    const int differs = ls_state_diff(&a, &b, take_name, first) > 0;
    ls_state_free(&a);
    ls_state_free(&b);
    if (!differs) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: read back, %s is not what was written: do not keep runs there", path, first);
}

static ls_status write_and_read(const ls_test_bed *bed, const char *folder, ls_snapshot *back, ls_test *out) {
    char path[2 * LS_TEXT_BYTES], size[24];
    int64_t bytes = 0;
    ls_checkpoint *checkpoint = NULL;
    LS_TRY(ls_checkpoint_path(folder, 1, path, sizeof path));
    const double since = ls_clock_seconds();
    LS_TRY(ls_checkpoint_write(path, bed->expected, ls_trainer_get_info(bed->ref), NULL, &bytes));
    const double took = ls_clock_seconds() - since;
    LS_TRY(ls_checkpoint_read(path, &checkpoint));
    ls_status status = ls_checkpoint_take(checkpoint, back);
    LS_THEN(status, check_back(bed, back, path));
    ls_checkpoint_free(checkpoint);
    ls_text_cut(out->text, sizeof out->text, "%s written and on the disk in %.0f ms, read back, every byte the same",
        ls_text_bytes(size, (uint64_t)bytes), took * 1e3);
    out->figure[0].name = "bytes";
    out->figure[0].value = (double)bytes;
    out->figure[1].name = "seconds";
    out->figure[1].value = took;
    return status;
}

static ls_status with_folder(const ls_test_bed *bed, ls_test *out) {
    enum { OPEN_FOLDERS = 8 };
    char folder[LS_TEXT_BYTES];
    ls_snapshot *back = NULL;
    if (snprintf(folder, sizeof folder, "%s/lockstep-doctor-XXXXXX", bed->folder) >= (int)sizeof folder)
        return ls_fail(LS_USAGE, "%s: a path too long", bed->folder);
    if (!mkdtemp(folder))
        return ls_fail(LS_STORAGE, "%s: no folder can be made there: %s; name another place by --run-dir", bed->folder,
            strerror(errno));
    ls_status status = ls_trainer_snapshot_new(bed->ref, &back);
    LS_THEN(status, write_and_read(bed, folder, back, out));
    ls_snapshot_free(back);
    if (nftw(folder, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) != 0)
        ls_keep_first(&status, ls_fail(LS_STORAGE, "%s: could not be removed again: %s", folder, strerror(errno)));
    return status;
}

static ls_status try_checkpoint(ls_test_bed *bed, ls_test *out) { // rank 0 writes it, as in a run
    if (!bed->expected) {
        out->result = LS_TEST_SKIPPED;
        ls_text_cut(out->text, sizeof out->text, "there is no state to write: the update failed on ref");
        return LS_SUCCESS;
    }
    return agreed(bed, ls_comm_get_info(bed->comm)->rank == 0 ? with_folder(bed, out) : LS_SUCCESS);
}

// --- all tests -----------------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_status (*run)(ls_test_bed *bed, ls_test *out);
} tests[] = { { "update", try_update }, { "all-reduce", try_allreduce }, { "checkpoint", try_checkpoint } };
const int ls_test_count = sizeof tests / sizeof *tests;

ls_status ls_test_run(ls_test_bed *bed, int number, ls_test *out) {
    *out = (ls_test){ .name = tests[number].name };
    ls_status status = tests[number].run(bed, out);
    if (!ls_failed(status)) return LS_SUCCESS;
    if (ls_comm_broken(bed->comm)) return status;
    int failed_rank = 0;
    ls_status everywhere = ls_comm_agree(bed->comm, status, &failed_rank); // finds the rank where it failed
    if (ls_comm_get_info(bed->comm)->world_size > 1)
        ls_text_cut(out->text, sizeof out->text, "rank %d: %s", failed_rank, everywhere.text);
    else
        ls_text_cut(out->text, sizeof out->text, "%s", everywhere.text);
    out->result = LS_TEST_FAILED;
    return LS_SUCCESS;
}

void ls_test_end(ls_test_bed *bed) {
    ls_snapshot_free(bed->expected);
    ls_trainer_free(bed->ref);
    if (bed->network > 0) close(bed->network);
}

const char *ls_test_result_name(ls_test_result result) {
    static const char *const names[] = { "ok", "failed", "skipped" };
    return names[result];
}
