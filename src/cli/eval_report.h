// eval_report.h - what `train eval` says of an evaluation in detail, to stdout.
#ifndef LS_CLI_EVAL_REPORT_H
#define LS_CLI_EVAL_REPORT_H

#include "run/evaluation.h"

// Lines "test_top5 0.9930" and "test_calibration_error 0.0131" (tta_, val_ or folder_, of what it is), then the classes that are
// recognised worst, with what they are most often taken for.
void ls_eval_print(const ls_evaluation *evaluation);
// All of it but the pictures, as one line of JSON. LS_STORAGE: it cannot be printed.
LS_CHECKED ls_status ls_eval_print_json(const ls_evaluation *evaluation);
// "test", "tta", "val" or "folder".
const char *ls_eval_prefix(const ls_evaluation *evaluation);

#endif
