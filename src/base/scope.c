#include "base/scope.h"

#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

static char process_texts[LS_STATUS_RING][LS_STATUS_TEXT_BYTES];
static ls_scope process = {
    .texts = process_texts,
    .log = { .fd = STDERR_FILENO, .world_size = 1, .level = LS_LOG_INFO },
    .pinned = { .fd = -1 },
};
static _Thread_local ls_scope *now;

ls_scope *ls_scope_new(int log_fd) {
    struct {
        ls_scope scope;
        char texts[LS_STATUS_RING][LS_STATUS_TEXT_BYTES];
    } *made = ls_new(1, sizeof *made, "one of several runs");
    ls_scope *scope = &made->scope;
    scope->texts = made->texts;
    scope->log.fd = log_fd;
    scope->log.world_size = 1;
    scope->log.level = LS_LOG_INFO;
    scope->pinned.fd = -1;
    scope->started_s = ls_clock_seconds();
    return scope;
}

void ls_scope_enter(ls_scope *scope) {
    now = scope;
}

ls_scope *ls_scope_now(void) {
    return now ? now : &process;
}

int ls_scope_is_of_run(void) {
    return now != NULL;
}
