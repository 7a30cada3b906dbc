#include "run/tensorboard.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/files.h"
#include "base/pinned_folder.h"
#include "base/memory.h"
#include "run/live_file.h"

// --- protobuf messages ---------------------------------------------------------------------------

typedef struct {
    char *bytes;
    size_t count, room;
    int broken; // no memory: some bytes are missing
} message;

typedef enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 } wire_type; // type of a field

static void put(message *m, const void *data, size_t bytes) {
    if (bytes == 0) return; // data of an empty message are NULL
    if (m->count + bytes > m->room) {
        const size_t room = 2 * (m->count + bytes);
        char *larger = realloc(m->bytes, room);
        if (!larger) m->broken = 1;
        if (!larger) return;
        m->bytes = larger;
        m->room = room;
    }
    memcpy(m->bytes + m->count, data, bytes);
    m->count += bytes;
}

static void put_varint(message *m, uint64_t value) {
    for (;;) {
        const uint8_t low = value & 127, byte = value > 127 ? low | 128 : low;
        put(m, &byte, 1);
        if (value <= 127) return;
        value >>= 7;
    }
}

static void put_tag(message *m, int field, wire_type type) {
    put_varint(m, (uint64_t)(field << 3 | (int)type));
}

static void put_whole(message *m, int field, int64_t value) {
    put_tag(m, field, VARINT);
    put_varint(m, (uint64_t)value);
}

static void put_double(message *m, int field, double value) {
    put_tag(m, field, FIXED64);
    put(m, &value, sizeof value);
}

static void put_float(message *m, int field, float value) {
    put_tag(m, field, FIXED32);
    put(m, &value, sizeof value);
}

static void put_bytes(message *m, int field, const void *data, size_t bytes) {
    put_tag(m, field, BYTES);
    put_varint(m, bytes);
    put(m, data, bytes);
}

static void put_text(message *m, int field, const char *text) {
    put_bytes(m, field, text, strlen(text));
}

// Adds the message `inner` as a field, and empties it.
static void put_message(message *m, int field, message *inner) {
    put_bytes(m, field, inner->bytes, inner->count);
    m->broken |= inner->broken;
    inner->count = 0;
    inner->broken = 0;
}

// --- records -------------------------------------------------------------------------------------

struct ls_tensorboard {
    ls_live_file *file;
    message event, summary, value, part, record; // messages in progress; their memory is reused
};

// Returns the CRC-32C: Castagnoli's polynomial, reflected.
static uint32_t crc32c(const char *data, size_t bytes) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= (uint8_t)data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

// Writes the checksum of the data, masked as the format demands: a CRC of data that contain CRCs would be weak.
static void put_masked_crc(message *m, const char *data, size_t bytes) {
    const uint32_t crc = crc32c(data, bytes), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
    put(m, &masked, sizeof masked);
}

// Writes the event into the file as a record, and makes the event empty for the next one.
static void put_record(ls_tensorboard *b) {
    const uint64_t length = b->event.count;
    char bytes[sizeof length];
    memcpy(bytes, &length, sizeof length);
    b->record.count = 0;
    b->record.broken = b->event.broken;
    put(&b->record, bytes, sizeof bytes);
    put_masked_crc(&b->record, bytes, sizeof bytes);
    put(&b->record, b->event.bytes, b->event.count);
    put_masked_crc(&b->record, b->event.bytes, b->event.count);
    if (b->record.broken)
        ls_live_file_fail(b->file, ls_no_memory(0, "an event for TensorBoard"));
    else
        ls_live_file_put(b->file, b->record.bytes, b->record.count);
    b->event.count = 0;
    b->event.broken = 0;
}

// --- events --------------------------------------------------------------------------------------

// Field numbers and values, named as in the messages' definitions.
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };
enum { SESSION_LOG_STATUS = 1, SESSION_LOG_START = 1 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN_DATA = 1, PLUGIN_DATA_NAME = 1 };
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRING_VAL = 8, SHAPE_DIM = 2, DIM_SIZE = 1, DT_STRING = 7 };

static void begin_event(ls_tensorboard *b, int64_t step) {
    put_double(&b->event, EVENT_WALL_TIME, ls_clock_unix_seconds());
    put_whole(&b->event, EVENT_STEP, step);
}

static void add_scalar(ls_tensorboard *b, const char *tag, double value) {
    put_text(&b->value, VALUE_TAG, tag);
    put_float(&b->value, VALUE_SIMPLE_VALUE, (float)value);
    put_message(&b->summary, SUMMARY_VALUE, &b->value);
}

static void end_summary(ls_tensorboard *b) {
    put_message(&b->event, EVENT_SUMMARY, &b->summary);
    put_record(b);
}

// Adds a tensor of one string, which TensorBoard's text plugin shows as Markdown.
static void add_text(ls_tensorboard *b, const char *tag, const char *text, size_t bytes) {
    put_text(&b->value, VALUE_TAG, tag);
    message *m = &b->part, outer = { .bytes = NULL };
    put_text(m, PLUGIN_DATA_NAME, "text");
    put_message(&outer, METADATA_PLUGIN_DATA, m);
    put_message(&b->value, VALUE_METADATA, &outer);
    put_whole(m, DIM_SIZE, 1);
    put_message(&outer, SHAPE_DIM, m);
    put_whole(m, TENSOR_DTYPE, DT_STRING);
    put_message(m, TENSOR_SHAPE, &outer);
    put_bytes(m, TENSOR_STRING_VAL, text, bytes);
    put_message(&b->value, VALUE_TENSOR, m);
    put_message(&b->summary, SUMMARY_VALUE, &b->value);
    free(outer.bytes);
}

