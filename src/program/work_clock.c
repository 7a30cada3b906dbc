#include "program/work_clock.h"

#include <string.h>
#include "base/clock.h"

static const double CLOCK_SHARE = 0.001; // share of the time that reading the clock may take
enum { UNTIMED_MOST = 31, READINGS = 100 };

// Returns the seconds that one reading of the clock takes.
static double measure_reading(void) {
    const double start_s = ls_clock_seconds();
    for (int i = 2; i < READINGS; i++) (void)ls_clock_seconds();
    return (ls_clock_seconds() - start_s) / READINGS;
}

void ls_work_clock_begin(ls_work_clock *clock, const ls_device *device) {
    *clock = (ls_work_clock){ .at_once = !device->api->capture_begin, .reading_s = measure_reading() };
}

// --- micro-batches -------------------------------------------------------------------------------

ls_work_clock *ls_work_clock_begin_micro(ls_work_clock *clock) {
    clock->timing = clock->at_once && clock->untimed-- == 0;
    if (clock->timing) memset(clock->micro_s, 0, sizeof clock->micro_s);
    return clock->timing || (clock->timeline && ls_spans_on()) ? clock : NULL;
}

// Returns the number of micro-batches after this one that are not timed. It is computed from all earlier readings: the
// time of this micro-batch alone would be too long if its thread lost its core.
static int count_untimed(const ls_work_clock *clock) {
    const double cost = clock->timed_s > 0 ? clock->readings * clock->reading_s / clock->timed_s : 0;
    return cost < CLOCK_SHARE * UNTIMED_MOST ? (int)(cost / CLOCK_SHARE) : UNTIMED_MOST;
}

void ls_work_clock_end_micro(ls_work_clock *clock, int instructions) {
    if (!clock || !clock->timing) return;
    clock->untimed = count_untimed(clock);
    for (int k = 0; k < LS_OP_KIND_COUNT; k++) {
        clock->kind_s[k] += (1 + clock->untimed) * clock->micro_s[k];
        clock->timed_s += clock->micro_s[k];
    }
    clock->readings += 2 * instructions;
    clock->timing = 0;
}

// --- instructions and parts ----------------------------------------------------------------------

void ls_work_clock_begin_instruction(
    ls_work_clock *clock, const ls_plan *plan, int number, size_t bytes, ls_queue *queue) {
    const ls_op_desc *desc = &plan->desc;
    if (clock->timeline && ls_spans_on())
        ls_timeline_begin(clock->timeline,
            &(ls_span){ .lane = LS_SPANS_COMPUTE,
                .name = ls_op_name(desc->op),
                .detail = desc->layer,
                .algorithm = plan->algorithm,
                .number = number,
                .update = LS_SPANS_NO_UPDATE,
                .bytes = (double)bytes,
                .flops = ls_op_flops(desc) },
            queue);
    if (clock->timing) clock->start_s = ls_clock_seconds();
}

void ls_work_clock_end_instruction(ls_work_clock *clock, const ls_plan *plan, ls_queue *queue) {
    if (clock->timing) clock->micro_s[ls_op_kind_of(plan->desc.op)] += ls_clock_seconds() - clock->start_s;
    ls_timeline_end(clock->timeline, LS_SPANS_COMPUTE, queue);
}

void ls_work_clock_begin_part(ls_work_clock *clock, const char *name, ls_queue *queue) {
    if (clock->at_once) clock->start_s = ls_clock_seconds();
    ls_timeline_begin(clock->timeline,
        &(ls_span){ .lane = LS_SPANS_COMPUTE, .name = name, .number = -1, .update = LS_SPANS_NO_UPDATE }, queue);
}

void ls_work_clock_end_part(ls_work_clock *clock, ls_op_kind kind, ls_queue *queue) {
    if (clock->at_once) clock->kind_s[kind] += ls_clock_seconds() - clock->start_s;
    ls_timeline_end(clock->timeline, LS_SPANS_COMPUTE, queue);
}
