// The CUDA device but for its operators and queues: opening and its refusals, precisions, layouts, memory.
#include "base/atomic_file.h"
#include "base/half.h"
#include "device/cuda_device.h"
#include "device/gpu/plugin.h"
#include "support/must.h"

static ls_device *cuda;
static const ls_device_api *api;

static ls_slab *slab_of(ls_memory_kind kind, size_t bytes) {
    ls_slab *slab = NULL;
    must(api->slab_new(cuda, kind, bytes, "a test", &slab));
    return slab;
}

static ls_buffer whole(ls_slab *slab) {
    return ls_buffer_at(slab, 0, slab->bytes);
}

// Bytes of device memory; free() them.
static void *fetched(ls_buffer src) {
    ls_queue *queue;
    ls_slab *pinned = slab_of(LS_MEMORY_PINNED, src.bytes);
    must(api->queue_new(cuda, "fetch", &queue));
    api->copy(whole(pinned), src, src.bytes, queue);
    must(api->queue_sync(queue));
    void *bytes = malloc(src.bytes);
    if (!bytes) abort();
    memcpy(bytes, pinned->address, src.bytes);
    api->queue_free(queue);
    api->slab_free(pinned);
    return bytes;
}

// --- opening -------------------------------------------------------------------------------------

static void says_what_it_is(void **unused) {
    (void)unused;
    ls_device_info facts;
    size_t free_bytes, all_bytes;
    api->info(cuda, &facts);
    must(api->memory(cuda, &free_bytes, &all_bytes));
    assert_string_equal(api->name, "cuda");
    assert_non_null(strstr(facts.name, "compute capability "));
    assert_non_null(strstr(facts.libraries, "CUDA "));
    assert_true(facts.memory_bytes > 0 && free_bytes > 0 && free_bytes <= all_bytes);
}

static void a_gpu_that_is_not_there_is_refused(void **unused) {
    (void)unused;
    const int wrong[] = { -1, 999 };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ls_device *device = NULL;
        char expected[64];
        ls_status status = ls_device_open("cuda", &(ls_device_options){ .index = wrong[i] }, &device, NULL);
        snprintf(expected, sizeof expected, "GPU %d was asked for, but ", wrong[i]);
        assert_int_equal(status.code, LS_DEVICE);
        if (!strstr(status.text, expected)) fail_msg("no \"%s\" in: %s", expected, status.text);
    }
}

static void precisions(void **unused) {
    (void)unused;
    for (int i = 0; i < LS_DTYPE_COUNT; i++) {
        ls_status status = api->check_precision(cuda, (ls_dtype)i);
        int good = i == LS_F32 || i == LS_BF16 || i == LS_F16;
        assert_int_equal(status.code, good ? LS_OK : LS_USAGE);
        if (!good && !strstr(status.text, ls_dtype_name((ls_dtype)i))) fail_msg("%s", status.text);
    }
}

static void plugins_of_another_version_are_refused(void **unused) {
    (void)unused;
    ls_device_api good = *api, other_abi = *api, shorter = *api, longer = *api;
    other_abi.abi = 77;
    shorter.size = 8;
    longer.size += 8;
    const uint32_t size = sizeof(ls_gpu_plugin);
    const struct {
        ls_gpu_plugin plugin;
        const char *expected; // NULL: it is good
    } rows[] = {
        { { LS_DEVICE_ABI, size, &good, NULL }, NULL },
        { { LS_DEVICE_ABI, size + 16, &longer, NULL }, NULL }, // newer tables only grow at the end
        { { 99, size, &good, NULL }, "x.so was made for version 99 of the device interface" },
        { { LS_DEVICE_ABI, size, &other_abi, NULL }, "x.so was made for version 77 of the device interface" },
        { { LS_DEVICE_ABI, 4, &good, NULL }, "x.so has tables of 4 and " },
        { { LS_DEVICE_ABI, size, &shorter, NULL }, " and 8 bytes, this program expects " },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_status status = ls_gpu_plugin_check(&rows[i].plugin, "x.so");
        assert_int_equal(status.code, rows[i].expected ? LS_DEVICE : LS_OK);
        if (rows[i].expected && !strstr(status.text, rows[i].expected)) fail_msg("row %zu: %s", i, status.text);
    }
}

