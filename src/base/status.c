#include "base/status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/scope.h"
#include "base/text.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // protects the texts of all scopes

ls_status ls_fail(ls_code code, const char *format, ...) {
    va_list args;
    ls_scope *scope = ls_scope_now();
    pthread_mutex_lock(&lock);
    char *text = scope->texts[scope->next_text++ % LS_STATUS_RING];
    va_start(args, format);
    vsnprintf(text, LS_STATUS_TEXT_BYTES, format, args);
    va_end(args);
    if (strcmp(format, "%s") != 0) ls_text_replace_controls(text);
    pthread_mutex_unlock(&lock);
    return (ls_status){ code, text };
}

const char *ls_code_meaning(ls_code code) {
    switch (code) {
#define LS_CODE_CASE(name, exit_code, meaning) \
    case LS_##name: \
        return meaning;
        LS_CODES(LS_CODE_CASE)
#undef LS_CODE_CASE
    }
    return ls_code_meaning(LS_INTERNAL);
}
