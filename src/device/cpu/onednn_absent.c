// onednn_absent.c - stands for onednn.c in programs without the library. It makes no convolution, so the device takes
// its own kernels and never calls the functions of a convolution, except ls_onednn_conv_free with NULL.
#include <assert.h>
#include <stdio.h>
#include "device/cpu/onednn.h"

ls_status ls_onednn_new(int threads, ls_onednn **out) {
    (void)threads;
    *out = NULL;
    return LS_SUCCESS;
}

void ls_onednn_free(ls_onednn *onednn) {
    (void)onednn;
}

void ls_onednn_describe(char *text, size_t bytes) {
    snprintf(text, bytes, "no oneDNN");
}

ls_status ls_onednn_conv_new(ls_onednn *onednn, const ls_onednn_conv_attr *attr, ls_onednn_conv **out) {
    (void)onednn, (void)attr;
    *out = NULL;
    return LS_SUCCESS;
}

void ls_onednn_conv_free(ls_onednn_conv *conv) {
    assert(!conv);
    (void)conv;
}

const char *ls_onednn_conv_name(const ls_onednn_conv *conv) {
    (void)conv;
    return "";
}

int ls_onednn_conv_exchanged(const ls_onednn_conv *conv) {
    (void)conv;
    return 0;
}

size_t ls_onednn_conv_scratch_bytes(const ls_onednn_conv *conv) {
    (void)conv;
    return 0;
}

size_t ls_onednn_conv_arranged_bytes(const ls_onednn_conv *conv) {
    (void)conv;
    return 0;
}

ls_status ls_onednn_conv_arrange(const ls_onednn_conv *conv, const void *weight, void *arranged) {
    (void)conv, (void)weight, (void)arranged;
    return ls_fail(LS_INTERNAL, "this program has no oneDNN");
}

int ls_onednn_conv_alike(const ls_onednn_conv *a, const ls_onednn_conv *b) {
    return a == b;
}

ls_status ls_onednn_conv_run(const ls_onednn_conv *conv, int thread, const ls_onednn_conv_args *args) {
    (void)conv, (void)thread, (void)args;
    return ls_fail(LS_INTERNAL, "this program has no oneDNN");
}
