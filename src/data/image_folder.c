// image_folder.c - a data set of picture files in folders named like the classes, decoded when they are read.
//
// There are two layouts:
// - root/train/<class>/<file> and root/test/<class>/<file>. root/val/ serves for testing if there is no root/test/, and
//   for validation otherwise. split_names has other names of these three folders.
// - root/<class>/<file>. The test set is data.test_fraction of each class: the files whose names have the smallest
//   hashes. So it does not depend on the order of listing, and is not one end of a sorted series.
//
// Classes are sorted by name (bytes). Samples take the classes in turn: the first file of each class, then the second
// one of each, and so on. So the first n samples (data.train_samples) have about as many of each class.
//
// With data.labels (label_file.h) there are no class folders: pictures lie in root/ or in root/train/ and root/test/,
// and in any folders there. The label of a sample is then the number of its row, and samples are sorted by name.
#include "data/format.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/image_check.h"
#include "data/image_decode.h"
#include "data/label_file.h"

// NAME_BYTES: room for a name in which each byte is written as \xNN.
enum { MAX_CLASSES = 65536, MAX_DEPTH = 64, PATH_BYTES = LS_FILE_PATH_BYTES, NAME_BYTES = 1100 };

#define LAYOUTS \
    "root/<class>/<image>, or root/train/<class>/<image> and root/test/<class>/<image> (or root/val/; valid/ and " \
    "validation/ " \
    "are val/)"

typedef struct {
    char *name; // name of the file in its class folder; with data.labels: path in the split's folder
    int64_t bytes;
    uint64_t hash;   // hash of the name
    uint64_t stamp;  // from ls_file_stamp
    int label, rank; // rank: place among the files of its class and split
    int64_t file;    // place in the list of all files
} image;

typedef struct {
    char root[LS_TEXT_BYTES + 16]; // the folder with the class folders
    char **classes;                // names of the class folders; NULL with data.labels
    int class_count;
    // With data.labels; `labels` is NULL if there are class folders.
    char labels_path[PATH_BYTES], part[16]; // part: name of the split's folder; "": the root
    ls_label_file *labels;
    image *images;
    int64_t image_count;
    ls_image_options options;
    int skips; // whether data.broken = skip
    // Files in class folders that are not named like pictures: their number, and the first one.
    int64_t others;
    char other[256];
} folder;

static void free_folder(void *state) {
    folder *f = state;
    for (int i = 0; f->classes && i < f->class_count; i++) free(f->classes[i]);
    ls_label_file_free(f->labels);
    for (int64_t i = 0; i < f->image_count; i++) free(f->images[i].name);
    free(f->classes);
    free(f->images);
    free(f);
}

// Sets *is_folder to 1 if the path is a folder, and to 0 if it is a file or does not exist. Fails if the path exists
// but cannot be examined: leaving it out would change the data set.
static ls_status look(const char *path, int *is_folder) {
    struct stat info;
    int found = stat(path, &info) == 0;
    if (!found && errno != ENOENT && errno != ENOTDIR)
        return ls_fail(ls_io_code(errno, LS_DATA), "%s: %s; replace it or move it away", path, strerror(errno));
    *is_folder = found && S_ISDIR(info.st_mode);
    return LS_SUCCESS;
}

