#include "train/diagnose/nonfinite_dump.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include "base/atomic_file.h"
#include "base/pinned_folder.h"
#include "base/json.h"
#include "base/memory.h"
#include "train/run_weights.h"

enum { TRIES = 100, FIXED_TENSORS = 5, PATH_BYTES = LS_TEXT_BYTES + 64 };

static const char config_name[] = "config.ini", network_name[] = "network.ini", weights_name[] = "weights.safetensors",
                  batch_name[] = "batch.safetensors", facts_name[] = "nonfinite.json";

// --- sums over ranks -----------------------------------------------------------------------------

ls_status ls_norm_sums_keep(
    ls_norm_sums *sums, ls_device *device, ls_queue *queue, ls_buffer buffer, int64_t count, int channels) {
    const ls_device_api *api = device->api;
    if (sums->count == sums->capacity) {
        sums->list = ls_grow(sums->list, sums->capacity, sizeof *sums->list, "sums over ranks");
        sums->list[sums->capacity++] = (struct ls_norm_sum){ 0 };
    }
    struct ls_norm_sum *sum = &sums->list[sums->count];
    size_t bytes = (size_t)count * sizeof(double), vector = ((size_t)count - 1) / 2, c = (size_t)channels;
    ls_slab *host;
    free(sum->values);
    sum->channels = channels;
    sum->values = ls_new(2 * c + 1, sizeof *sum->values, "sums over ranks");
    LS_TRY(api->slab_new(device, LS_MEMORY_PINNED, bytes, "sums over ranks (host)", &host));
    api->copy(ls_buffer_at(host, 0, bytes), buffer, bytes, queue);
    ls_status status = api->queue_sync(queue);
    const double *from = ls_buffer_host(ls_buffer_at(host, 0, bytes));
    memcpy(sum->values, from, c * sizeof *from);
    memcpy(sum->values + c, from + vector, c * sizeof *from);
    sum->values[2 * c] = from[2 * vector];
    api->slab_free(host);
    sums->count++;
    return status;
}

ls_status ls_norm_sums_put(const ls_norm_sums *sums, int index, ls_device *device, ls_queue *queue, ls_buffer buffer,
    int64_t count, int channels) {
    const ls_device_api *api = device->api;
    if (index >= sums->count || sums->list[index].channels != channels)
        return ls_fail(
            LS_STORAGE, "%s: has no sums.%d of %d channels: of another network?", batch_name, index, channels);
    size_t bytes = (size_t)count * sizeof(double), vector = ((size_t)count - 1) / 2, c = (size_t)channels;
    ls_slab *host;
    LS_TRY(api->slab_new(device, LS_MEMORY_PINNED, bytes, "sums over ranks (host)", &host));
    double *to = ls_buffer_host(ls_buffer_at(host, 0, bytes));
    const double *from = sums->list[index].values;
    memcpy(to, from, c * sizeof *to); // the rest of these vectors is zero padding
    memcpy(to + vector, from + c, c * sizeof *to);
    to[2 * vector] = from[2 * c];
    api->copy(buffer, ls_buffer_at(host, 0, bytes), bytes, queue);
    ls_status status = api->queue_sync(queue);
    api->slab_free(host);
    return status;
}

void ls_norm_sums_free(ls_norm_sums *sums) {
    for (int i = 0; i < sums->capacity; i++) free(sums->list[i].values);
    free(sums->list);
    *sums = (ls_norm_sums){ 0 };
}

// --- writing -------------------------------------------------------------------------------------

// A batch as the loader delivered it. It is read from the data set again, because it depends only on the samples.
typedef struct {
    uint8_t *pixels;
    int32_t *labels;
    ls_augment_sample *augment;
    float *table;
} pictures;

static void free_pictures(pictures *p) {
    free(p->pixels);
    free(p->labels);
    free(p->augment);
    free(p->table);
}

static ls_status read_pictures(const ls_run_plan *plan, const ls_nonfinite *r, const int64_t *samples, pictures *p) {
    const ls_augmentation augmentation = ls_config_augmentation(plan->cfg);
    size_t n = (size_t)r->count, picture = (size_t)ls_chw_count(plan->graph->input);
    *p = (pictures){ 0 };
    LS_TRY(ls_try_new(&p->pixels, n * picture, sizeof *p->pixels, "micro-batch of %zu samples", n));
    LS_TRY(ls_try_new(&p->labels, n, sizeof *p->labels, "micro-batch of %zu samples", n));
    LS_TRY(ls_try_new(&p->augment, n, sizeof *p->augment, "micro-batch of %zu samples", n));
    LS_TRY(ls_try_new(&p->table, plan->graph->input.c * 256, sizeof *p->table, "micro-batch of %zu samples", n));
    for (size_t i = 0; i < n; i++) {
        LS_TRY(ls_dataset_read_whole(plan->train_data, samples[i], p->pixels + i * picture, &p->labels[i]));
        p->augment[i] =
            ls_augment_draw(&augmentation, plan->graph->input, (uint64_t)plan->cfg->run_seed, r->epoch, samples[i]);
    }
    ls_dataset_table(plan->train_data, p->table);
    return LS_SUCCESS;
}

