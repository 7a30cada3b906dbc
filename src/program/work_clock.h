// work_clock.h - measures when a device computes and for how long: seconds by kind of operator, and spans of a trace.
//
// Program and update call it around the work that they enqueue. On a device whose operators have run when the call
// returns, it reads the clock around each instruction. If reading the clock would take more than a thousandth of the
// time, only some micro-batches are timed, and each of them stands for several. On other devices only a trace shows
// when work ran.
//
// A clock belongs to one update. It starts with ls_work_clock_begin, and only the thread that enqueues uses it. It owns
// nothing, allocates nothing, and cannot fail.
#ifndef LS_PROGRAM_WORK_CLOCK_H
#define LS_PROGRAM_WORK_CLOCK_H

#include "device/op_kind.h"
#include "device/timeline.h"

typedef struct ls_work_clock {
    ls_timeline *timeline;           // borrowed, may be set between two updates; NULL: no trace
    int at_once;                     // operators have run when the call returns
    double kind_s[LS_OP_KIND_COUNT]; // seconds since ls_work_clock_begin, by kind; all 0 unless at_once
    // private:
    int timing;                       // this micro-batch is timed
    double micro_s[LS_OP_KIND_COUNT]; // seconds of the timed micro-batch, by kind
    double timed_s, readings;         // all timed micro-batches: their seconds and number of clock readings
    double reading_s;                 // seconds that one reading of the clock takes
    double start_s;                   // start of the current instruction or part
    int untimed;                      // number of coming micro-batches that are not timed
} ls_work_clock;

void ls_work_clock_begin(ls_work_clock *clock, const ls_device *device);

// Begin and end a micro-batch. begin returns the clock for ls_program_hooks, or NULL if this micro-batch is neither
// timed nor traced. Pass its result to end.
ls_work_clock *ls_work_clock_begin_micro(ls_work_clock *clock);
void ls_work_clock_end_micro(ls_work_clock *clock, int instructions);

// Begin and end instruction `number` of a micro-batch. bytes: the least that the instruction moves.
void ls_work_clock_begin_instruction(
    ls_work_clock *clock, const ls_plan *plan, int number, size_t bytes, ls_queue *queue);
void ls_work_clock_end_instruction(ls_work_clock *clock, const ls_plan *plan, ls_queue *queue);

// Begin and end work outside a program's instructions. name: a string constant.
void ls_work_clock_begin_part(ls_work_clock *clock, const char *name, ls_queue *queue);
void ls_work_clock_end_part(ls_work_clock *clock, ls_op_kind kind, ls_queue *queue);

#endif
