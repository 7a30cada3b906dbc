// network_blocks.h - blocks of a network file: sequences of sections with parameters, which other sections use by name.
// A file with blocks becomes a file of plain sections, which network_file.c reads. docs/layers.md shows an example.
//
//   [block NAME]    defines a block. Its keys are its parameters, with their defaults. Each use must give a value for a
//                   parameter whose default is empty.
//   [NAME/SECTION]  are the block's sections, directly after it: layers, or uses of blocks that are defined before.
//   [USE]           uses the block: its sections become layers called USE.SECTION.
//     block = NAME
//     repeat = 3    several times, one after the other: USE.0.SECTION, USE.1.SECTION, ... `repeat = 1..6` counts from 1
//                   to 6. A '*' in USE is the place of the number.
//     inputs = a    the block's input; without it, the section before
//     PARAMETER = 2, 1   one value, or one for each repetition in order, the last for all further ones
//
// In a block, $PARAMETER stands for its value, in names and values of sections. `inputs` has names of the block's
// sections, or `input`: the block's input. A section with `if = $PARAMETER` is left out if the value is false. Sections
// that name it as an input then read the (first) input of the section that is left out.
#ifndef LS_MODEL_NETWORK_BLOCKS_H
#define LS_MODEL_NETWORK_BLOCKS_H

#include "config/ini.h"

// A network file without blocks.
typedef struct {
    ls_ini *ini; // the network without blocks; its line numbers are those of the file with blocks, for messages
    char *text;  // the text of `ini`, without blocks
    int *uses;   // by section of `ini`: line of the use outside all blocks that made it; 0: no use. NULL: no blocks
} ls_network_plain;

// Parses the text of a network file and expands its blocks. path: its origin, for messages. LS_USAGE with file:line,
// for example: it is no INI file; a block or parameter is unknown, missing or not used; blocks are more than 8 deep; or
// the network has more sections or bytes than an INI file may have.
LS_CHECKED ls_status ls_network_plain_parse(const char *path, const char *text, size_t bytes, ls_network_plain *out);
void ls_network_plain_free(ls_network_plain *plain);

#endif