// Files that are no plugin: `cuda` fails with the loader's own words, `auto` says
// the same in one line and takes the cpu.
static void files_that_are_no_plugin_are_refused(void **unused) {
    (void)unused;
    char text_file[] = "/tmp/lockstep-no-plugin-XXXXXX", before[PATH_MAX] = "";
    int fd = mkstemp(text_file);
    assert_true(fd >= 0 && write(fd, "not a library\n", 14) == 14 && close(fd) == 0);
    const char *kept = getenv("LOCKSTEP_CUDA_PLUGIN");
    if (kept) snprintf(before, sizeof before, "%s", kept);
    const struct {
        const char *path, *expected[2];
    } rows[] = {
        { text_file, { "cannot load the CUDA device: ", "too short" } },
        { "/no/such/file.so", { "cannot load the CUDA device: /no/such/file.so: ", "No such file" } },
        { "libm.so.6", { "libm.so.6 is not Lockstep's CUDA device", "no symbol lockstep_cuda_plugin" } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_device *device = NULL;
        const char *why = NULL;
        setenv("LOCKSTEP_CUDA_PLUGIN", rows[i].path, 1);
        ls_status status = ls_device_open("cuda", &(ls_device_options){ .threads = 1 }, &device, &why);
        assert_int_equal(status.code, LS_DEVICE);
        assert_null(why);
        must(ls_device_open("auto", &(ls_device_options){ .threads = 1 }, &device, &why));
        assert_string_equal(device->api->name, "cpu");
        ls_device_close(device);
        for (int j = 0; j < 2; j++) {
            if (!strstr(status.text, rows[i].expected[j])) fail_msg("row %zu: %s", i, status.text);
            if (!strstr(why, rows[i].expected[j])) fail_msg("row %zu: %s", i, why);
        }
        assert_null(strchr(why, '\n'));
    }
    unlink(text_file);
    if (kept) setenv("LOCKSTEP_CUDA_PLUGIN", before, 1);
    if (!kept) unsetenv("LOCKSTEP_CUDA_PLUGIN");
}

static void auto_takes_the_gpu(void **unused) {
    (void)unused;
    ls_device *device = NULL;
    const char *why = "unset";
    must(ls_device_open("auto", &(ls_device_options){ .threads = 1 }, &device, &why));
    assert_string_equal(device->api->name, "cuda");
    assert_null(why);
    ls_device_close(device);
}

// --- layouts -------------------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_nchw shape;
    size_t elements; // with padding
} activation_rows[] = {
    { "one", { 1, 1, 1, 1 }, 8 },
    { "picture", { 2, 3, 5, 4 }, 2 * 20 * 8 },
    { "whole packs", { 3, 16, 2, 3 }, 3 * 6 * 16 },
    { "one more than whole packs", { 2, 17, 3, 1 }, 2 * 3 * 24 },
    { "logits", { 7, 10, 1, 1 }, 7 * 16 },
};

static void compare_floats(const char *row, const float *expected, const float *got, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (expected[i] != got[i])
            fail_msg("%s: element %zu is %g, expected %g", row, i, (double)got[i], (double)expected[i]);
    }
}

static float some_value(size_t i) { // none is zero, and all fit into 16 bits
    return (float)(1 + i % 127) * (i % 2 ? 0.5F : -0.25F);
}

