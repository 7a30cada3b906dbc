// data_file.h - opens and reads a file of a data set (base/files.h). Faults of the file are LS_DATA.
#ifndef LS_DATA_DATA_FILE_H
#define LS_DATA_DATA_FILE_H

#include "base/files.h"

// Opens a file. LS_DATA: missing, empty, unreadable for this user, or no regular file. Symbolic links are followed.
LS_CHECKED ls_status ls_data_file_open(const char *path, ls_input *file);
// Notes that this process reads the file (ls_note_read). Only for the few files that hold a whole set.
void ls_data_file_note(const ls_input *file);
// Reads exactly `bytes` bytes from `offset`. LS_DATA: the file ends earlier, or the system reports an error.
LS_CHECKED ls_status ls_data_file_read(const ls_input *file, size_t offset, void *dst, size_t bytes);

#endif
