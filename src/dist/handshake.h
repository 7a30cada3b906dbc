// handshake.h - the first thing that ranks exchange: whether they are the same program, built alike, that is to do the
// same. Before that is compared, no other message has a length that all agree on. Private to dist/.
#ifndef LS_DIST_HANDSHAKE_H
#define LS_DIST_HANDSHAKE_H

#include "base/status.h"

// Every version of the program begins with this record, whatever follows: its size and the places of its fields stay.
enum { LS_HANDSHAKE_TEXT = 96 };
typedef struct {                     // texts end with 0; of longer ones the beginning, and a hash of the whole
    char magic[8];                   // "lockstep"
    char version[LS_HANDSHAKE_TEXT]; // ls_version
    char build[LS_HANDSHAKE_TEXT];   // ls_version_compiler
    char command[LS_HANDSHAKE_TEXT]; // "train bench --layers"; "": not known, this rank ends right after the start
} ls_handshake;

// command: NULL for "".
void ls_handshake_make(const char *command, ls_handshake *out);
// The same on every rank: success, or LS_COMM with a table of what differs.
LS_CHECKED ls_status ls_handshake_check(const ls_handshake *all, int world_size);

#endif
