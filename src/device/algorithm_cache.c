// algorithm_cache.c - the file has one line "lockstep plans 2 <hash of the rest>", then "key<tab>choice" lines.
#include "device/algorithm_cache.h"

#include <stdio.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/cache_file.h"
#include "base/hash.h"
#include "base/memory.h"

static const char any_version[] = "lockstep plans ", first_words[] = "lockstep plans 2 ";
enum { FIRST_LINE_BYTES = sizeof first_words - 1 + 16 + 1, FILE_ENTRIES = 1024 };

typedef struct {
    char *key, *choice; // share one allocation, which key owns
    int used;           // find returned the entry, or put or take added it
    int measured;       // put added the entry
    int unsaved;        // the entry was put or taken since the last save
} entry;

typedef struct {
    entry *entries;
    size_t count;
} entry_list;

struct ls_algorithm_cache {
    char *folder, *path; // NULL: no file
    const char *ignored; // why the file was ignored; NULL: it was read, or there was none
    entry_list list;
    int settled;
};

static entry *find(const entry_list *list, const char *key) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->entries[i].key, key) == 0) return &list->entries[i];
    return NULL;
}

static entry make_entry(const char *key, const char *choice) {
    const size_t key_bytes = strlen(key) + 1, choice_bytes = strlen(choice) + 1;
    char *texts = ls_new(key_bytes + choice_bytes, 1, "measured plan");
    memcpy(texts, key, key_bytes);
    memcpy(texts + key_bytes, choice, choice_bytes);
    return (entry){ .key = texts, .choice = texts + key_bytes };
}

// Adds the entry, or replaces the entry with the same key; returns it.
static entry *insert(entry_list *list, const char *key, const char *choice) {
    list->entries = ls_grow(list->entries, list->count, sizeof *list->entries, "%zu measured plans", list->count);
    const entry made = make_entry(key, choice); // before the old texts are freed: key may be one of them
    entry *there = find(list, key);
    if (!there)
        there = &list->entries[list->count++];
    else
        free(there->key);
    *there = made;
    return there;
}

static void free_list(entry_list *list) {
    for (size_t i = 0; i < list->count; i++) free(list->entries[i].key);
    free(list->entries);
    *list = (entry_list){ 0 };
}

// Says why a file's text is rejected; NULL: the text is valid.
static const char *fault_of(const char *text, size_t bytes) {
    char hash[17];
    if (bytes < sizeof any_version - 1 || memcmp(text, any_version, sizeof any_version - 1) != 0)
        return "is not a file of measured plans";
    if (bytes < FIRST_LINE_BYTES) return "is damaged";
    if (memcmp(text, first_words, sizeof first_words - 1) != 0) return "is of another version of this program";
    const char *body = text + FIRST_LINE_BYTES;
    size_t body_bytes = bytes - FIRST_LINE_BYTES;
    ls_hash_text(ls_hash(body, body_bytes), hash);
    const int whole = memcmp(text + sizeof first_words - 1, hash, 16) == 0 && body[-1] == '\n';
    return whole && strlen(body) == body_bytes ? NULL : "is damaged";
}

// Returns the key of the next "key<tab>choice" line and sets *choice; NULL at the end or if the line is malformed.
static char *next_line(char **at, char **choice) {
    char *line = *at, *end = strchr(line, '\n'), *tab = strchr(line, '\t');
    if (!end || !tab || tab > end) return NULL;
    *end = *tab = 0;
    *choice = tab + 1;
    *at = end + 1;
    return line;
}

// Returns why the file was ignored. Returns NULL if it was read or does not exist.
static const char *read_file(const char *path, entry_list *list) {
    char *text = NULL, *choice;
    size_t bytes = 0;
    if (!ls_path_exists(path)) return NULL;
    if (ls_failed(ls_cache_file_read(path, &text, &bytes))) return "cannot be read";
    const char *fault = fault_of(text, bytes);
    char *at = text + FIRST_LINE_BYTES;
    for (char *key; !fault && (key = next_line(&at, &choice));) insert(list, key, choice);
    free(text);
    return fault;
}

ls_status ls_algorithm_cache_open(const char *folder, const char *name, ls_algorithm_cache **out) {
    ls_algorithm_cache *cache = ls_new(1, sizeof *cache, "%s", name);
    if (folder) {
        cache->folder = ls_new_text(folder);
        cache->path = ls_new_textf("%s/%s", folder, name);
        cache->ignored = read_file(cache->path, &cache->list);
    }
    *out = cache;
    return LS_SUCCESS;
}

void ls_algorithm_cache_free(ls_algorithm_cache *cache) {
    if (!cache) return;
    free_list(&cache->list);
    free(cache->folder);
    free(cache->path);
    free(cache);
}

