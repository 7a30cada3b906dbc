#include "train/contact_sheet.h"

#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "config/values.h"
#include "data/loader.h"
#include "program/session.h"

enum { GRAY = 128, PARTS = 6 };

typedef struct {
    const ls_config *cfg;
    const ls_contact_sheet_options *options;
    ls_contact_sheet *sheet;
    ls_dataset *data;
    const ls_dataset_info *info;
    ls_session session;
    ls_resolutions resolutions;
    ls_nchw shape; // shape of a column: all rows, at the resolution of the data set
    uint8_t *pixels;
    float *table, *seen;
    ls_slab *on_device[PARTS]; // tensors of one column: pixels, samples, table, augmented, resized, changed
} work;

// --- the sheet -----------------------------------------------------------------------------------

static ls_status make_sheet(work *w) {
    const ls_chw s = w->info->shape;
    const int longer = s.h > s.w ? s.h : s.w,
              scale = longer < LS_CONTACT_SHEET_CELL ? (LS_CONTACT_SHEET_CELL + longer - 1) / longer : 1;
    ls_contact_sheet *sheet = w->sheet;
    sheet->cell = (ls_chw){ s.c, s.h * scale, s.w * scale };
    sheet->shape = (ls_chw){ s.c, w->options->rows * (sheet->cell.h + LS_CONTACT_SHEET_GAP) + LS_CONTACT_SHEET_GAP,
        (w->options->columns + 1) * (sheet->cell.w + LS_CONTACT_SHEET_GAP) + LS_CONTACT_SHEET_GAP };
    sheet->pixels = ls_new(ls_chw_count(sheet->shape), sizeof *sheet->pixels, "contact sheet of %d x %d pixels",
        sheet->shape.h, sheet->shape.w);
    memset(sheet->pixels, GRAY, (size_t)ls_chw_count(sheet->shape));
    return LS_SUCCESS;
}

size_t ls_contact_sheet_at(const ls_contact_sheet *sheet, int row, int column) {
    const int y = LS_CONTACT_SHEET_GAP + row * (sheet->cell.h + LS_CONTACT_SHEET_GAP),
              x = LS_CONTACT_SHEET_GAP + column * (sheet->cell.w + LS_CONTACT_SHEET_GAP);
    return (size_t)y * (size_t)sheet->shape.w + (size_t)x;
}

// Returns the pixel value, 0 to 255, whose normalised value is nearest to `value`.
static uint8_t pixel_of(const float table[256], float value) {
    const float pixel = floorf((value - table[0]) / (table[255] - table[0]) * 255 + 0.5F);
    return (uint8_t)(pixel > 0 ? pixel < 255 ? pixel : 255 : 0);
}

// Draws one picture into the cell at (row, column). values: normalised, planar, height x width.
static void put_picture(const work *w, int row, int column, const float *values, int height, int width) {
    const ls_contact_sheet *sheet = w->sheet;
    const size_t plane = (size_t)sheet->shape.h * (size_t)sheet->shape.w;
    for (int c = 0; c < sheet->cell.c; c++)
        for (int y = 0; y < sheet->cell.h; y++)
            for (int x = 0; x < sheet->cell.w; x++) {
                const int from_y = (int)((int64_t)y * height / sheet->cell.h),
                          from_x = (int)((int64_t)x * width / sheet->cell.w);
                const size_t to =
                    ls_contact_sheet_at(sheet, row, column) + (size_t)y * (size_t)sheet->shape.w + (size_t)x;
                sheet->pixels[(size_t)c * plane + to] =
                    pixel_of(w->table + c * 256, values[((int64_t)c * height + from_y) * width + from_x]);
            }
}

// --- a column ------------------------------------------------------------------------------------

static ls_status run_operator(work *w, const ls_op_desc *desc, const ls_buffer *args) {
    const ls_device_api *api = w->session.device->api;
    ls_plan *plan;
    ls_slab *workspace = NULL;
    LS_TRY(api->plan_new(w->session.device, desc, &plan));
    ls_status status = LS_SUCCESS;
    if (plan->workspace_bytes > 0)
        status = api->slab_new(w->session.device, LS_MEMORY_DEVICE, plan->workspace_bytes, "workspace", &workspace);
    if (!ls_failed(status)) {
        ls_plan_run(
            plan, args, workspace ? ls_buffer_at(workspace, 0, workspace->bytes) : (ls_buffer){ 0 }, w->session.queue);
        status = api->queue_sync(w->session.queue);
    }
    if (workspace) api->slab_free(workspace);
    api->plan_free(plan);
    return status;
}

