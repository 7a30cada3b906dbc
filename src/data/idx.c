// idx.c - MNIST's format: big-endian magic, sizes, bytes. Raw files or gzip; raw ones first, for they need no
// inflating. What the headers promise is compared before anything is inflated.
//
// Images: 2051, count, rows, columns, then count*rows*columns pixels. Labels: 2049, count, then count bytes.
// Source: http://yann.lecun.com/exdb/mnist/ ("the IDX file format").
#include "data/format.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/data_file.h"
#include "data/gzip.h"

enum { LABELS_MAGIC = 2049, IMAGES_MAGIC = 2051, MAX_HEADER = 16, MAX_ROWS = 4096, DEFLATE_LIMIT = 1032 };

typedef struct {
    char path[LS_TEXT_BYTES + 64];
    int dims;            // 1: labels, 3: images
    ls_input file;       // closed again once its content is read
    void *packed;        // gzip: the file as it stands; of ls_memory_new
    uint32_t size[3];    // as the header says
    size_t header_bytes; // content begins here
    size_t total;        // bytes of header and content, as the header says
    void *bytes;         // header and content; of ls_memory_new
} idx_file;

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// Reads the header's promise: magic and sizes.
static ls_status parse_header(idx_file *idx, const uint8_t *header) {
    uint32_t magic = big_endian(header), wanted = idx->dims == 1 ? LABELS_MAGIC : IMAGES_MAGIC;
    if (magic != wanted) {
        const char *hint = magic == LABELS_MAGIC   ? ": this is a file of labels"
                           : magic == IMAGES_MAGIC ? ": this is a file of images"
                                                   : "";
        return ls_fail(LS_DATA, "%s: magic number %u (0x%08x) at byte 0, expected %u%s; fetch the file again",
            idx->path, magic, magic, wanted, hint);
    }
    for (int i = 0; i < idx->dims; i++) idx->size[i] = big_endian(header + 4 + 4 * i);
    if (idx->size[0] == 0) return ls_fail(LS_DATA, "%s: its header promises 0 samples, expected at least 1", idx->path);
    idx->total = idx->header_bytes + idx->size[0];
    if (idx->dims == 1) return LS_SUCCESS;
    if (idx->size[1] < 1 || idx->size[1] > MAX_ROWS || idx->size[2] < 1 || idx->size[2] > MAX_ROWS) {
        return ls_fail(LS_DATA,
            "%s: its header says pictures of %u rows and %u columns at byte 8, expected 1 to %d each", idx->path,
            idx->size[1], idx->size[2], MAX_ROWS);
    }
    idx->total = idx->header_bytes + (size_t)idx->size[0] * idx->size[1] * idx->size[2]; // below 2^57
    return LS_SUCCESS;
}

static ls_status open_raw(idx_file *idx) {
    uint8_t header[MAX_HEADER];
    if (idx->file.bytes < idx->header_bytes) {
        return ls_fail(LS_DATA, "%s: has %zu bytes, fewer than its header of %zu; fetch the file again", idx->path,
            idx->file.bytes, idx->header_bytes);
    }
    LS_TRY(ls_data_file_read(&idx->file, 0, header, idx->header_bytes));
    LS_TRY(parse_header(idx, header));
    if (idx->file.bytes == idx->total) return LS_SUCCESS;
    return ls_fail(LS_DATA, "%s: has %zu bytes, its header promises %zu (%u samples); it is %s: fetch the file again",
        idx->path, idx->file.bytes, idx->total, idx->size[0], idx->file.bytes < idx->total ? "cut off" : "too long");
}

static ls_status open_gzip(idx_file *idx) {
    uint8_t header[MAX_HEADER];
    const size_t packed_bytes = idx->file.bytes;
    LS_TRY(ls_memory_new(packed_bytes, idx->path, &idx->packed));
    LS_TRY(ls_data_file_read(&idx->file, 0, idx->packed, packed_bytes));
    LS_TRY(ls_gzip_peek(idx->path, idx->packed, packed_bytes, header, idx->header_bytes));
    LS_TRY(parse_header(idx, header));
    // Deflate packs at most 1032 to 1: without this a damaged header could ask for any amount of memory.
    if (idx->total / DEFLATE_LIMIT <= packed_bytes) return LS_SUCCESS;
    return ls_fail(LS_DATA,
        "%s: its header promises %zu bytes, more than %zu compressed bytes can hold; fetch the file again", idx->path,
        idx->total, packed_bytes);
}

