// Where a run's time went, as JSON and back: the parts written add up to the whole, and what is no such object is refused.
#include <math.h>
#include <string.h>
#include "run/run_time.h"
#include "support/cmocka.h"

static const char *const parts[] = { "compute", "loader_wait", "communication_exposed", "evaluation", "checkpoint",
    "other" };

static double member(const cJSON *object, const char *name) {
    const cJSON *item = ls_json_get(object, name);
    if (!cJSON_IsNumber(item)) fail_msg("%s: no number", name);
    return item->valuedouble;
}

static cJSON *written(const ls_run_time *time) {
    cJSON *object = cJSON_CreateObject();
    ls_run_time_json(time, object);
    char *text = ls_json_text(object, 0);
    cJSON_Delete(object);
    object = cJSON_Parse(text);
    cJSON_free(text);
    assert_non_null(object);
    return object;
}

static void adds_up(void **state) {
    (void)state;
    ls_run_time t = { .seconds = 10.0000004,
        .compute = 6.1234564,
        .loader_wait = 1.0000004,
        .communication = 0.3333333,
        .evaluation = 1e-7,
        .checkpoint = 0.25,
        .kinds_known = 1,
        .enqueue = NAN,
        .core_wait = 3.5 };
    t.kind[LS_OP_KIND_CONVOLUTION] = 4;
    t.kind[LS_OP_KIND_OPTIMIZER] = 2.1234564;
    cJSON *object = written(&t);
    double sum = 0;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) sum += member(object, parts[p]);
    assert_true(fabs(sum - member(object, "seconds")) < 1e-9);
    const cJSON *kinds = ls_json_get(object, "compute_by_kind");
    assert_int_equal(cJSON_GetArraySize(kinds), 2);
    assert_true(fabs(member(kinds, "convolution") + member(kinds, "optimizer") - member(object, "compute")) < 2e-6);
    assert_null(ls_json_get(object, "enqueue"));

    ls_run_time back;
    assert_true(ls_run_time_read(object, &back));
    assert_true(fabs(back.compute - t.compute) < 1e-6 && fabs(back.seconds - t.seconds) < 1e-6 && back.kinds_known &&
                isnan(back.enqueue) && back.kind[LS_OP_KIND_CONVOLUTION] == 4 && back.core_wait == 3.5);
    cJSON_Delete(object);
}

static void of_a_gpu(void **state) {
    (void)state;
    const ls_run_time t = { .seconds = 2, .compute = 1.5, .enqueue = 0.5 };
    ls_run_time back;
    cJSON *object = written(&t);
    assert_null(ls_json_get(object, "compute_by_kind"));
    assert_true(ls_run_time_read(object, &back) && !back.kinds_known && back.enqueue == 0.5);
    cJSON_Delete(object);
}

static void impossible(void **state) {
    (void)state;
    static const char *const texts[] = { "[]", "{}", "{\"seconds\":-1}", "{\"seconds\":\"2\"}", "{\"seconds\":1e300}",
        "{\"seconds\":2,\"compute\":null}", "{\"seconds\":2,\"core_wait\":-1}",
        "{\"seconds\":2,\"compute_by_kind\":{\"norm\":[]}}" };
    ls_run_time time;
    assert_false(ls_run_time_read(NULL, &time));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cJSON *object = cJSON_Parse(texts[i]);
        if (ls_run_time_read(object, &time)) fail_msg("%s is taken", texts[i]);
        cJSON_Delete(object);
    }
}

static void room(void **state) {
    (void)state;
    const ls_run_room r = { .cores = 1.5, .threads = 2, .memory_bytes = 3e9, .activation_bytes = 5e6 };
    ls_run_room back;
    cJSON *object = cJSON_CreateObject();
    ls_run_room_json(&r, object);
    char *text = ls_json_text(object, 0);
    cJSON_Delete(object);
    object = cJSON_Parse(text);
    cJSON_free(text);
    ls_run_room_read(object, &back);
    assert_true(back.cores == 1.5 && back.threads == 2 && back.memory_bytes == 3e9 && back.activation_bytes == 5e6);
    cJSON_Delete(object);
    ls_run_room_read(NULL, &back);
    assert_true(back.cores == 0 && back.threads == 0 && back.memory_bytes == 0);
    object = cJSON_Parse("{\"cores\":-1,\"threads\":1.5,\"memory_bytes\":\"many\"}");
    ls_run_room_read(object, &back);
    assert_true(back.cores == 0 && back.threads == 0 && back.memory_bytes == 0);
    cJSON_Delete(object);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(adds_up), cmocka_unit_test(of_a_gpu),
        cmocka_unit_test(impossible), cmocka_unit_test(room) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