const char *ls_algorithm_cache_find(ls_algorithm_cache *cache, const char *key, const char **how) {
    entry *found = find(&cache->list, key);
    if (!found) return NULL;
    found->used = 1;
    if (how) *how = found->measured ? LS_CHOSEN_NOW : LS_CHOSEN_BEFORE;
    return found->choice;
}

void ls_algorithm_cache_put(ls_algorithm_cache *cache, const char *key, const char *choice) {
    entry *made = insert(&cache->list, key, choice);
    made->used = made->measured = made->unsaved = 1;
}

int ls_algorithm_cache_measured(const ls_algorithm_cache *cache) {
    int count = 0;
    for (size_t i = 0; i < cache->list.count; i++) count += cache->list.entries[i].measured;
    return count;
}

void ls_algorithm_cache_settle(ls_algorithm_cache *cache, int settled) {
    cache->settled = settled;
}

int ls_algorithm_cache_settled(const ls_algorithm_cache *cache) {
    return cache->settled;
}

const char *ls_algorithm_cache_path(const ls_algorithm_cache *cache) {
    return cache->path;
}

const char *ls_algorithm_cache_ignored(ls_algorithm_cache *cache) {
    const char *why = cache->ignored;
    cache->ignored = NULL;
    return why;
}

// Writes the lines of entries first..count-1 to *text, which the caller frees. Before them it leaves `before` bytes,
// which the caller fills. only_used: skips entries that are not `used`.
static ls_status write_lines(
    const entry_list *list, size_t first, int only_used, size_t before, char **text, size_t *bytes) {
    *bytes = before;
    for (size_t i = first; i < list->count; i++)
        *bytes += strlen(list->entries[i].key) + strlen(list->entries[i].choice) + 2;
    LS_TRY(ls_try_new(text, *bytes + 1, 1, "measured plans"));
    char *at = *text + before;
    *at = 0;
    for (size_t i = first; i < list->count; i++)
        if (!only_used || list->entries[i].used)
            at += sprintf(at, "%s\t%s\n", list->entries[i].key, list->entries[i].choice);
    *bytes = (size_t)(at - *text);
    return LS_SUCCESS;
}

static ls_status write_file(const ls_algorithm_cache *cache, const entry_list *list) {
    char *text, hash[17];
    size_t bytes, first = list->count > FILE_ENTRIES ? list->count - FILE_ENTRIES : 0;
    LS_TRY(write_lines(list, first, 0, FIRST_LINE_BYTES, &text, &bytes));
    ls_hash_text(ls_hash(text + FIRST_LINE_BYTES, bytes - FIRST_LINE_BYTES), hash);
    memcpy(text, first_words, sizeof first_words - 1);
    memcpy(text + sizeof first_words - 1, hash, 16);
    text[FIRST_LINE_BYTES - 1] = '\n';
    ls_status status = ls_make_folders(cache->folder);
    ls_atomic_file *file = NULL;
    LS_THEN(status, ls_atomic_file_open_cache(cache->path, &file));
    if (file) ls_atomic_file_write(file, text, bytes);
    if (file) status = ls_atomic_file_commit(file);
    free(text);
    return status;
}

ls_status ls_algorithm_cache_save(ls_algorithm_cache *cache) {
    // merged: the file's entries, which may be newer than ours, and our unsaved entries
    entry_list *own = &cache->list, merged = { 0 };
    int unsaved = 0;
    for (size_t i = 0; i < own->count; i++) unsaved |= own->entries[i].unsaved;
    if (!cache->path || !unsaved) return LS_SUCCESS;
    (void)read_file(cache->path, &merged);
    for (size_t i = 0; i < own->count; i++)
        if (own->entries[i].unsaved) insert(&merged, own->entries[i].key, own->entries[i].choice);
    ls_status status = write_file(cache, &merged);
    free_list(&merged);
    for (size_t i = 0; i < own->count && !ls_failed(status); i++) own->entries[i].unsaved = 0;
    return status;
}

ls_status ls_algorithm_cache_give(const ls_algorithm_cache *cache, char **text, size_t *bytes) {
    return write_lines(&cache->list, 0, 1, 0, text, bytes);
}

ls_status ls_algorithm_cache_take(ls_algorithm_cache *cache, char *text, size_t bytes) {
    char *at = text, *choice, *key;
    while (at < text + bytes && (key = next_line(&at, &choice)) != NULL) {
        entry *there = find(&cache->list, key);
        if (there && strcmp(there->choice, choice) == 0) continue;
        there = insert(&cache->list, key, choice);
        there->used = there->unsaved = 1;
    }
    return LS_SUCCESS;
}
