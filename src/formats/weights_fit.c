#include "formats/weights_fit.h"

#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "data/image_decode.h"
#include "model/class_rows.h"

// --- facts other than classes ------------------------------------------------------------------------

typedef enum { SIZE, MEAN, STD, RESIZE, DECODER, LABELS, NETWORK, FACTS } fact;

// Facts that are compared besides classes. name: also the word for model.override. option: the option that gives the
// fact; -1: a difference is never refused.
static const struct {
    const char *name;
    int option;
} facts[FACTS] = { [SIZE] = { "image_size", LS_OPTION_data_image_size },
    [MEAN] = { "mean", LS_OPTION_data_mean },
    [STD] = { "std", LS_OPTION_data_std },
    [RESIZE] = { "resize", LS_OPTION_data_resize },
    [DECODER] = { "decoder", -1 },
    [LABELS] = { "labels", -1 },
    [NETWORK] = { "network", -1 } };

static int numbers_differ(const float *a, int a_count, const float *b, int b_count) {
    if (a_count == 0 || b_count == 0) return 0;
    int differ = a_count != b_count;
    for (int i = 0; i < a_count && i < b_count; i++) differ |= fabsf(a[i] - b[i]) > 1e-6f;
    return differ;
}

// Returns 1 if both a and b know the fact and their values differ. NETWORK: 0, because compare_facts compares it.
static int differs(fact f, const ls_weights_info *a, const ls_weights_info *b) {
    switch (f) {
    case SIZE:
        return a->input.c && b->input.c && !ls_chw_equal(a->input, b->input);
    case MEAN:
        return numbers_differ(a->mean, a->mean_count, b->mean, b->mean_count);
    case STD:
        return numbers_differ(a->std, a->std_count, b->std, b->std_count);
    case RESIZE:
        return a->resize != b->resize && a->resize != LS_RESIZE_UNKNOWN && b->resize != LS_RESIZE_UNKNOWN;
    case DECODER:
        return a->decoder[0] && b->decoder[0] && strcmp(a->decoder, b->decoder) != 0;
    case LABELS:
        return a->class_count && b->class_count && a->several != b->several;
    default:
        return 0;
    }
}

static void put_numbers(ls_text_room *room, const float *numbers, int count) {
    for (int i = 0; i < count; i++) ls_text_put(room, "%s%g", i ? "," : "", (double)numbers[i]);
}

static const char *put_value(fact f, const ls_weights_info *info, char text[256]) {
    ls_text_room room = { text, 256 };
    text[0] = '\0';
    if (f == SIZE) ls_text_put(&room, "%dx%dx%d", info->input.c, info->input.h, info->input.w);
    if (f == MEAN) put_numbers(&room, info->mean, info->mean_count);
    if (f == STD) put_numbers(&room, info->std, info->std_count);
    if (f == RESIZE) ls_text_put(&room, "%s", ls_config_choice("data.resize", info->resize));
    if (f == DECODER) ls_text_put(&room, "%s", info->decoder);
    if (f == LABELS) ls_text_put(&room, "%s a picture", info->several ? "several" : "one");
    return text;
}

// Returns the option (LS_OPTION_*) by which the user gives the fact, for messages. It depends on the data set.
static int option_of(fact f, const ls_weights_fit_options *o) {
    const ls_config *cfg = o->cfg;
    if (f == SIZE && cfg->data_dataset == LS_DATASET_FOLDER && o->file->input.c != o->here->input.c)
        return LS_OPTION_data_channels;
    if (f != SIZE || cfg->data_dataset == LS_DATASET_FOLDER || cfg->line[LS_OPTION_data_image_size] < 0)
        return facts[f].option;
    return cfg->data_dataset == LS_DATASET_SYNTHETIC ? LS_OPTION_data_shape : LS_OPTION_data_dataset;
}

static ls_status refuse_fact(const ls_weights_fit_options *o, fact f) {
    char where[LS_STATUS_TEXT_BYTES / 4], there[256], here[256];
    const int option = option_of(f, o);
    return ls_fail(LS_USAGE,
        "%s: %s is %s here, but the weights of %s were trained with %s: %stake the one here by model.override = %s",
        ls_config_where(o->cfg, option, where, sizeof where), facts[f].name, put_value(f, o->here, here), o->path,
        put_value(f, o->file, there),
        option == LS_OPTION_data_dataset ? "" : "leave the option out, and the weights' value holds, or ",
        facts[f].name);
}