static ls_status join(char *dst, const char *a, const char *b) {
    if (snprintf(dst, PATH_BYTES, "%s/%s", a, b) < PATH_BYTES) return LS_SUCCESS;
    return ls_fail(LS_DATA, "%s/%s: path longer than %d characters", a, b, PATH_BYTES - 1);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Lists the names in a folder without hidden ones, sorted by bytes. The caller frees each name and the list.
static ls_status list_names(const char *path, char ***names, int *count) {
    *names = NULL;
    *count = 0;
    struct dirent **entries;
    int found = scandir(path, &entries, NULL, NULL);
    if (found < 0) return ls_fail(ls_io_code(errno, LS_DATA), "%s: cannot list the folder: %s", path, strerror(errno));
    char **list = ls_new(found + 1, sizeof *list, "names in %s", path);
    int kept = 0;
    for (int i = 0; i < found; i++) {
        const char *name = entries[i]->d_name;
        if (name[0] != '.') list[kept++] = ls_new_text(name);
        free(entries[i]);
    }
    free(entries);
    *names = list;
    *count = kept;
    qsort(list, (size_t)kept, sizeof *list, compare_names);
    return LS_SUCCESS;
}

static void free_names(char **names, int count) {
    for (int i = 0; i < count; i++) free(names[i]);
    free(names);
}

static int compare_hashes(const void *a, const void *b) {
    const image *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_image_names(const void *a, const void *b) {
    return strcmp(((const image *)a)->name, ((const image *)b)->name);
}

static int compare_samples(const void *a, const void *b) {
    const image *x = a, *y = b;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : (x->label > y->label) - (x->label < y->label);
}

static ls_status add_other(folder *f, const char *path, const char *class_name, const char *name, int is_folder) {
    if (!f->skips)
        return ls_fail(LS_DATA,
            "%s: %s, expected only pictures in a class folder (" LS_IMAGE_ENDINGS
            "); move it away, or leave such files "
            "out by data.broken = skip%s",
            path, is_folder ? "is a folder" : "is no image", is_folder ? "; layouts: " LAYOUTS : "");
    if (f->others++ == 0) snprintf(f->other, sizeof f->other, "%s/%s", class_name, name);
    return LS_SUCCESS;
}

// Returns the name of the class folder; "." with data.labels.
static const char *folder_of(const folder *f, int label) {
    return f->labels ? "." : f->classes[label];
}

static uint64_t hash_place(const folder *f, int label, const char *name) {
    const uint64_t hash = ls_hash_more(0, folder_of(f, label), strlen(folder_of(f, label)) + 1);
    return ls_hash_more(hash, name, strlen(name) + 1);
}

// Adds a picture; else calls add_other. A missing file (a link to nowhere) and an empty file count as broken pictures.
static ls_status add_image(folder *f, const char *path, const char *name, int label) {
    struct stat info;
    const int there = stat(path, &info) == 0;
    if ((there && !S_ISREG(info.st_mode)) || !ls_image_is_named(name))
        return add_other(f, path, folder_of(f, label), name, there && S_ISDIR(info.st_mode));
    if (!there) info = (struct stat){ 0 };
    f->images = ls_grow(f->images, f->image_count, sizeof *f->images, "%s", path);
    f->images[f->image_count++] = (image){ .name = ls_new_text(name),
        .bytes = info.st_size,
        .hash = ls_hash(name, strlen(name)),
        .stamp = ls_file_stamp(hash_place(f, label, name), &info),
        .label = label };
    return LS_SUCCESS;
}

static ls_status list_class(folder *f, const char *class_name, int label) {
    char path[PATH_BYTES], file[PATH_BYTES], **names;
    int count = 0;
    const int64_t before = f->image_count;
    struct stat info;
    LS_TRY(join(path, f->root, class_name));
    if (stat(path, &info) == 0) ls_note_read(&info);
    ls_status status = list_names(path, &names, &count);
    for (int i = 0; i < count && !ls_failed(status); i++) {
        status = join(file, path, names[i]);
        LS_THEN(status, add_image(f, file, names[i], label));
    }
    free_names(names, count);
    LS_TRY(status);
    if (f->image_count == before)
        return ls_fail(LS_DATA, "%s: class folder without images; add some or move it away", path);
    return LS_SUCCESS;
}

static ls_status list_tree(folder *f, const char *inside);

// Refuses a picture whose name is in the table of labels, but with accents in the other Unicode form, so that both look
// alike.
static ls_status check_forms(const ls_label_file *labels, const char *path, const char *file) {
    char here[LS_TEXT_BYTES], there[LS_TEXT_BYTES];
    for (int64_t i = 0; i < labels->row_count; i++)
        if (ls_text_looks_alike(file, labels->rows[i].file))
            return ls_fail(LS_DATA,
                "%s: has accents in another Unicode form (%s) than in %s:%lld (%s); convmv -f utf8 -t utf8 --nfc "
                "renames files",
                path, ls_text_escape(here, sizeof here, file), labels->path, (long long)labels->rows[i].line,
                ls_text_escape(there, sizeof there, labels->rows[i].file));
    return LS_SUCCESS;
}

// Adds a picture, which must have a row (else LS_DATA), or the pictures of a folder. name: relative to the split's
// folder. Files that are not named like pictures are passed over.
static ls_status add_labelled(folder *f, const char *name) {
    char path[PATH_BYTES], file[PATH_BYTES];
    int is_folder = 0;
    LS_TRY(join(path, f->root, name));
    LS_TRY(look(path, &is_folder));
    if (is_folder) return list_tree(f, name);
    if (!ls_image_is_named(name)) return LS_SUCCESS;
    if (f->part[0])
        LS_TRY(join(file, f->part, name));
    else
        snprintf(file, sizeof file, "%s", name);
    const ls_label_row *row = ls_label_file_find(f->labels, file);
    if (row) return add_image(f, path, name, (int)row->row);
    LS_TRY(check_forms(f->labels, path, file));
    return ls_fail(
        LS_DATA, "%s: %s has no row for this picture; add '%s', or move the picture away", path, f->labels->path, file);
}

static int count_slashes(const char *path) {
    int count = 0;
    for (; *path; path++) count += *path == '/';
    return count;
}

// Adds all pictures of a folder inside the split's folder ("": of the split's folder itself) and of the folders in it.
// Each level takes some of the stack.
static ls_status list_tree(folder *f, const char *inside) {
    char path[PATH_BYTES], name[PATH_BYTES], **names;
    int count = 0;
    struct stat info;
    if (count_slashes(inside) >= MAX_DEPTH)
        return ls_fail(
            LS_DATA, "%s/%.80s...: folders in folders, more than %d levels; move it away", f->root, inside, MAX_DEPTH);
    LS_TRY(join(path, f->root, inside));
    if (stat(path, &info) == 0) ls_note_read(&info);
    ls_status status = list_names(path, &names, &count);
    for (int i = 0; i < count && !ls_failed(status); i++) {
        if (inside[0])
            status = join(name, inside, names[i]);
        else
            snprintf(name, sizeof name, "%s", names[i]);
        LS_THEN(status, add_labelled(f, name));
    }
    free_names(names, count);
    return status;
}

static int is_ascii(const char *text) {
    while (*text && !(*text & 0x80)) text++;
    return !*text;
}

// Refuses two folders whose names look the same: they would be two classes that nobody can tell apart.
static ls_status check_twins(const char *root, char *const *names, int count) {
    enum { ASCII, COMPOSED, DECOMPOSED };
    char a[NAME_BYTES], b[NAME_BYTES], *form;
    ls_status status = ls_try_new(&form, count, sizeof *form, "%s", root);
    for (int i = 0; i < count && !ls_failed(status); i++) {
        form[i] = is_ascii(names[i]) ? ASCII : ls_text_is_decomposed(names[i]) ? DECOMPOSED : COMPOSED;
        for (int k = form[i] ? 0 : i; k < i; k++)
            if (form[k] + form[i] == COMPOSED + DECOMPOSED && ls_text_looks_alike(names[i], names[k]))
                status = ls_fail(LS_DATA,
                    "%s: has two class folders whose names look the same, '%s' and '%s': Unicode writes letters with "
                    "marks in two forms (NFC and NFD); join the two folders, or rename one",
                    root, ls_text_escape(a, sizeof a, names[k]), ls_text_escape(b, sizeof b, names[i]));
    }
    free(form);
    return status;
}

// Lists the class folders in root. Other files may be beside them (a README), but pictures there are refused.
static ls_status list_classes(const char *root, char ***classes, int *count) {
    char path[PATH_BYTES], **names;
    int found = 0, kept = 0;
    ls_status status = list_names(root, &names, &found);
    for (int i = 0; i < found && !ls_failed(status); i++) {
        int is_folder = 0;
        status = join(path, root, names[i]);
        LS_THEN(status, look(path, &is_folder));
        if (!ls_failed(status) && is_folder) {
            char *name = names[i];
            names[i] = names[kept];
            names[kept++] = name;
        } else if (!ls_failed(status) && ls_image_is_named(names[i])) {
            status = ls_fail(LS_DATA, "%s: image outside a class folder; move it into the folder of its class", path);
        }
    }
    if (!ls_failed(status) && (kept < 2 || kept > MAX_CLASSES)) {
        status = ls_fail(LS_DATA, "%s: %d class folder%s, expected 2 to %d: " LAYOUTS, root, kept, kept == 1 ? "" : "s",
            MAX_CLASSES);
    }
    LS_THEN(status, check_twins(root, names, kept));
    if (ls_failed(status)) {
        free_names(names, found);
        return status;
    }
    for (int i = kept; i < found; i++) free(names[i]);
    qsort(names, (size_t)kept, sizeof *names, compare_names);
    *classes = names;
    *count = kept;
    return LS_SUCCESS;
}

// Keeps the files of this split among those of one class, images[first..]. The number of test files is rounded to the
// nearest; a class of two or more files is in both splits, unless the fraction is 0. Returns the number of files kept.
static int64_t split_class(folder *f, int64_t first, double test_fraction, ls_split split) {
    int64_t count = f->image_count - first, test = (int64_t)((double)count * test_fraction + 0.5);
    if (test_fraction > 0 && count >= 2) {
        if (test < 1) test = 1;
        if (test > count - 1) test = count - 1;
    } else if (test >= count) {
        test = count - 1; // a class with one file is for training
    }
    image *images = f->images + first;
    qsort(images, (size_t)count, sizeof *images, compare_hashes);
    int64_t from = split == LS_SPLIT_TEST ? 0 : test, end = split == LS_SPLIT_TEST ? test : count, kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i >= from && i < end) {
            images[kept++] = images[i];
        } else {
            free(images[i].name);
        }
    }
    f->image_count = first + kept;
    return kept;
}

