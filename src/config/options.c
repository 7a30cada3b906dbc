#include "config/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "config/file_type.h"
#include "base/text.h"
#include "config/aliases.h"
#include "config/ini.h"
#include "config/shipped.h"
#include "config/values.h"

#define UNPACK(...) __VA_ARGS__
#define ROW_INT(def_, min_, max_, unit_) \
    .type = TYPE_INT, .number = (double)(def_), .least = min_, .most = max_, .unit = unit_
#define ROW_INT_AUTO(def_, min_, max_, unit_) ROW_INT(def_, min_, max_, unit_), .allows_auto = 1
#define ROW_REAL(def_, min_, max_, unit_) \
    .type = TYPE_REAL, .number = def_, .minimum = min_, .maximum = max_, .unit = unit_
#define ROW_REAL_AUTO(def_, min_, max_, unit_) ROW_REAL(def_, min_, max_, unit_), .allows_auto = 1
#define ROW_BOOL(def_, min_, max_, unit_) .type = TYPE_BOOL, .number = def_
#define ROW_TEXT(def_, min_, max_, unit_) .type = TYPE_TEXT, .text = def_, .unit = unit_
#define ROW_CHOICE(def_, min_, max_, unit_) \
    .type = TYPE_CHOICE, .text = def_, .words = (const char *const[]) { \
        UNPACK unit_, NULL \
    }

#define ROW_WORDS(def_, min_, max_, table_) .type = TYPE_CHOICE, .text = def_, .words = table_##_words
#define ROW_KIND(def_, min_, max_, table_) .type = TYPE_CHOICE, .text = def_, .words = table_##_words, .kinds = table_

enum { NO_OPTION = -1 };
#define END_OF_READS \
    { NO_OPTION, NAN }

static const ls_option_kind optimizers[] = {
#define KEY(key) { LS_OPTION_optimizer_##key, NAN },
#define DEFAULT(key, number) { LS_OPTION_optimizer_##key, number },
#define X(NAME, word, what, kept, reads) { word, what, (const ls_option_read[]){ UNPACK reads END_OF_READS } },
#include "config/optimizers.def"
#undef DEFAULT
#undef KEY
};
static const char *const optimizers_words[] = {
#define X(NAME, word, what, kept, reads) word,
#include "config/optimizers.def"
    NULL,
};

static const ls_option_kind schedules[] = {
#define KEY(key) { LS_OPTION_schedule_##key, NAN },
#define X(NAME, name, word, what, reads) { word, what, (const ls_option_read[]){ UNPACK reads END_OF_READS } },
#include "config/schedules.def"
#undef KEY
};
static const char *const schedules_words[] = {
#define X(NAME, name, word, what, reads) word,
#include "config/schedules.def"
    NULL,
};

static const char *const datasets_words[] = {
#define X(NAME, word, ...) word,
#include "config/datasets.def"
    NULL,
};
static const char *const devices_words[] = {
    "auto",
    "cpu",
    "ref",
#define PLUGIN(NAME, name, vendor, needs) #name,
#include "config/plugins.def"
    NULL,
};
static const char *const backends_words[] = {
    "auto",
#define COLLECTIVE(NAME, name, plugin, network_sums) #name,
#include "config/plugins.def"
    "mpi",
    "self",
    NULL,
};

