#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are written as they lie in memory");

enum { LENGTH_BYTES = 8, DATA_ALIGN = 64, NAME_MAX_BYTES = 1024 };
static const uint64_t header_max = 16 << 20; // a tensor takes about 100 bytes; the format's own limit is 100 MB
static const int64_t elements_max = INT64_C(1) << 48; // of one tensor: sizes and offsets stay exact in a double
static const char metadata_key[] = "__metadata__";

// The types of tensors that a file may have. The first LS_DTYPE_COUNT rows are the types of ls_dtype, in its order.
static const struct {
    const char *name;
    int bytes;
} dtypes[] = {
#define X(name, bytes, text) { #name, bytes },
    LS_DTYPES(X)
#undef X
        { "F8_E4M3", 1 },
    { "F8_E5M2", 1 },
    { "I16", 2 },
    { "I8", 1 },
    { "U64", 8 },
    { "U32", 4 },
    { "U16", 2 },
    { "BOOL", 1 },
};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

typedef struct {
    const char *name; // borrowed from the JSON tree
    int dtype, rank;
    int64_t dim[LS_SAFETENSORS_RANK_MAX];
    uint64_t begin, end; // bytes from the start of the data
} entry;

struct ls_safetensors {
    char *path, *data;
    uint64_t data_bytes;
    ls_safetensors_digest digest;
    cJSON *header;
    entry *entries; // sorted by begin
    int *by_name;   // indices of entries, sorted by name
    int count;
};

// Writes a shape such as "(64, 3, 3, 3)" into dst. Returns dst.
static const char *write_shape(char *dst, size_t bytes, int rank, const int64_t *dim) {
    size_t used = (size_t)snprintf(dst, bytes, "(");
    for (int i = 0; i < rank && used < bytes; i++) {
        used += (size_t)snprintf(dst + used, bytes - used, "%s%" PRId64, i ? ", " : "", dim[i]);
    }
    if (used < bytes) snprintf(dst + used, bytes - used, ")");
    return dst;
}

// --- writing -------------------------------------------------------------------------------------

static uint64_t tensor_bytes(const ls_safetensors_tensor *tensor) {
    uint64_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= (uint64_t)tensor->dim[i];
    return count * ls_dtype_bytes(tensor->dtype);
}

static cJSON *describe_tensor(const ls_safetensors_tensor *tensor, uint64_t begin) {
    cJSON *object = cJSON_CreateObject(), *shape = NULL, *offsets = NULL;
    ls_json_add_text(object, "dtype", dtypes[tensor->dtype].name);
    shape = ls_json_add_array(object, "shape");
    for (int i = 0; i < tensor->rank; i++) ls_json_append(shape, cJSON_CreateNumber((double)tensor->dim[i]));
    offsets = ls_json_add_array(object, "data_offsets");
    ls_json_append(offsets, cJSON_CreateNumber((double)begin));
    ls_json_append(offsets, cJSON_CreateNumber((double)(begin + tensor_bytes(tensor))));
    return object;
}

static char *make_header(
    const ls_safetensors_tensor *tensors, int tensor_count, const ls_metadata_entry *entries, int entry_count) {
    cJSON *root = cJSON_CreateObject();
    if (entry_count > 0) {
        cJSON *object = ls_json_add_object(root, metadata_key);
        for (int i = 0; i < entry_count; i++) ls_json_add_text(object, entries[i].key, entries[i].text);
    }
    uint64_t begin = 0;
    for (int i = 0; i < tensor_count; i++) {
        ls_json_add_item(root, tensors[i].name, describe_tensor(&tensors[i], begin));
        begin += tensor_bytes(&tensors[i]);
    }
    char *text = ls_json_text(root, 0);
    cJSON_Delete(root);
    return text;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ls_status check_tensors(const char *path, const ls_safetensors_tensor *tensors, int count) {
    uint64_t begin = 0;
    for (int i = 0; i < count; i++) {
        if (begin % ls_dtype_bytes(tensors[i].dtype))
            return ls_fail(LS_INTERNAL,
                "%s: tensor '%s' does not begin at a multiple of its elements: larger ones first", path,
                tensors[i].name);
        begin += tensor_bytes(&tensors[i]);
    }
    ls_status status = LS_SUCCESS;
    const char **names = ls_new(count + 1, sizeof *names, "%s", path);
    for (int i = 0; i < count; i++) names[i] = tensors[i].name;
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int i = 1; i < count; i++)
        if (strcmp(names[i], names[i - 1]) == 0)
            ls_keep_first(&status, ls_fail(LS_INTERNAL, "%s: two tensors are called '%s'", path, names[i]));
    free(names);
    return status;
}

