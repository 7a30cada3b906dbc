// Several labels a picture from a CSV file: what is read, what is refused, and the data sets that come of it. Opening a
// set decodes no picture, so these are no pictures.
#include "data_files.h"

#include "data/label_file.h"

static ls_label_file *labels_of(const char *text) {
    ls_label_file *labels;
    const char *folder = new_folder();
    put_file(folder, "l.csv", text, strlen(text));
    static char path[4096];
    snprintf(path, sizeof path, "%s", path_of(folder, "l.csv"));
    require_ok(ls_label_file_read(path, &labels), text);
    return labels;
}

// The same table, however it is written.
static void forms(void **state) {
    (void)state;
    static const char *const texts[] = {
        "file,cat,a dog\nx.png,1,0\nin/y.png,0,1\n",
        "\xEF\xBB\xBF"
        "file,cat,a dog\r\nx.png,1,0\r\nin/y.png,0,1\r\n",
        "\"file\",\"cat\",\"a dog\"\n\"x.png\",\"1\",\"0\"\n\"in/y.png\",0,1",
        "\n name ,\tcat , a dog \n\n  \n./x.png , 1, 0\n././in/y.png,0,1\n\n",
        "file,cat,a dog\r\n\rx.png,1,0\r\n\r\n\r\r\r\nin/y.png,0,1\r\n\r\n\n\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ls_label_file *l = labels_of(texts[i]);
        assert_int_equal(l->label_count, 2);
        assert_string_equal(l->labels[0], "cat");
        assert_string_equal(l->labels[1], "a dog");
        assert_int_equal(l->row_count, 2);
        const ls_label_row *x = ls_label_file_find(l, "x.png"), *y = ls_label_file_find(l, "in/y.png");
        assert_non_null(x);
        assert_non_null(y);
        assert_null(ls_label_file_find(l, "y.png"));
        assert_memory_equal(l->sets + x->row * 2, ((const uint8_t[]){ 1, 0 }), 2);
        assert_memory_equal(l->sets + y->row * 2, ((const uint8_t[]){ 0, 1 }), 2);
        assert_int_equal(x->line, i == 3 ? 5 : 2);
        ls_label_file_free(l);
    }
    ls_label_file *l = labels_of("file,\"a, b\",\"say \"\"c\"\"\"\n\"x, 1.png\",1,1\n");
    assert_string_equal(l->labels[0], "a, b");
    assert_string_equal(l->labels[1], "say \"c\"");
    assert_non_null(ls_label_file_find(l, "x, 1.png"));
    ls_label_file_free(l);
}

static void bad_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "", "l.csv:0: the file is empty; expected a first line file,LABEL,LABEL..." },
        { "file;cat;dog\nx.png;1;0\n", "l.csv:1: 'file;cat;dog' has no comma; expected a first line" },
        { "file,cat,\nx.png,1,0\n", "l.csv:1: column 3 has no name" },
        { "file,cat,cat\nx.png,1,0\n", "l.csv:1: two columns have the name 'cat'" },
        { "x.png,0,1\n", "l.csv:1: the first line has the value 0; expected file,LABEL,LABEL..." },
        { "file,cat\n", "l.csv:1: no row follows" },
        { "file,cat\n\nx.png\n", "l.csv:3: 0 values after x.png, expected 1" },
        { "file,cat,dog\nx.png,1\n", "l.csv:2: 1 value after x.png, expected 2: 0 or 1 for each label" },
        { "file,cat\nx.png,1,0\n", "l.csv:2: 2 values after x.png, expected 1" },
        { "file,cat\nx.png,1\ny.png,yes\n", "l.csv:3: label 'cat' of y.png is 'yes', expected 0 or 1" },
        { "file,cat\nx.png,\n", "l.csv:2: label 'cat' of x.png is '', expected 0 or 1" },
        { "file,cat\nx.png,10\n", "l.csv:2: label 'cat' of x.png is '10', expected 0 or 1" },
        { "file,cat\n,1\n", "l.csv:2: the row names no picture" },
        { "file,cat\nx.png,1\ny.png,1\n./x.png,0\n", "l.csv:4: x.png has a row in line 2, too" },
        { "file,cat\n\"x.png,1\n", "l.csv:2: a double quote is not closed in this line" },
        { "file,cat\n\"x.png\"s,1\n", "l.csv:2: expected a comma or the end of the line after 'x.png'" },
        { "file,cat\rx.png,1\r", "l.csv:1: expected a comma or the end of the line after 'cat'" },
    };
    const char *folder = new_folder();
    const char *path = path_of(folder, "l.csv");
    ls_label_file *labels;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_file(folder, "l.csv", rows[i].text, strlen(rows[i].text));
        ls_status status = ls_label_file_read(path, &labels);
        if (status.code != LS_DATA || !strstr(status.text, rows[i].message))
            fail_msg("'%s': is %d, %s\nexpected %s", rows[i].text, status.code, status.text, rows[i].message);
    }
    put_file(folder, "l.csv", "f\0i,\0", 5);
    ls_status status = ls_label_file_read(path, &labels);
    assert_true(status.code == LS_DATA && strstr(status.text, "save it as CSV in UTF-8"));
    status = ls_label_file_read(path_of(folder, "none.csv"), &labels);
    assert_true(status.code == LS_DATA && strstr(status.text, "none.csv: cannot read"));
}