static void check_activation(ls_nchw s, size_t elements, ls_dtype storage, const char *row) {
    size_t count = (size_t)ls_nchw_count(s), bytes = elements * ls_dtype_bytes(storage);
    assert_int_equal(api->activation_bytes(cuda, s, storage), bytes);
    float *values = calloc(3, count * sizeof *values), *again = values + count, *sorted = again + count;
    for (size_t i = 0; i < count; i++) values[i] = some_value(i);
    ls_slab *slab = slab_of(LS_MEMORY_DEVICE, bytes + 256);
    ls_buffer buffer = ls_buffer_at(slab, 256, bytes);
    api->activation_import(cuda, s, storage, values, buffer);
    api->activation_export(cuda, s, storage, buffer, again);
    compare_floats(row, values, again, count);
    // NHWC with padded channels, written out once more
    void *raw = fetched(buffer);
    size_t channels = elements / (size_t)(s.n * s.h * s.w), not_zero = 0;
    for (size_t i = 0; i < elements; i++) not_zero += ls_load_float(raw, storage, (int64_t)i) != 0;
    for (size_t i = 0; i < count; i++) {
        size_t w = i % (size_t)s.w, h = i / (size_t)s.w % (size_t)s.h, c = i / (size_t)(s.w * s.h) % (size_t)s.c,
               n = i / (size_t)(s.w * s.h * s.c);
        size_t at = ((n * (size_t)s.h + h) * (size_t)s.w + w) * channels + c;
        sorted[i] = ls_load_float(raw, storage, (int64_t)at);
    }
    compare_floats(row, values, sorted, count);
    assert_int_equal(not_zero, count);
    free(raw);
    free(values);
    api->slab_free(slab);
}

static void activations_are_nhwc_in_packs_of_8(void **unused) {
    (void)unused;
    const ls_dtype storages[] = { LS_F32, LS_BF16, LS_F16 };
    for (size_t i = 0; i < sizeof activation_rows / sizeof *activation_rows; i++) {
        for (int j = 0; j < 3; j++)
            check_activation(
                activation_rows[i].shape, activation_rows[i].elements, storages[j], activation_rows[i].name);
    }
}

static const struct {
    const char *name;
    ls_param_shape shape;
    size_t elements, channels; // with padding; between neighbouring pixels of one output
} param_rows[] = {
    { "vector", { LS_PARAM_VECTOR, { 10, 1, 1, 1 }, 1 }, 16, 1 },
    { "vector of whole packs", { LS_PARAM_VECTOR, { 64, 1, 1, 1 }, 1 }, 64, 1 },
    { "linear", { LS_PARAM_LINEAR, { 10, 17, 1, 1 }, 1 }, 16 * 24, 24 },
    { "linear of a map", { LS_PARAM_LINEAR, { 5, 3, 2, 7 }, 1 }, 8 * 14 * 8, 8 },
    { "conv", { LS_PARAM_CONV, { 5, 3, 3, 3 }, 1 }, 8 * 9 * 8, 8 },
    { "conv of whole packs", { LS_PARAM_CONV, { 16, 8, 5, 5 }, 1 }, 16 * 25 * 8, 8 },
    { "conv of one channel", { LS_PARAM_CONV, { 1, 1, 1, 1 }, 1 }, 8 * 8, 8 },
    { "conv of 2 groups", { LS_PARAM_CONV, { 6, 5, 3, 3 }, 2 }, 8 * 9 * 5, 5 },
    { "depthwise", { LS_PARAM_CONV, { 17, 1, 3, 3 }, 17 }, 24 * 9, 1 },
};

