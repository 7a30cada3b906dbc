// handshake.h - the first message between ranks: it shows whether they are the same program, built in the same way,
// with the same task. Until it is compared, no other message has a length that all ranks know. Private to dist/.
#ifndef LS_DIST_HANDSHAKE_H
#define LS_DIST_HANDSHAKE_H

#include "base/status.h"

// The record that each rank sends first. All versions of the program begin with it, so size and places must not change.
enum { LS_HANDSHAKE_TEXT = 96 };
typedef struct {                     // a text ends with 0; a longer one is cut and ends with a hash
    char magic[8];                   // "lockstep"
    char version[LS_HANDSHAKE_TEXT]; // from ls_version
    char build[LS_HANDSHAKE_TEXT];   // from ls_version_compiler
    char command[LS_HANDSHAKE_TEXT]; // "train bench --layers"; "": not known, this rank ends right after the start
} ls_handshake;

// Fills in this program's record. command: NULL counts as "".
void ls_handshake_make(const char *command, ls_handshake *out);
// Compares the records of all ranks. LS_COMM: the ranks differ in program, version, build, or command if all are known.
LS_CHECKED ls_status ls_handshake_check(const ls_handshake *all, int world_size);

#endif