static ls_status refuse_teacher(const ls_weights_fit_options *o, fact f) {
    char where[LS_STATUS_TEXT_BYTES / 4], there[256], here[256];
    return ls_fail(LS_USAGE,
        "%s: %s is %s here, but the teacher of distill.weights = %s was trained with %s, and it sees the pictures of "
        "the "
        "run: use the teacher's value, or another teacher",
        ls_config_where(o->cfg, option_of(f, o), where, sizeof where), facts[f].name, put_value(f, o->here, here),
        o->path, put_value(f, o->file, there));
}

static int overrides(const ls_weights_fit_options *o, const char *word) {
    return o->use != LS_WEIGHTS_TEACH && ls_config_overrides(o->cfg, word);
}

static void put_difference(const ls_weights_fit_options *o, fact f, ls_text_room *room, const char *separator) {
    char there[256], here[256];
    ls_text_put(
        room, "%s%s %s, here %s", separator, facts[f].name, put_value(f, o->file, there), put_value(f, o->here, here));
}

static ls_status refuse_integers(const ls_weights_fit_options *o) {
    return ls_fail(LS_USAGE,
        "%s: these weights are trained for integers, but the network %s here is not: set train.quantise = int8, name "
        "the run alone (train eval RUN), or name the weights in floats that they were made from",
        o->path, o->graph->path);
}

static ls_status compare_facts(const ls_weights_fit_options *o, ls_weights_fit *fit) {
    ls_text_room room = { fit->note, sizeof fit->note };
    if (o->file->graph && o->graph && ls_graph_is_quantised(o->file->graph) && !ls_graph_is_quantised(o->graph))
        return refuse_integers(o);
    const int starts = o->use == LS_WEIGHTS_START;
    int count = 0;
    for (fact f = 0; f < FACTS; f++) {
        if (!differs(f, o->file, o->here)) continue;
        const int heeds_here = overrides(o, facts[f].name);
        if (starts && heeds_here) continue;
        if (o->use == LS_WEIGHTS_TEACH && facts[f].option >= 0) return refuse_teacher(o, f);
        if (!starts && !heeds_here && facts[f].option >= 0) return refuse_fact(o, f);
        if (count == 0) ls_text_put(&room, "%s was trained with ", o->path);
        put_difference(o, f, &room, count++ ? "; " : "");
    }
    if (o->use != LS_WEIGHTS_PREDICT && (!o->file->mean_count || !o->file->std_count))
        ls_text_put(&room, "%s%s does not say its normalisation: mean and std are the configuration's",
            fit->note[0] ? "; " : "", o->path);
    if (!starts && o->file->graph && o->graph && o->file->graph->hash != o->graph->hash &&
        ls_graph_is_quantised(o->file->graph) == ls_graph_is_quantised(o->graph) && !differs(SIZE, o->file, o->here))
        ls_text_put(&room, "%s%s was trained with another network file than %s, whose tensors have the same names",
            fit->note[0] ? "; " : "", o->path, o->graph->path);
    return LS_SUCCESS;
}

// --- classes -----------------------------------------------------------------------------------------

typedef struct {
    const char *name;
    int index;
} named_class;

static int compare_classes(const void *a, const void *b) {
    const unsigned char *x = (const unsigned char *)((const named_class *)a)->name;
    const unsigned char *y = (const unsigned char *)((const named_class *)b)->name;
    for (;; x++, y++) {
        const int c = *x == '/' ? '_' : *x, d = *y == '/' ? '_' : *y;
        if (c != d) return c < d ? -1 : 1;
        if (!c) return 0;
    }
}

// Returns a list of the classes sorted by name. The caller frees it with free().
static named_class *sort_classes(const ls_weights_info *info) {
    named_class *sorted = ls_new(info->class_count, sizeof *sorted, "names of %d classes", info->class_count);
    for (int k = 0; k < info->class_count; k++) sorted[k] = (named_class){ info->classes[k], k };
    qsort(sorted, (size_t)info->class_count, sizeof *sorted, compare_classes);
    return sorted;
}

// A list of names as text. Only the first few names are shown.
typedef struct {
    ls_text_room room;
    int count;
} name_list;

static void put_name(name_list *list, const char *name) {
    enum { SHOWN = 4 };
    if (list->count < SHOWN) ls_text_put(&list->room, "%s'%.64s'", list->count ? ", " : "", name);
    if (list->count++ == SHOWN) ls_text_put(&list->room, ", ...");
}