static ls_status list_images(folder *f, int is_split, double test_fraction, ls_split split) {
    for (int label = 0; label < f->class_count; label++) {
        int64_t first = f->image_count;
        char path[PATH_BYTES];
        LS_TRY(join(path, f->root, f->classes[label]));
        int is_folder = 0;
        LS_TRY(look(path, &is_folder));
        if (is_split && split != LS_SPLIT_TRAIN && !is_folder) continue; // a class may lack pictures for testing
        LS_TRY(list_class(f, f->classes[label], label));
        if (!is_split) split_class(f, first, test_fraction, split);
        qsort(f->images + first, (size_t)(f->image_count - first), sizeof *f->images, compare_image_names);
        for (int64_t i = first; i < f->image_count; i++) f->images[i].rank = (int)(i - first);
    }
    qsort(f->images, (size_t)f->image_count, sizeof *f->images, compare_samples);
    return LS_SUCCESS;
}

// Fails, because a test or validation class is not among the training classes. If its name looks like a training class,
// the message says that it is in another form of Unicode.
static ls_status refuse_class(const folder *f, const char *name, const char *train_root) {
    char here[NAME_BYTES], there[NAME_BYTES];
    ls_text_escape(here, sizeof here, name);
    for (int i = 0; i < f->class_count; i++)
        if (ls_text_looks_alike(name, f->classes[i]))
            return ls_fail(LS_DATA,
                "%s/%s: class that %s does not have: its name is '%s' here and '%s' there, which look the same, for "
                "Unicode "
                "writes letters with marks in two forms (NFC and NFD); rename one of the folders",
                f->root, name, train_root, here, ls_text_escape(there, sizeof there, f->classes[i]));
    return ls_fail(LS_DATA, "%s/%s: class that %s does not have%s%s%s; rename it or move it away", f->root, name,
        train_root, is_ascii(name) ? "" : " (its bytes are '", is_ascii(name) ? "" : here, is_ascii(name) ? "" : "')");
}