static ls_buffer whole(const ls_slab *slab) {
    return ls_buffer_at((ls_slab *)slab, 0, slab->bytes);
}

static ls_status new_activation(work *w, ls_nchw shape, ls_slab **out) {
    const ls_device_api *api = w->session.device->api;
    return api->slab_new(
        w->session.device, LS_MEMORY_DEVICE, api->activation_bytes(w->session.device, shape, LS_F32), "pictures", out);
}

// Changes the uploaded pictures by TrivialAugment on the device. *result: the memory that holds them.
static ls_status change(work *w, const ls_augmentation *augmentation, ls_slab **result) {
    ls_slab **on = w->on_device;
    *result = on[0];
    if (!augmentation->trivial_augment) return LS_SUCCESS;
    LS_TRY(w->session.device->api->slab_new(
        w->session.device, LS_MEMORY_DEVICE, (size_t)ls_nchw_count(w->shape), "changed pictures", &on[5]));
    const ls_op_desc desc = {
        .op = LS_OP_TRIVIAL_AUGMENT, .layer = "input", .attr.augment = { w->shape, LS_F32, *augmentation, 0 }
    };
    const ls_buffer args[LS_TRIVIAL_AUGMENT_ARGS] = { [LS_TRIVIAL_AUGMENT_PIXELS] = whole(on[0]),
        [LS_TRIVIAL_AUGMENT_SAMPLE] = whole(on[1]),
        [LS_TRIVIAL_AUGMENT_DST] = whole(on[5]) };
    *result = on[5];
    return run_operator(w, &desc, args);
}

static ls_status augment(work *w, const ls_augmentation *augmentation, const ls_augment_sample *drawn) {
    const size_t rows = (size_t)w->shape.n, picture = (size_t)ls_chw_count(w->info->shape);
    ls_slab **on = w->on_device, *pixels;
    LS_TRY(ls_session_upload(&w->session, "pictures", w->pixels, rows * picture, &on[0]));
    LS_TRY(ls_session_upload(&w->session, "augmentation", drawn, rows * sizeof *drawn, &on[1]));
    LS_TRY(ls_session_upload(&w->session, "table", w->table, (size_t)w->shape.c * 256 * sizeof(float), &on[2]));
    LS_TRY(change(w, augmentation, &pixels));
    LS_TRY(new_activation(w, w->shape, &on[3]));
    const ls_op_desc desc = {
        .op = LS_OP_AUGMENT, .layer = "input", .attr.augment = { w->shape, LS_F32, *augmentation, 0 }
    };
    const ls_buffer args[LS_AUGMENT_ARGS] = { [LS_AUGMENT_PIXELS] = whole(pixels),
        [LS_AUGMENT_SAMPLE] = whole(on[1]),
        [LS_AUGMENT_TABLE] = whole(on[2]),
        [LS_AUGMENT_DST] = whole(on[3]) };
    return run_operator(w, &desc, args);
}

// Resizes the augmented pictures of a column to the resolution `to` on the device. *result: the memory that holds them.
static ls_status resize(work *w, ls_nchw to, ls_slab **result) {
    *result = w->on_device[3];
    if (to.h == w->shape.h && to.w == w->shape.w) return LS_SUCCESS;
    *result = NULL;
    LS_TRY(new_activation(w, to, &w->on_device[4]));
    const ls_op_desc desc = { .op = LS_OP_RESIZE, .layer = "input", .attr.resize = { w->shape, to, LS_F32 } };
    const ls_buffer args[LS_RESIZE_ARGS] = {
        [LS_RESIZE_SRC] = whole(w->on_device[3]), [LS_RESIZE_DST] = whole(w->on_device[4])
    };
    LS_TRY(run_operator(w, &desc, args));
    *result = w->on_device[4];
    return LS_SUCCESS;
}

static void free_parts(work *w) {
    for (int i = 0; i < PARTS; i++) {
        if (w->on_device[i]) w->session.device->api->slab_free(w->on_device[i]);
        w->on_device[i] = NULL;
    }
}

static ls_status put_column(
    work *w, int column, const ls_augmentation *augmentation, const ls_augment_sample *drawn, ls_nchw as) {
    ls_slab *result = NULL;
    ls_device *device = w->session.device;
    ls_status status = augment(w, augmentation, drawn);
    LS_THEN(status, resize(w, as, &result));
    if (!ls_failed(status)) {
        device->api->activation_export(device, as, LS_F32, whole(result), w->seen);
        for (int row = 0; row < as.n; row++)
            put_picture(w, row, column, w->seen + (int64_t)row * as.c * as.h * as.w, as.h, as.w);
    }
    free_parts(w);
    return status;
}