typedef struct {
    int *order; // by class here: class of the same name in the file; only valid if no class is missing or new
    int missing_count, new_count;
    char missing[512], fresh[512]; // names that only the file has; names that only the data here have
} class_match;

static void match_classes(const ls_weights_fit_options *o, class_match *m) {
    const int there = o->file->class_count, here = o->here->class_count;
    named_class *a = sort_classes(o->file), *b = sort_classes(o->here);
    name_list missing = { .room = { m->missing, sizeof m->missing } },
              fresh = { .room = { m->fresh, sizeof m->fresh } };
    m->order = ls_new(here, sizeof *m->order, "order of %d classes", here);
    for (int i = 0, k = 0; i < there || k < here;) {
        const int side = i == there ? 1 : k == here ? -1 : compare_classes(&a[i], &b[k]);
        if (side == 0) m->order[b[k].index] = a[i].index;
        if (side < 0) put_name(&missing, a[i].name);
        if (side > 0) put_name(&fresh, b[k].name);
        i += side <= 0;
        k += side >= 0;
    }
    m->missing_count = missing.count;
    m->new_count = fresh.count;
    free(a);
    free(b);
}

static void put_others(const class_match *m, char text[1280]) {
    ls_text_room room = { text, 1280 };
    text[0] = '\0';
    if (m->missing_count) ls_text_put(&room, "%s not here", m->missing);
    if (m->new_count) ls_text_put(&room, "%s%s only here", m->missing_count ? ", " : "", m->fresh);
}

static int is_same_order(const class_match *m, int count) {
    for (int k = 0; k < count; k++)
        if (m->order[k] != k) return 0;
    return 1;
}

static int has_numbers_for_names(const ls_weights_info *info) {
    char number[16];
    int k = 0;
    for (; k < info->class_count; k++) {
        snprintf(number, sizeof number, "%d", k);
        if (strcmp(info->classes[k], number) != 0) break;
    }
    return k == info->class_count;
}

static void put_rows(const ls_weights_fit *fit, const ls_graph *graph, ls_text_room *room) {
    const char *separator = "";
    for (int p = 0; p < graph->param_count; p++) {
        if (!fit->rows[p]) continue;
        ls_text_put(room, "%s%s", separator, graph->params[p].name);
        separator = ", ";
    }
}

static ls_status refuse_order(const ls_weights_fit_options *o) {
    if (o->use == LS_WEIGHTS_TEACH)
        return ls_fail(LS_DATA,
            "distill.weights: the classes of %s are those here in another order, and its network does not end with "
            "layers that have a row for each class; name another teacher",
            o->path);
    return ls_fail(LS_USAGE,
        "%s: its classes are those here in another order, or others, and %s does not end with layers that have a row "
        "for each class: make the last layers anew by model.init_rules = new NAME.*, or take classes by number by "
        "model.override = classes",
        o->path, o->graph->path);
}

// Decides about other classes, or another order, if the layers with a row for each class cannot be found: with
// LS_WEIGHTS_START, leaves new tensors to the user's rules if model.init_rules has one with "new"; else refuses.
static ls_status leave_to_rules(const ls_weights_fit_options *o, ls_weights_fit *fit) {
    if (o->use != LS_WEIGHTS_START || !strstr(o->cfg->model_init_rules, "new ")) return refuse_order(o);
    ls_text_cut(fit->class_note, sizeof fit->class_note,
        "%s has other classes, or another order: model.init_rules decide alone what is new in %s", o->path,
        o->graph->path);
    return LS_SUCCESS;
}

static ls_status start_with_others(
    const ls_weights_fit_options *o, const class_match *m, ls_weights_fit *fit, int traced) {
    ls_text_room room = { fit->class_note, sizeof fit->class_note };
    char others[1280];
    if (!traced) return leave_to_rules(o, fit);
    put_others(m, others);
    fit->starts_anew = 1;
    ls_text_put(&room, "%s has other classes (%s): ", o->path, others);
    put_rows(fit, o->graph, &room);
    ls_text_put(&room, " start anew (model.override = classes takes them from the file, by number)");
    return LS_SUCCESS;
}

// Handles weights whose classes differ from those here: a prediction uses the file's names, with a note; else it fails.
static ls_status use_others(const ls_weights_fit_options *o, const class_match *m, ls_weights_fit *fit) {
    char others[1280];
    put_others(m, others);
    if (o->use == LS_WEIGHTS_PREDICT) {
        ls_text_cut(fit->class_note, sizeof fit->class_note,
            "%s says its classes itself, and those of the configuration are others: %s (model.override = classes takes "
            "the configuration's names, by number)",
            o->path, others);
        return LS_SUCCESS;
    }
    return ls_fail(LS_DATA, "%s: its %d classes are not the %d here: %s (classes are matched by name%s)", o->path,
        o->file->class_count, o->here->class_count, others,
        o->use == LS_WEIGHTS_TEACH ? "" : "; by number with model.override = classes");
}

