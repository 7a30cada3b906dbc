// must.h - what has to succeed for a cmocka test to go on: must(ls_device_open(...)).
#ifndef TESTS_SUPPORT_MUST_H
#define TESTS_SUPPORT_MUST_H

#include "base/status.h"
#include "cmocka.h"

static inline void must(ls_status status) {
    if (ls_failed(status)) fail_msg("%s", status.text);
}

#endif