// Fails if another split has a class that the training folder lacks: the training classes number all labels.
static ls_status check_test_classes(const folder *f, const char *train_root) {
    char **classes;
    int count = 0;
    LS_TRY(list_classes(f->root, &classes, &count));
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < count && !ls_failed(status); i++) {
        if (bsearch(&classes[i], f->classes, (size_t)f->class_count, sizeof *f->classes, compare_names)) continue;
        status = refuse_class(f, classes[i], train_root);
    }
    free_names(classes, count);
    return status;
}

// Names of the folders of each split; small and capital letters count as equal.
static const struct {
    const char *name;
    ls_split split;
} split_names[] = { { "train", LS_SPLIT_TRAIN }, { "training", LS_SPLIT_TRAIN }, { "test", LS_SPLIT_TEST },
    { "testing", LS_SPLIT_TEST }, { "val", LS_SPLIT_VALIDATION }, { "valid", LS_SPLIT_VALIDATION },
    { "validation", LS_SPLIT_VALIDATION } };
enum { SPLITS = 3, SPLIT_NAMES = sizeof split_names / sizeof split_names[0] };

// Where the class folders of each split are, relative to the root.
typedef struct {
    // "/train". All "": the root itself has the class folders. Only validation "": there is no validation folder.
    char part[SPLITS][16];
    char beside[160]; // other folders and pictures in the root, which are not used; for a message
} layout;

