#include "deploy/write_arrays.h"

#include <string.h>

enum { PER_LINE = 16 };

static void begin(FILE *file, const char *type, const char *name, int number, int64_t count) {
    fprintf(file, "static const %s %s", type, name);
    if (number >= 0) fprintf(file, "_%d", number);
    fprintf(file, "[%lld] = {", (long long)count);
}

static void between(FILE *file, int64_t i) {
    fputs(i % PER_LINE ? "," : i ? ",\n" : "\n", file);
}

void ls_write_float(FILE *file, float value) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", (double)value);
    fprintf(file, "%s%sf", text, strpbrk(text, ".e") ? "" : ".0");
}

void ls_write_floats(FILE *file, const char *name, int number, const float *values, int64_t count) {
    begin(file, "float", name, number, count);
    for (int64_t i = 0; i < count; i++) {
        between(file, i);
        ls_write_float(file, values[i]);
    }
    fputs("};\n", file);
}

void ls_write_ints(FILE *file, const char *name, int number, const int32_t *values, int64_t count) {
    begin(file, "int32_t", name, number, count);
    for (int64_t i = 0; i < count; i++) {
        between(file, i);
        fprintf(file, "%ld", (long)values[i]);
    }
    fputs("};\n", file);
}

void ls_write_bytes(FILE *file, const char *type, const char *name, int number, const void *values, int64_t count) {
    begin(file, type, name, number, count);
    for (int64_t i = 0; i < count; i++) {
        between(file, i);
        fprintf(file, "%d", type[0] == 'u' ? ((const uint8_t *)values)[i] : ((const int8_t *)values)[i]);
    }
    fputs("};\n", file);
}

void ls_write_plain(FILE *file, const char *name) {
    for (const char *at = name; *at; at++)
        fputc((unsigned char)*at < ' ' || *at == 127 || strchr("*/\\?", *at) ? '_' : *at, file);
}