// --- the data set ----------------------------------------------------------------------------------

static ls_config config_of(const char *folder) {
    ls_config cfg = config_for(LS_DATASET_FOLDER, folder);
    snprintf(cfg.data_labels, sizeof cfg.data_labels, "l.csv");
    return cfg;
}

static void put_labels(const char *folder, const char *text) {
    put_file(folder, "l.csv", text, strlen(text));
}

// root/a.png, b.png, c.png, d.png, in/a.png, with labels of one number: 1, 2, 3, 0 and 1 in binary.
static const char one_tree[] = "file,low,high\na.png,1,0\nb.png,0,1\nc.png,1,1\nd.png,0,0\nin/a.png,1,0\n";

static const char *put_tree(void) {
    const char *folder = new_folder();
    require_ok(ls_make_folders(path_of(folder, "in")), "folder");
    static const char *const names[] = { "a.png", "b.png", "c.png", "d.png", "in/a.png" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) put_file(folder, names[i], "no picture", i + 3);
    put_file(folder, "README", "text", 4);
    put_labels(folder, one_tree);
    return folder;
}

static int number_of(const ls_dataset *dataset, int32_t label) {
    const uint8_t *set = ls_dataset_label_sets(dataset) + 2 * label;
    return set[0] + 2 * set[1];
}

static ls_dataset *open_split(const ls_config *cfg, ls_split split) {
    ls_dataset *dataset;
    require_ok(ls_dataset_open(cfg, split, &dataset), "open");
    return dataset;
}

static void one_tree_is_split(void **state) {
    (void)state;
    ls_config cfg = config_of(put_tree());
    cfg.data_test_fraction = 0.4;
    ls_dataset *train = open_split(&cfg, LS_SPLIT_TRAIN), *test = open_split(&cfg, LS_SPLIT_TEST);
    const ls_dataset_info *facts = ls_dataset_get_info(train);
    assert_int_equal(facts->classes, 2);
    assert_int_equal(facts->label_rows, 5);
    assert_string_equal(ls_dataset_class(train, 1), "high");
    assert_int_equal(facts->count, 3);
    assert_int_equal(ls_dataset_get_info(test)->count, 2);
    int seen = 0;
    for (int s = 0; s < 2; s++) {
        const ls_dataset *d = s ? test : train;
        int32_t labels[3];
        char before[64] = "", name[64];
        require_ok(ls_dataset_labels(d, labels), "labels");
        for (int64_t i = 0; i < ls_dataset_get_info(d)->count; i++, seen++) {
            ls_dataset_sample_name(d, i, name, sizeof name);
            assert_true(strcmp(before, name) < 0); // in the order of names
            snprintf(before, sizeof before, "%s", name);
            const int expected = strcmp(name, "in/a.png") == 0 ? 1 : (name[0] - 'a' + 1) % 4;
            assert_int_equal(number_of(d, labels[i]), expected);
        }
    }
    assert_int_equal(seen, 5);
    ls_dataset_free(train);
    ls_dataset_free(test);
}

static uint64_t identity_of(const ls_config *cfg) {
    ls_dataset *dataset = open_split(cfg, LS_SPLIT_TRAIN);
    const uint64_t identity = ls_dataset_identity(ls_dataset_get_info(dataset));
    ls_dataset_free(dataset);
    return identity;
}

