// work_clock.h - when a device computes, and for how long: seconds by kind of operator, and spans of a trace.
//
// Program and update call it around what they enqueue; only it knows clocks and timelines. On a device whose operators run at
// once it reads the clock around each instruction. If that would take more than a thousandth of a micro-batch, one timed
// micro-batch stands for several. On other devices only a trace says when work ran.
//
// A clock belongs to one update. It starts with ls_work_clock_begin, and only the thread that enqueues uses it. It owns
// nothing, allocates nothing, and cannot fail.
#ifndef LS_PROGRAM_WORK_CLOCK_H
#define LS_PROGRAM_WORK_CLOCK_H

#include "device/op_kind.h"
#include "device/timeline.h"

typedef struct ls_work_clock {
    ls_timeline *timeline;           // NULL: not traced. Borrowed; may be set between two updates
    int at_once;                     // operators have run when the call returns
    double kind_s[LS_OP_KIND_COUNT]; // seconds since the beginning, by kind; all 0 unless at_once
    // The rest is its own.
    int timing;                       // this micro-batch is timed
    double micro_s[LS_OP_KIND_COUNT]; // of the timed micro-batch
    double timed_s, readings;         // of all timed micro-batches: their seconds, and how often the clock was read
    double reading_s;                 // that one reading takes
    double start_s;                   // of the instruction or part under way
    int untimed;                      // micro-batches still to come that the last timed one stands for
} ls_work_clock;

void ls_work_clock_begin(ls_work_clock *clock, const ls_device *device);

// Around a micro-batch. begin returns the clock for ls_program_hooks, or NULL if neither a trace nor the clock wants to see
// its instructions; end takes what begin returned.
ls_work_clock *ls_work_clock_begin_micro(ls_work_clock *clock);
void ls_work_clock_end_micro(ls_work_clock *clock, int instructions);

// Around instruction `number` of a micro-batch; bytes: that it must move at least.
void ls_work_clock_begin_instruction(
    ls_work_clock *clock, const ls_plan *plan, int number, size_t bytes, ls_queue *queue);
void ls_work_clock_end_instruction(ls_work_clock *clock, const ls_plan *plan, ls_queue *queue);

// Around work outside of a program's instructions. name: a constant.
void ls_work_clock_begin_part(ls_work_clock *clock, const char *name, ls_queue *queue);
void ls_work_clock_end_part(ls_work_clock *clock, ls_op_kind kind, ls_queue *queue);

#endif
