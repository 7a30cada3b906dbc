// A folder that is held: what is given by its path is found in it, wherever it is; everything else is where it always is.
#include <fcntl.h>
#include <unistd.h>

#include "base/pinned_folder.h"
#include "support/cmocka.h"
#include "support/temp.h"

typedef struct {
    temp_folder folder;
    char run[300], away[300], file[400], other[400];
    int fd;
} held;

static held hold_one(const char *ending) {
    held h = { .folder = temp_folder_new() };
    char given[400];
    snprintf(h.run, sizeof h.run, "%s/run", h.folder.path);
    snprintf(h.away, sizeof h.away, "%s/away", h.folder.path);
    snprintf(h.file, sizeof h.file, "%s/run/a/file", h.folder.path);
    snprintf(h.other, sizeof h.other, "%s/running", h.folder.path); // begins like it
    snprintf(given, sizeof given, "%s%s", h.run, ending);
    assert_int_equal(mkdir(h.run, 0777), 0);
    h.fd = open(h.run, O_RDONLY | O_DIRECTORY);
    ls_pin_folder(given, h.fd);
    return h;
}

static void let_go(held *h) {
    ls_unpin_folder();
    close(h->fd);
    temp_folder_remove(&h->folder);
}

static int is_there(const char *folder, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void make_and_write(const held *h) {
    char folder[400];
    snprintf(folder, sizeof folder, "%s/a", h->run);
    assert_int_equal(ls_make_folders(folder).code, LS_OK);
    assert_int_equal(ls_write_file(h->file, "text", 4).code, LS_OK);
    assert_int_equal(ls_write_file(h->other, "text", 4).code, LS_OK);
}

static void what_is_below_follows_the_folder(void **state) {
    (void)state;
    static const char *const endings[] = { "", "/", "//" };
    for (int i = 0; i < 3; i++) {
        held h = hold_one(endings[i]);
        char where[LS_PINNED_PATH_BYTES], *data;
        size_t bytes;
        assert_int_equal(ls_pinned_look(where), LS_PINNED_IN_PLACE);
        assert_int_equal(rename(h.run, h.away), 0);
        make_and_write(&h); // nobody has taken its place
        assert_int_equal(ls_pinned_look(where), LS_PINNED_MOVED);
        assert_string_equal(where, h.away);
        assert_false(is_there(h.folder.path, "run"));
        assert_true(is_there(h.away, "a/file") && is_there(h.folder.path, "running"));

        assert_int_equal(mkdir(h.run, 0777), 0); // somebody has
        assert_int_equal(unlink(h.other), 0);
        make_and_write(&h);
        assert_int_equal(ls_pinned_look(where), LS_PINNED_MOVED);
        assert_int_equal(rmdir(h.run), 0); // it is empty
        assert_int_equal(ls_read_file(h.file, &data, &bytes).code, LS_OK);
        free(data);
        assert_true(ls_path_exists(h.file) && ls_path_exists(h.run));
        assert_int_equal(ls_pinned_unlink(h.file), 0);
        assert_false(is_there(h.away, "a/file"));

        assert_int_equal(rename(h.away, h.run), 0); // it is back
        assert_int_equal(ls_pinned_look(where), LS_PINNED_IN_PLACE);
        let_go(&h);
    }
}

static void links_in_it_follow_it(void **state) {
    (void)state;
    held h = hold_one("");
    char link[400];
    snprintf(link, sizeof link, "%s/link", h.run);
    assert_int_equal(mkdir(h.away, 0777) | symlink("../away", link), 0);
    snprintf(h.file, sizeof h.file, "%s/link/file", h.run);
    assert_int_equal(ls_write_file(h.file, "text", 4).code, LS_OK);
    assert_true(is_there(h.away, "file"));
    assert_int_equal(ls_sync_folder(link).code, LS_OK);
    let_go(&h);
}

static void a_removed_folder_is_not_made_again(void **state) {
    (void)state;
    held h = hold_one("");
    char where[LS_PINNED_PATH_BYTES];
    assert_int_equal(rmdir(h.run), 0);
    assert_int_equal(ls_pinned_look(where), LS_PINNED_REMOVED);
    assert_int_equal(ls_make_folders(h.file).code, LS_STORAGE);
    assert_int_equal(ls_write_file(h.run, "x", 1).code, LS_STORAGE);
    assert_int_equal(mkdir(h.run, 0777), 0);
    assert_int_equal(ls_pinned_look(where), LS_PINNED_REMOVED);
    assert_int_equal(ls_make_folders(h.file).code, LS_STORAGE);
    ls_unpin_folder();
    assert_int_equal(ls_pinned_look(where), LS_PINNED_IN_PLACE); // none is held
    assert_int_equal(ls_make_folders(h.file).code, LS_OK);
    let_go(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_below_follows_the_folder),
        cmocka_unit_test(links_in_it_follow_it),
        cmocka_unit_test(a_removed_folder_is_not_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
