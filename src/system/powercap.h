// powercap.h - the energy used by this host's processors, from the kernel's powercap files (RAPL of Intel and AMD).
//
// The sum contains the packages, and the memory (dram) if it has its own counter, because no package includes it. It
// does not contain counters that are part of others: core and uncore of a package, psys (the whole platform), and
// intel-rapl-mmio, which repeats a package. A package's energy includes all programs that run on it. A counter wraps
// around at max_energy_range_uj, on a busy server within minutes, so a thread reads all counters every ten seconds.
//
// Source: Documentation/power/powercap/powercap.rst and Documentation/ABI/testing/sysfs-class-powercap of the kernel.
#ifndef LS_SYSTEM_POWERCAP_H
#define LS_SYSTEM_POWERCAP_H

#include "base/status.h"

enum { LS_POWERCAP_WHY_BYTES = 320 };

typedef struct ls_powercap ls_powercap;

// Starts counting. root is put before /sys ("" outside tests). If the counters cannot be read, the status is still
// success, *out is NULL and `why` is one line that tells the reason. LS_DEVICE if no thread can be started.
LS_CHECKED ls_status ls_powercap_start(const char *root, ls_powercap **out, char why[LS_POWERCAP_WHY_BYTES]);
double ls_powercap_joules(ls_powercap *powercap); // since the start; NAN: a counter has become unreadable
void ls_powercap_zones(const ls_powercap *powercap, int *packages, int *memories);
void ls_powercap_stop(ls_powercap *powercap); // NULL is allowed

#endif
