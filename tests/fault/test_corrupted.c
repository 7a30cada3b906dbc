// Checkpoints damaged at random: none is loaded that is not, in all that counts, the one that was written;
// the one before it is found instead; nothing crashes, not even on one that lies about its own hashes.
//
// LOCKSTEP_CORRUPTED=10000 build/check/bin/test_fault_corrupted is the long form (else some hundred), LOCKSTEP_SEED
// another sequence. It prints what became of each kind of damage.
#include <math.h>
#include <sys/stat.h>
#include "base/hash.h"
#include "base/philox.h"
#include "config/purpose.h"
#include "support/temp.h"
#include "run/state_run.h"

enum { PATH = 512, OLD = 6, NEW = 9, FILES = 3, SHORT_FORM = 500 };

static const char *const names[FILES] = { "weights.safetensors", "state.safetensors", "manifest.json" };
enum { WEIGHTS, STATE, MANIFEST };

typedef struct {
    char *data; // NULL: not there
    size_t bytes;
} content;

typedef struct {
    content file[FILES];
} folder_content;

static char network_path[] = "/tmp/lockstep_corrupted_XXXXXX";
static temp_folder folder;
static run of_run;
static ls_snapshot *truth[2], *room;       // of OLD and NEW
static folder_content good[2], of_another; // of_another: update NEW of a run with another seed

// --- chance

static uint64_t seed, trial, drawn;

static uint64_t any(uint64_t below) {
    const uint32_t a = (uint32_t)trial;
    uint64_t high = ls_random_word(seed, LS_PURPOSE_SYNTHETIC, a, 0, drawn++);
    return (high << 32 | ls_random_word(seed, LS_PURPOSE_SYNTHETIC, a, 0, drawn++)) % below;
}

// --- files

static const char *path_of(int64_t update) {
    static char path[PATH];
    must(ls_checkpoint_path(folder.path, update, path, sizeof path));
    return path;
}

static content copy_of(const content *from) {
    content c = { malloc(from->bytes + 65536), from->bytes }; // room to grow
    assert_non_null(c.data);
    memset(c.data, 0, from->bytes + 65536);
    memcpy(c.data, from->data, from->bytes);
    return c;
}

static void read_folder(const char *path, folder_content *c) {
    for (int f = 0; f < FILES; f++) {
        char file[PATH + 64];
        snprintf(file, sizeof file, "%s/%s", path, names[f]);
        must(ls_read_file(file, &c->file[f].data, &c->file[f].bytes));
    }
}

static void write_folder(int64_t update, const folder_content *c) {
    const char *path = path_of(update);
    assert_int_equal(mkdir(path, 0777), 0);
    for (int f = 0; f < FILES; f++) {
        char name[PATH + 64];
        if (!c->file[f].data) continue;
        snprintf(name, sizeof name, "%s/%s", path, names[f]);
        FILE *file = fopen(name, "we");
        assert_non_null(file);
        assert_int_equal(fwrite(c->file[f].data, 1, c->file[f].bytes, file), c->file[f].bytes);
        assert_int_equal(fclose(file), 0);
    }
}

static void free_folder(folder_content *c) {
    for (int f = 0; f < FILES; f++) free(c->file[f].data);
}

// --- manifests that lie

static const char hash_member[] = ",\n\t\"manifest_hash\":\t\"";

static char *hash_of_manifest(content *m) {
    for (char *at = m->data + m->bytes; at > m->data; at--)
        if (strncmp(at, hash_member, strlen(hash_member)) == 0) return at;
    return NULL;
}

static void sign(content *m) {
    char text[17], *at = hash_of_manifest(m);
    if (!at) return;
    ls_hash_text(ls_hash(m->data, (size_t)(at - m->data)), text);
    memcpy(at + strlen(hash_member), text, 16);
}

// `length` bytes at `at` become `with`.
static void replace(content *c, char *at, size_t length, const char *with) {
    size_t more = strlen(with), rest = (size_t)(c->data + c->bytes - at) - length;
    memmove(at + more, at + length, rest);
    memcpy(at, with, more);
    c->bytes = c->bytes - length + more;
    c->data[c->bytes] = 0;
}

