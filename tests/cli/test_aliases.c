// Other programs' words (config/aliases.def): what they lead to is there, and no row hides another.
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "command/command_table.h"
#include "config/aliases.h"
#include "config/config.h"
#include "model/layer.h"
#include "support/cmocka.h"

static int is_word(const char *list, const char *word) {
    return ls_word_index(list, ' ', word) >= 0;
}

static int is_layer_key(const char *word) {
    if (strcmp(word, "layer") == 0 || strcmp(word, "inputs") == 0) return 1;
    for (int k = 0; k < LS_LAYER_COUNT; k++)
        for (int i = 0; i < ls_layer_type_of((ls_layer_kind)k)->key_count; i++)
            if (strcmp(ls_layer_type_of((ls_layer_kind)k)->keys[i].name, word) == 0) return 1;
    return 0;
}

static int is_layer(const char *word) {
    for (int k = 0; k < LS_LAYER_COUNT; k++)
        if (strcmp(ls_layer_kind_name((ls_layer_kind)k), word) == 0) return 1;
    return 0;
}

static int is_init(const char *word) {
    for (int k = 0; k < LS_INIT_CONSTANT; k++)
        if (strcmp(ls_init_word((ls_init_kind)k), word) == 0) return 1;
    return 0;
}

static int is_argument(const char *ours) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(ours, " "), ours);
    for (int i = 0; i < ls_command_option_count(); i++) {
        const ls_command_option *option = ls_command_option_at(i);
        if (strcmp(option->name, name) == 0) return (option->argument[0] != 0) == (strchr(ours, ' ') != NULL);
    }
    return 0;
}

// Index of "section.key"; -1: there is none. section: compare only so much.
static int find_option(const char *word, int section) {
    const char *name;
    char value[LS_TEXT_BYTES];
    ls_config cfg;
    ls_config_defaults(&cfg);
    for (int i = 0; ls_config_value(&cfg, i, &name, value, sizeof value); i++)
        if (section ? strncmp(name, word, strlen(word)) == 0 && name[strlen(word)] == '.' : strcmp(name, word) == 0)
            return i;
    return -1;
}

static int is_value(const ls_alias *alias) {
    char words[512];
    if (strcmp(alias->scope, "bool") == 0) return is_word("true false", alias->ours);
    const int option = find_option(alias->scope, 0);
    return option >= 0 && is_word(ls_config_words(option, words, sizeof words), alias->ours);
}

static int is_there(const ls_alias *alias) {
    switch (alias->kind) {
    case LS_ALIAS_ARGUMENT:
        return is_argument(alias->ours);
    case LS_ALIAS_COMMAND:
        return ls_command_find(alias->ours) != LS_COMMAND_COUNT;
    case LS_ALIAS_OUTPUT:
        return 0; // a note alone
    case LS_ALIAS_SECTION:
        return find_option(alias->ours, 1) >= 0;
    case LS_ALIAS_OPTION:
        return find_option(alias->ours, 0) >= 0;
    case LS_ALIAS_VALUE:
        return is_value(alias);
    case LS_ALIAS_LAYER:
        return is_layer(alias->ours);
    case LS_ALIAS_LAYER_KEY:
        return is_layer_key(alias->ours);
    case LS_ALIAS_INIT:
        return is_init(alias->ours);
    }
    return 0;
}

static void lead_to_names_that_are_there(void **state) {
    (void)state;
    const ls_alias *alias;
    for (int i = 0; (alias = ls_alias_at(i)); i++) {
        if (!alias->ours[0] && alias->note[0]) continue;
        if (!alias->ours[0] || !is_there(alias))
            fail_msg("'%s' leads to '%s', which is not there", alias->theirs, alias->ours);
    }
    assert_null(ls_alias_at(-1));
}

static void are_there_once(void **state) {
    (void)state;
    const ls_alias *a, *b;
    for (int i = 0; (a = ls_alias_at(i)); i++)
        for (int j = 0; (b = ls_alias_at(j)) && j < i; j++) {
            if (a->kind != b->kind || strcmp(a->scope, b->scope) != 0 || a->kind == LS_ALIAS_ARGUMENT) continue;
            char words[1024];
            snprintf(words, sizeof words, "%s", a->theirs);
            for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
                if (ls_alias_names(b, word)) fail_msg("'%s' is also in '%s'", word, b->theirs);
        }
}

static void letters_decide(void **state) {
    (void)state;
    assert_true(ls_text_same_letters("batch_size", "BatchSize") && ls_text_same_letters("one-cycle", "OneCycle"));
    assert_false(ls_text_same_letters("", "") || ls_text_same_letters("-", "_") || ls_text_same_letters("a", "ab"));
    assert_string_equal(ls_alias_find(LS_ALIAS_VALUE, "optimizer.kind", "Adam")->ours, "adamw");
    assert_null(ls_alias_find(LS_ALIAS_VALUE, "schedule.kind", "Adam"));
    char hint[LS_HINT_BYTES];
    const char *words[] = { "add", "relu" };
    assert_string_equal(ls_hint(LS_ALIAS_LAYER, "", "ReLU", words, 2, "''", hint), "; did you mean 'relu'?");
    assert_string_equal(
        ls_hint(LS_ALIAS_LAYER, "", "residual", words, 2, "", hint), "; did you mean add? (with two names in inputs)");
    assert_string_equal(ls_hint(LS_ALIAS_LAYER, "", "bn", words, 2, "", hint), ""); // batchnorm2d is not right here
    assert_string_equal(
        ls_hint(LS_ALIAS_LAYER, "", "softmax", words, 2, "", hint), "; the loss contains it: leave this layer out");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lead_to_names_that_are_there),
        cmocka_unit_test(are_there_once),
        cmocka_unit_test(letters_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
