// ckpt_diff.c - `train ckpt diff A B`: what differs between two checkpoints, or the weights of two safetensors files.
//
// The state is what decides how a run goes on: tensors, cursor, counters, random streams, network, data. It alone
// decides the exit code (as of cmp: 0 the same; but 6, not 1, where it differs). Options, and where and by what the
// checkpoints were made, are listed and do not count: the same state may be reached on other ranks or devices.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/json.h"
#include "base/text.h"
#include "cli/ckpt.h"
#include "train/diagnose/tensor_diff.h"

typedef struct {
    const char *path;
    ls_checkpoint *checkpoint;             // NULL: a weights file alone
    ls_safetensors *file;                  // that file
    const ls_safetensors *weights, *state; // state NULL: there is none
} side;

static ls_status open_side(const char *path, side *s) {
    struct stat info;
    *s = (side){ .path = path };
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        LS_TRY(ls_safetensors_read(path, &s->file));
        s->weights = s->file;
        return LS_SUCCESS;
    }
    ls_ckpt_list list;
    LS_TRY(ls_ckpt_find(path, &list));
    ls_status status = list.one ? ls_checkpoint_read(list.paths[0], &s->checkpoint)
                                : ls_fail(LS_USAGE, "%s: holds %d checkpoint%s: name one, such as %s", path, list.count,
                                      list.count == 1 ? "" : "s", list.paths[list.count - 1]);
    ls_ckpt_list_free(&list);
    LS_TRY(status);
    s->weights = s->checkpoint->weights;
    s->state = s->checkpoint->state;
    return LS_SUCCESS;
}

static void close_side(side *s) {
    ls_safetensors_free(s->file);
    ls_checkpoint_free(s->checkpoint);
}

// --- manifests -----------------------------------------------------------------------------------

static void print_item(const cJSON *item) {
    char *text = item ? cJSON_PrintUnformatted(item) : NULL;
    ls_text_print(stdout, text ? text : "nothing");
    cJSON_free(text);
}

static int compare_item(const char *section, const cJSON *a, const cJSON *b) {
    if (a && b && cJSON_Compare(a, b, 1)) return 0;
    printf("%s%s", section, section[0] ? "." : "");
    ls_text_print(stdout, a ? a->string : b->string);
    putchar('\t');
    print_item(a);
    fputs(" and ", stdout);
    print_item(b);
    putchar('\n');
    return 1;
}

// Members of both; the one named `left_out` is not looked at.
static int compare_section(const cJSON *a, const cJSON *b, const char *name, const char *left_out) {
    const cJSON *x = ls_json_get(a, name), *y = ls_json_get(b, name), *item;
    int differ = 0;
    cJSON_ArrayForEach(item, x) {
        if (left_out && strcmp(item->string, left_out) == 0) continue;
        differ += compare_item(name, item, ls_json_get(y, item->string));
    }
    cJSON_ArrayForEach(item, y) {
        if (!ls_json_get(x, item->string)) differ += compare_item(name, NULL, item);
    }
    return differ;
}

static int compare_manifests(const cJSON *a, const cJSON *b) {
    static const char *const state[] = { "network", "data", "random", "cursor", "update", "sums", "evaluation" };
    static const char *const made[] = { "program", "libraries", "device" };
    int differ = 0;
    for (size_t i = 0; i < sizeof state / sizeof state[0]; i++) differ += compare_section(a, b, state[i], "seconds");
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        compare_item("", ls_json_get(a, made[i]), ls_json_get(b, made[i]));
    compare_section(a, b, "validation_data", NULL);
    compare_section(a, b, "test_data", NULL);
    compare_section(a, b, "batches", NULL);
    compare_section(a, b, "config", NULL);
    return differ;
}

// --- tensors -------------------------------------------------------------------------------------

static int find_tensor(const ls_safetensors *file, const char *name) {
    return file ? ls_safetensors_index(file, name) : -1;
}

static void print_shape(const ls_safetensors_tensor *t) {
    printf("%s (", ls_dtype_name(t->dtype));
    for (int d = 0; d < t->rank; d++) printf("%s%lld", d ? ", " : "", (long long)t->dim[d]);
    putchar(')');
}

static int compare_tensor(const char *name, const ls_safetensors_tensor *a, const ls_safetensors_tensor *b) {
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) != 0) {
        ls_text_print(stdout, name);
        fputs("\tis ", stdout);
        print_shape(a);
        fputs(" and ", stdout);
        print_shape(b);
        putchar('\n');
        return 1;
    }
    ls_tensor_difference difference;
    char text[256];
    ls_tensor_compare(a->dtype, ls_safetensors_elements(a), a->data, b->data, &difference);
    if (!difference.differing) return 0;
    ls_text_print(stdout, name);
    printf("\t%s\n", ls_tensor_difference_text(&difference, text, sizeof text));
    return 1;
}

static void print_only(const char *name, const side *where) {
    ls_text_print(stdout, name);
    fputs("\tonly in ", stdout);
    ls_text_print(stdout, where->path);
    putchar('\n');
}

static int compare_files(const side *a, const side *b, const ls_safetensors *x, const ls_safetensors *y) {
    int differ = 0;
    for (int i = 0; x && i < ls_safetensors_count(x); i++) {
        ls_safetensors_tensor s, t;
        const char *name = ls_safetensors_name(x, i);
        int at = find_tensor(y, name);
        if (at < 0) {
            print_only(name, a);
            differ++;
        } else if (ls_safetensors_get(x, i, &s) && ls_safetensors_get(y, at, &t)) {
            differ += compare_tensor(name, &s, &t);
        } else {
            ls_text_print(stdout, name);
            puts("\tis of a type that is not compared");
            differ++;
        }
    }
    for (int i = 0; y && i < ls_safetensors_count(y); i++) {
        if (find_tensor(x, ls_safetensors_name(y, i)) >= 0) continue;
        print_only(ls_safetensors_name(y, i), b);
        differ++;
    }
    return differ;
}

static ls_status compare(const side *a, const side *b) {
    int counters = 0, tensors = compare_files(a, b, a->weights, b->weights);
    if (a->checkpoint && b->checkpoint) { // else only weights can be compared
        tensors += compare_files(a, b, a->state, b->state);
        counters = compare_manifests(a->checkpoint->manifest, b->checkpoint->manifest);
    }
    if (!tensors && !counters) return LS_SUCCESS;
    return ls_fail(LS_NUMERIC, "%s and %s differ: %d tensor%s, %d counter%s or other fact%s of the state", a->path,
        b->path, tensors, tensors == 1 ? "" : "s", counters, counters == 1 ? "" : "s", counters == 1 ? "" : "s");
}

ls_status ls_ckpt_diff(const char *a, const char *b) {
    side left = { 0 }, right = { 0 };
    ls_status status = open_side(a, &left);
    LS_THEN(status, open_side(b, &right));
    LS_THEN(status, compare(&left, &right));
    close_side(&left);
    close_side(&right);
    return status;
}