// The manifest says of the file what it is now.
static void tell_of_file(folder_content *c, int f) {
    char key[64], text[32];
    content *m = &c->file[MANIFEST];
    snprintf(key, sizeof key, "\"name\":\t\"%s\"", names[f]);
    char *at = strstr(m->data, key);
    assert_non_null(at);
    at = strstr(at, "\"bytes\":\t") + 9;
    snprintf(text, sizeof text, "%zu", c->file[f].bytes);
    replace(m, at, strspn(at, "0123456789"), text);
    at = strstr(at, "\"hash\":\t\"") + 9;
    ls_hash_text(ls_hash(c->file[f].data, c->file[f].bytes), text);
    memcpy(at, text, 16);
    sign(m);
}

// A digit of text[0..bytes-1]; NULL: there is none.
static char *any_digit(char *text, size_t bytes) {
    size_t count = 0, chosen;
    for (size_t i = 0; i < bytes; i++) count += text[i] >= '0' && text[i] <= '9';
    if (!count) return NULL;
    chosen = (size_t)any(count);
    for (size_t i = 0; i < bytes; i++)
        if (text[i] >= '0' && text[i] <= '9' && chosen-- == 0) return &text[i];
    return NULL;
}

static void change_digit(char *text, size_t bytes) {
    char *digit = any_digit(text, bytes);
    if (digit) *digit = (char)('0' + (*digit - '0' + 1 + (int)any(9)) % 10);
}

static size_t header_bytes(const content *c) {
    uint64_t length;
    memcpy(&length, c->data, sizeof length);
    return (size_t)length;
}

// --- kinds of damage, to the newer one unless they say otherwise

static content *any_file(folder_content *c) {
    return &c->file[any(FILES)];
}

static void flip_bit(folder_content *c) {
    content *f = any_file(c);
    uint64_t bit = any(f->bytes * 8);
    f->data[bit / 8] = (char)(f->data[bit / 8] ^ (1 << bit % 8));
}

static void change_bytes(folder_content *c) {
    content *f = any_file(c);
    for (uint64_t n = 1 + any(16); n > 0; n--) f->data[any(f->bytes)] = (char)any(256);
}

static void lose_block(folder_content *c) { // a page that never reached the disk
    content *f = any_file(c);
    size_t at = (size_t)any(f->bytes), length = 1 + (size_t)any(4096);
    memset(f->data + at, 0, length < f->bytes - at ? length : f->bytes - at);
}

static void cut_off(folder_content *c) {
    content *f = any_file(c);
    f->bytes = (size_t)any(f->bytes);
}

static void extend(folder_content *c) {
    content *f = any_file(c);
    for (uint64_t n = 1 + any(5000); n > 0; n--) f->data[f->bytes++] = (char)any(256);
}

static void delete_file(folder_content *c) {
    content *f = any_file(c);
    free(f->data);
    *f = (content){ 0 };
}

static void empty_file(folder_content *c) {
    any_file(c)->bytes = 0;
}

static void swap_files(folder_content *c) {
    content weights = c->file[WEIGHTS];
    c->file[WEIGHTS] = c->file[STATE];
    c->file[STATE] = weights;
}

static void put(content *to, const content *from) {
    free(to->data);
    *to = copy_of(from);
}

static void file_of_the_older(folder_content *c) {
    uint64_t f = any(FILES);
    put(&c->file[f], &good[0].file[f]);
}

static void all_of_the_older(folder_content *c) {
    for (int f = 0; f < FILES; f++) put(&c->file[f], &good[0].file[f]);
}

static void file_of_another_run(folder_content *c) {
    uint64_t f = any(FILES);
    put(&c->file[f], &of_another.file[f]);
}

static void digit_of_manifest(folder_content *c) {
    change_digit(c->file[MANIFEST].data, c->file[MANIFEST].bytes);
}

static void signed_digit(folder_content *c) {
    digit_of_manifest(c);
    sign(&c->file[MANIFEST]);
}

