// idx.c - reads MNIST's format IDX: big-endian magic number, sizes, bytes. Files may be raw or gzip. A raw file is
// preferred, because it needs no inflating. The sizes in the headers are compared before images are inflated. Inflated
// images are kept for the next start (inflated.h).
//
// Images: magic number 2051, count, rows, columns, count*rows*columns pixels. Labels: 2049, count, count bytes.
// Source: http://yann.lecun.com/exdb/mnist/ ("the IDX file format").
#include "data/format.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/data_file.h"
#include "data/gzip.h"
#include "data/inflated.h"

enum { LABELS_MAGIC = 2049, IMAGES_MAGIC = 2051, MAX_HEADER = 16, MAX_ROWS = 4096, DEFLATE_LIMIT = 1032 };
// KEPT_FROM: inflated bytes from which images are kept for the next start. WAITED_FROM: packed bytes from which another
// process that inflates the same file is waited for. Smaller files are inflated in a few milliseconds.
enum { KEPT_FROM = 1 << 20, WAITED_FROM = 128 << 10 };

static const double INFLATING_S = 10; // longest wait for another process that inflates the same file

typedef struct {
    char path[LS_TEXT_BYTES + 64];
    int dims, gzip;         // dims 1: labels, 3: images; gzip: the file is name.gz
    ls_input file;          // closed when its content has been read
    void *packed;           // gzip: the bytes of the file; from ls_memory_new
    ls_inflated kept;       // gzip: the inflated images of an earlier start
    uint32_t size[3];       // from the header: number of samples, rows, columns
    size_t header_bytes;    // length of the header
    size_t total;           // length of header and content, as the header says
    void *memory;           // header and content, if this start has read them; from ls_memory_new
    const uint8_t *content; // header and content, in `memory` or `kept`; NULL: not read yet
} idx_file;

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// Reads the magic number and the sizes from the header.
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
    // Deflate packs at most 1032 to 1. Without this check a damaged header could ask for any amount of memory.
    if (idx->total / DEFLATE_LIMIT <= packed_bytes) return LS_SUCCESS;
    return ls_fail(LS_DATA,
        "%s: its header promises %zu bytes, more than %zu compressed bytes can hold; fetch the file again", idx->path,
        idx->total, packed_bytes);
}

static int is_missing(const char *path) {
    struct stat info;
    return stat(path, &info) != 0 && errno == ENOENT;
}

// Opens folder/name, or folder/name.gz if only that exists.
static ls_status find_idx(const char *folder, const char *name, int dims, idx_file *idx) {
    idx->dims = dims;
    idx->header_bytes = 4 + 4 * (size_t)dims;
    char packed[64];
    snprintf(packed, sizeof packed, "%s.gz", name);
    LS_TRY(ls_path_join(idx->path, sizeof idx->path, folder, name));
    idx->gzip = is_missing(idx->path);
    if (idx->gzip) {
        LS_TRY(ls_path_join(idx->path, sizeof idx->path, folder, packed));
        if (is_missing(idx->path)) {
            return ls_fail(LS_DATA,
                "%s: no file %s or %s, though other files of the set are there; fetch the set again", folder, name,
                packed);
        }
    }
    LS_TRY(ls_data_file_open(idx->path, &idx->file));
    ls_data_file_note(&idx->file);
    return LS_SUCCESS;
}

static ls_status open_header(idx_file *idx) {
    return idx->gzip ? open_gzip(idx) : open_raw(idx);
}

static ls_status load_content(idx_file *idx) {
    if (idx->content) return LS_SUCCESS;
    LS_TRY(ls_memory_new(idx->total, idx->path, &idx->memory));
    if (idx->gzip)
        LS_TRY(ls_gzip_inflate(idx->path, idx->packed, idx->file.bytes, idx->memory, idx->total));
    else
        LS_TRY(ls_data_file_read(&idx->file, 0, idx->memory, idx->total));
    idx->content = idx->memory;
    return LS_SUCCESS;
}

// --- kept images ------------------------------------------------------------------------------------------

// Returns a data set's checksum: the hash of its first `count` labels and pictures.
static uint64_t hash_samples(const idx_file *labels, const idx_file *images, size_t count) {
    const size_t picture = (size_t)images->size[1] * images->size[2];
    const uint64_t hash = ls_hash(labels->content + labels->header_bytes, count);
    return ls_hash_more(hash, images->content + images->header_bytes, count * picture);
}

// Returns the hash that is stored with kept images. It includes their header, which decides the shape of the pictures.
static uint64_t hash_kept(const idx_file *images, uint64_t checksum) {
    return ls_hash_more(checksum, images->content, images->header_bytes);
}