// Returns the split whose folder has this name; SPLITS if the name is not a split's.
static int split_of(const char *name) {
    for (int i = 0; i < SPLIT_NAMES; i++)
        if (strcasecmp(name, split_names[i].name) == 0) return split_names[i].split;
    return SPLITS;
}

static ls_status use_part(const char *root, const char *name, ls_split split, layout *found) {
    char *part = found->part[split];
    if (part[0])
        return ls_fail(LS_DATA, "%s: both %s/ and %s/ are for %s pictures; join them, or move one away", root, part + 1,
            name, ls_split_name(split));
    snprintf(part, sizeof found->part[split], "/%.14s", name);
    return LS_SUCCESS;
}

static ls_status take_part(const char *root, const char *name, layout *found, ls_text_room *beside) {
    char path[PATH_BYTES];
    int is_folder = 0;
    const int split = split_of(name);
    LS_TRY(join(path, root, name));
    LS_TRY(look(path, &is_folder));
    if (split < SPLITS && is_folder) return use_part(root, name, (ls_split)split, found);
    if (is_folder || ls_image_is_named(name))
        ls_text_put(beside, "%s%s%s", found->beside[0] ? ", " : "", name, is_folder ? "/" : "");
    return LS_SUCCESS;
}

// Fails if a folder named like a split ("test") contains folders and the other split is missing: it is not a class.
static ls_status check_one_tree(const char *root, const layout *found) {
    for (int split = 0; split < SPLITS; split++) {
        char part[PATH_BYTES], path[PATH_BYTES], **names;
        int count = 0, is_folder = 0;
        if (!found->part[split][0]) continue;
        LS_TRY(join(part, root, found->part[split] + 1));
        ls_status status = list_names(part, &names, &count);
        for (int i = 0; i < count && !is_folder && !ls_failed(status); i++) {
            status = join(path, part, names[i]);
            LS_THEN(status, look(path, &is_folder));
        }
        free_names(names, count);
        LS_TRY(status);
        if (is_folder)
            return ls_fail(LS_DATA, "%s: there is %s/ with folders in it, but no %s beside it; expected " LAYOUTS, root,
                found->part[split] + 1, split == LS_SPLIT_TRAIN ? "test/ or val/" : "train/");
    }
    return LS_SUCCESS;
}