static void signed_number(folder_content *c) {
    static const char *const numbers[] = { "1e308", "-1", "1e999", "-1e999", "0.5", "null", "\"text\"", "{}",
        "[[[[]]]]", "9223372036854775807", "9007199254740992", "18446744073709551616", "4294967296", "0", "1e-400",
        "true", "2147483648", "00", "nan", "" };
    content *m = &c->file[MANIFEST];
    char *digit = any_digit(m->data, m->bytes);
    size_t length = strspn(digit, "0123456789.e-");
    replace(m, digit, length, numbers[any(sizeof numbers / sizeof numbers[0])]);
    sign(m);
}

static void signed_line(folder_content *c) { // a line less, or one twice
    content *m = &c->file[MANIFEST];
    char line[4096], *at = m->data + any(m->bytes);
    while (at > m->data && at[-1] != '\n') at--;
    size_t length = strcspn(at, "\n") + 1;
    if (at + length > m->data + m->bytes || length >= sizeof line) return;
    memcpy(line, at, length);
    line[length] = 0;
    replace(m, at, any(2) ? length : 0, any(2) ? line : "");
    sign(m);
}

static void signed_bytes(folder_content *c) {
    content *m = &c->file[MANIFEST];
    for (uint64_t n = 1 + any(4); n > 0; n--) m->data[any(m->bytes)] = (char)any(256);
    sign(m);
}

static void told_tensor_bit(folder_content *c) {
    int f = (int)any(2);
    content *file = &c->file[f];
    size_t header = 8 + header_bytes(file);
    file->data[header + any(file->bytes - header)] ^= (char)(1 << any(8));
    tell_of_file(c, f);
}

static void told_header_digit(folder_content *c) {
    int f = (int)any(2);
    change_digit(c->file[f].data + 8, header_bytes(&c->file[f]));
    tell_of_file(c, f);
}

static void told_header_length(folder_content *c) {
    int f = (int)any(2);
    uint64_t length = header_bytes(&c->file[f]);
    switch (any(4)) {
    case 0:
        length += any(64) - 32;
        break;
    case 1:
        length = any(UINT64_MAX);
        break;
    case 2:
        length = UINT64_MAX - any(16);
        break;
    default:
        length = any(200);
    }
    memcpy(c->file[f].data, &length, sizeof length);
    tell_of_file(c, f);
}

// Two tensors of one file get one place in it.
static void told_ranges_twice(folder_content *c) {
    static const char key[] = "\"data_offsets\":[";
    int f = (int)any(2);
    char *at[64], *header = c->file[f].data + 8, *end = header + header_bytes(&c->file[f]);
    int count = 0;
    for (char *p = header; count < 64 && (p = memmem(p, (size_t)(end - p), key, strlen(key))); p++) at[count++] = p;
    assert_true(count > 1);
    int from = (int)any((uint64_t)count), to = (int)any((uint64_t)count);
    char range[64];
    snprintf(range, sizeof range, "%.*s", (int)(strcspn(at[from], "]") + 1), at[from]);
    size_t length = strcspn(at[to], "]") + 1, more = strlen(range);
    replace(&c->file[f], at[to], length, range);
    uint64_t bytes = (uint64_t)header_bytes(&c->file[f]) - length + more;
    memcpy(c->file[f].data, &bytes, sizeof bytes);
    tell_of_file(c, f);
}

static void told_swapped(folder_content *c) { // weights as state, and the manifest says so
    swap_files(c);
    tell_of_file(c, WEIGHTS);
    tell_of_file(c, STATE);
}

static void told_other_run(folder_content *c) {
    int f = (int)any(2);
    put(&c->file[f], &of_another.file[f]);
    tell_of_file(c, f);
}