ls_status ls_safetensors_write(const char *path, const ls_safetensors_tensor *tensors, int tensor_count,
    const ls_metadata_entry *entries, int entry_count, ls_safetensors_digest *digest) {
    LS_TRY(check_tensors(path, tensors, tensor_count));
    static const char spaces[DATA_ALIGN] = "                                                                ";
    char *header = make_header(tensors, tensor_count, entries, entry_count);
    const size_t text_bytes = strlen(header);
    const size_t padding = (DATA_ALIGN - (LENGTH_BYTES + text_bytes) % DATA_ALIGN) % DATA_ALIGN;
    const uint64_t length = text_bytes + padding;
    ls_atomic_file *file = NULL;
    ls_status status = ls_atomic_file_open(path, &file);
    if (!ls_failed(status)) {
        ls_atomic_file_write(file, &length, LENGTH_BYTES);
        ls_atomic_file_write(file, header, text_bytes);
        ls_atomic_file_write(file, spaces, padding);
        for (int i = 0; i < tensor_count; i++) ls_atomic_file_write(file, tensors[i].data, tensor_bytes(&tensors[i]));
        if (digest) *digest = (ls_safetensors_digest){ ls_atomic_file_bytes(file), ls_atomic_file_hash(file) };
        status = ls_atomic_file_commit(file);
    }
    cJSON_free(header);
    return status;
}

// --- reading -------------------------------------------------------------------------------------

static ls_status read_shape(const char *path, const cJSON *shape, entry *e) {
    if (!cJSON_IsArray(shape)) return ls_fail(LS_STORAGE, "%s: tensor '%s' has no list 'shape'", path, e->name);
    const cJSON *item;
    int64_t count = 1;
    cJSON_ArrayForEach(item, shape) {
        int64_t dim;
        if (!ls_json_whole(item, LS_JSON_WHOLE_MAX, &dim)) {
            return ls_fail(LS_STORAGE, "%s: tensor '%s': dimension %d of its shape is no whole number from 0", path,
                e->name, e->rank);
        }
        if (e->rank == LS_SAFETENSORS_RANK_MAX) {
            return ls_fail(
                LS_STORAGE, "%s: tensor '%s' has more than %d dimensions", path, e->name, LS_SAFETENSORS_RANK_MAX);
        }
        if (dim > elements_max || (dim > 0 && count > elements_max / dim)) {
            return ls_fail(
                LS_STORAGE, "%s: tensor '%s' has more than %" PRId64 " elements", path, e->name, elements_max);
        }
        e->dim[e->rank++] = dim;
        count *= dim;
    }
    const uint64_t promised = (uint64_t)count * (uint64_t)dtypes[e->dtype].bytes;
    if (promised != e->end - e->begin) {
        char text[160];
        return ls_fail(LS_STORAGE,
            "%s: tensor '%s': its data_offsets span %" PRIu64 " bytes, but shape %s of %s takes %" PRIu64, path,
            e->name, e->end - e->begin, write_shape(text, sizeof text, e->rank, e->dim), dtypes[e->dtype].name,
            promised);
    }
    return LS_SUCCESS;
}

static ls_status read_dtype(const char *path, const cJSON *dtype, entry *e) {
    if (!cJSON_IsString(dtype)) return ls_fail(LS_STORAGE, "%s: tensor '%s' has no text 'dtype'", path, e->name);
    for (e->dtype = 0; e->dtype < DTYPES; e->dtype++) {
        if (strcmp(dtypes[e->dtype].name, dtype->valuestring) == 0) return LS_SUCCESS;
    }
    return ls_fail(LS_STORAGE, "%s: tensor '%s' has the unknown dtype '%.40s'; F32 is what Lockstep reads", path,
        e->name, dtype->valuestring);
}