static ls_status find_layout(const ls_config *cfg, ls_dataset *dataset, char *root, layout *out) {
    static const char *const anything[] = { "." };
    LS_TRY(ls_dataset_find(cfg, dataset, anything, 1, root));
    *out = (layout){ 0 };
    ls_text_room beside = { out->beside, sizeof out->beside };
    char **names;
    int count = 0;
    ls_status status = list_names(root, &names, &count);
    for (int i = 0; i < count; i++) LS_THEN(status, take_part(root, names[i], out, &beside));
    free_names(names, count);
    LS_TRY(status);
    char *train = out->part[LS_SPLIT_TRAIN], *test = out->part[LS_SPLIT_TEST], *val = out->part[LS_SPLIT_VALIDATION];
    if (!train[0] || !(test[0] || val[0])) {
        LS_TRY(check_one_tree(root, out));
        *out = (layout){ 0 };
        return LS_SUCCESS;
    }
    if (!test[0]) {
        memcpy(test, val, sizeof out->part[0]);
        val[0] = 0;
    }
    return LS_SUCCESS;
}

// --- pictures with several labels

static const uint8_t *set_of(const folder *f, int64_t index) {
    return f->labels->sets + (int64_t)f->images[index].label * f->class_count;
}

// Whether the file lies in the folder of another split, which has its own data set.
static int is_of_other_split(const folder *f, const layout *found, const char *file) {
    for (int split = 0; split < SPLITS && f->part[0]; split++) {
        const char *part = found->part[split] + 1;
        const size_t length = found->part[split][0] ? strlen(part) : 0;
        if (length && strcmp(part, f->part) != 0 && strncmp(file, part, length) == 0 && file[length] == '/') return 1;
    }
    return 0;
}

static ls_status list_labelled(folder *f, const layout *found, double test_fraction, ls_split split) {
    const ls_label_file *l = f->labels;
    if (found->part[split][0]) snprintf(f->part, sizeof f->part, "%s", found->part[split] + 1);
    LS_TRY(list_tree(f, ""));
    for (int64_t i = 0; i < l->row_count; i++)
        if (!l->rows[i].is_taken && !is_of_other_split(f, found, l->rows[i].file))
            return ls_fail(LS_DATA,
                "%s:%lld: there is no picture %s %s (" LS_IMAGE_ENDINGS "); correct the path, or remove the row",
                l->path, (long long)l->rows[i].line, l->rows[i].file,
                f->part[0] ? "in train/, test/ or val/" : "beside it");
    if (!f->part[0]) split_class(f, 0, test_fraction, split);
    qsort(f->images, (size_t)f->image_count, sizeof *f->images, compare_image_names);
    if (f->image_count > 0 || !f->part[0]) return LS_SUCCESS;
    return ls_fail(LS_DATA, "%s: no picture in this folder (" LS_IMAGE_ENDINGS ")", f->root);
}

// Notes the first label that no training picture has, because no network can learn it.
static void note_unused_label(const folder *f, ls_text_room *note) {
    for (int k = 0; f->labels && k < f->class_count; k++) {
        int64_t i = 0;
        while (i < f->image_count && !set_of(f, i)[k]) i++;
        if (i < f->image_count) continue;
        ls_text_put(note, "no training picture has the label '%s'; ", f->labels->labels[k]);
        return;
    }
}

// Notes options and files without effect, because the user may have meant something else.
static void write_note(
    const ls_config *cfg, const layout *found, const folder *f, int training, ls_dataset_info *facts) {
    ls_text_room note = { facts->note, sizeof facts->note };
    const char *test = found->part[LS_SPLIT_TEST], *val = found->part[LS_SPLIT_VALIDATION];
    if (val[0] && cfg->data_validation_fraction > 0)
        ls_text_put(&note, "data.validation_fraction has no effect, for there is %s/; ", val + 1);
    if (test[0] && cfg->line[LS_OPTION_data_test_fraction])
        ls_text_put(&note, "data.test_fraction has no effect, for there is %s/; ", test + 1);
    if (f->others > 0)
        ls_text_put(
            &note, "%lld in class folders are no pictures and left out, as %s; ", (long long)f->others, f->other);
    if (found->beside[0])
        ls_text_put(&note, "beside %s/ and %s/ these are not used: %s; ", found->part[LS_SPLIT_TRAIN] + 1, test + 1,
            found->beside);
    if (training) note_unused_label(f, &note);
    const size_t length = strlen(facts->note);
    if (length > 2 && facts->note[length - 2] == ';') facts->note[length - 2] = 0;
}