static void on_progress(void *context, const ls_train_progress *p) {
    ls_tensorboard *b = context;
    if (!p->record) return;
    begin_event(b, p->update);
    add_scalar(b, "train/loss", p->train_loss);
    add_scalar(b, "train/accuracy", p->train_accuracy);
    add_scalar(b, "train/learning_rate", p->learning_rate);
    add_scalar(b, "train/loss_scale", p->loss_scale);
    add_scalar(b, "train/grad_norm", p->grad_norm);
    add_scalar(b, "train/skipped", (double)p->skipped);
    add_scalar(b, "train/images_per_second", p->images_per_second);
    end_summary(b);
}

static void add_evaluation(ls_tensorboard *b, const char *set, int64_t samples, double loss, double accuracy) {
    char tag[32];
    if (samples == 0) return;
    snprintf(tag, sizeof tag, "%s/loss", set);
    add_scalar(b, tag, loss);
    snprintf(tag, sizeof tag, "%s/accuracy", set);
    add_scalar(b, tag, accuracy);
}

static void on_evaluated(void *context, const ls_train_evaluation *e) {
    ls_tensorboard *b = context;
    begin_event(b, e->update);
    add_evaluation(b, "val", e->val_samples, e->val_loss, e->val_accuracy);
    add_evaluation(b, "test", e->test_samples, e->test_loss, e->test_accuracy);
    add_evaluation(b, "tta", e->tta_samples, e->tta_loss, e->tta_accuracy);
    end_summary(b);
}

ls_train_observer ls_tensorboard_observer(ls_tensorboard *board) {
    return (ls_train_observer){ board, on_progress, on_evaluated, NULL, NULL };
}

// --- the file ------------------------------------------------------------------------------------

static const char name_start[] = "events.out.tfevents.";
static const long long SECONDS_MAX = 9999999999; // ten digits, so that names sort by time

// Chooses the time in a new file's name: now, or later if an existing file has a later time.
static ls_status next_seconds(const char *folder, long long *seconds) {
    *seconds = (long long)ls_clock_unix_seconds();
    DIR *entries = ls_pinned_opendir(folder);
    if (!entries) return ls_fail_io("read", folder, "opendir");
    for (const struct dirent *entry; (entry = readdir(entries));) {
        if (strncmp(entry->d_name, name_start, strlen(name_start)) != 0) continue;
        const long long other = strtoll(entry->d_name + strlen(name_start), NULL, 10);
        if (other >= *seconds && other < SECONDS_MAX) *seconds = other + 1;
    }
    closedir(entries);
    return LS_SUCCESS;
}

static ls_status open_file(const char *folder, const char *host, ls_live_file **out) {
    char name[160], path[LS_TEXT_BYTES];
    long long seconds;
    LS_TRY(ls_make_folders(folder));
    LS_TRY(next_seconds(folder, &seconds));
    const int start = snprintf(name, sizeof name, "%s%010lld.", name_start, seconds);
    const int length = snprintf(name + start, sizeof name - (size_t)start, "%s.%ld", host, (long)getpid());
    for (char *at = name + start; at < name + start + length; at++)
        if (!isalnum((unsigned char)*at) && !strchr("-_.", *at)) *at = '-';
    LS_TRY(ls_path_join(path, sizeof path, folder, name));
    return ls_live_file_open(path, O_EXCL, "an event", out);
}

// Adds the configuration as an indented block of Markdown, in which nothing is markup.
static void add_configuration(ls_tensorboard *b, const ls_config *cfg) {
    char *plain = NULL, *block = NULL;
    size_t plain_bytes, block_bytes;
    FILE *file = ls_text_stream(&plain, &plain_bytes);
    ls_config_write(cfg, file, 0);
    ls_text_stream_close(file);
    file = ls_text_stream(&block, &block_bytes);
    fputs("    ", file);
    for (const char *at = plain; *at; at++) fputs(*at == '\n' ? "\n    " : (char[2]){ *at }, file);
    ls_text_stream_close(file);
    add_text(b, "configuration", block, block_bytes);
    free(plain);
    free(block);
}

static ls_status begin_file(ls_tensorboard *b, const ls_train_info *info) {
    put_double(&b->event, EVENT_WALL_TIME, ls_clock_unix_seconds());
    put_text(&b->event, EVENT_FILE_VERSION, "brain.Event:2");
    put_record(b);
    begin_event(b, info->resumed_at + 1);
    put_whole(&b->part, SESSION_LOG_STATUS, SESSION_LOG_START);
    put_message(&b->event, EVENT_SESSION_LOG, &b->part);
    put_record(b);
    begin_event(b, info->resumed_at);
    add_configuration(b, info->cfg);
    end_summary(b);
    return LS_SUCCESS;
}

static ls_status close_board(ls_tensorboard *b) {
    ls_status status = b->file ? ls_live_file_close(b->file) : LS_SUCCESS;
    message *all[] = { &b->event, &b->summary, &b->value, &b->part, &b->record };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->bytes);
    free(b);
    return status;
}

ls_status ls_tensorboard_open(const char *folder, const ls_train_info *info, ls_tensorboard **out) {
    ls_tensorboard *b = ls_new(1, sizeof *b, "TensorBoard's file in %s", folder);
    ls_status status = open_file(folder, info->comm->host, &b->file);
    LS_THEN(status, begin_file(b, info));
    if (ls_failed(status)) ls_keep_first(&status, close_board(b));
    if (!ls_failed(status)) *out = b;
    return status;
}

ls_status ls_tensorboard_close(ls_tensorboard *board) {
    return board ? close_board(board) : LS_SUCCESS;
}
