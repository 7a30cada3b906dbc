#include "tools/report/page.h"

#include <string.h>
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/version.h"
#include "config/config.h"

extern const unsigned char ls_page_html[], ls_page_css[], ls_page_js[]; // made by cmake/embed.cmake
extern const size_t ls_page_html_bytes, ls_page_css_bytes, ls_page_js_bytes;

cJSON *ls_page_data(void) {
    ls_config cfg;
    char value[LS_TEXT_BYTES];
    const char *name;
    ls_config_defaults(&cfg);
    cJSON *data = cJSON_CreateObject();
    ls_json_add_text(data, "version", ls_version());
    ls_json_add_real(data, "made", ls_clock_unix_seconds());
    cJSON *defaults = ls_json_add_object(data, "defaults");
    for (int i = 0; ls_config_value(&cfg, i, &name, value, sizeof value); i++) ls_json_add_text(defaults, name, value);
    return data;
}

// Writes JSON into the page with every '<' escaped: in a script element "</script" would end it, and "<!--" would
// change how it is parsed. A '<' occurs only inside JSON strings, so the escape does not change the data.
static void put_json(ls_atomic_file *file, const char *text) {
    while (*text) {
        size_t length = strcspn(text, "<");
        ls_atomic_file_write(file, text, length);
        text += length;
        if (*text != '<') continue;
        ls_atomic_file_write(file, "\\u003c", 6);
        text++;
    }
}

// Writes the page: copies the template and replaces each mark in it by the text that the mark names.
static void put_page(ls_atomic_file *file, const char *json) {
    static const struct {
        const char *mark;
        const unsigned char *text;
        const size_t *bytes;
    } marks[] = { { "{{page.css}}", ls_page_css, &ls_page_css_bytes }, { "{{data}}", NULL, NULL },
        { "{{page.js}}", ls_page_js, &ls_page_js_bytes } }; // in the order of the template
    const unsigned char *at = ls_page_html, *end = at + ls_page_html_bytes;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const size_t length = strlen(marks[i].mark);
        const unsigned char *mark = memmem(at, (size_t)(end - at), marks[i].mark, length);
        if (!mark) abort(); // a bug in page.html: the mark is missing
        ls_atomic_file_write(file, at, (size_t)(mark - at));
        if (marks[i].text)
            ls_atomic_file_write(file, marks[i].text, *marks[i].bytes);
        else
            put_json(file, json);
        at = mark + length;
    }
    ls_atomic_file_write(file, at, (size_t)(end - at));
}

ls_status ls_page_write(const char *path, const cJSON *data) {
    char *json = ls_json_text(data, 0);
    ls_atomic_file *file = NULL;
    ls_status status = ls_atomic_file_open(path, &file);
    if (!ls_failed(status)) {
        put_page(file, json);
        status = ls_atomic_file_commit(file);
    }
    cJSON_free(json);
    return status;
}