// The order of rows is no fact about the data; labels and their names are.
static void labels_are_the_identity(void **state) {
    (void)state;
    const char *folder = put_tree();
    ls_config cfg = config_of(folder);
    cfg.data_test_fraction = 0;
    const uint64_t before = identity_of(&cfg);
    put_labels(folder, "file,low,high\nin/a.png,1,0\nd.png,0,0\nc.png,1,1\nb.png,0,1\na.png,1,0\n");
    assert_true(identity_of(&cfg) == before);
    put_labels(folder, "file,low,high\nin/a.png,1,0\nd.png,0,0\nc.png,1,1\nb.png,0,1\na.png,1,1\n");
    assert_true(identity_of(&cfg) != before);
    put_labels(folder, "file,low,top\nin/a.png,1,0\nd.png,0,0\nc.png,1,1\nb.png,0,1\na.png,1,0\n");
    assert_true(identity_of(&cfg) != before);
}

static void pictures_are_held_out(void **state) {
    (void)state;
    ls_config cfg = config_of(put_tree());
    cfg.data_test_fraction = 0;
    cfg.data_validation_fraction = 0.4; // all have other labels, and yet two are held out
    ls_dataset *train = open_split(&cfg, LS_SPLIT_TRAIN);
    assert_int_equal(ls_dataset_get_info(train)->count, 3);
    const ls_dataset *held = ls_dataset_held_out(train);
    assert_int_equal(ls_dataset_get_info(held)->count, 2);
    assert_ptr_equal(ls_dataset_label_sets(held), ls_dataset_label_sets(train));
    ls_dataset_free(train);
}

static void two_trees(void **state) {
    (void)state;
    const char *folder = new_folder();
    require_ok(ls_make_folders(path_of(folder, "train")), "folder");
    require_ok(ls_make_folders(path_of(folder, "test/in")), "folder");
    put_file(folder, "train/a.png", "x", 1);
    put_file(folder, "test/in/a.png", "x", 1);
    put_labels(folder, "file,low,high\ntrain/a.png,0,1\ntest/in/a.png,1,0\n");
    const ls_config cfg = config_of(folder);
    ls_dataset *train = open_split(&cfg, LS_SPLIT_TRAIN), *test = open_split(&cfg, LS_SPLIT_TEST);
    int32_t label;
    require_ok(ls_dataset_labels(train, &label), "labels");
    assert_int_equal(number_of(train, label), 2);
    assert_non_null(strstr(ls_dataset_get_info(train)->note, "no training picture has the label 'low'"));
    require_ok(ls_dataset_labels(test, &label), "labels");
    assert_int_equal(number_of(test, label), 1);
    assert_string_equal(ls_dataset_get_info(test)->note, "");
    ls_dataset_free(train);
    ls_dataset_free(test);
    put_labels(folder, "file,low,high\ntrain/a.png,0,1\ntest/a.png,1,0\ntest/in/a.png,1,0\n");
    ls_dataset_free(open_split(&cfg, LS_SPLIT_TRAIN)); // the wrong row is the test set's
    ls_status status = ls_dataset_open(&cfg, LS_SPLIT_TEST, &test);
    assert_true(status.code == LS_DATA &&
                strstr(status.text, "l.csv:3: there is no picture test/a.png in train/, test/ or val/"));
}

static void rows_and_pictures_must_agree(void **state) {
    (void)state;
    const char *folder = put_tree();
    const ls_config cfg = config_of(folder);
    ls_dataset *dataset;
    put_labels(folder, "file,low,high\na.png,1,0\nb.png,0,1\nc.png,1,1\nin/a.png,1,0\n");
    ls_status status = ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset);
    assert_int_equal(status.code, LS_DATA);
    if (!strstr(status.text, "/d.png: ") || !strstr(status.text, "l.csv has no row for this picture; add 'd.png'"))
        fail_msg("%s", status.text);
    put_labels(folder, "file,low,high\na.png,1,0\nb.png,0,0\nc.png,1,0\nd.png,0,0\nin/a.png,1,0\nin/b.png,1,0\n");
    status = ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset);
    assert_int_equal(status.code, LS_DATA);
    if (!strstr(status.text, "l.csv:7: there is no picture in/b.png beside it (.jpg")) fail_msg("%s", status.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(one_tree_is_split),
        cmocka_unit_test(labels_are_the_identity),
        cmocka_unit_test(pictures_are_held_out),
        cmocka_unit_test(two_trees),
        cmocka_unit_test(rows_and_pictures_must_agree),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folders);
}
