// eval_report.h - prints the details of an evaluation for `train eval`.
#ifndef LS_CLI_EVAL_REPORT_H
#define LS_CLI_EVAL_REPORT_H

#include "run/evaluation.h"

// Prints the details of an evaluation: "test_top5 0.9930" (with more than 5 classes) and "test_calibration_error
// 0.0131", or with several labels a picture "test_macro_f1 0.8312". Then come up to 5 classes that are recognised
// worst, each with the class that it is most often taken for. The prefix "test" stands for that of ls_eval_prefix.
void ls_eval_print(const ls_evaluation *evaluation);
// Prints the evaluation without its pictures as one line of JSON. LS_STORAGE: it cannot be printed.
LS_CHECKED ls_status ls_eval_print_json(const ls_evaluation *evaluation);
// Returns the prefix of the printed names: "test", "tta", "val" or "folder".
const char *ls_eval_prefix(const ls_evaluation *evaluation);

#endif