// Handles weights with the same classes in perhaps another order. Takes over m->order if rows must change places.
static ls_status use_order(const ls_weights_fit_options *o, class_match *m, ls_weights_fit *fit, int traced) {
    ls_text_room room = { fit->class_note, sizeof fit->class_note };
    if (o->use == LS_WEIGHTS_PREDICT) return LS_SUCCESS; // a prediction uses the file's names
    if (is_same_order(m, fit->class_count)) {
        if (strcmp(o->file->dataset, o->here->dataset) != 0 && has_numbers_for_names(o->file))
            ls_text_put(&room, "%s has numbers for names of its classes: those of %s are taken for those of %s",
                o->path, o->file->dataset, o->here->dataset);
        return LS_SUCCESS;
    }
    if (!traced) return leave_to_rules(o, fit);
    fit->order = m->order;
    m->order = NULL;
    ls_text_put(&room, "%s has the classes in another order: rows are matched by name in ", o->path);
    put_rows(fit, o->graph, &room);
    return LS_SUCCESS;
}

static ls_status use_numbers(const ls_weights_fit_options *o, const class_match *m, ls_weights_fit *fit) {
    ls_text_room room = { fit->class_note, sizeof fit->class_note };
    if (m->missing_count || m->new_count || !is_same_order(m, fit->class_count))
        ls_text_put(&room, "classes are taken by number, by model.override: '%.64s' here is '%.64s' in %s, and so on",
            o->here->classes[0], o->file->classes[0], o->path);
    return LS_SUCCESS;
}

static ls_status fit_classes(const ls_weights_fit_options *o, ls_weights_fit *fit) {
    class_match match = { .order = NULL };
    int traced = 0;
    fit->class_count = o->here->class_count;
    fit->rows = ls_new(o->graph->param_count + 1, sizeof *fit->rows, "rows of classes");
    fit->compares_rows = o->use == LS_WEIGHTS_START && o->file->class_count == 0;
    ls_class_rows_find(o->graph, fit->rows, &traced);
    if (fit->class_count == 0) return LS_SUCCESS;
    if (o->file->class_count == 0) {
        if (o->use != LS_WEIGHTS_PREDICT)
            ls_text_cut(fit->class_note, sizeof fit->class_note,
                "%s does not say its classes: its output 0 is taken for '%.64s', and so on in their order", o->path,
                o->here->classes[0]);
        return LS_SUCCESS;
    }
    ls_status status;
    match_classes(o, &match);
    const int others = match.missing_count || match.new_count;
    if (overrides(o, "classes")) {
        status = use_numbers(o, &match, fit);
    } else if (others) {
        status = o->use == LS_WEIGHTS_START ? start_with_others(o, &match, fit, traced) : use_others(o, &match, fit);
    } else {
        status = use_order(o, &match, fit, traced);
    }
    free(match.order);
    return status;
}

// --- the whole ---------------------------------------------------------------------------------------

ls_status ls_weights_fit_new(const ls_weights_fit_options *options, ls_weights_fit **out) {
    ls_weights_fit *fit = ls_new(1, sizeof *fit, "classes of weights");
    ls_status status = compare_facts(options, fit);
    LS_THEN(status, fit_classes(options, fit));
    ls_text_replace_controls(fit->note);
    ls_text_replace_controls(fit->class_note);
    return LS_GIVE_OR_FREE(status, fit, out, ls_weights_fit_free);
}

void ls_weights_fit_free(ls_weights_fit *fit) {
    if (!fit) return;
    free(fit->order);
    free(fit->rows);
    free(fit);
}

ls_status ls_weights_fit_arrange(const ls_weights_fit *fit, const ls_graph *graph, int p, float *values) {
    if (!fit->order || !fit->rows[p]) return LS_SUCCESS;
    const size_t count = (size_t)ls_param_count(&graph->params[p].shape), row = count / (size_t)fit->class_count;
    float *before;
    LS_TRY(ls_try_new(&before, count, sizeof *before, "%s", graph->params[p].name));
    memcpy(before, values, count * sizeof *values);
    for (int k = 0; k < fit->class_count; k++)
        memcpy(values + (size_t)k * row, before + (size_t)fit->order[k] * row, row * sizeof *values);
    free(before);
    return LS_SUCCESS;
}

