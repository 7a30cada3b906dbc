// data_file.h - a data set's file, open for reading (base/files.h): what is wrong with it is LS_DATA.
#ifndef LS_DATA_DATA_FILE_H
#define LS_DATA_DATA_FILE_H

#include "base/files.h"

// LS_DATA: missing, no permission, a folder or a device in its place, empty. Symbolic links are followed.
LS_CHECKED ls_status ls_data_file_open(const char *path, ls_input *file);
void ls_data_file_note(const ls_input *file); // ls_note_read: of files that hold a whole set, which are few
// `bytes` bytes from `offset`, all of them: LS_DATA when the file ends earlier or the system reports an error.
LS_CHECKED ls_status ls_data_file_read(const ls_input *file, size_t offset, void *dst, size_t bytes);

#endif
