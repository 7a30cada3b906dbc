// What differs between two states: facts first, then tensors in their order, with how much.
#include "train/diagnose/state_diff.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "support/cmocka.h"

enum { LINES_BYTES = 4096 };

static void put_line(void *context, const ls_state_difference *d) {
    ls_text_room *lines = context;
    ls_text_put(lines, "%s %s: %s | %s%s%s\n", d->is_tensor ? "tensor" : "fact", d->name, d->a, d->b,
        d->note[0] ? "; " : "", d->note);
}

static void check(const ls_state *a, const ls_state *b, const char *expected) {
    char lines[LINES_BYTES] = "";
    ls_text_room room = { lines, sizeof lines };
    int count = 0;
    for (const char *at = expected; (at = strchr(at, '\n')); at++) count++;
    assert_int_equal(ls_state_diff(a, b, put_line, &room), count);
    assert_string_equal(lines, expected);
}

static ls_safetensors_tensor tensor(const char *name, ls_dtype dtype, int64_t count, const void *data) {
    return (ls_safetensors_tensor){ .name = name, .dtype = dtype, .rank = 1, .dim = { count }, .data = data };
}

static void tensors(void **unused) {
    (void)unused;
    static const float a[] = { 1, 2, 3, NAN, 0 }, b[] = { 1, 2.5F, 3, NAN, -0.0F }, c[] = { 1, 2, INFINITY, NAN, 0 };
    static const int64_t whole[] = { 7, 8 }, other[] = { 7, 11 };
    ls_safetensors_tensor x[] = { tensor("w", LS_F32, 5, a), tensor("v", LS_F32, 5, a), tensor("n", LS_I64, 2, whole),
        tensor("short", LS_F32, 5, a), tensor("odd", LS_F32, 5, NULL), tensor("gone", LS_F32, 5, a),
        tensor("kind", LS_I64, 2, whole) };
    ls_safetensors_tensor y[] = { tensor("w", LS_F32, 5, b), tensor("n", LS_I64, 2, other), tensor("v", LS_F32, 5, c),
        tensor("short", LS_F32, 4, a), tensor("odd", LS_F32, 5, NULL), tensor("new", LS_F32, 5, a),
        tensor("kind", LS_F64, 2, whole) };
    const ls_state left = { .tensors = x, .count = 7 }, right = { .tensors = y, .count = 7 };
    check(&left, &left, "tensor odd: a type that is not compared (5) | a type that is not compared (5)\n");
    check(&left, &right,
        "tensor w: [1] is 2 | 2.5; one bit apart; 2 of 5 elements differ, at most by 0.5, relative 0.2\n"
        "tensor v: [2] is 3 | inf; 1 of 5 elements differ, at most by inf, relative inf\n"
        "tensor n: [1] is 8 | 11; 1 of 2 elements differ, at most by 3, relative 0.273\n"
        "tensor short: fp32 (5) | fp32 (4)\n"
        "tensor odd: a type that is not compared (5) | a type that is not compared (5)\n"
        "tensor gone: fp32 (5) | none\n"
        "tensor kind: int64 (2) | fp64 (2)\n"
        "tensor new: none | fp32 (5)\n");
}

static void facts(void **unused) {
    (void)unused;
    cJSON *a = cJSON_Parse("{\"network\":{\"hash\":\"ab\"},\"cursor\":{\"update\":3,\"seconds\":1},"
                           "\"sums\":{\"of_epoch_loss\":0.1},\"device\":\"cpu\",\"data\":{\"samples\":9}}");
    cJSON *b = cJSON_Parse("{\"network\":{\"hash\":\"cd\"},\"cursor\":{\"update\":3,\"seconds\":2},"
                           "\"sums\":{\"of_epoch_loss\":0.10000000000000002},\"device\":\"cuda\","
                           "\"data\":{\"samples\":9,\"decoder\":\"x\"}}");
    check(&(ls_state){ .facts = a }, &(ls_state){ .facts = b },
        "fact network.hash: ab | cd\n"
        "fact data.decoder: none | x\n"
        "fact sums.of_epoch_loss: 0.1 | 0.10000000000000002\n");
    check(&(ls_state){ .facts = a }, &(ls_state){ 0 }, "");
    cJSON *odd = cJSON_Parse("{\"network\":[1],\"cursor\":{\"update\":3},\"data\":7}");
    check(&(ls_state){ .facts = odd }, &(ls_state){ .facts = a },
        "fact data.samples: none | 9\n"
        "fact sums.of_epoch_loss: none | 0.1\n");
    cJSON_Delete(odd);
    cJSON_Delete(a);
    cJSON_Delete(b);
}

static void snapshots(void **unused) {
    (void)unused;
    float values[2][2] = { { 1, 2 }, { 1, 3 } };
    ls_snapshot_tensor list[2] = { { .name = "w", .rank = 1, .dim = { 2 }, .elements = 2, .values = values[0] },
        { .name = "w", .rank = 1, .dim = { 2 }, .elements = 2, .values = values[1] } };
    ls_snapshot a = { .tensors = &list[0], .count = 1, .counters = { .update = 4, .seconds = 1 } };
    ls_snapshot b = { .tensors = &list[1], .count = 1, .counters = { .update = 5, .seconds = 2 } };
    ls_state x = ls_state_of_snapshot(&a), y = ls_state_of_snapshot(&b);
    check(&x, &y,
        "fact cursor.update: 4 | 5\n"
        "tensor w: [1] is 2 | 3; one bit apart; 1 of 2 elements differ, at most by 1, relative 0.333\n");
    ls_state_free(&x);
    ls_state_free(&y);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(tensors), cmocka_unit_test(facts),
        cmocka_unit_test(snapshots) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