// --- values that a configuration takes over ----------------------------------------------------------

static void adopt_numbers(const float *numbers, int count, char text[LS_TEXT_BYTES]) {
    ls_text_room room = { text, LS_TEXT_BYTES };
    if (text[0]) return;
    for (int i = 0; i < count; i++) ls_text_put(&room, "%s%.9g", i ? "," : "", (double)numbers[i]);
}

int ls_weights_decoder(const ls_weights_info *file, const ls_config *cfg) {
    const int open = cfg->data_decoder == LS_DECODER_AUTO;
    return open && strcmp(file->decoder, ls_image_decoder(LS_DECODER_STB)) == 0 ? LS_DECODER_STB : cfg->data_decoder;
}

void ls_weights_adopt(const ls_weights_info *file, ls_config *cfg) {
    const ls_chw in = file->input;
    ls_chw shape;
    if (in.c && !cfg->line[LS_OPTION_data_image_size])
        snprintf(cfg->data_image_size, sizeof cfg->data_image_size, "%dx%d", in.h, in.w);
    if ((in.c == 1 || in.c == 3) && !cfg->line[LS_OPTION_data_channels]) cfg->data_channels = in.c;
    if (in.c && !cfg->line[LS_OPTION_data_shape])
        snprintf(cfg->data_shape, sizeof cfg->data_shape, "%dx%dx%d", in.c, in.h, in.w);
    if (ls_failed(ls_config_picture_shape(cfg, &shape))) return; // opening the data reports the error
    if (file->mean_count == shape.c) adopt_numbers(file->mean, file->mean_count, cfg->data_mean);
    if (file->std_count == shape.c) adopt_numbers(file->std, file->std_count, cfg->data_std);
    if (file->resize != LS_RESIZE_UNKNOWN && !cfg->line[LS_OPTION_data_resize]) cfg->data_resize = file->resize;
    cfg->data_decoder = ls_weights_decoder(file, cfg);
}

// Returns 1 if the value here replaces the file's: it is known here, and the file lacks it or model.override names it.
static int takes_here(const ls_config *cfg, const char *word, int in_file, int is_here) {
    return is_here && (!in_file || ls_config_overrides(cfg, word));
}

// Gives `file` the network of `here`, if there is one. A quantised network of the file stays, because no other network
// has its scales. A network that stays is resized if model.override names image_size. LS_STORAGE: the network has
// another number of outputs than `file` has classes.
static ls_status complete_network(const ls_config *cfg, ls_weights_info *file, ls_weights_info *here) {
    ls_graph *before = file->graph;
    if (here->graph && !(before && ls_graph_is_quantised(before))) {
        file->graph = here->graph;
        here->graph = before;
    } else if (takes_here(cfg, "image_size", 1, here->input.c)) {
        LS_TRY(ls_graph_resize(before, here->input.h, here->input.w, &file->graph));
        ls_graph_free(before);
    }
    file->input = file->graph->input;
    if (file->class_count == file->graph->classes) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: the network has %d outputs, but the weights name %d classes", file->graph->path,
        file->graph->classes, file->class_count);
}

ls_status ls_weights_complete(const ls_config *cfg, ls_weights_info *file, ls_weights_info *here) {
    if (takes_here(cfg, "mean", file->mean_count, here->mean_count)) {
        memcpy(file->mean, here->mean, sizeof file->mean);
        file->mean_count = here->mean_count;
    }
    if (takes_here(cfg, "std", file->std_count, here->std_count)) {
        memcpy(file->std, here->std, sizeof file->std);
        file->std_count = here->std_count;
    }
    if (takes_here(cfg, "resize", file->resize != LS_RESIZE_UNKNOWN, here->resize != LS_RESIZE_UNKNOWN))
        file->resize = here->resize;
    if (takes_here(cfg, "classes", file->class_count, here->class_count)) {
        ls_weights_info names = *file;
        file->classes = here->classes;
        file->class_count = here->class_count;
        file->several = here->several;
        here->classes = names.classes;
        here->class_count = names.class_count;
    }
    if (!file->dataset[0]) {
        memcpy(file->dataset, here->dataset, sizeof file->dataset);
        memcpy(file->decoder, here->decoder, sizeof file->decoder);
    }
    return complete_network(cfg, file, here);
}
