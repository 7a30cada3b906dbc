#include "system/monitor.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "system/ticker.h"
#include "system/library_search.h"

static const double period_s = 0.5;

// Declarations as in NVIDIA's nvml.h (NVML API reference). Functions return 0 for success.
typedef struct nvml_device *nvml_device;
typedef struct {
    unsigned gpu, memory; // per cent of the time in which the unit was busy
} nvml_utilization;
typedef struct {
    unsigned long long total, free, used;
} nvml_memory;
enum { NVML_TEMPERATURE_GPU = 0, NVML_CLOCK_SM = 1 };

typedef struct {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_uuid)(const char *uuid, nvml_device *device);
    int (*by_pci)(const char *pci, nvml_device *device);
    int (*utilization)(nvml_device device, nvml_utilization *rates);
    int (*memory)(nvml_device device, nvml_memory *memory);
    int (*power)(nvml_device device, unsigned *milliwatts);
    int (*temperature)(nvml_device device, int sensor, unsigned *celsius);
    int (*clock)(nvml_device device, int type, unsigned *mhz);
    int (*slowed)(nvml_device device, unsigned long long *reasons);
    int (*energy)(nvml_device device, unsigned long long *millijoules); // since the driver was loaded; from Volta on
} nvml_api;

struct ls_gpu_monitor {
    nvml_api nvml;
    char uuid[48], pci[16];
    ls_ticker *ticker;
    int queried, initialised, found; // 1: nvml.init was called; it succeeded; `device` is valid
    nvml_device device;
    double sampled_s;                     // host clock when the last sample was taken
    unsigned long long first_millijoules; // the card's energy counter at the first sample
    pthread_mutex_t lock;                 // protects the members below
    ls_gpu_sample last, all;
    double utilisation_sum, clock_sum;
    int64_t utilisation_count, clock_count;
};

static int find_functions(nvml_api *nvml) {
    ls_library_file file;
    *nvml = (nvml_api){ .init = NULL };
    if (!ls_library_search_open(getenv("LD_LIBRARY_PATH"), 1, "libnvidia-ml.so.1", &file)) return 0;
    void *handle = file.handle;
    if (!ls_library_search_find(handle, "nvmlInit_v2", &nvml->init)) return 0;
    ls_library_search_find(handle, "nvmlShutdown", &nvml->shutdown);
    ls_library_search_find(handle, "nvmlDeviceGetHandleByUUID", &nvml->by_uuid);
    ls_library_search_find(handle, "nvmlDeviceGetHandleByPciBusId_v2", &nvml->by_pci);
    ls_library_search_find(handle, "nvmlDeviceGetUtilizationRates", &nvml->utilization);
    ls_library_search_find(handle, "nvmlDeviceGetMemoryInfo", &nvml->memory);
    ls_library_search_find(handle, "nvmlDeviceGetPowerUsage", &nvml->power);
    ls_library_search_find(handle, "nvmlDeviceGetTemperature", &nvml->temperature);
    ls_library_search_find(handle, "nvmlDeviceGetClockInfo", &nvml->clock);
    // renamed in NVML 12
    if (!ls_library_search_find(handle, "nvmlDeviceGetCurrentClocksEventReasons", &nvml->slowed))
        ls_library_search_find(handle, "nvmlDeviceGetCurrentClocksThrottleReasons", &nvml->slowed);
    ls_library_search_find(handle, "nvmlDeviceGetTotalEnergyConsumption", &nvml->energy);
    return 1;
}

static int find_device(const ls_gpu_monitor *m, nvml_device *device) {
    if (m->uuid[0] && m->nvml.by_uuid && m->nvml.by_uuid(m->uuid, device) == 0) return 1;
    return m->pci[0] && m->nvml.by_pci && m->nvml.by_pci(m->pci, device) == 0;
}

static ls_gpu_sample take_sample(const nvml_api *nvml, nvml_device device) {
    const unsigned long long known = LS_GPU_SLOWED_POWER_CAP | LS_GPU_SLOWED_HARDWARE | LS_GPU_SLOWED_HEAT |
                                     LS_GPU_SLOWED_HEAT_HARDWARE | LS_GPU_SLOWED_POWER_BRAKE;
    ls_gpu_sample s = { 1, NAN, NAN, NAN, NAN, NAN, 0, NAN, 0 };
    nvml_utilization rates;
    nvml_memory memory;
    unsigned value;
    unsigned long long reasons;
    if (nvml->utilization && nvml->utilization(device, &rates) == 0) s.utilisation = rates.gpu / 100.0;
    if (nvml->memory && nvml->memory(device, &memory) == 0) s.memory_bytes = (double)memory.used;
    if (nvml->power && nvml->power(device, &value) == 0) s.power_watts = value / 1000.0;
    if (nvml->temperature && nvml->temperature(device, NVML_TEMPERATURE_GPU, &value) == 0) s.temperature_c = value;
    if (nvml->clock && nvml->clock(device, NVML_CLOCK_SM, &value) == 0) s.clock_mhz = value;
    if (nvml->slowed && nvml->slowed(device, &reasons) == 0) s.slowed = reasons & known;
    return s;
}

