// report.h - the costs of a network on a microcontroller, before it is deployed (`train export --report`): constants,
// buffers, multiplications of each layer, and an estimate of processor cycles.
#ifndef LS_DEPLOY_REPORT_H
#define LS_DEPLOY_REPORT_H

#include <stdio.h>
#include "deploy/network.h"

// Prints the report. The cycles are an estimate (docs/deploy.md) from the table of cycles in report.c.
void ls_deploy_report(const ls_network *network, FILE *file);

#endif