static void check_param(const ls_param_shape *shape, size_t elements, size_t channels, const char *row) {
    size_t count = (size_t)ls_param_count(shape), bytes = elements * sizeof(float);
    assert_int_equal(api->param_elements(cuda, shape), elements);
    float *values = calloc(3, count * sizeof *values), *again = values + count, *sorted = again + count;
    for (size_t i = 0; i < count; i++) values[i] = some_value(i);
    ls_slab *slab = slab_of(LS_MEMORY_DEVICE, bytes + 128);
    ls_buffer buffer = ls_buffer_at(slab, 128, bytes);
    api->param_import(cuda, shape, values, buffer);
    api->param_export(cuda, shape, buffer, again);
    compare_floats(row, values, again, count);
    float *raw = fetched(buffer);
    size_t pixels = (size_t)(shape->dim[2] * shape->dim[3]), in = (size_t)shape->dim[1], not_zero = 0;
    for (size_t i = 0; i < elements; i++) not_zero += raw[i] != 0;
    for (size_t i = 0; i < count; i++) {
        size_t pixel = i % pixels, c = i / pixels % in, o = i / (pixels * in);
        sorted[i] = raw[(o * pixels + pixel) * channels + c];
    }
    compare_floats(row, values, sorted, count);
    assert_int_equal(not_zero, count);
    free(raw);
    free(values);
    api->slab_free(slab);
}

static void parameters_are_padded_outside_of_groups(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof param_rows / sizeof *param_rows; i++)
        check_param(&param_rows[i].shape, param_rows[i].elements, param_rows[i].channels, param_rows[i].name);
}

// --- memory --------------------------------------------------------------------------------------

static void slabs_are_zeroed(void **unused) {
    (void)unused;
    const size_t bytes[] = { 0, 1, 1000, 1 << 20 };
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        ls_slab *device = slab_of(LS_MEMORY_DEVICE, bytes[i]), *pinned = slab_of(LS_MEMORY_PINNED, bytes[i]);
        assert_false(device->host_visible);
        assert_true(pinned->host_visible);
        assert_true(device->bytes == bytes[i] && pinned->bytes == bytes[i]);
        assert_int_equal((uintptr_t)device->address % 128, 0);
        assert_int_equal((uintptr_t)pinned->address % 128, 0);
        char *got = bytes[i] ? fetched(whole(device)) : NULL;
        for (size_t j = 0; j < bytes[i]; j++) {
            if (got[j] || pinned->address[j]) fail_msg("slab of %zu bytes: byte %zu is not zero", bytes[i], j);
        }
        free(got);
        api->slab_free(device);
        api->slab_free(pinned);
    }
    api->slab_free(NULL);
}

static void too_much_memory_is_refused_with_figures(void **unused) {
    (void)unused;
    ls_slab *slab = NULL;
    size_t free_bytes, all_bytes;
    must(api->memory(cuda, &free_bytes, &all_bytes));
    ls_status status = api->slab_new(cuda, LS_MEMORY_DEVICE, all_bytes + 1, "activations", &slab);
    assert_int_equal(status.code, LS_DEVICE);
    const char *const parts[] = { "out of GPU memory: activations needs ", " is free; ", "train.micro_batch",
        "nvidia-smi" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!strstr(status.text, parts[i])) fail_msg("no \"%s\" in: %s", parts[i], status.text);
    }
    assert_null(slab);
    api->slab_free(slab_of(LS_MEMORY_DEVICE, 4096)); // it was no error of the device
    says_what_it_is(NULL);
}

static int open_cuda(void **unused) {
    (void)unused;
    cuda = cuda_open();
    api = cuda->api;
    return 0;
}

static int close_cuda(void **unused) {
    (void)unused;
    ls_device_close(cuda);
    return 0;
}

int main(void) {
    int skipped = cuda_choose();
    if (skipped) return skipped;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_it_is),
        cmocka_unit_test(a_gpu_that_is_not_there_is_refused),
        cmocka_unit_test(precisions),
        cmocka_unit_test(plugins_of_another_version_are_refused),
        cmocka_unit_test(files_that_are_no_plugin_are_refused),
        cmocka_unit_test(auto_takes_the_gpu),
        cmocka_unit_test(activations_are_nhwc_in_packs_of_8),
        cmocka_unit_test(parameters_are_padded_outside_of_groups),
        cmocka_unit_test(slabs_are_zeroed),
        cmocka_unit_test(too_much_memory_is_refused_with_figures),
    };
    return cmocka_run_group_tests(tests, open_cuda, close_cuda);
}
