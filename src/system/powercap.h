// powercap.h - the energy that this host's processors take, by the kernel's powercap files (RAPL, of Intel and AMD).
//
// Counted are the packages, and memory (dram) where it has a counter of its own, which no package's has in it. Not counted, as they
// are part of others: core and uncore of a package, psys (the whole platform), and intel-rapl-mmio, the same package once more. A
// package's energy is that of all that runs on it.
// A counter wraps around at max_energy_range_uj, on a busy server within minutes: a thread looks every ten seconds.
//
// Source: Documentation/power/powercap/powercap.rst and Documentation/ABI/testing/sysfs-class-powercap of the kernel.
#ifndef LS_SYSTEM_POWERCAP_H
#define LS_SYSTEM_POWERCAP_H

#include "base/status.h"

enum { LS_POWERCAP_WHY_BYTES = 320 };

typedef struct ls_powercap ls_powercap;

// Begins to count. root stands before /sys ("" outside tests). *out is NULL where not all of it can be read: why is one line then.
// LS_DEVICE: no thread.
LS_CHECKED ls_status ls_powercap_start(const char *root, ls_powercap **out, char why[LS_POWERCAP_WHY_BYTES]);
double ls_powercap_joules(ls_powercap *powercap); // since the start; NAN: a counter can be read no more
void ls_powercap_zones(const ls_powercap *powercap, int *packages, int *memories);
void ls_powercap_stop(ls_powercap *powercap); // NULL is allowed

#endif
