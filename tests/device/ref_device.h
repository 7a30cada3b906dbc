// ref_device.h - the reference device with one thread, opened and closed around a group of tests:
//   cmocka_run_group_tests(tests, open_ref, close_ref)
#ifndef TESTS_DEVICE_REF_DEVICE_H
#define TESTS_DEVICE_REF_DEVICE_H

#include "device/device.h"

static ls_device *ref;

static inline int open_ref(void **unused) {
    (void)unused;
    return ls_failed(ls_device_open("ref", &(ls_device_options){ .threads = 1 }, &ref, NULL));
}

static inline int close_ref(void **unused) {
    (void)unused;
    ls_device_close(ref);
    return 0;
}

#endif
