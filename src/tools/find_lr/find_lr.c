#include "tools/find_lr/find_lr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/memory.h"
#include "train/schedule.h"
#include "train/trainer.h"

static const double keep = 0.9; // share of the running mean that an update keeps
static const double bound = 4;  // the test ends when the running mean is this many times its least value
static const double clear = 5;  // a fall is clear if it exceeds this many standard errors of the smoothed loss

// --- the run -----------------------------------------------------------------------------------------

// Finds the number of updates of an epoch. The trainer then shares *data, unless it is of picture files.
static ls_status count_windows(const ls_config *cfg, const ls_comm_info *comm, ls_dataset **data, int64_t *windows) {
    ls_batches batches;
    LS_TRY(ls_dataset_open_shared(cfg, LS_SPLIT_TRAIN, data));
    LS_TRY(ls_batches_plan(cfg, ls_dataset_get_info(*data)->count, comm->rank, comm->world_size, &batches));
    *windows = batches.windows;
    return LS_SUCCESS;
}

static void set_schedule(const ls_find_lr *test, int64_t windows, ls_config *cfg) {
    cfg->optimizer_lr = test->from;
    cfg->schedule_kind = LS_SCHEDULE_EXPONENTIAL;
    cfg->schedule_final = test->to / test->from;
    cfg->schedule_floor = cfg->schedule_warmup_epochs = 0;
    cfg->schedule_epochs = (double)(test->planned - 1) / (double)windows;
    cfg->train_epochs = (int)(test->planned / windows + 1);
    cfg->train_max_updates = 0;
}

// The running mean of the losses, and its least value so far.
typedef struct {
    double sum, least; // sum: weights 1 - keep, keep * (1 - keep), ... from the last loss backwards
} running_mean;

// Adds an update. Returns 0 if the loss has grown without bound.
static int add(ls_find_lr *test, running_mean *mean, double rate, double loss) {
    if (!isfinite(loss)) return 0;
    test->rate[test->count] = rate;
    test->loss[test->count++] = loss;
    mean->sum = keep * mean->sum + (1 - keep) * loss;
    const double now = mean->sum / (1 - pow(keep, test->count));
    mean->least = fmin(mean->least, now);
    return now <= bound * mean->least;
}

static ls_status run_updates(ls_trainer *trainer, const ls_config *cfg, ls_find_lr *test) {
    ls_schedule schedule;
    running_mean mean = { .least = INFINITY };
    LS_TRY(ls_schedule_new(cfg, &ls_trainer_get_info(trainer)->batches, &schedule));
    for (int more = 1; more && test->count < test->planned;) {
        const double rate = cfg->optimizer_lr * ls_schedule_factor(&schedule, test->count);
        double loss;
        const ls_status status = ls_trainer_updates(trainer, 1, &loss);
        if (status.code == LS_NUMERIC && test->count > 0) return LS_SUCCESS;
        LS_TRY(status);
        more = add(test, &mean, rate, loss);
    }
    if (test->count > 0) return LS_SUCCESS;
    return ls_fail(LS_NUMERIC, "the loss of the first update, at a rate of %g, is not finite", test->from);
}

ls_status ls_find_lr_run(const ls_config *cfg, ls_comm *comm, ls_find_lr *out) {
    const size_t planned = (size_t)out->planned;
    ls_config changed = *cfg;
    ls_dataset *data = NULL;
    ls_trainer *trainer = NULL;
    int64_t windows = 0;
    out->rate = ls_new(planned, sizeof *out->rate, "%zu updates", planned);
    out->loss = ls_new(planned, sizeof *out->loss, "%zu updates", planned);
    out->smooth = ls_new(planned, sizeof *out->smooth, "%zu updates", planned);
    out->count = 0;
    changed.run_cross_check = 0; // it changes no loss
    changed.train_resolution[strcspn(changed.train_resolution, ",")] = '\0';
    ls_status status = ls_comm_agree(comm, count_windows(&changed, ls_comm_get_info(comm), &data, &windows), NULL);
    if (!ls_failed(status)) set_schedule(out, windows, &changed);
    LS_THEN(status, ls_trainer_new(&changed, comm, &trainer));
    LS_THEN(status, ls_trainer_init_from_file(trainer));
    LS_THEN(status, run_updates(trainer, &changed, out));
    ls_trainer_free(trainer);
    ls_dataset_free(data);
    return status;
}