static ls_status load_image(const ls_dataset *dataset, int64_t index, char *path, ls_file_content *out) {
    const folder *f = dataset->state;
    const image *from = &f->images[index];
    char folder_path[PATH_BYTES];
    LS_TRY(join(folder_path, f->root, folder_of(f, from->label)));
    LS_TRY(join(path, folder_path, from->name));
    return ls_file_content_read(path, hash_place(f, from->label, from->name), out);
}

static ls_status decode_image(const ls_dataset *dataset, const ls_file_content *file, uint8_t *pixels) {
    const folder *f = dataset->state;
    return ls_image_decode_bytes(file->path, file->bytes, file->count, &f->options, pixels);
}

static void name_image(const ls_dataset *dataset, int64_t index, char *dst, size_t bytes) {
    const folder *f = dataset->state;
    const image *from = &f->images[index];
    snprintf(dst, bytes, "%s%s%s", f->labels ? "" : f->classes[from->label], f->labels ? "" : "/", from->name);
}

static int label_image(const ls_dataset *dataset, int64_t index) {
    const folder *f = dataset->state;
    return f->images[index].label;
}

static int64_t file_of_image(const ls_dataset *dataset, int64_t index) {
    const folder *f = dataset->state;
    return f->images[index].file;
}

static ls_status fill_stamps(folder *f, ls_dataset *dataset) {
    LS_TRY(ls_try_new(
        &dataset->stamps, f->image_count, sizeof *dataset->stamps, "stamps of %lld files", (long long)f->image_count));
    LS_TRY(ls_try_new(&dataset->contents, f->image_count, sizeof *dataset->contents, "contents of %lld files",
        (long long)f->image_count));
    dataset->files = f->image_count;
    for (int64_t i = 0; i < f->image_count; i++) {
        f->images[i].file = i;
        dataset->stamps[i] = f->images[i].stamp;
    }
    return LS_SUCCESS;
}

static void leave_out(ls_dataset *dataset, const uint8_t *broken) {
    folder *f = dataset->state;
    int64_t kept = 0;
    for (int64_t i = 0; i < f->image_count; i++) {
        if (i < dataset->facts.count && !broken[i]) {
            f->images[kept++] = f->images[i];
        } else {
            free(f->images[i].name);
        }
    }
    dataset->facts.count = f->image_count = kept;
}

// Returns a hash of all that decides pixels, except the files. Raise PIXELS_VERSION if decoding or resizing changes.
static uint64_t hash_kind(const char *root, const ls_dataset *dataset) {
    enum { PIXELS_VERSION = 2 };
    const ls_dataset_info *facts = &dataset->facts;
    const int64_t numbers[] = { PIXELS_VERSION, dataset->split, facts->shape.c, facts->shape.h, facts->shape.w,
        facts->resize };
    char *real = realpath(root, NULL);
    const char *place = real ? real : root;
    uint64_t hash = ls_hash_more(0, numbers, sizeof numbers);
    hash = ls_hash_more(hash, facts->decoder, strlen(facts->decoder) + 1);
    hash = ls_hash_more(hash, place, strlen(place) + 1);
    free(real);
    return hash;
}

// Returns a checksum of the data set: class names, and the name, size and label of each file. It does not cover the
// contents of the files, which have not been read yet (see ls_dataset_verify).
static uint64_t checksum(const folder *f, const char *const *classes, int64_t count) {
    uint64_t hash = 0;
    for (int i = 0; i < f->class_count; i++) hash = ls_hash_more(hash, classes[i], strlen(classes[i]) + 1);
    for (int64_t i = 0; i < count; i++) {
        const int64_t facts[] = { f->images[i].bytes, f->labels ? -1 : f->images[i].label };
        hash = ls_hash_more(hash, f->images[i].name, strlen(f->images[i].name) + 1);
        hash = ls_hash_more(hash, facts, sizeof facts);
        if (f->labels) hash = ls_hash_more(hash, set_of(f, i), (size_t)f->class_count);
    }
    return hash;
}

