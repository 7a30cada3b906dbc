#include "config/file_type.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"

enum { BEGINNING_BYTES = 1 << 16, NAMES_MAX = 4096 }; // a configuration may begin with pages of comments

typedef struct {
    const char *bytes;
    size_t count;
    ls_file_type type;
} signature;

static const signature signatures[] = {
    { "\x89PNG\r\n", 6, LS_FILE_TYPE_PICTURE },
    { "\xff\xd8\xff", 3, LS_FILE_TYPE_PICTURE },
    { "GIF8", 4, LS_FILE_TYPE_PICTURE },
    { "BM", 2, LS_FILE_TYPE_PICTURE },
    { "RIFF", 4, LS_FILE_TYPE_PICTURE },
    { "II*\0", 4, LS_FILE_TYPE_PICTURE },
    { "MM\0*", 4, LS_FILE_TYPE_PICTURE },
    { "PK\3\4", 4, LS_FILE_TYPE_TORCH },
    { "\x80\2", 2, LS_FILE_TYPE_TORCH },
    { "\x89HDF", 4, LS_FILE_TYPE_HDF5 },
    { "\x1f\x8b", 2, LS_FILE_TYPE_ARCHIVE },
    { "{\"", 2, LS_FILE_TYPE_JSON },
    { "{\n", 2, LS_FILE_TYPE_JSON },
};

static int ends_with(const char *path, const char *ending) {
    const size_t length = strlen(path), end = strlen(ending);
    return length > end && strcasecmp(path + length - end, ending) == 0;
}

// Recognises safetensors: eight bytes with the length of the header, then the header, a JSON object.
static int is_safetensors(const char *data, size_t bytes, uint64_t file_bytes) {
    uint64_t header;
    if (bytes < 9 || data[8] != '{') return 0;
    memcpy(&header, data, sizeof header);
    return header <= file_bytes;
}

// Recognises an INI file by the first line that is neither empty nor a comment.
static ls_file_type type_of_text(const char *data, size_t bytes) {
    if (bytes >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) data += 3, bytes -= 3;
    for (const char *end = data + bytes; data < end;) {
        const char *newline = memchr(data, '\n', (size_t)(end - data)), *stop = newline ? newline : end;
        while (data < stop && isspace((unsigned char)*data)) data++;
        if (data < stop && *data == '[') {
            const char *close = memchr(data, ']', (size_t)(stop - data));
            if (!close) return LS_FILE_TYPE_UNKNOWN;
            return close - data == 8 && strncmp(data, "[network", 8) == 0 ? LS_FILE_TYPE_NETWORK
                                                                          : LS_FILE_TYPE_CONFIGURATION;
        }
        if (data < stop && *data != ';' && *data != '#') return LS_FILE_TYPE_UNKNOWN;
        data = stop + 1;
    }
    return LS_FILE_TYPE_UNKNOWN;
}

static ls_file_type type_of_bytes(const char *path, const char *data, size_t bytes, uint64_t file_bytes) {
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (bytes >= signatures[i].count && memcmp(data, signatures[i].bytes, signatures[i].count) == 0)
            return signatures[i].type;
    if (strncasecmp(data, "<!doctype html", 14) == 0 || strncasecmp(data, "<html", 5) == 0) return LS_FILE_TYPE_HTML;
    if (is_safetensors(data, bytes, file_bytes)) return LS_FILE_TYPE_WEIGHTS;
    if (bytes > 0 && data[0] == 8 && ends_with(path, ".onnx")) return LS_FILE_TYPE_ONNX;
    return memchr(data, 0, bytes) ? LS_FILE_TYPE_UNKNOWN : type_of_text(data, bytes);
}

// Reads the beginning of the file. Returns the number of bytes, or -1. The file is not recorded as one that the command
// reads (ls_note_read), because it may be the command's output.
static ssize_t read_beginning(const char *path, char *data, size_t most) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const ssize_t got = fd < 0 ? -1 : pread(fd, data, most, 0);
    if (fd >= 0) close(fd);
    return got;
}

static int has(const char *folder, const char *name) {
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX && access(path, F_OK) == 0;
}

static int is_sweep(const char *folder) {
    return (has(folder, "sweep.json") || has(folder, "race.json")) && !has(folder, "run.json");
}

ls_file_type ls_file_type_of(const char *path) {
    struct stat info;
    char data[BEGINNING_BYTES];
    if (stat(path, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR ? LS_FILE_TYPE_MISSING : LS_FILE_TYPE_UNKNOWN;
    if (S_ISDIR(info.st_mode)) return is_sweep(path) ? LS_FILE_TYPE_SWEEP : LS_FILE_TYPE_FOLDER;
    const ssize_t bytes = S_ISREG(info.st_mode) ? read_beginning(path, data, sizeof data - 1) : -1;
    if (bytes < 0) return LS_FILE_TYPE_UNKNOWN;
    data[bytes] = '\0';
    return type_of_bytes(path, data, (size_t)bytes, (uint64_t)info.st_size);
}

const char *ls_file_type_text(ls_file_type type) {
    static const char *const texts[] = {
#define TEXT(NAME, text) text,
        LS_FILE_TYPES(TEXT)
#undef TEXT
    };
    return texts[type];
}

ls_status ls_expect_file_type(const char *path, unsigned accepted, const char *expected) {
    char nearest[PATH_MAX];
    const ls_file_type type = ls_file_type_of(path);
    if (type == LS_FILE_TYPE_UNKNOWN || accepted >> type & 1) return LS_SUCCESS;
    const int near = type == LS_FILE_TYPE_MISSING && ls_nearest_path(path, nearest, sizeof nearest);
    return ls_fail(LS_USAGE, "%s: is %s; %s%s%sexpected %s", path, ls_file_type_text(type), near ? "did you mean " : "",
        near ? nearest : "", near ? "? " : "", expected);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Writes the name in `folder` that is nearest to `name` into dst. Returns 0 if no name is near enough or fits into dst.
static int nearest_name(const char *folder, const char *name, char *dst, size_t bytes) {
    const char *names[NAMES_MAX];
    int count = 0;
    DIR *dir = opendir(*folder ? folder : ".");
    if (!dir) return 0;
    for (struct dirent *entry; count < NAMES_MAX && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        names[count++] = ls_new_text(entry->d_name);
    }
    closedir(dir);
    qsort(names, (size_t)count, sizeof *names, compare_names); // so the first of equally near names wins
    const char *nearest = ls_text_nearest(name, names, count);
    const int found = nearest && strlen(nearest) < bytes;
    if (found) strcpy(dst, nearest);
    for (int i = 0; i < count; i++) free((char *)names[i]);
    return found;
}

int ls_nearest_path(const char *path, char *dst, size_t bytes) {
    char part[NAME_MAX + 1], folder[PATH_MAX];
    ls_text_room room = { dst, bytes };
    int found = 1;
    *dst = 0;
    for (const char *at = path; *at && found;) {
        const size_t slashes = strspn(at, "/"), length = strcspn(at + slashes, "/");
        ls_text_put(&room, "%.*s", (int)slashes, at);
        snprintf(part, sizeof part, "%.*s", (int)length, at + slashes);
        snprintf(folder, sizeof folder, "%s", dst);
        at += slashes + length;
        const ls_text_room here = room;
        ls_text_put(&room, "%s", part);
        if (!length || ls_path_exists(dst)) continue;
        room = here;
        found = nearest_name(folder, part, part, sizeof part);
        if (found) ls_text_put(&room, "%s", part);
    }
    found = found && ls_path_exists(dst) && room.left > 1;
    if (!found) *dst = 0;
    return found;
}