#define true 1
#define false 0
static const ls_option options[LS_OPTION_COUNT] = {
#define X(section_, key_, TYPE_, def_, min_, max_, unit_, what_) \
    { .section = #section_, \
        .key = #key_, \
        .name = #section_ "." #key_, \
        .what = what_, \
        .offset = offsetof(ls_config, section_##_##key_), \
        ROW_##TYPE_(def_, min_, max_, unit_) },
#include "config/options.def"
#undef X
};
#undef true
#undef false

const ls_option *ls_option_at(int index) {
    return &options[index];
}

static void *field_of(ls_config *cfg, int index) {
    return (char *)cfg + options[index].offset;
}

static const void *const_field_of(const ls_config *cfg, int index) {
    return (const char *)cfg + options[index].offset;
}

static int is_first_of_section(int index) {
    return index == 0 || strcmp(options[index - 1].section, options[index].section) != 0;
}

static int find_word(const ls_option *option, const char *word) {
    for (int i = 0; option->words[i]; i++)
        if (!strcmp(option->words[i], word)) return i;
    return -1;
}

// --- which kinds read an option ------------------------------------------------------------------

static const ls_option_read *find_read(const ls_option_kind *kind, int index) { // NULL: the kind does not read it
    for (const ls_option_read *read = kind->reads; read->option != NO_OPTION; read++)
        if (read->option == index) return read;
    return NULL;
}

// Returns the KIND option (optimizer.kind or schedule.kind) if only some of its choices read option `index`; -1: there
// is no such KIND option.
static int table_for(int index) {
    for (int t = 0; t < LS_OPTION_COUNT; t++)
        for (int k = 0; options[t].kinds && options[t].words[k]; k++)
            if (find_read(&options[t].kinds[k], index)) return t;
    return -1;
}

int ls_config_has_effect(const ls_config *cfg, int index) {
    const int t = table_for(index);
    ls_groups groups = { .count = 0 };
    if (t < 0 || find_read(&options[t].kinds[*(const int *)const_field_of(cfg, t)], index)) return 1;
    if (t != LS_OPTION_optimizer_kind || ls_failed(ls_parse_groups("", cfg->optimizer_groups, &groups))) return 0;
    for (int g = 0; g < groups.count; g++)
        if (groups.group[g].kind >= 0 && find_read(&options[t].kinds[groups.group[g].kind], index)) return 1;
    return 0;
}

static void append(char *dst, size_t bytes, const char *before, const char *text) {
    const size_t length = strlen(dst);
    snprintf(dst + length, bytes - length, "%s%s", length ? before : "", text);
}

static char *list_readers(int index, int with_defaults, char *dst, size_t bytes) {
    const int t = table_for(index);
    dst[0] = 0;
    for (int k = 0; t >= 0 && options[t].words[k]; k++) {
        const ls_option_read *read = find_read(&options[t].kinds[k], index);
        char number[32];
        if (read) append(dst, bytes, ", ", options[t].words[k]);
        if (!read || isnan(read->number) || !with_defaults) continue;
        append(dst, bytes, " ", ls_real_text(number, read->number));
    }
    return dst;
}

char *ls_option_readers(int index, char *dst, size_t bytes) {
    return list_readers(index, 0, dst, bytes);
}

char *ls_option_help(int index, char *dst, size_t bytes) {
    list_readers(index, 1, dst, bytes);
    append(dst, bytes, ": ", options[index].what);
    return dst;
}

double ls_config_of_kind(int index, double value, int kind) {
    const ls_option_read *read = find_read(&optimizers[kind], index); // NULL: the optimizer does not read the option
    if (!isnan(value)) return value;
    return read ? read->number : 0;
}

double ls_config_first_loss_scale(const ls_config *cfg) {
    if (!isnan(cfg->loss_scale_initial)) return cfg->loss_scale_initial;
    const int sums = cfg->train_loss_reduction == LS_LOSS_SUM;
    int exponent;
    frexp(sums ? 0x1p20 / (double)cfg->train_global_batch : 65536.0, &exponent);
    return fmin(fmax(ldexp(1, exponent - 1), cfg->loss_scale_minimum), cfg->loss_scale_maximum);
}

void ls_config_defaults(ls_config *cfg) {
    memset(cfg, 0, sizeof *cfg);
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        const ls_option *option = &options[i];
        void *field = field_of(cfg, i);
        switch (option->type) {
        case TYPE_INT:
            *(int64_t *)field = (int64_t)option->number;
            break;
        case TYPE_REAL:
            *(double *)field = option->number;
            break;
        case TYPE_BOOL:
            *(int *)field = (int)option->number;
            break;
        case TYPE_CHOICE:
            *(int *)field = find_word(option, option->text);
            break;
        case TYPE_TEXT:
            snprintf(field, LS_TEXT_BYTES, "%s", option->text);
            break;
        }
    }
}

ls_augmentation ls_config_augmentation(const ls_config *cfg) {
    return (ls_augmentation){
#define OPTION(key, TYPE, def, min, max, unit, what) .key = (LS_AUGMENTATION_##TYPE)cfg->data_##key,
#include "config/augmentations.def"
    };
}

const char *ls_config_choice(const char *name, int value) {
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        if (options[i].type != TYPE_CHOICE || strcmp(options[i].name, name) != 0) continue;
        for (int word = 0; options[i].words[word]; word++)
            if (word == value) return options[i].words[word];
    }
    return "?";
}