static ls_status read_labels(const ls_config *cfg, const char *root, folder *f, ls_dataset *dataset) {
    LS_TRY(ls_path_join(f->labels_path, sizeof f->labels_path, root, cfg->data_labels));
    LS_TRY(ls_label_file_read(f->labels_path, &f->labels));
    f->class_count = f->labels->label_count;
    dataset->class_names = f->labels->labels;
    dataset->label_sets = f->labels->sets;
    dataset->facts.label_rows = f->labels->row_count;
    return LS_SUCCESS;
}

// Finds the classes and the pictures of the split.
static ls_status list_all(const ls_config *cfg, const char *root, const layout *found, folder *f, ls_dataset *dataset) {
    const int is_split = found->part[LS_SPLIT_TEST][0] != 0;
    char train_root[PATH_BYTES];
    if (ls_config_several_labels(cfg)) {
        LS_TRY(read_labels(cfg, root, f, dataset));
        if (f->class_count < 2)
            return ls_fail(LS_DATA,
                "%s:1: has one label, expected at least 2; for one, make a folder per class instead", f->labels_path);
        return list_labelled(f, found, cfg->data_test_fraction, dataset->split);
    }
    snprintf(train_root, sizeof train_root, "%s%s", root, found->part[LS_SPLIT_TRAIN]);
    LS_TRY(list_classes(train_root, &f->classes, &f->class_count));
    if (is_split && dataset->split != LS_SPLIT_TRAIN) LS_TRY(check_test_classes(f, train_root));
    dataset->class_names = (const char *const *)f->classes;
    return list_images(f, is_split, cfg->data_test_fraction, dataset->split);
}

ls_status ls_folder_open(const ls_config *cfg, ls_dataset *dataset) {
    ls_dataset_info *facts = &dataset->facts;
    LS_TRY(ls_shape_parse("data.image_size", cfg->data_image_size, 2, &facts->shape));
    facts->shape.c = (int)cfg->data_channels;
    LS_TRY(ls_image_check_decoder(cfg->data_decoder));
    char root[LS_TEXT_BYTES];
    layout found;
    LS_TRY(find_layout(cfg, dataset, root, &found));
    folder *f = ls_new(1, sizeof *f, "%s", root);
    f->options = (ls_image_options){ facts->shape, cfg->data_resize, cfg->data_decoder };
    f->skips = cfg->data_broken == LS_BROKEN_SKIP;
    facts->resize = cfg->data_resize;
    snprintf(facts->decoder, sizeof facts->decoder, "%s", ls_image_decoder(cfg->data_decoder));
    dataset->state = f;
    dataset->free_state = free_folder;
    dataset->load = load_image;
    dataset->decode = decode_image;
    dataset->name = name_image;
    dataset->label = label_image;
    dataset->file = file_of_image;
    dataset->leave_out = leave_out;
    dataset->kind = hash_kind(root, dataset);
    dataset->has_validation = dataset->split == LS_SPLIT_TRAIN && found.part[LS_SPLIT_VALIDATION][0] != 0;
    snprintf(f->root, sizeof f->root, "%s%s", root, found.part[dataset->split]);
    LS_TRY(list_all(cfg, root, &found, f, dataset));
    facts->classes = f->class_count;
    write_note(cfg, &found, f, dataset->split == LS_SPLIT_TRAIN, facts);
    if (f->image_count == 0) {
        return ls_fail(LS_USAGE,
            "data.test_fraction = %g leaves no %s pictures in %s; raise it, or give the set train/ and test/ folders",
            cfg->data_test_fraction, ls_split_name(dataset->split), root);
    }
    LS_TRY(fill_stamps(f, dataset));
    LS_TRY(ls_dataset_limit(cfg, dataset, f->image_count));
    facts->checksum = checksum(f, dataset->class_names, facts->count);
    return LS_SUCCESS;
}