static int is_missing(const char *path) {
    struct stat info;
    return stat(path, &info) != 0 && errno == ENOENT;
}

// folder/name, or folder/name.gz where only that exists, up to its header.
static ls_status open_idx(const char *folder, const char *name, int dims, idx_file *idx) {
    idx->dims = dims;
    idx->header_bytes = 4 + 4 * (size_t)dims;
    char packed[64];
    snprintf(packed, sizeof packed, "%s.gz", name);
    LS_TRY(ls_path_join(idx->path, sizeof idx->path, folder, name));
    int gzip = is_missing(idx->path);
    if (gzip) {
        LS_TRY(ls_path_join(idx->path, sizeof idx->path, folder, packed));
        if (is_missing(idx->path)) {
            return ls_fail(LS_DATA,
                "%s: no file %s or %s, though other files of the set are there; fetch the set again", folder, name,
                packed);
        }
    }
    LS_TRY(ls_data_file_open(idx->path, &idx->file));
    return gzip ? open_gzip(idx) : open_raw(idx);
}

static ls_status load_content(idx_file *idx) {
    LS_TRY(ls_memory_new(idx->total, idx->path, &idx->bytes));
    if (!idx->packed) return ls_data_file_read(&idx->file, 0, idx->bytes, idx->total);
    return ls_gzip_inflate(idx->path, idx->packed, idx->file.bytes, idx->bytes, idx->total);
}

static ls_status load_both(const char *folder, const char *const *name, idx_file *images, idx_file *labels) {
    LS_TRY(open_idx(folder, name[1], 1, labels));
    LS_TRY(open_idx(folder, name[0], 3, images));
    if (images->size[0] != labels->size[0]) {
        return ls_fail(LS_DATA, "%s: %u labels, but %s has %u images; fetch both files again", labels->path,
            labels->size[0], images->path, images->size[0]);
    }
    LS_TRY(load_content(labels)); // the small one first: cheap errors come early
    return load_content(images);
}

static void close_idx(idx_file *idx) {
    ls_input_close(&idx->file);
    ls_memory_free(idx->packed);
}

ls_status ls_idx_open(const ls_config *cfg, ls_dataset *dataset) {
    static const char *const names[2][4] = {
        { "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte.gz" },
        { "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz" },
    };
    const char *const *name = names[dataset->split == LS_SPLIT_TEST];
    char folder[LS_TEXT_BYTES];
    LS_TRY(ls_dataset_find(cfg, dataset, name, 4, folder));
    idx_file images = { .file.fd = -1 }, labels = { .file.fd = -1 };
    ls_status status = load_both(folder, name, &images, &labels);
    close_idx(&images);
    close_idx(&labels);
    dataset->memory[0] = images.bytes;
    dataset->memory[1] = labels.bytes;
    LS_TRY(status);
    dataset->facts.shape = (ls_chw){ 1, (int)images.size[1], (int)images.size[2] };
    dataset->pixels = (const uint8_t *)images.bytes + images.header_bytes;
    dataset->pixel_stride = (size_t)ls_chw_count(dataset->facts.shape);
    dataset->labels = (const uint8_t *)labels.bytes + labels.header_bytes;
    dataset->label_stride = 1;
    LS_TRY(ls_dataset_check_labels(dataset, labels.path, 0, images.size[0]));
    LS_TRY(ls_dataset_limit(cfg, dataset, images.size[0]));
    size_t count = (size_t)dataset->facts.count;
    dataset->facts.checksum =
        ls_hash_more(ls_hash(dataset->labels, count), dataset->pixels, count * dataset->pixel_stride);
    return LS_SUCCESS;
}