// Sets the sample's energy since the first sample: from the card's counter if the first sample had one, else by
// integrating the power.
static void add_energy(ls_gpu_monitor *m, ls_gpu_sample *s) {
    const double now = ls_clock_seconds(), since = now - m->sampled_s;
    const int first = m->last.samples == 0;
    unsigned long long millijoules = 0;
    const int counted = m->nvml.energy && m->nvml.energy(m->device, &millijoules) == 0;
    m->sampled_s = now;
    if (first) m->first_millijoules = millijoules;
    s->integrated = first ? !counted : m->last.integrated;
    if (s->integrated)
        s->joules = first ? 0 * s->power_watts : m->last.joules + since * (m->last.power_watts + s->power_watts) / 2;
    else if (counted && millijoules >= m->first_millijoules)
        s->joules = 1e-3 * (double)(millijoules - m->first_millijoules);
}

static double higher(double a, double b) {
    return isnan(a) || b > a ? b : a;
}

static double running_mean(double value, double *sum, int64_t *count) {
    if (!isnan(value)) {
        *sum += value;
        ++*count;
    }
    return *count > 0 ? *sum / (double)*count : NAN;
}

static void add_sample(ls_gpu_monitor *m, ls_gpu_sample s) {
    s.samples = m->last.samples + 1;
    m->all.samples = s.samples;
    m->all.utilisation = running_mean(s.utilisation, &m->utilisation_sum, &m->utilisation_count);
    m->all.clock_mhz = running_mean(s.clock_mhz, &m->clock_sum, &m->clock_count);
    m->all.memory_bytes = higher(m->all.memory_bytes, s.memory_bytes);
    m->all.power_watts = higher(m->all.power_watts, s.power_watts);
    m->all.temperature_c = higher(m->all.temperature_c, s.temperature_c);
    m->all.slowed |= s.slowed;
    m->all.joules = s.joules;
    m->all.integrated = s.integrated;
    m->last = s;
}

static void watch(void *context) {
    ls_gpu_monitor *m = context;
    if (!m->queried) { // done in this thread because it takes long
        m->queried = 1;
        m->initialised = m->nvml.init() == 0;
        m->found = m->initialised && find_device(m, &m->device);
    }
    if (!m->found) return;
    ls_gpu_sample sample = take_sample(&m->nvml, m->device);
    add_energy(m, &sample);
    pthread_mutex_lock(&m->lock);
    add_sample(m, sample);
    pthread_mutex_unlock(&m->lock);
}

ls_gpu_monitor *ls_gpu_monitor_start(const char *uuid, const char *pci) {
    nvml_api nvml;
    if (!find_functions(&nvml)) return NULL;
    ls_gpu_monitor *m = ls_new(1, sizeof *m, "GPU monitor");
    m->nvml = nvml;
    m->last = m->all = (ls_gpu_sample){ 0, NAN, NAN, NAN, NAN, NAN, 0, NAN, 0 };
    snprintf(m->uuid, sizeof m->uuid, "%s", uuid);
    snprintf(m->pci, sizeof m->pci, "%s", pci);
    pthread_mutex_init(&m->lock, NULL);
    if (ls_failed(ls_ticker_start("GPU monitor", period_s, watch, m, &m->ticker))) {
        ls_gpu_monitor_stop(m);
        return NULL;
    }
    return m;
}

void ls_gpu_monitor_read(ls_gpu_monitor *monitor, ls_gpu_sample *last, ls_gpu_sample *all) {
    pthread_mutex_lock(&monitor->lock);
    if (last) *last = monitor->last;
    if (all) *all = monitor->all;
    pthread_mutex_unlock(&monitor->lock);
}

void ls_gpu_monitor_stop(ls_gpu_monitor *monitor) {
    if (!monitor) return;
    ls_ticker_stop(monitor->ticker);
    if (monitor->initialised && monitor->nvml.shutdown) monitor->nvml.shutdown();
    pthread_mutex_destroy(&monitor->lock);
    free(monitor);
}

char *ls_gpu_slowed_text(uint64_t slowed, char *text) {
    static const struct {
        uint64_t bit;
        const char *word;
    } rows[] = { { LS_GPU_SLOWED_POWER_CAP, "power cap" }, { LS_GPU_SLOWED_HARDWARE, "hardware" },
        { LS_GPU_SLOWED_HEAT, "heat" }, { LS_GPU_SLOWED_HEAT_HARDWARE, "heat (hardware)" },
        { LS_GPU_SLOWED_POWER_BRAKE, "power brake" } };
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (slowed & rows[i].bit)
            used += (size_t)snprintf(text + used, 96 - used, "%s%s", used ? ", " : "", rows[i].word);
    return text;
}
