// target.h - what the fuzz targets share. A target is one file, fuzz_NAME.c, with LLVMFuzzerTestOneInput, which gives
// its input to a reader as the content of a file and checks what must hold for any input: no crash, and what is refused
// is refused with the right exit code and a message of one line.
//
// The same targets are built twice: by clang with libFuzzer (scripts/fuzz.sh), and by the ordinary compiler with
// replay.c, which runs the inputs in corpus/NAME as a test. docs/testing.md says how to add one.
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

// Path of a file in memory that holds these bytes until the next call with the same number (0 to FUZZ_FILES - 1).
enum { FUZZ_FILES = 8 };
const char *fuzz_file(int number, const void *data, size_t bytes);
// An empty folder of this process, below TMPDIR, removed when it ends.
const char *fuzz_folder(void);
// folder/name shows what fuzz_file(number) holds; number < 0: removes it again.
void fuzz_link(const char *folder, const char *name, int number);

// Cuts an input into several files: the next one stands behind its length, two bytes, big-endian (as far as there is
// that much). Moves *data and *bytes on.
const uint8_t *fuzz_part(const uint8_t **data, size_t *bytes, size_t *part_bytes);

// Ends the process with a report, as a sanitizer does, unless the condition holds.
#define fuzz_expect(condition, ...) \
    do { \
        if (!(condition)) fuzz_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
    } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...) LS_PRINTF(4, 5);
// A failure must have one of the codes (LS_OK: none) and a message of one line without control characters. 1: failed.
int fuzz_refused(ls_status status, ls_code expected, ls_code or_else);

#endif
