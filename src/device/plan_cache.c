// plan_cache.c - the file is one line "lockstep plans 1 <hash of the rest>", then "key<tab>choice" lines.
#include "device/plan_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/hash.h"

static const char first_words[] = "lockstep plans 1 ";
enum { FIRST_LINE_BYTES = sizeof first_words - 1 + 16 + 1 };

typedef struct {
    char *key, *choice; // one piece of memory, which is key's
} entry;

struct ls_plan_cache {
    char *folder, *path;
    entry *entries;
    size_t count, room;
};

static entry *find(const ls_plan_cache *cache, const char *key) {
    for (size_t i = 0; i < cache->count; i++)
        if (strcmp(cache->entries[i].key, key) == 0) return &cache->entries[i];
    return NULL;
}

static entry make_entry(const char *key, const char *choice) {
    size_t key_bytes = strlen(key) + 1, choice_bytes = strlen(choice) + 1;
    entry made = { malloc(key_bytes + choice_bytes), NULL };
    if (!made.key) return made;
    made.choice = made.key + key_bytes;
    memcpy(made.key, key, key_bytes);
    memcpy(made.choice, choice, choice_bytes);
    return made;
}

// Adds or replaces; 0 without memory.
static int keep(ls_plan_cache *cache, const char *key, const char *choice) {
    if (cache->count == cache->room) {
        size_t room = cache->room ? 2 * cache->room : 64;
        entry *larger = realloc(cache->entries, room * sizeof *larger);
        if (!larger) return 0;
        cache->entries = larger;
        cache->room = room;
    }
    entry made = make_entry(key, choice);
    if (!made.key) return 0;
    entry *there = find(cache, key);
    if (!there)
        there = &cache->entries[cache->count++];
    else
        free(there->key);
    *there = made;
    return 1;
}

// The text behind the first line where it is whole, else NULL.
static char *checked_body(char *text, size_t bytes) {
    char hash[17];
    if (bytes < FIRST_LINE_BYTES || memcmp(text, first_words, sizeof first_words - 1) != 0) return NULL;
    char *body = text + FIRST_LINE_BYTES;
    size_t body_bytes = bytes - FIRST_LINE_BYTES;
    ls_hash_text(ls_hash(body, body_bytes), hash);
    if (memcmp(text + sizeof first_words - 1, hash, 16) != 0 || body[-1] != '\n') return NULL;
    return strlen(body) == body_bytes ? body : NULL;
}

// Takes over the file's entries, which are newer than those in memory. What cannot be read or used is left.
static void merge_file(ls_plan_cache *cache) {
    char *text = NULL;
    size_t bytes = 0;
    if (!ls_path_exists(cache->path) || ls_failed(ls_read_file(cache->path, &text, &bytes))) return;
    char *line = checked_body(text, bytes);
    while (line && *line) {
        char *end = strchr(line, '\n'), *tab = strchr(line, '\t');
        if (!end || !tab || tab > end) break;
        *end = *tab = 0;
        if (!keep(cache, line, tab + 1)) break;
        line = end + 1;
    }
    free(text);
}

ls_status ls_plan_cache_open(const char *folder, const char *name, ls_plan_cache **out) {
    ls_plan_cache *cache = calloc(1, sizeof *cache);
    if (cache) cache->folder = strdup(folder);
    if (!cache || !cache->folder || asprintf(&cache->path, "%s/%s", folder, name) < 0) {
        if (cache) free(cache->folder);
        free(cache);
        return ls_fail(LS_DEVICE, "%s/%s: no memory to read the timed plans", folder, name);
    }
    merge_file(cache);
    *out = cache;
    return LS_SUCCESS;
}

void ls_plan_cache_free(ls_plan_cache *cache) {
    if (!cache) return;
    for (size_t i = 0; i < cache->count; i++) free(cache->entries[i].key);
    free(cache->entries);
    free(cache->folder);
    free(cache->path);
    free(cache);
}

const char *ls_plan_cache_find(const ls_plan_cache *cache, const char *key) {
    const entry *found = find(cache, key);
    return found ? found->choice : NULL;
}

static ls_status write_file(const ls_plan_cache *cache) {
    size_t bytes = 0;
    for (size_t i = 0; i < cache->count; i++)
        bytes += strlen(cache->entries[i].key) + strlen(cache->entries[i].choice) + 2;
    char *text = malloc(FIRST_LINE_BYTES + bytes + 1), hash[17];
    if (!text) return ls_fail(LS_DEVICE, "%s: no memory to write it", cache->path);
    char *at = text + FIRST_LINE_BYTES;
    for (size_t i = 0; i < cache->count; i++)
        at += sprintf(at, "%s\t%s\n", cache->entries[i].key, cache->entries[i].choice);
    ls_hash_text(ls_hash(text + FIRST_LINE_BYTES, bytes), hash);
    memcpy(text, first_words, sizeof first_words - 1);
    memcpy(text + sizeof first_words - 1, hash, 16);
    text[FIRST_LINE_BYTES - 1] = '\n';
    ls_status status = ls_make_folders(cache->folder);
    if (!ls_failed(status)) status = ls_write_file(cache->path, text, FIRST_LINE_BYTES + bytes);
    free(text);
    return status;
}

ls_status ls_plan_cache_put(ls_plan_cache *cache, const char *key, const char *choice) {
    merge_file(cache); // what other processes have put meanwhile
    if (!keep(cache, key, choice)) return ls_fail(LS_DEVICE, "%s: no memory to keep a choice", cache->path);
    return write_file(cache);
}