int ls_config_value(const ls_config *cfg, int index, const char **name, char *dst, size_t bytes) {
    if (index < 0 || index >= LS_OPTION_COUNT) return 0;
    const ls_option *option = &options[index];
    const void *field = const_field_of(cfg, index);
    char digits[32];
    if (name) *name = option->name;
    switch (option->type) {
    case TYPE_INT:
        if (option->allows_auto && *(const int64_t *)field == LS_AUTO)
            snprintf(dst, bytes, "auto");
        else
            snprintf(dst, bytes, "%" PRId64, *(const int64_t *)field);
        break;
    case TYPE_REAL:
        snprintf(
            dst, bytes, "%s", isnan(*(const double *)field) ? "auto" : ls_real_text(digits, *(const double *)field));
        break;
    case TYPE_BOOL:
        snprintf(dst, bytes, "%s", *(const int *)field ? "true" : "false");
        break;
    case TYPE_CHOICE:
        snprintf(dst, bytes, "%s", ls_config_choice(option->name, *(const int *)field));
        break;
    case TYPE_TEXT:
        snprintf(dst, bytes, "%s", (const char *)field);
        break;
    }
    return 1;
}

int ls_config_is_text(int index) {
    return options[index].type == TYPE_TEXT;
}

char *ls_config_where(const ls_config *cfg, int index, char *dst, size_t bytes) {
    char value[LS_TEXT_BYTES];
    const char *name = "?";
    ls_config_value(cfg, index, &name, value, sizeof value);
    if (cfg->line[index] > 0)
        snprintf(dst, bytes, "%s:%d: %s = %s", cfg->file, cfg->line[index], name, value);
    else if (cfg->line[index] < 0)
        snprintf(dst, bytes, "--set %s=%s", name, value);
    else
        snprintf(dst, bytes, "%s = %s (default)", name, *value ? value : "(empty)");
    return dst;
}

ls_status ls_config_path(const ls_config *cfg, int index, char *dst, size_t bytes) {
    char where[2 * LS_TEXT_BYTES];
    if (!ls_failed(ls_path_join(dst, bytes, cfg->line[index] < 0 ? "" : cfg->folder, const_field_of(cfg, index))))
        return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s: with its folder, a path of more than %zu characters",
        ls_config_where(cfg, index, where, sizeof where), bytes - 1);
}

static int count_words(const ls_option *option) {
    int count = 0;
    while (option->words[count]) count++;
    return count;
}

static ls_status fail_choice(const ls_option *option, const char *where, const char *value) {
    char all[512] = "", hint[LS_HINT_BYTES];
    ls_text_room room = { all, sizeof all };
    const int count = count_words(option);
    for (int i = 0; i < count; i++) ls_text_put(&room, "%s%s", i ? " | " : "", option->words[i]);
    return ls_fail(LS_USAGE, "%s: expected %s%s", where, all,
        ls_hint(LS_ALIAS_VALUE, option->name, value, option->words, count, "", hint));
}