static void find_kept(const char *cache, idx_file *images) {
    if (!images->gzip || !cache[0]) return;
    ls_inflated_open(cache, &images->file, &images->kept);
    if (!images->kept.bytes && images->file.bytes >= WAITED_FROM) ls_inflated_claim(&images->kept, INFLATING_S);
}

// If the kept images are whole and belong to these labels, makes them the content of `images` and returns 1; else 0.
static int take_kept(const idx_file *labels, idx_file *images, uint64_t *checksum) {
    const ls_inflated *kept = &images->kept;
    if (!kept->bytes || kept->count < images->header_bytes) return 0;
    if (ls_failed(parse_header(images, kept->bytes))) return 0;
    if (images->total != kept->count || images->size[0] != labels->size[0]) return 0;
    images->content = kept->bytes;
    *checksum = hash_samples(labels, images, images->size[0]);
    if (hash_kept(images, *checksum) == kept->hash) return 1;
    images->content = NULL;
    return 0;
}

// --- both files ------------------------------------------------------------------------------------------

static ls_status compare_counts(const idx_file *images, const idx_file *labels) {
    if (images->size[0] == labels->size[0]) return LS_SUCCESS;
    return ls_fail(LS_DATA, "%s: %u labels, but %s has %u images; fetch both files again", labels->path,
        labels->size[0], images->path, images->size[0]);
}

// Reads the labels and the images of a data set. cache: the folder for inflated files; "": images are not kept.
static ls_status load_both(const char *folder, const char *const *name, const char *cache, idx_file *images,
    idx_file *labels, uint64_t *checksum) {
    LS_TRY(find_idx(folder, name[1], 1, labels));
    LS_TRY(open_header(labels));
    LS_TRY(find_idx(folder, name[0], 3, images));
    find_kept(cache, images);
    if (images->kept.bytes) LS_TRY(load_content(labels));
    if (take_kept(labels, images, checksum)) return LS_SUCCESS;
    if (images->kept.bytes) ls_inflated_close(&images->kept);
    LS_TRY(open_header(images));
    LS_TRY(compare_counts(images, labels));
    LS_TRY(load_content(labels)); // the small file first, so that its errors come early
    LS_TRY(load_content(images));
    *checksum = hash_samples(labels, images, images->size[0]);
    return LS_SUCCESS;
}

// Keeps inflated images of KEPT_FROM bytes or more for the next start. A failure is noted unless data.cache = auto.
static void keep(const ls_config *cfg, const idx_file *images, uint64_t checksum, ls_dataset *dataset) {
    ls_inflated *place = &dataset->kept;
    if (!place->path[0] || images->total < KEPT_FROM) return;
    ls_status status = ls_inflated_keep(place, images->content, images->total, hash_kept(images, checksum));
    if (!ls_failed(status) || strcmp(cfg->data_cache, "auto") == 0) return;
    ls_text_cut(dataset->facts.note, sizeof dataset->facts.note, "%s; it is inflated at each start", status.text);
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
    char folder[LS_TEXT_BYTES], cache[LS_TEXT_BYTES];
    uint64_t checksum = 0;
    LS_TRY(ls_dataset_find(cfg, dataset, name, 4, folder));
    LS_TRY(ls_dataset_cache_folder(cfg, cache, sizeof cache));
    idx_file images = { .file.fd = -1 }, labels = { .file.fd = -1 };
    ls_status status = load_both(folder, name, cache, &images, &labels, &checksum);
    close_idx(&images);
    close_idx(&labels);
    dataset->memory[0] = images.memory;
    dataset->memory[1] = labels.memory;
    dataset->kept = images.kept;
    LS_TRY(status);
    dataset->facts.shape = (ls_chw){ 1, (int)images.size[1], (int)images.size[2] };
    dataset->pixels = images.content + images.header_bytes;
    dataset->pixel_stride = (size_t)ls_chw_count(dataset->facts.shape);
    dataset->labels = labels.content + labels.header_bytes;
    dataset->label_stride = 1;
    LS_TRY(ls_dataset_check_labels(dataset, labels.path, 0, images.size[0]));
    if (!dataset->kept.bytes) {
        keep(cfg, &images, checksum, dataset);
        ls_inflated_close(&dataset->kept);
    }
    LS_TRY(ls_dataset_limit(cfg, dataset, images.size[0]));
    const size_t count = (size_t)dataset->facts.count;
    dataset->facts.checksum = count == images.size[0] ? checksum : hash_samples(&labels, &images, count);
    return LS_SUCCESS;
}
