// What a weights file says of itself: written by a trainer, read back, refused when it is missing or damaged.
#include "support/temp.h"
#include "formats/weights_metadata.h"
#include "train/whole_run.h"

static const char network[] = "; caf\xe9: a comment in Latin-1\n"
                              "[network]\ninput = 3x6x6\n"
                              "[conv]\nlayer = conv2d\nout_channels = 4\nkernel = 3\n"
                              "[flat]\nlayer = flatten\n"
                              "[fc]\nlayer = linear\nout_features = 3\n";

static temp_folder folder;
static char network_path[] = "/tmp/lockstep_network_XXXXXX", weights_path[320];

static int set_up(void **state) {
    (void)state;
    folder = temp_folder_new();
    snprintf(weights_path, sizeof weights_path, "%s/w.safetensors", folder.path);
    return run_write_network(network_path, network);
}

static int tear_down(void **state) {
    (void)state;
    unlink(network_path);
    temp_folder_remove(&folder);
    return 0;
}

static void open_run(run *r) {
    static const char *const options[] = { "data.dataset=synthetic", "data.shape=3x6x6", "data.classes=3",
        "data.mean=0.1,0.25,0.333333333", "data.std=0.5,0.25,1e-3", "data.train_samples=20", "data.test_samples=10",
        "train.global_batch=4", "device.type=ref", NULL };
    const char *const *lists[RUN_LISTS_MAX] = { options };
    must(run_open(r, network_path, lists));
}

static void a_trainer_s_weights_say_all(void **state) {
    (void)state;
    run r = { 0 };
    open_run(&r);
    must(ls_trainer_save_weights(r.trainer, weights_path));
    ls_safetensors *file;
    ls_weights_info *facts;
    must(ls_safetensors_read(weights_path, &file));
    must(ls_weights_info_read(weights_path, file, &facts));
    assert_string_equal(ls_safetensors_metadata(file, "format"), "pt");
    assert_non_null(strstr(ls_safetensors_metadata(file, "lockstep.network"), "; caf\\xe9: a comment"));
    ls_safetensors_free(file);
    assert_string_equal(facts->dataset, "synthetic");
    assert_true(ls_chw_equal(facts->graph->input, (ls_chw){ 3, 6, 6 }));
    assert_int_equal(facts->graph->layer_count, 3);
    assert_string_equal(facts->graph->layers[0].name, "conv");
    const float mean[] = { 0.1f, 0.25f, 0.333333333f }, std[] = { 0.5f, 0.25f, 1e-3f };
    assert_memory_equal(facts->mean, mean, sizeof mean); // every bit
    assert_memory_equal(facts->std, std, sizeof std);
    for (int i = 0; i < 3; i++) assert_string_equal(facts->classes[i], ls_dataset_class(r.trainer->plan.train_data, i));
    ls_weights_info_free(facts);
    run_close(&r);
}

static void a_configuration_says_the_same(void **state) {
    (void)state;
    run r = { 0 };
    open_run(&r);
    ls_weights_info *facts;
    must(ls_weights_info_configured(&r.cfg, &facts));
    assert_int_equal(facts->graph->classes, 3);
    assert_true(facts->mean[1] == 0.25f && facts->std[2] == 1e-3f);
    assert_string_equal(facts->classes[2], "2");
    ls_weights_info_free(facts);
    must(ls_config_set(&r.cfg, "data.classes=4"));
    const ls_status status = ls_weights_info_configured(&r.cfg, &facts);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, "has 3 classes, but data.dataset = synthetic has 3x6x6 and 4"));
    run_close(&r);
}

// Names of classes are those of folders, with whatever bytes these have.
static void names_of_any_bytes(void **state) {
    (void)state;
    static const char *const classes[] = { "ma\xc3\xb1"
                                           "ana",
        "caf\xe9", "a \"quoted\"\tname" };
    char path[320];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "pictures/%s/1.png", classes[i]);
        temp_file(&folder, path, "x");
    }
    snprintf(path, sizeof path, "%s/pictures", folder.path);
    ls_config cfg;
    ls_config_defaults(&cfg);
    must(ls_config_set(&cfg, "data.dataset=folder"));
    must(ls_config_set(&cfg, "data.image_size=6x6"));
    snprintf(cfg.data_path, sizeof cfg.data_path, "%s", path);
    ls_dataset *dataset;
    must(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset));
    ls_graph *graph;
    must(ls_graph_read(network_path, &graph));
    ls_weights_metadata *notes;
    must(ls_weights_metadata_new(graph, dataset, NULL, &notes));
    const float nothing = 0;
    const ls_safetensors_tensor tensor = { .name = "x", .rank = 0, .data = &nothing };
    must(ls_safetensors_write(weights_path, &tensor, 1, notes->list, notes->count, NULL));
    ls_weights_metadata_free(notes);
    ls_safetensors *file;
    ls_weights_info *facts;
    must(ls_safetensors_read(weights_path, &file));
    must(ls_weights_info_read(weights_path, file, &facts));
    assert_string_equal(facts->classes[0], "a \"quoted\"\tname"); // sorted by bytes
    assert_string_equal(facts->classes[1], "caf\\xe9");
    assert_string_equal(facts->classes[2], "ma\xc3\xb1"
                                           "ana");
    ls_weights_info_free(facts);
    ls_safetensors_free(file);
    ls_graph_free(graph);
    ls_dataset_free(dataset);
}