void ls_find_lr_free(ls_find_lr *test) {
    free(test->rate);
    free(test->loss);
    free(test->smooth);
}

// --- the suggestion -----------------------------------------------------------------------------------------

// Averages the losses near an update with triangular weights. A running mean would lag behind the losses.
static double smooth_at(const ls_find_lr *test, int at, int reach) {
    double sum = 0, weights = 0;
    for (int i = at - reach; i <= at + reach; i++) {
        const double weight = i >= 0 && i < test->count ? reach + 1 - abs(i - at) : 0;
        if (weight > 0) sum += weight * test->loss[i];
        weights += weight;
    }
    return sum / weights;
}

static void smooth(ls_find_lr *test, int reach) {
    test->least = 0;
    for (int i = 0; i < test->count; i++) {
        test->smooth[i] = smooth_at(test, i, reach);
        if (test->smooth[i] < test->smooth[test->least]) test->least = i;
    }
}

// Returns 1 if the smoothed loss falls to its least value by more than the scatter of the losses explains.
static int falls_clearly(const ls_find_lr *test, int reach) {
    double most = 0, squares = 0;
    for (int i = 0; i <= test->least; i++) {
        most = fmax(most, test->smooth[i]);
        squares += pow(test->loss[i] - test->smooth[i], 2);
    }
    const double error = sqrt(squares / (test->least + 1) / (reach + 1));
    return most - test->smooth[test->least] > clear * error;
}

void ls_find_lr_suggest(ls_find_lr *test) {
    const int reach = test->planned / 20 > 3 ? test->planned / 20 : 3; // updates on each side of a slope
    double steepest = 0;
    test->suggested = -1;
    smooth(test, reach);
    for (int i = reach; falls_clearly(test, reach) && i + reach <= test->least; i++) {
        const double slope = test->smooth[i - reach] - test->smooth[i + reach];
        if (slope <= steepest) continue;
        steepest = slope;
        test->suggested = i;
    }
}

// --- the result -----------------------------------------------------------------------------------------

enum { ROWS = 25, COLUMNS = 50 };

static void print_bars(const ls_find_lr *test, FILE *file) {
    const int rows = test->count < ROWS ? test->count : ROWS;
    double most = test->smooth[test->least];
    for (int i = 0; i < test->count; i++) most = fmax(most, fmin(test->smooth[i], 2 * test->smooth[0]));
    fprintf(file, "%-9s  %-9s\n", "rate", "loss");
    for (int row = 0; row < rows; row++) {
        const int i = rows > 1 ? row * (test->count - 1) / (rows - 1) : 0;
        const int length = (int)lround(COLUMNS * fmin(test->smooth[i] / most, 1));
        fprintf(file, "%-9.2g  %-9.4f  %.*s\n", test->rate[i], test->smooth[i], length,
            "##################################################");
    }
}

void ls_find_lr_print(const ls_find_lr *test, FILE *file) {
    print_bars(test, file);
    if (test->count < test->planned)
        fprintf(file, "the loss grows without bound from a rate of about %.2g\n", test->rate[test->count - 1]);
    if (test->suggested < 0) {
        fprintf(file, "no suggestion: no rate from %g to %g lowers the loss clearly within %d updates\n", test->from,
            test->to, test->planned);
        return;
    }
    fprintf(file, "suggested  optimizer.lr = %.2g: the loss falls fastest there; it is least at %.2g\n",
        test->rate[test->suggested], test->rate[test->least]);
}

static void add_list(cJSON *object, const char *name, const double *values, int count) {
    cJSON *list = ls_json_add_array(object, name);
    char text[LS_JSON_REAL_BYTES];
    for (int i = 0; i < count; i++) ls_json_append(list, cJSON_CreateRaw(ls_json_real_text(text, values[i])));
}

ls_status ls_find_lr_print_json(const ls_find_lr *test, FILE *file) {
    cJSON *object = cJSON_CreateObject();
    ls_json_add_real(object, "suggested", test->suggested < 0 ? NAN : test->rate[test->suggested]);
    ls_json_add_real(object, "least", test->rate[test->least]);
    add_list(object, "rate", test->rate, test->count);
    add_list(object, "loss", test->loss, test->count);
    add_list(object, "smooth", test->smooth, test->count);
    const ls_status status = ls_json_write_line(file, "standard output", object);
    cJSON_Delete(object);
    return status;
}