// Refuses a text that an INI file cannot hold: too long, or with a control character except tab or the start of a
// comment.
static ls_status check_text(const char *where, const char *value) {
    if (strlen(value) >= LS_TEXT_BYTES)
        return ls_fail(
            LS_USAGE, "%.100s...: %zu characters; expected at most %d", where, strlen(value), LS_TEXT_BYTES - 1);
    for (const char *at = value; *at; at++) {
        if ((unsigned char)*at < 32 && *at != '\t')
            return ls_fail(
                LS_USAGE, "%s: character %td is a control character; expected text of one line", where, at - value + 1);
        int starts_comment = (*at == ';' || *at == '#') && (at == value || at[-1] == ' ' || at[-1] == '\t');
        if (starts_comment)
            return ls_fail(
                LS_USAGE, "%s: '%c' would start a comment; write it without white space before it", where, *at);
    }
    return LS_SUCCESS;
}

static ls_status assign(ls_config *cfg, int index, const char *where, const char *value) {
    const ls_option *option = &options[index];
    void *field = field_of(cfg, index);
    switch (option->type) {
    case TYPE_INT:
        if (option->allows_auto) return ls_parse_int_or_auto(where, value, option->least, option->most, field);
        return ls_parse_int(where, value, option->least, option->most, field);
    case TYPE_REAL:
        if (option->allows_auto) return ls_parse_real_or_auto(where, value, option->minimum, option->maximum, field);
        return ls_parse_real(where, value, option->minimum, option->maximum, field);
    case TYPE_BOOL:
        return ls_parse_bool(where, value, field);
    case TYPE_CHOICE: {
        int word = find_word(option, value);
        if (word < 0) return fail_choice(option, where, value);
        *(int *)field = word;
        return LS_SUCCESS;
    }
    case TYPE_TEXT:
        LS_TRY(check_text(where, value));
        strcpy(field, value);
        return LS_SUCCESS;
    }
    return ls_fail(LS_INTERNAL, "%s: option of no known type", where);
}

static int find_option(const char *section, const char *key) {
    for (int i = 0; i < LS_OPTION_COUNT; i++)
        if (!strcmp(options[i].section, section) && !strcmp(options[i].key, key)) return i;
    return -1;
}

static int is_section(const char *name) {
    for (int i = 0; i < LS_OPTION_COUNT; i++)
        if (!strcmp(options[i].section, name)) return 1;
    return 0;
}

// Returns the option that was probably meant: the nearest key of the section, else a key of any section with the same
// letters, else the nearest key of any section. NULL: there is no candidate.
static const ls_option *nearest_option(const char *section, const char *key) {
    const char *here[LS_OPTION_COUNT], *all[LS_OPTION_COUNT];
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        all[i] = options[i].key;
        here[i] = strcmp(options[i].section, section) ? NULL : options[i].key;
    }
    const char *near = ls_text_nearest(key, here, LS_OPTION_COUNT);
    for (int i = 0; i < LS_OPTION_COUNT && !near; i++)
        if (ls_text_same_letters(all[i], key)) near = all[i];
    if (!near) near = ls_text_nearest(key, all, LS_OPTION_COUNT);
    for (int pass = 0; near && pass < 2; pass++) // a key of this section wins over the same key of another section
        for (int i = 0; i < LS_OPTION_COUNT; i++)
            if ((pass || here[i]) && !strcmp(options[i].key, near)) return &options[i];
    return NULL;
}

// Whether `option` (may be NULL) is in this section and its key is another spelling of `key`.
static int is_spelling(const ls_option *option, const char *section, const char *key) {
    return option && !strcmp(option->section, section) && ls_text_same_letters(option->key, key);
}

// Finds the alias for `key`, or if no option is near (near: NULL) an alias that `key` may be a misspelling of. Returns
// NULL if there is no alias, or if `near` is another spelling of the key.
static const ls_alias *find_alias(const ls_option *near, const char *section, const char *key) {
    const ls_alias *alias = ls_alias_find(LS_ALIAS_OPTION, "", key);
    if (!alias && !near) return ls_alias_nearest(LS_ALIAS_OPTION, "", key);
    return is_spelling(near, section, key) ? NULL : alias;
}

