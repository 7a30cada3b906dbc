// status.h - the result of a function that can fail: a code, which is also the program's exit code, and one message.
//
// The message is written once, where the cause is known. It says what happened, where, what was expected and what to
// do. It lives in a ring of LS_STATUS_RING texts, so it needs no memory and may cross threads. It stays valid until
// LS_STATUS_RING later failures have happened in the same scope (scope.h). Callers pass it on unchanged.
#ifndef LS_BASE_STATUS_H
#define LS_BASE_STATUS_H

//    name      exit  meaning
#define LS_CODES(X) \
    X(OK, 0, "completed") \
    X(INTERNAL, 1, "internal error (a bug in Lockstep)") \
    X(USAGE, 2, "usage or configuration") \
    X(DATA, 3, "data set missing, damaged or inconsistent") \
    X(DEVICE, 4, "device, driver, library or memory") \
    X(COMM, 5, "communication: a peer lost, timed out or different") \
    X(NUMERIC, 6, "numerical: non-finite beyond the limit, replicas diverged, wrong gradients, or states that differ") \
    X(STORAGE, 7, "storage: cannot write or read a run or checkpoint") \
    X(STOPPED, 75, "stopped on request with a checkpoint written: the same command with --resume goes on")

typedef enum {
#define LS_CODE_ENUM(name, exit_code, meaning) LS_##name = exit_code,
    LS_CODES(LS_CODE_ENUM)
#undef LS_CODE_ENUM
} ls_code;

enum { LS_STATUS_RING = 32, LS_STATUS_TEXT_BYTES = 4096 };

typedef struct {
    ls_code code;
    const char *text; // NULL when code is LS_OK
} ls_status;

#define LS_CHECKED __attribute__((warn_unused_result))
#define LS_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#define LS_SUCCESS ((ls_status){ LS_OK, 0 })

// Makes a failure with this code and message. The message is one line: control characters in it become '?'. Only the
// format "%s" leaves its text unchanged, for a table or for the message of another rank.
ls_status ls_fail(ls_code code, const char *format, ...) LS_PRINTF(2, 3);
const char *ls_code_meaning(ls_code code); // "internal error..." for a number that is not a code
static inline int ls_failed(ls_status status) {
    return status.code != LS_OK;
}
// Keeps the earlier failure in *first, for clean-up that may fail as well.
static inline void ls_keep_first(ls_status *first, ls_status next) {
    if (first->code == LS_OK) *first = next;
}

#define LS_TRY(expr) \
    do { \
        ls_status ls_try_status_ = (expr); \
        if (ls_try_status_.code != LS_OK) return ls_try_status_; \
    } while (0)

// Sets `status` to the result of expr, and jumps to `done` if it is a failure: for functions that must free or close
// something there.
#define LS_TRY_GOTO(expr) \
    do { \
        status = (expr); \
        if (status.code != LS_OK) goto done; \
    } while (0)

// Sets `status` to the result of expr unless an earlier step has failed. For a chain of steps without jumps.
#define LS_THEN(status, expr) \
    do { \
        if ((status).code == LS_OK) (status) = (expr); \
    } while (0)

// For the return of a function that makes something: passes `made` to *out, or frees it by `end` if a step has failed.
#define LS_GIVE_OR_FREE(status, made, out, end) \
    ((status).code == LS_OK ? (void)(*(out) = (made)) : (void)end(made), (status))

#define LS_TRY_LIB(code, explain, call) \
    do { \
        int ls_try_rc_ = (int)(call); \
        if (ls_try_rc_ != 0) return ls_fail(code, "%s: %s (%d)", #call, explain(ls_try_rc_), ls_try_rc_); \
    } while (0)

#endif