static ls_status write_tensors(const char *path, const ls_run_session *session, const ls_nonfinite *r,
    const int64_t *samples, const pictures *p, const ls_norm_sums *sums) {
    ls_chw in = session->plan->graph->input;
    int64_t n = r->count;
    size_t some = (size_t)sums->count;
    ls_safetensors_tensor *tensors = ls_new(some + FIXED_TENSORS + 1, sizeof *tensors, "%s", path);
    char(*names)[24] = ls_new(some + 1, sizeof *names, "%s", path);
    for (int i = 0; i < sums->count; i++) {
        snprintf(names[i], sizeof names[i], "sums.%d", i);
        tensors[i] = (ls_safetensors_tensor){ names[i], LS_F64, 1, { 2 * (int64_t)sums->list[i].channels + 1 },
            sums->list[i].values };
    }
    const ls_safetensors_tensor rest[FIXED_TENSORS] = {
        { "samples", LS_I64, 1, { n }, samples },
        { "labels", LS_I32, 1, { n }, p->labels },
        { "table", LS_F32, 2, { in.c, 256 }, p->table },
        { "pixels", LS_U8, 4, { n, in.c, in.h, in.w }, p->pixels },
        { "augment", LS_U8, 2, { n, sizeof(ls_augment_sample) }, p->augment },
    };
    memcpy(tensors + some, rest, sizeof rest);
    int count = sums->count + FIXED_TENSORS;
    if (session->class_weights)
        tensors[count++] = (ls_safetensors_tensor){ "class_weights", LS_F32, 1, { session->plan->graph->classes },
            ls_class_weights_values(session->class_weights) };
    ls_status status = ls_safetensors_write(path, tensors, count, NULL, 0, NULL);
    free(tensors);
    free(names);
    return status;
}

static ls_status write_batch(const char *path, const ls_run_session *session, const ls_nonfinite *r,
    const int64_t *samples, const ls_norm_sums *sums) {
    pictures p;
    ls_status status = read_pictures(session->plan, r, samples, &p);
    LS_THEN(status, write_tensors(path, session, r, samples, &p, sums));
    free_pictures(&p);
    return status;
}

static ls_status write_config(const char *path, const ls_config *cfg) {
    ls_config own = *cfg;
    char *text = NULL;
    size_t bytes = 0;
    snprintf(own.model_file, sizeof own.model_file, "%s", network_name);
    own.data_path[0] = own.model_init[0] = '\0';
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory) return ls_no_memory(0, "%s", path);
    ls_config_write(&own, memory, 0);
    int broken = fclose(memory);
    ls_status status = broken ? ls_no_memory(0, "%s", path) : ls_write_file(path, text, bytes);
    free(text);
    return status;
}

static ls_status write_facts(const char *path, const ls_nonfinite *r) {
    cJSON *facts = cJSON_CreateObject();
    ls_nonfinite_json(r, facts);
    ls_status status = ls_json_write_file(path, facts);
    cJSON_Delete(facts);
    return status;
}

static ls_status write_files(const ls_run_session *session, const char *folder, const ls_nonfinite *r,
    const int64_t *samples, const ls_norm_sums *sums) {
    const ls_run_plan *plan = session->plan;
    char path[PATH_BYTES];
    ls_comm_phase(plan->comm, "writing the batch that was not finite", r->update);
    LS_TRY(ls_make_folders(folder));
    LS_TRY(ls_path_join(path, sizeof path, folder, config_name));
    LS_TRY(write_config(path, plan->cfg));
    LS_TRY(ls_path_join(path, sizeof path, folder, network_name));
    LS_TRY(ls_write_file(path, plan->graph->text, strlen(plan->graph->text)));
    LS_TRY(ls_path_join(path, sizeof path, folder, weights_name));
    LS_TRY(ls_run_write_weights(session, path));
    LS_TRY(ls_path_join(path, sizeof path, folder, batch_name));
    LS_TRY(write_batch(path, session, r, samples, sums));
    LS_TRY(ls_path_join(path, sizeof path, folder, facts_name));
    return write_facts(path, r);
}