static char *hint_option(const char *section, const char *key, char *dst) {
    const ls_option *near = nearest_option(section, key);
    const ls_alias *alias = find_alias(near, section, key);
    *dst = 0;
    if (alias) return ls_hint_of(alias, "", dst);
    if (near) snprintf(dst, LS_HINT_BYTES, "; did you mean %s?", near->name);
    return dst;
}

// Splits "optimizer.lr" into section and key; returns the key. A word without a dot is a key. A section that is too
// long is cut off.
static const char *split_name(const char *name, char section[64]) {
    const char *dot = strchr(name, '.');
    snprintf(section, 64, "%.*s", dot ? (int)(dot - name) : 0, name);
    return dot ? dot + 1 : name;
}

char *ls_config_hint(const char *name, char *dst) {
    char section[64];
    const char *key = split_name(name, section);
    return hint_option(section, key, dst);
}

const char *ls_config_meant(const char *name) {
    char section[64];
    const char *key = split_name(name, section);
    const ls_option *near = nearest_option(section, key);
    const ls_alias *alias = find_alias(near, section, key);
    if (alias) return alias->ours[0] ? alias->ours : NULL;
    return near ? near->name : NULL;
}

const char *ls_config_option_of_word(const char *word, const char **ours) {
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        const ls_alias *alias = ls_alias_find(LS_ALIAS_VALUE, options[i].name, word);
        *ours = alias && alias->ours[0] ? alias->ours : NULL;
        for (int w = 0; options[i].type == TYPE_CHOICE && options[i].words[w]; w++)
            if (ls_text_same_letters(options[i].words[w], word)) *ours = options[i].words[w];
        if (*ours) return options[i].name;
    }
    return NULL;
}

static ls_status fail_key(const char *where, const char *section, const char *key) {
    char hint[LS_HINT_BYTES];
    return ls_fail(LS_USAGE, "%s: no such key in [%s]%s (train --list shows all)", where, section,
        hint_option(section, key, hint));
}

static ls_status fail_section(const char *where, const char *section) {
    const char *sections[LS_OPTION_COUNT];
    char hint[LS_HINT_BYTES];
    int count = 0;
    for (int i = 0; i < LS_OPTION_COUNT; i++)
        if (is_first_of_section(i)) sections[count++] = options[i].section;
    return ls_fail(LS_USAGE, "%s: no such section%s (train --list shows all)", where,
        ls_hint(LS_ALIAS_SECTION, "", section, sections, count, "[]", hint));
}

static ls_status read_entries(ls_config *cfg, const ls_ini *ini) {
    char where[LS_STATUS_TEXT_BYTES / 2];
    for (int s = 0; s < ini->section_count; s++) {
        const ls_ini_section *section = &ini->sections[s];
        snprintf(where, sizeof where, "%s:%d: [%s]", ini->path, section->line, section->name);
        if (!is_section(section->name)) return fail_section(where, section->name);
        for (int e = section->first_entry; e < section->first_entry + section->entry_count; e++) {
            const ls_ini_entry *entry = &ini->entries[e];
            ls_ini_where(ini, entry, where, sizeof where);
            int index = find_option(entry->section, entry->key);
            if (index < 0) return fail_key(where, entry->section, entry->key);
            if (cfg->line[index])
                return ls_fail(
                    LS_USAGE, "%s: line %d sets it already, as %s", where, cfg->line[index], options[index].name);
            LS_TRY(assign(cfg, index, where, entry->value));
            cfg->line[index] = entry->line;
        }
    }
    return LS_SUCCESS;
}