static ls_status read_entry(const ls_safetensors *file, const cJSON *item, entry *e) {
    e->name = item->string;
    if (e->name[0] == 0 || strlen(e->name) > NAME_MAX_BYTES) {
        return ls_fail(LS_STORAGE, "%s: a tensor's name has %zu bytes; 1 to %d are possible", file->path,
            strlen(e->name), NAME_MAX_BYTES);
    }
    if (!cJSON_IsObject(item)) return ls_fail(LS_STORAGE, "%s: '%s' in the header is no object", file->path, e->name);
    for (const cJSON *field = item->child; field; field = field->next) {
        const char *name = field->string;
        if (strcmp(name, "dtype") == 0 || strcmp(name, "shape") == 0 || strcmp(name, "data_offsets") == 0) continue;
        return ls_fail(LS_STORAGE, "%s: tensor '%s' has an unknown field '%.40s'; expected dtype, shape, data_offsets",
            file->path, e->name, name);
    }
    if (cJSON_GetArraySize(item) > 3)
        return ls_fail(LS_STORAGE, "%s: tensor '%s' has a field twice", file->path, e->name);
    LS_TRY(read_dtype(file->path, ls_json_get(item, "dtype"), e));
    const cJSON *offsets = ls_json_get(item, "data_offsets");
    int64_t begin, end;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !ls_json_whole(cJSON_GetArrayItem(offsets, 0), LS_JSON_WHOLE_MAX, &begin) ||
        !ls_json_whole(cJSON_GetArrayItem(offsets, 1), LS_JSON_WHOLE_MAX, &end)) {
        return ls_fail(
            LS_STORAGE, "%s: tensor '%s': its data_offsets are no list of two whole numbers", file->path, e->name);
    }
    e->begin = (uint64_t)begin;
    e->end = (uint64_t)end;
    if (e->begin > e->end || e->end > file->data_bytes) {
        return ls_fail(LS_STORAGE,
            "%s: tensor '%s': data_offsets [%" PRIu64 ", %" PRIu64 "] do not lie within the %" PRIu64
            " bytes of data: the file is damaged or cut off",
            file->path, e->name, e->begin, e->end, file->data_bytes);
    }
    if (e->begin % (uint64_t)dtypes[e->dtype].bytes != 0) {
        return ls_fail(LS_STORAGE,
            "%s: tensor '%s' begins at byte %" PRIu64 " of the data, which is no multiple of its %d-byte elements",
            file->path, e->name, e->begin, dtypes[e->dtype].bytes);
    }
    return read_shape(file->path, ls_json_get(item, "shape"), e);
}

static ls_status check_metadata(const ls_safetensors *file, const cJSON *metadata) {
    if (!cJSON_IsObject(metadata))
        return ls_fail(LS_STORAGE, "%s: '%s' in the header is no object", file->path, metadata_key);
    for (const cJSON *text = metadata->child; text; text = text->next) {
        if (cJSON_IsString(text)) continue;
        return ls_fail(LS_STORAGE, "%s: '%.80s' of '%s' is no text", file->path, text->string, metadata_key);
    }
    return LS_SUCCESS;
}

static int by_begin(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    // Of two tensors that begin at the same byte, the empty one comes first.
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b, void *entries) {
    const entry *of = entries;
    return strcmp(of[*(const int *)a].name, of[*(const int *)b].name);
}

// Makes by_name, the list of the tensors in the order of their names, and refuses a name that occurs twice.
static ls_status check_names(ls_safetensors *file) {
    for (int i = 0; i < file->count; i++) file->by_name[i] = i;
    if (file->count) qsort_r(file->by_name, (size_t)file->count, sizeof *file->by_name, by_name, file->entries);
    for (int i = 1; i < file->count; i++) {
        const char *name = file->entries[file->by_name[i]].name;
        if (strcmp(name, file->entries[file->by_name[i - 1]].name) != 0) continue;
        return ls_fail(LS_STORAGE, "%s: two tensors are called '%s'", file->path, name);
    }
    return LS_SUCCESS;
}