static const struct {
    const char *name;
    void (*damage)(folder_content *c);
    int lies; // the manifest's own hash is right: its text may have been made so on purpose
} kinds[] = {
    { "one bit flipped", flip_bit, 0 },
    { "1 to 16 bytes changed", change_bytes, 0 },
    { "a block lost (zeros)", lose_block, 0 },
    { "cut off", cut_off, 0 },
    { "extended", extend, 0 },
    { "a file deleted", delete_file, 0 },
    { "a file empty", empty_file, 0 },
    { "weights and state swapped", swap_files, 0 },
    { "a file of the older checkpoint", file_of_the_older, 0 },
    { "all files of the older checkpoint", all_of_the_older, 0 },
    { "a file of another run", file_of_another_run, 0 },
    { "a digit of the manifest", digit_of_manifest, 0 },
    { "a digit, signed", signed_digit, 1 },
    { "a number absurd, signed", signed_number, 1 },
    { "a line lost or doubled, signed", signed_line, 1 },
    { "bytes of the manifest, signed", signed_bytes, 1 },
    { "a bit of a tensor, signed", told_tensor_bit, 1 },
    { "a digit of a header, signed", told_header_digit, 1 },
    { "a header's length, signed", told_header_length, 1 },
    { "a tensor's range twice, signed", told_ranges_twice, 1 },
    { "weights and state swapped, signed", told_swapped, 1 },
    { "tensors of another run, signed", told_other_run, 1 },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

// --- what becomes of it

typedef enum { FELL_BACK, EQUAL, REFUSED, OTHER_COUNTERS, OUTCOMES } outcome;
static const char *const outcome_names[OUTCOMES] = { "fell back", "equal", "refused", "other facts" };

static int told;

static void tell(void *context, ls_status why) {
    (void)context;
    told++;
    assert_true(ls_failed(why) && why.text && why.text[0]);
}

static int same_tensors(const ls_snapshot *a, const ls_snapshot *b) {
    return memcmp(a->values, b->values, a->bytes) == 0;
}

static int same_counters(const ls_snapshot *a, const ls_snapshot *b) {
    return memcmp(&a->counters, &b->counters, sizeof a->counters) == 0;
}

// One that passed every check goes on: whatever its facts are, that ends in an update or in a refusal.
static void go_on(void) {
    must(ls_trainer_restore(of_run.trainer, room));
    ls_status status = ls_trainer_updates(of_run.trainer, 1, NULL);
    if (ls_failed(status) && status.code != LS_NUMERIC) fail_msg("going on: code %d, %s", status.code, status.text);
}

static outcome judge(int kind, const ls_checkpoint *found) {
    const char *name = kinds[kind].name;
    if (!found)
        fail_msg("trial %llu, %s: the older one, which is good, was not found", (unsigned long long)trial, name);
    int is_new = found->counters.update == NEW && strstr(found->path, path_of(NEW)) != NULL;
    if (!is_new) {
        must(ls_checkpoint_take(found, room));
        if (!same_tensors(room, truth[0]) || !same_counters(room, truth[0]) || told != 1)
            fail_msg("trial %llu, %s: the older one came back otherwise than written, or %d warnings",
                (unsigned long long)trial, name, told);
        return FELL_BACK;
    }
    cJSON *changed = cJSON_CreateArray();
    ls_status status = ls_checkpoint_suits(found, ls_trainer_get_info(of_run.trainer), changed);
    cJSON_Delete(changed);
    if (!ls_failed(status)) status = ls_checkpoint_take(found, room);
    if (ls_failed(status) && kinds[kind].lies) return REFUSED;
    if (ls_failed(status)) fail_msg("trial %llu, %s: %s", (unsigned long long)trial, name, status.text);
    if (!same_tensors(room, truth[1]))
        fail_msg("trial %llu, %s: loaded with other tensors", (unsigned long long)trial, name);
    if (same_counters(room, truth[1])) return EQUAL;
    if (!kinds[kind].lies) fail_msg("trial %llu, %s: loaded with other counters", (unsigned long long)trial, name);
    go_on();
    return OTHER_COUNTERS;
}

static outcome try(int kind) {
    folder_content c;
    ls_checkpoint *found;
    for (int f = 0; f < FILES; f++) c.file[f] = copy_of(&good[1].file[f]);
    kinds[kind].damage(&c);
    write_folder(OLD, &good[0]);
    write_folder(NEW, &c);
    free_folder(&c);
    told = 0;
    must(ls_checkpoint_manager_newest(folder.path, tell, NULL, &found));
    outcome result = judge(kind, found);
    ls_checkpoint_free(found);
    must(ls_checkpoint_remove(path_of(NEW)));
    must(ls_checkpoint_remove(path_of(OLD)));
    return result;
}

static void corrupted_ones_are_never_loaded(void **state) {
    (void)state;
    const char *number = getenv("LOCKSTEP_CORRUPTED"), *start = getenv("LOCKSTEP_SEED");
    int trials = number && *number ? atoi(number) : SHORT_FORM, counts[KINDS][OUTCOMES] = { { 0 } },
        sums[OUTCOMES] = { 0 };
    seed = start && *start ? strtoull(start, NULL, 10) : 1;
    assert_true(trials > 0);
    for (trial = 0; trial < (uint64_t)trials; trial++) {
        int kind = (int)(trial % KINDS);
        drawn = 0;
        counts[kind][try(kind)]++;
    }
    printf("%-36s %8s %10s %10s %10s %12s\n", "damage to the newest checkpoint", "tried", outcome_names[0],
        outcome_names[1], outcome_names[2], outcome_names[3]);
    for (int k = 0; k < KINDS; k++) {
        const int *n = counts[k];
        printf("%-36s %8d %10d %10d %10d %12d\n", kinds[k].name, n[0] + n[1] + n[2] + n[3], n[0], n[1], n[2], n[3]);
        for (int o = 0; o < OUTCOMES; o++) sums[o] += n[o];
    }
    printf("%-36s %8d %10d %10d %10d %12d\n", "all", trials, sums[0], sums[1], sums[2], sums[3]);
}

// Both damaged: none is found, and each is named.
static void two_corrupted_ones_leave_none(void **state) {
    (void)state;
    for (trial = 0; trial < 20; trial++) {
        ls_checkpoint *found;
        drawn = 0;
        for (int which = 0; which < 2; which++) {
            folder_content c;
            for (int f = 0; f < FILES; f++) c.file[f] = copy_of(&good[which].file[f]);
            cut_off(&c);
            write_folder(which ? NEW : OLD, &c);
            free_folder(&c);
        }
        told = 0;
        must(ls_checkpoint_manager_newest(folder.path, tell, NULL, &found));
        assert_null(found);
        assert_int_equal(told, 2);
        must(ls_checkpoint_remove(path_of(NEW)));
        must(ls_checkpoint_remove(path_of(OLD)));
    }
}

static void write_and_keep(const run *r, const ls_snapshot *s, folder_content *kept) {
    must(ls_checkpoint_write(path_of(s->counters.update), s, ls_trainer_get_info(r->trainer), NULL, NULL));
    read_folder(path_of(s->counters.update), kept);
    must(ls_checkpoint_remove(path_of(s->counters.update)));
}

static int set_up(void **state) {
    (void)state;
    static const char *const mine[] = { "device.type=cpu", "device.threads=1", NULL };
    static const char *const other[] = { "device.type=cpu", "device.threads=1", "run.seed=2", NULL };
    run another = { 0 };
    folder = temp_folder_new();
    assert_int_equal(run_write_network(network_path, state_network), 0);
    must(state_run_open(&of_run, network_path, mine));
    must(ls_trainer_updates(of_run.trainer, OLD, NULL));
    truth[0] = state_take(&of_run);
    must(ls_trainer_updates(of_run.trainer, NEW - OLD, NULL));
    truth[1] = state_take(&of_run);
    room = state_take(&of_run);
    write_and_keep(&of_run, truth[0], &good[0]);
    write_and_keep(&of_run, truth[1], &good[1]);
    must(state_run_open(&another, network_path, other));
    must(ls_trainer_updates(another.trainer, NEW, NULL));
    ls_snapshot *s = state_take(&another);
    write_and_keep(&another, s, &of_another);
    ls_snapshot_free(s);
    run_close(&another);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    ls_snapshot_free(truth[0]);
    ls_snapshot_free(truth[1]);
    ls_snapshot_free(room);
    free_folder(&good[0]);
    free_folder(&good[1]);
    free_folder(&of_another);
    run_close(&of_run);
    temp_folder_remove(&folder);
    return unlink(network_path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corrupted_ones_are_never_loaded),
        cmocka_unit_test(two_corrupted_ones_leave_none),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