// Chooses a free name for the folder. A resumed run may have failed at this update before; the older folder stays.
static ls_status choose_folder(const char *run, const ls_nonfinite *r, char *path, size_t bytes) {
    for (int i = 1; i <= TRIES; i++) {
        char name[64];
        int used = snprintf(name, sizeof name, "nonfinite-update-%lld", (long long)r->update);
        if (i > 1) snprintf(name + used, sizeof name - (size_t)used, "-%d", i);
        LS_TRY(ls_path_join(path, bytes, run, name));
        if (!ls_path_exists(path)) return LS_SUCCESS;
    }
    return ls_fail(LS_STORAGE, "%s: exists, and %d more of its kind", path, TRIES - 1);
}

ls_status ls_nonfinite_write(
    const ls_run_session *session, const char *run, ls_nonfinite *r, const int64_t *samples, const ls_norm_sums *sums) {
    char folder[LS_TEXT_BYTES], partial[LS_TEXT_BYTES + 16];
    LS_TRY(choose_folder(run, r, folder, sizeof folder));
    snprintf(partial, sizeof partial, "%s.partial", folder);
    snprintf(r->folder, sizeof r->folder, "%s", folder); // set before writing, because the facts name the folder
    ls_status status = write_files(session, partial, r, samples, sums);
    if (!ls_failed(status) && ls_pinned_rename(partial, folder) != 0)
        status = ls_fail(LS_STORAGE, "%s: rename to %s: %s", partial, folder, strerror(errno));
    LS_THEN(status, ls_sync_folder(run));
    if (ls_failed(status)) r->folder[0] = '\0';
    return status;
}

// --- reading -------------------------------------------------------------------------------------

static ls_status find(const ls_safetensors *file, ls_safetensors_tensor wanted, const void **data) {
    return ls_safetensors_find(file, &wanted, data);
}

// Reads the shape of the pixels. The sizes of all other tensors follow from it.
static ls_status read_shape(const char *path, const ls_safetensors *file, ls_chw input, ls_nchw *shape) {
    for (int i = 0; i < ls_safetensors_count(file); i++) {
        ls_safetensors_tensor tensor;
        if (!ls_safetensors_get(file, i, &tensor) || strcmp(tensor.name, "pixels") != 0) continue;
        if (tensor.rank == 4 && tensor.dim[0] >= 1 && tensor.dim[0] <= 65536 && tensor.dim[1] == input.c &&
            tensor.dim[2] == input.h && tensor.dim[3] == input.w) {
            *shape = ls_batch_of((int)tensor.dim[0], input);
            return LS_SUCCESS;
        }
        return ls_fail(LS_STORAGE, "%s: its pixels are not those of pictures of %dx%dx%d, which the network takes",
            path, input.c, input.h, input.w);
    }
    return ls_fail(LS_STORAGE, "%s: has no tensor 'pixels'", path);
}

static ls_status read_sums(const ls_safetensors *file, ls_norm_sums *sums) {
    int count = 0;
    for (int i = 0; i < ls_safetensors_count(file); i++)
        count += strncmp(ls_safetensors_name(file, i), "sums.", 5) == 0;
    sums->list = ls_new(count + 1, sizeof *sums->list, "sums over ranks");
    sums->capacity = count;
    for (int k = 0; k < count; k++) {
        char name[24];
        snprintf(name, sizeof name, "sums.%d", k);
        for (int i = 0; i < ls_safetensors_count(file); i++) {
            ls_safetensors_tensor tensor;
            if (!ls_safetensors_get(file, i, &tensor) || strcmp(tensor.name, name) != 0) continue;
            if (tensor.dtype != LS_F64 || tensor.rank != 1 || tensor.dim[0] < 3 || tensor.dim[0] % 2 == 0) break;
            size_t bytes = (size_t)tensor.dim[0] * sizeof(double);
            sums->list[k].channels = (int)(tensor.dim[0] / 2);
            sums->list[k].values = ls_new(1, bytes, "sums over ranks");
            memcpy(sums->list[k].values, tensor.data, bytes);
        }
        if (!sums->list[k].values)
            return ls_fail(
                LS_STORAGE, "%s: '%s' of %d such tensors is missing or no float64 (2C + 1)", batch_name, name, count);
        sums->count++;
    }
    return LS_SUCCESS;
}

static int has(const ls_safetensors *file, const char *name) {
    for (int i = 0; i < ls_safetensors_count(file); i++)
        if (strcmp(ls_safetensors_name(file, i), name) == 0) return 1;
    return 0;
}

static ls_status read_augment(const ls_safetensors *file, ls_nonfinite_batch *b) {
    const int whole = has(file, "augment") || !has(file, "placement");
    const size_t n = (size_t)b->shape.n, bytes = whole ? sizeof *b->augment : 4;
    const char *name = whole ? "augment" : "placement";
    const void *drawn;
    LS_TRY(find(file, (ls_safetensors_tensor){ name, LS_U8, 2, { b->shape.n, (int64_t)bytes }, NULL }, &drawn));
    LS_TRY(ls_try_new(&b->augment, n, sizeof *b->augment, "micro-batch of %zu samples", n));
    for (size_t i = 0; i < n; i++) memcpy(&b->augment[i], (const uint8_t *)drawn + i * bytes, bytes);
    return LS_SUCCESS;
}