static ls_status check_coverage(const ls_safetensors *file) {
    uint64_t at = 0;
    for (int i = 0; i < file->count; i++) {
        const entry *e = &file->entries[i];
        if (e->begin != at) {
            return ls_fail(LS_STORAGE,
                "%s: tensor '%s' begins at byte %" PRIu64 " of the data, expected %" PRIu64 ": tensors %s", file->path,
                e->name, e->begin, at, e->begin < at ? "overlap" : "leave a gap");
        }
        at = e->end;
    }
    if (at == file->data_bytes) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: tensors end at byte %" PRIu64 " of the data, but the file has %" PRIu64, file->path,
        at, file->data_bytes);
}

static ls_status parse_header(ls_safetensors *file, const char *text, size_t length) {
    const char *end = NULL;
    if (length == 0 || text[0] != '{') {
        return ls_fail(LS_STORAGE, "%s: its header does not begin with '{': no safetensors file", file->path);
    }
    if (!ls_json_is_moderate(text, length))
        return ls_fail(LS_STORAGE, "%s: its header has more than %d JSON values", file->path, LS_JSON_VALUES_MAX);
    file->header = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    if (!file->header) {
        return ls_fail(LS_STORAGE, "%s: its header is no JSON, from byte %td of the file on", file->path,
            (end ? end - text : 0) + LENGTH_BYTES);
    }
    for (; end < text + length; end++) {
        if (strchr(" \t\r\n", *end) && *end) continue;
        return ls_fail(LS_STORAGE, "%s: more than spaces after the header's JSON, at byte %td of the file", file->path,
            end - text + LENGTH_BYTES);
    }
    file->entries = ls_new(cJSON_GetArraySize(file->header) + 1, sizeof *file->entries, "%s", file->path);
    int metadata_seen = 0;
    for (const cJSON *item = file->header->child; item; item = item->next) {
        if (strcmp(item->string, metadata_key) != 0) {
            LS_TRY(read_entry(file, item, &file->entries[file->count]));
            file->count++;
        } else if (metadata_seen++) {
            return ls_fail(LS_STORAGE, "%s: the header has '%s' twice", file->path, metadata_key);
        } else {
            LS_TRY(check_metadata(file, item));
        }
    }
    file->by_name = ls_new(file->count + 1, sizeof *file->by_name, "%s", file->path);
    qsort(file->entries, (size_t)file->count, sizeof *file->entries, by_begin);
    LS_TRY(check_names(file));
    return check_coverage(file);
}

static ls_status read_header(ls_safetensors *file, const ls_input *input, uint64_t length, ls_hasher *hasher) {
    char *text;
    LS_TRY(ls_try_new(&text, length + 1, 1, "%s", file->path));
    ls_status status = ls_input_read(input, LENGTH_BYTES, text, (size_t)length);
    LS_THEN(status, parse_header(file, text, (size_t)length));
    ls_hasher_add(hasher, text, (size_t)length);
    free(text);
    return status;
}

// Reads and hashes the tensors' data. The header must have been checked against the length of the data before.
static ls_status read_data(ls_safetensors *file, const ls_input *input, ls_hasher *hasher) {
    LS_TRY(ls_try_new(&file->data, file->data_bytes + 1, 1, "%s", file->path));
    LS_TRY(ls_input_read(input, input->bytes - file->data_bytes, file->data, file->data_bytes));
    ls_hasher_add(hasher, file->data, file->data_bytes);
    file->digest = (ls_safetensors_digest){ input->bytes, ls_hasher_hash(hasher) };
    return LS_SUCCESS;
}

static ls_status read_parts(ls_safetensors *file, const ls_input *input, ls_hasher *hasher) {
    if (input->bytes < LENGTH_BYTES) {
        return ls_fail(LS_STORAGE, "%s: %zu bytes are no safetensors file, which has at least %d", file->path,
            input->bytes, LENGTH_BYTES + 2);
    }
    uint64_t length;
    LS_TRY(ls_input_read(input, 0, &length, LENGTH_BYTES));
    ls_hasher_add(hasher, &length, LENGTH_BYTES);
    if (length > header_max || length > input->bytes - LENGTH_BYTES) {
        return ls_fail(LS_STORAGE,
            "%s: its first 8 bytes promise a header of %" PRIu64 " bytes, but %zu follow (and %" PRIu64
            " are the limit): cut off, or no safetensors file",
            file->path, length, input->bytes - LENGTH_BYTES, header_max);
    }
    file->data_bytes = input->bytes - LENGTH_BYTES - length;
    LS_TRY(read_header(file, input, length, hasher));
    return read_data(file, input, hasher);
}