static ls_nchw shape_in_epoch(const work *w, int64_t epoch) {
    ls_nchw shape = w->shape;
    if (w->resolutions.count == 0) return shape;
    const ls_resolution *step = &w->resolutions.step[ls_resolutions_find(&w->resolutions, epoch)];
    shape.h = step->h;
    shape.w = step->w;
    return shape;
}

static ls_status put_columns(work *w, ls_augment_sample *drawn) {
    const ls_augmentation none = { 0 }, augmentation = ls_config_augmentation(w->cfg);
    LS_TRY(put_column(w, 0, &none, drawn, w->shape)); // column 0 is not augmented: `drawn` is still all 0
    for (int column = 1; column <= w->options->columns; column++) {
        const int64_t epoch = w->options->epoch + column - 1;
        for (int row = 0; row < w->shape.n; row++)
            drawn[row] = ls_augment_draw(&augmentation, w->info->shape, (uint64_t)w->cfg->run_seed, epoch, row);
        LS_TRY(put_column(w, column, &augmentation, drawn, shape_in_epoch(w, epoch)));
    }
    return LS_SUCCESS;
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status read_pictures(work *w) {
    const size_t picture = (size_t)ls_chw_count(w->info->shape);
    int32_t label;
    LS_TRY(ls_try_new(&w->pixels, (size_t)w->shape.n * picture, sizeof *w->pixels, "%d pictures", w->shape.n));
    for (int i = 0; i < w->shape.n; i++)
        LS_TRY(ls_dataset_read_whole(w->data, i, w->pixels + (size_t)i * picture, &label));
    LS_TRY(ls_try_new(&w->table, w->shape.c * 256, sizeof *w->table, "%d pictures", w->shape.n));
    ls_dataset_table(w->data, w->table);
    return LS_SUCCESS;
}

static ls_status open_data(work *w) {
    LS_TRY(ls_dataset_open(w->cfg, LS_SPLIT_TRAIN, &w->data));
    w->info = ls_dataset_get_info(w->data);
    const ls_chw s = w->info->shape;
    if (s.c != 1 && s.c != 3)
        return ls_fail(
            LS_USAGE, "data.dataset = %s: pictures of %d channels; a contact sheet shows 1 or 3", w->info->name, s.c);
    if (w->info->count < w->options->rows)
        return ls_fail(LS_USAGE, "--rows %d: data.dataset = %s has %lld training pictures", w->options->rows,
            w->info->name, (long long)w->info->count);
    w->shape = ls_batch_of(w->options->rows, s);
    LS_TRY(ls_parse_resolutions("train.resolution", w->cfg->train_resolution, &w->resolutions));
    return read_pictures(w);
}

// Allocates memory for the values of the largest column.
static ls_status make_room(work *w) {
    int64_t most = ls_nchw_count(w->shape);
    for (int i = 0; i < w->resolutions.count; i++) {
        const int64_t count = (int64_t)w->shape.n * w->shape.c * w->resolutions.step[i].h * w->resolutions.step[i].w;
        if (count > most) most = count;
    }
    return ls_try_new(&w->seen, most, sizeof *w->seen, "%d pictures", w->shape.n);
}

static ls_status make(work *w) {
    const char *why_not_gpu;
    ls_augment_sample *drawn;
    LS_TRY(open_data(w));
    LS_TRY(make_sheet(w));
    LS_TRY(make_room(w));
    LS_TRY(ls_session_open_device(&w->session, w->cfg, &why_not_gpu));
    LS_TRY(ls_session_start(&w->session, LS_F32));
    LS_TRY(ls_try_new(&drawn, w->shape.n, sizeof *drawn, "%d pictures", w->shape.n));
    ls_status status = put_columns(w, drawn);
    free(drawn);
    return status;
}

ls_status ls_contact_sheet_new(const ls_config *cfg, const ls_contact_sheet_options *options, ls_contact_sheet *out) {
    *out = (ls_contact_sheet){ 0 };
    work w = { .cfg = cfg, .options = options, .sheet = out };
    ls_status status = make(&w);
    ls_session_close(&w.session);
    ls_dataset_free(w.data);
    free(w.pixels);
    free(w.table);
    free(w.seen);
    if (ls_failed(status)) ls_contact_sheet_free(out);
    return status;
}

void ls_contact_sheet_free(ls_contact_sheet *sheet) {
    free(sheet->pixels);
    *sheet = (ls_contact_sheet){ 0 };
}