// Writes the path of the file called `name` into path: the user's file, or else the file that comes with the program.
static ls_status find_file(const char *name, char *path, size_t bytes) {
    char inside[LS_TEXT_BYTES], hint[LS_SHIPPED_HINT_BYTES];
    *path = 0;
    if (strlen(name) >= bytes)
        return ls_fail(
            LS_USAGE, "%.100s...: a path of %zu characters; expected at most %zu", name, strlen(name), bytes - 1);
    if (ls_named_nearby(LS_SHIPPED_CONFIGURATION, "", name, path, bytes)) return LS_SUCCESS;
    if (ls_named_shipped(LS_SHIPPED_CONFIGURATION, name, path, bytes)) return LS_SUCCESS;
    strcpy(path, name);
    if (!ls_path_exists(name))
        return ls_fail(
            LS_USAGE, "%s: is not there%s", name, ls_shipped_hint(LS_SHIPPED_CONFIGURATION, name, name, hint));
    if (!ls_failed(ls_path_join(inside, sizeof inside, name, "config.ini")) && ls_path_exists(inside))
        return ls_fail(LS_USAGE, "%s: is a folder; a configuration in it is %s", name, inside);
    return LS_SUCCESS; // the function that reads it says what is wrong with it
}

ls_status ls_config_read_file(ls_config *cfg, const char *name) {
    ls_status status = find_file(name, cfg->file, sizeof cfg->file);
    strcpy(cfg->folder, cfg->file);
    char *slash = strrchr(cfg->folder, '/');
    if (slash == cfg->folder) slash++; // the root folder keeps its name
    *(slash ? slash : cfg->folder) = 0;
    ls_ini *ini = NULL;
    LS_TRY(status);
    LS_TRY(ls_expect_file_type(cfg->file, 1u << LS_FILE_TYPE_CONFIGURATION | 1u << LS_FILE_TYPE_FOLDER,
        "a configuration, an INI file whose model.file names a network"));
    LS_TRY(ls_ini_read(cfg->file, &ini));
    status = read_entries(cfg, ini);
    ls_ini_free(ini);
    return status;
}

ls_status ls_config_network(const ls_config *cfg, char *path, size_t bytes) {
    char where[2 * LS_TEXT_BYTES], hint[LS_SHIPPED_HINT_BYTES];
    const int is_set = cfg->line[LS_OPTION_model_file] < 0;
    if (ls_named_nearby(LS_SHIPPED_NETWORK, is_set ? "" : cfg->folder, cfg->model_file, path, bytes)) return LS_SUCCESS;
    if (ls_named_shipped(LS_SHIPPED_NETWORK, cfg->model_file, path, bytes)) return LS_SUCCESS;
    LS_TRY(ls_config_path(cfg, LS_OPTION_model_file, path, bytes));
    if (ls_path_exists(path)) return LS_SUCCESS; // the function that reads it says what is wrong with it
    return ls_fail(LS_USAGE, "%s: is not there%s", ls_config_where(cfg, LS_OPTION_model_file, where, sizeof where),
        ls_shipped_hint(LS_SHIPPED_NETWORK, cfg->model_file, path, hint));
}

ls_status ls_config_set(ls_config *cfg, const char *assignment) {
    char copy[2 * LS_TEXT_BYTES], where[2 * LS_TEXT_BYTES + 16];
    if (strlen(assignment) >= sizeof copy)
        return ls_fail(LS_USAGE, "--set %.100s...: %zu characters; expected at most %zu", assignment,
            strlen(assignment), sizeof copy - 1);
    strcpy(copy, assignment);
    char *equals = strchr(copy, '='), *value = equals ? equals + 1 : copy;
    if (equals) *equals = 0;
    char *name = ls_text_trim(copy), *dot = strchr(name, '.');
    value = ls_text_trim(value);
    if (!equals || !dot) {
        char hint[LS_HINT_BYTES];
        return ls_fail(
            LS_USAGE, "--set %s: expected section.key=value%s", assignment, dot ? "" : ls_config_hint(name, hint));
    }
    snprintf(where, sizeof where, "--set %s=%s", name, value);
    *dot = 0;
    const char *section = name, *key = dot + 1;
    int index = find_option(section, key);
    if (index < 0) return is_section(section) ? fail_key(where, section, key) : fail_section(where, section);
    LS_TRY(assign(cfg, index, where, value));
    cfg->line[index] = -1;
    return LS_SUCCESS;
}