ls_status ls_safetensors_read(const char *path, ls_safetensors **out) {
    ls_input input;
    LS_TRY(ls_input_open(path, &input));
    ls_safetensors *file = ls_new(1, sizeof *file, "%s", path);
    file->path = ls_new_text(path);
    ls_hasher *hasher = ls_hasher_new();
    ls_status status = read_parts(file, &input, hasher);
    ls_input_close(&input);
    ls_hasher_free(hasher);
    return LS_GIVE_OR_FREE(status, file, out, ls_safetensors_free);
}

void ls_safetensors_free(ls_safetensors *file) {
    if (!file) return;
    cJSON_Delete(file->header);
    free(file->entries);
    free(file->by_name);
    free(file->data);
    free(file->path);
    free(file);
}

static ls_status refuse_name(const ls_safetensors *file, const char *name) {
    const char **names = ls_new(file->count + 1, sizeof *names, "names of tensors");
    for (int i = 0; i < file->count; i++) names[i] = file->entries[i].name;
    const char *nearest = ls_text_nearest(name, names, file->count);
    ls_status status = ls_fail(LS_STORAGE, "%s: has no tensor '%s'%s%s%s: weights of another network?", file->path,
        name, nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
    free(names);
    return status;
}

ls_status ls_safetensors_find(const ls_safetensors *file, const ls_safetensors_tensor *wanted, const void **data) {
    char found[160], expected[160];
    const int index = ls_safetensors_index(file, wanted->name);
    if (index < 0) return refuse_name(file, wanted->name);
    const entry *e = &file->entries[index];
    if (e->rank != wanted->rank || memcmp(e->dim, wanted->dim, (size_t)e->rank * sizeof *e->dim) != 0) {
        return ls_fail(LS_STORAGE, "%s: tensor '%s' has shape %s, expected %s: weights of another network?", file->path,
            e->name, write_shape(found, sizeof found, e->rank, e->dim),
            write_shape(expected, sizeof expected, wanted->rank, wanted->dim));
    }
    if (e->dtype != (int)wanted->dtype) {
        return ls_fail(LS_STORAGE, "%s: tensor '%s' has dtype %s, expected %s%s", file->path, e->name,
            dtypes[e->dtype].name, dtypes[wanted->dtype].name,
            wanted->dtype == LS_F32 ? ": save it as float32; training and eval convert it as model.init" : "");
    }
    *data = file->data + e->begin;
    return LS_SUCCESS;
}

int ls_safetensors_index(const ls_safetensors *file, const char *name) {
    int low = 0, high = file->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(file->entries[file->by_name[middle]].name, name);
        if (order == 0) return file->by_name[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

const char *ls_safetensors_path(const ls_safetensors *file) {
    return file->path;
}

int ls_safetensors_count(const ls_safetensors *file) {
    return file->count;
}

const char *ls_safetensors_name(const ls_safetensors *file, int index) {
    return file->entries[index].name;
}

ls_safetensors_digest ls_safetensors_digest_of(const ls_safetensors *file) {
    return file->digest;
}

int ls_safetensors_get(const ls_safetensors *file, int index, ls_safetensors_tensor *tensor) {
    const entry *e = &file->entries[index];
    if (e->dtype >= LS_DTYPE_COUNT) return 0;
    *tensor = (ls_safetensors_tensor){
        .name = e->name, .dtype = (ls_dtype)e->dtype, .rank = e->rank, .data = file->data + e->begin
    };
    memcpy(tensor->dim, e->dim, sizeof e->dim);
    return 1;
}

const char *ls_safetensors_metadata(const ls_safetensors *file, const char *key) {
    const cJSON *metadata = ls_json_get(file->header, metadata_key);
    return ls_json_get_text(metadata, key);
}