static void missing_or_damaged_notes(void **state) {
    (void)state;
    static const char good[] =
        "[network]\ninput = 1x4x4\n[f]\nlayer = flatten\n[fc]\nlayer = linear\nout_features = 2\n";
    static const struct {
        const char *key, *text; // put in the place of the good one; text NULL: left out
        const char *says;
    } rows[] = {
        { "lockstep.network", NULL,
            "does not say what network and pictures its weights are for: 'lockstep.network' is missing from its "
            "__metadata__" },
        { "lockstep.classes", NULL, "by --config CONFIG.ini" },
        { "lockstep.mean", NULL, "'lockstep.mean' is missing" },
        { "lockstep.network", "[network]\ninput = 1x4x4\n[f]\nlayer = flaten\n",
            "(lockstep.network):4: layer 'f': there is no kind 'flaten'" },
        { "lockstep.network",
            "[network]\ninput = 999x4x4\n[f]\nlayer = flatten\n[fc]\nlayer = linear\nout_features = 2\n",
            "pictures of 999 channels, at most 16 are known" },
        { "lockstep.network",
            "[network]\ninput = 16x4x4\n[f]\nlayer = flatten\n[fc]\nlayer = linear\nout_features = 2\n",
            "expected 16 numbers" },
        { "lockstep.network", "", "a network file begins with the section [network]" },
        { "lockstep.mean", "0.5,0.5", "'lockstep.mean' of its __metadata__ is '0.5,0.5', expected 1 number" },
        { "lockstep.mean", "half", "expected 1 number" },
        { "lockstep.mean", "", "expected 1 number" },
        { "lockstep.std", "0", "expected 1 positive number" },
        { "lockstep.std", "nan", "expected 1 positive number" },
        { "lockstep.std", "inf", "expected 1 positive number" },
        { "lockstep.classes", "[\"a\"]", "is no JSON list of 2 names" },
        { "lockstep.classes", "[\"a\", 2]", "is no JSON list of 2 names" },
        { "lockstep.classes", "{\"a\": 1, \"b\": 2}", "is no JSON list of 2 names" },
        { "lockstep.classes", "[\"a\", \"b\"", "is no JSON list of 2 names" },
        { "lockstep.resize", "crop",
            "resized by the rule 'crop', and this program has 'bilinear' and 'bilinear, crop'" },
        { "lockstep.version", NULL, NULL }, // is not needed
        { "other", "whatever", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_metadata_entry notes[] = { { "format", "pt" }, { "lockstep.version", "0" }, { "lockstep.network", good },
            { "lockstep.dataset", "mnist" }, { "lockstep.mean", "0.5" }, { "lockstep.std", "0.25" },
            { "lockstep.classes", "[\"a\",\"b\"]" }, { "lockstep.resize", "bilinear" }, { "other", "" } };
        for (size_t n = 0; n < sizeof notes / sizeof *notes; n++) {
            if (strcmp(notes[n].key, rows[i].key) != 0) continue;
            if (rows[i].text)
                notes[n].text = rows[i].text;
            else
                notes[n].key = "left out";
        }
        const float nothing = 0;
        const ls_safetensors_tensor tensor = { .name = "x", .rank = 0, .data = &nothing };
        must(ls_safetensors_write(weights_path, &tensor, 1, notes, sizeof notes / sizeof *notes, NULL));
        ls_safetensors *file;
        must(ls_safetensors_read(weights_path, &file));
        ls_weights_info *facts = NULL;
        ls_status status = ls_weights_info_read("W", file, &facts);
        LS_THEN(status, ls_weights_info_check("W", facts));
        if (rows[i].says && (status.code != LS_STORAGE || status.text[0] != 'W' || !strstr(status.text, rows[i].says)))
            fail_msg("row %zu: %d, %s; expected W... %s", i, (int)status.code, status.text ? status.text : "accepted",
                rows[i].says);
        if (!rows[i].says) must(status);
        ls_weights_info_free(facts);
        ls_safetensors_free(file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trainer_s_weights_say_all),
        cmocka_unit_test(a_configuration_says_the_same),
        cmocka_unit_test(names_of_any_bytes),
        cmocka_unit_test(missing_or_damaged_notes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
