#include "system/powercap.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "system/ticker.h"

static const double period_s = 10;
static const char prefix[] = "intel-rapl:"; // AMD uses the same prefix

enum { PATH_BYTES = 1024, ZONE_BYTES = 64 };

typedef struct {
    char name[ZONE_BYTES]; // name of the zone's folder
    uint64_t last, range;  // the last reading, and the value at which the counter wraps around; in microjoules
} zone;

struct ls_powercap {
    char folder[PATH_BYTES];
    zone *zones;
    int packages, memories; // numbers of zones of each kind
    ls_ticker *ticker;
    pthread_mutex_t lock; // protects the members below, and zones
    uint64_t microjoules;
    int lost; // 1: a counter could not be read
};

// --- files ---------------------------------------------------------------------------------------

// Reads the first line of a zone's file. Returns 0 with errno if that fails.
static int read_text(const ls_powercap *p, const char *zone_name, const char *file_name, char *text, int bytes) {
    char path[PATH_BYTES + ZONE_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s/%s", p->folder, zone_name, file_name);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    errno = 0;
    const int there = fgets(text, bytes, file) != NULL;
    const int error = errno ? errno : EINVAL;
    fclose(file);
    errno = error;
    return there;
}

static int read_number(const ls_powercap *p, const char *zone_name, const char *file_name, uint64_t *value) {
    char text[32], *end;
    if (!read_text(p, zone_name, file_name, text, sizeof text)) return 0;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && (*end == '\n' || *end == '\0') && errno == 0) return 1;
    errno = EINVAL;
    return 0;
}

// --- zones ---------------------------------------------------------------------------------------

// Whether a zone counts. "intel-rapl:0" is a package or the platform; "intel-rapl:0:2" is a part of zone 0.
static int counts(const char *folder_name, const char *zone_name, int *is_package) {
    *is_package = strncmp(zone_name, "package-", 8) == 0;
    const int part = strchr(folder_name + strlen(prefix), ':') != NULL;
    return part ? strncmp(zone_name, "dram", 4) == 0 : *is_package;
}

static void explain(const ls_powercap *p, const zone *z, const char *file_name, char why[LS_POWERCAP_WHY_BYTES]) {
    if (errno == EACCES || errno == EPERM)
        ls_text_cut(why, LS_POWERCAP_WHY_BYTES,
            "%.100s/%s/%s: %s (since Linux 5.10 it is root's; an administrator can allow it until the next start by "
            "chmod a+r "
            "/sys/class/powercap/intel-rapl:*/energy_uj)",
            p->folder, z->name, file_name, strerror(errno));
    else
        ls_text_cut(why, LS_POWERCAP_WHY_BYTES, "%.100s/%s/%s: cannot be read as a number: %s", p->folder, z->name,
            file_name, strerror(errno));
}

static void add_zone(ls_powercap *p, const char *name, char why[LS_POWERCAP_WHY_BYTES]) {
    char text[ZONE_BYTES];
    int is_package;
    if (strncmp(name, prefix, strlen(prefix)) != 0 || strlen(name) >= ZONE_BYTES) return;
    if (!read_text(p, name, "name", text, sizeof text) || !counts(name, text, &is_package)) return;
    const int count = p->packages + p->memories;
    p->zones = ls_grow(p->zones, count, sizeof *p->zones, "energy counters");
    zone *z = &p->zones[count];
    *z = (zone){ .range = 0 };
    snprintf(z->name, sizeof z->name, "%s", name);
    if (is_package)
        p->packages++;
    else
        p->memories++;
    if (!read_number(p, name, "energy_uj", &z->last))
        explain(p, z, "energy_uj", why);
    else if (!read_number(p, name, "max_energy_range_uj", &z->range))
        explain(p, z, "max_energy_range_uj", why);
}

static void find_zones(ls_powercap *p, char why[LS_POWERCAP_WHY_BYTES]) {
    DIR *entries = opendir(p->folder);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) add_zone(p, entry->d_name, why);
    if (entries) closedir(entries);
    if (!why[0] && p->packages == 0)
        ls_text_cut(why, LS_POWERCAP_WHY_BYTES,
            "no %.100s/intel-rapl:*: the kernel shows no energy counter of this processor (as in most virtual "
            "machines)",
            p->folder);
}

// --- counting ------------------------------------------------------------------------------------

static void look(void *context) {
    ls_powercap *p = context;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->packages + p->memories && !p->lost; i++) {
        zone *z = &p->zones[i];
        uint64_t now;
        p->lost = !read_number(p, z->name, "energy_uj", &now);
        if (p->lost) break;
        const uint64_t to_wrap = z->range > z->last ? z->range - z->last : 0;
        p->microjoules += now >= z->last ? now - z->last : to_wrap + now;
        z->last = now;
    }
    pthread_mutex_unlock(&p->lock);
}

static void free_powercap(ls_powercap *p) {
    pthread_mutex_destroy(&p->lock);
    free(p->zones);
    free(p);
}

ls_status ls_powercap_start(const char *root, ls_powercap **out, char why[LS_POWERCAP_WHY_BYTES]) {
    ls_powercap *p = ls_new(1, sizeof *p, "energy counters");
    ls_status status = LS_SUCCESS;
    *out = NULL;
    why[0] = '\0';
    pthread_mutex_init(&p->lock, NULL);
    snprintf(p->folder, sizeof p->folder, "%s/sys/class/powercap", root);
    find_zones(p, why);
    if (!why[0]) status = ls_ticker_start("energy counters", period_s, look, p, &p->ticker);
    if (ls_failed(status) || why[0])
        free_powercap(p);
    else
        *out = p;
    return status;
}

double ls_powercap_joules(ls_powercap *powercap) {
    look(powercap);
    pthread_mutex_lock(&powercap->lock);
    const double joules = powercap->lost ? NAN : 1e-6 * (double)powercap->microjoules;
    pthread_mutex_unlock(&powercap->lock);
    return joules;
}

void ls_powercap_zones(const ls_powercap *powercap, int *packages, int *memories) {
    *packages = powercap->packages;
    *memories = powercap->memories;
}

void ls_powercap_stop(ls_powercap *powercap) {
    if (!powercap) return;
    ls_ticker_stop(powercap->ticker);
    free_powercap(powercap);
}