static ls_status read_batch(const char *path, ls_nonfinite_batch *b) {
    const ls_safetensors *file = b->batch;
    const void *pixels, *labels, *samples, *table;
    LS_TRY(read_shape(path, file, b->graph->input, &b->shape));
    ls_nchw s = b->shape;
    LS_TRY(find(file, (ls_safetensors_tensor){ "pixels", LS_U8, 4, { s.n, s.c, s.h, s.w }, NULL }, &pixels));
    LS_TRY(find(file, (ls_safetensors_tensor){ "labels", LS_I32, 1, { s.n }, NULL }, &labels));
    LS_TRY(find(file, (ls_safetensors_tensor){ "samples", LS_I64, 1, { s.n }, NULL }, &samples));
    LS_TRY(find(file, (ls_safetensors_tensor){ "table", LS_F32, 2, { s.c, 256 }, NULL }, &table));
    b->pixels = pixels;
    b->labels = labels;
    b->samples = samples;
    b->table = table;
    for (int i = 0; i < s.n; i++)
        if (b->labels[i] < 0 || b->labels[i] >= b->graph->classes)
            return ls_fail(LS_STORAGE, "%s: label %d of sample %d, expected 0 to %d", path, b->labels[i], i,
                b->graph->classes - 1);
    const void *weights = NULL;
    if (has(file, "class_weights"))
        LS_TRY(
            find(file, (ls_safetensors_tensor){ "class_weights", LS_F32, 1, { b->graph->classes }, NULL }, &weights));
    b->class_weights = weights;
    LS_TRY(read_augment(file, b));
    return read_sums(file, &b->sums);
}

static ls_status read_number(const char *path, const cJSON *facts, const char *name, double most, double *out) {
    const cJSON *item = ls_json_get(facts, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > most)
        return ls_fail(LS_STORAGE, "%s: '%s' is no number from 0 to %g", path, name, most);
    *out = item->valuedouble;
    return LS_SUCCESS;
}

static ls_status take_facts(const char *path, const cJSON *facts, ls_nonfinite_batch *b) {
    double update = 0, epoch = 0, position = 0, loss_scale = 1;
    LS_TRY(read_number(path, facts, "failed_update", 4294967295.0, &update));
    LS_TRY(read_number(path, facts, "failed_epoch", 4294967295.0, &epoch));
    LS_TRY(read_number(path, facts, "position", 4294967295.0, &position));
    LS_TRY(read_number(path, facts, "loss_scale", 16777216.0, &loss_scale));
    b->update = (int64_t)update;
    b->epoch = (int64_t)epoch;
    b->position = (int64_t)position;
    b->loss_scale = (float)loss_scale;
    const char *layer = ls_json_get_text(facts, "layer");
    const char *tensor = ls_json_get_text(facts, "tensor");
    snprintf(b->layer, sizeof b->layer, "%s", layer ? layer : "");
    snprintf(b->tensor, sizeof b->tensor, "%s", tensor ? tensor : "");
    return LS_SUCCESS;
}

static ls_status read_facts(const char *path, ls_nonfinite_batch *b) {
    cJSON *facts;
    LS_TRY(ls_json_read_file(path, &facts));
    ls_status status = take_facts(path, facts, b);
    cJSON_Delete(facts);
    return status;
}

static ls_status read_all(const char *folder, ls_nonfinite_batch *b) {
    char path[PATH_BYTES];
    LS_TRY(ls_path_join(path, sizeof path, folder, facts_name));
    LS_TRY(read_facts(path, b));
    LS_TRY(ls_path_join(path, sizeof path, folder, network_name));
    LS_TRY(ls_graph_read(path, &b->graph));
    LS_TRY(ls_path_join(path, sizeof path, folder, weights_name));
    LS_TRY(ls_safetensors_read(path, &b->weights));
    LS_TRY(ls_path_join(path, sizeof path, folder, batch_name));
    LS_TRY(ls_safetensors_read(path, &b->batch));
    return read_batch(path, b);
}

ls_status ls_nonfinite_read(const char *folder, ls_nonfinite_batch *out) {
    *out = (ls_nonfinite_batch){ 0 };
    ls_status status = read_all(folder, out);
    if (ls_failed(status)) ls_nonfinite_batch_free(out);
    return status;
}

void ls_nonfinite_batch_free(ls_nonfinite_batch *b) {
    ls_graph_free(b->graph);
    ls_safetensors_free(b->weights);
    ls_safetensors_free(b->batch);
    free(b->augment);
    ls_norm_sums_free(&b->sums);
    *b = (ls_nonfinite_batch){ 0 };
}
