// device.cc - settings, errors and the device itself.
#include "emulation.h"

#include <stdarg.h>
#include <string.h>
#include <chrono>
#include <thread>

namespace emu {

settings &config = *new settings; // never freed: the program's end may still use the device
static auto &settings_read = *new std::string;
static auto &world = *new std::recursive_mutex;
static int world_depth;       // of the thread that holds it
static double world_left_at;  // when a thread left it last
static uint64_t random_state;
static bool started;
static cudaError_t sticky_error = cudaSuccess;
static thread_local cudaError_t last_error = cudaSuccess;
static thread_local int device_of_thread = 0;

void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("emulated CUDA: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    fflush(stderr);
    abort();
}

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

world_lock::world_lock(bool host) : host_(host) {
    world.lock();
    world_depth++;
}

world_lock::~world_lock() {
    if (--world_depth == 0 && host_) world_left_at = seconds_now();
    world.unlock();
}

void leave_world_for(double seconds) {
    int held = world_depth;
    world_depth = 0;
    for (int i = 0; i < held; i++) world.unlock();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    for (int i = 0; i < held; i++) world.lock();
    world_depth = held;
}

bool world_is_idle() { return seconds_now() - world_left_at > 1e-3 * static_cast<double>(config.idle); }

uint64_t random_bits() { // splitmix64
    uint64_t z = random_state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

size_t random_below(size_t n) { return static_cast<size_t>(random_bits() % n); }

shuffled::shuffled(size_t n) : n_(n), at_(random_below(n)), step_(1 + random_below(n)) {
    auto divisor = [](size_t a, size_t b) {
        while (b) {
            size_t rest = a % b;
            a = b, b = rest;
        }
        return a;
    };
    while (divisor(step_, n_) != 1) step_++;
}

size_t shuffled::next() {
    size_t here = at_;
    at_ = (at_ + step_) % n_;
    return here;
}

// ---- the card

static const card cards[] = {
    { 70, 96 << 10, 1, false },   // V100
    { 75, 64 << 10, 1, false },   // T4, RTX 20
    { 80, 163 << 10, 1, true },   // A100
    { 86, 99 << 10, 1, true },    // RTX 30
    { 89, 99 << 10, 1, true },    // RTX 40, L4
    { 90, 227 << 10, 8, true },   // H100, H200, GH200
    { 100, 227 << 10, 8, true },  // B200
    { 103, 227 << 10, 8, true },  // B300
    { 120, 99 << 10, 8, true },   // RTX 50
    { 121, 99 << 10, 8, true },   // DGX Spark
    { 60, 48 << 10, 1, false },   // P100: too old
};

const card &card_now() {
    for (const card &c : cards)
        if (c.sm == config.sm) return c;
    die("LOCKSTEP_EMULATION: sm=%ld: no card of this compute capability is described (device.cc)", config.sm);
}

// ---- LOCKSTEP_EMULATION

static long number_of(const std::string &key, const std::string &value) {
    char *end = nullptr;
    double number = strtod(value.c_str(), &end);
    std::string unit = end ? end : "";
    if (unit == "K") number *= 1024;
    if (unit == "M") number *= 1024 * 1024;
    if (unit == "G") number *= 1024.0 * 1024 * 1024;
    if (value.empty() || number < 0 || (unit != "" && unit != "K" && unit != "M" && unit != "G"))
        die("LOCKSTEP_EMULATION: %s=%s: expected a number, with K, M or G for bytes", key.c_str(), value.c_str());
    return static_cast<long>(number);
}

static void set(settings *into, const std::string &key, const std::string &value) {
    const struct {
        const char *key;
        long *number;
    } numbers[] = {
        { "devices", &into->devices },
        { "sm", &into->sm },
        { "multiprocessors", &into->multiprocessors },
        { "driver", &into->driver },
        { "runtime", &into->runtime },
        { "malloc_fail", &into->malloc_fail },
        { "launch_fail", &into->launch_fail },
        { "drop_wait", &into->drop_wait },
        { "backlog", &into->backlog },
        { "protect", &into->protect },
        { "dry", &into->dry },
        { "collective", &into->collective },
        { "collective_version", &into->collective_version },
        { "collective_rank", &into->collective_rank },
        { "collective_delay", &into->collective_delay },
        { "collective_fail", &into->collective_fail },
        { "collective_hang", &into->collective_hang },
        { "collective_open_fail", &into->collective_open_fail },
        { "idle", &into->idle },
        { "report", &into->report },
    };
    for (const auto &row : numbers) {
        if (key == row.key) {
            *row.number = number_of(key, value);
            return;
        }
    }
    if (key == "seed") {
        into->seed = static_cast<uint64_t>(number_of(key, value));
    } else if (key == "memory") {
        into->memory = static_cast<size_t>(number_of(key, value));
    } else if (key == "name") {
        into->name = value;
    } else if (key == "skip_barrier") {
        into->skip_barrier = value;
    } else if (key == "nodes") {
        into->nodes = value;
    } else {
        die("LOCKSTEP_EMULATION: '%s' is no setting; there are seed, memory, devices, sm, multiprocessors, driver, "
            "runtime, name, malloc_fail, launch_fail, drop_wait, skip_barrier, backlog, protect, dry, nodes, idle, report, collective, "
            "collective_version, collective_rank, collective_delay, collective_fail, collective_hang, collective_open_fail",
            key.c_str());
    }
}

static settings parse(const std::string &text) {
    settings parsed;
    for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find(',', at), text.size()), equals = text.find('=', at);
        if (equals >= end) die("LOCKSTEP_EMULATION: '%s': expected key=value", text.substr(at, end - at).c_str());
        set(&parsed, text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1));
        at = end + 1;
    }
    return parsed;
}

// CUDA_VISIBLE_DEVICES, by numbers: those before the first that names no device.
static void show_devices(settings *into) {
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    for (int device = 0; !text && device < into->devices; device++) into->visible.push_back(device);
    while (text && *text) {
        char *end = nullptr;
        long device = strtol(text, &end, 10);
        if (end == text || device < 0 || device >= into->devices) break;
        into->visible.push_back(static_cast<int>(device));
        text = *end == ',' ? end + 1 : "";
    }
}

void start_anew() {
    const char *text = getenv("LOCKSTEP_EMULATION");
    settings_read = text ? text : "";
    config = parse(settings_read);
    show_devices(&config);
    random_state = config.seed * 0xD1342543DE82EF95u;
    sticky_error = last_error = cudaSuccess;
    device_of_thread = 0;
    streams_forget_all();
    memory_forget_all();
    blocks_forget_all();
    started = true;
}

void start_if_unused() {
    if (memory_alive() == 0 && streams_alive() == 0) start_anew();
}

// ---- errors

void set_sticky(cudaError_t error) {
    if (sticky_error == cudaSuccess) sticky_error = error;
}
cudaError_t sticky() { return sticky_error; }
void keep_last_error(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
}
int current_device() { return device_of_thread; }

static cudaError_t driver_error() {
    if (config.driver < 13000) return cudaErrorInsufficientDriver;
    if (config.visible.empty()) return cudaErrorNoDevice;
    return cudaSuccess;
}

cudaError_t call(const std::function<cudaError_t()> &body) {
    world_lock guard;
    if (!started) {
        start_anew();
    } else {
        const char *text = getenv("LOCKSTEP_EMULATION");
        if (settings_read != (text ? text : "")) start_if_unused();
    }
    cudaError_t error = driver_error();
    if (error == cudaSuccess) {
        error = body();
        if (sticky_error != cudaSuccess) error = sticky_error; // the body ran: what is freed is freed
    }
    keep_last_error(error);
    return error;
}

} // namespace emu

using emu::call;
using emu::config;

cudaError_t cudaGetLastError(void) {
    cudaError_t error = cudaPeekAtLastError();
    emu::last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    (void)call([] { return cudaSuccess; }); // a sticky error becomes the last one
    return emu::last_error;
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define EMU_TEXT(number, name, text) \
    case name: \
        return text;
        EMU_CUDA_ERRORS(EMU_TEXT)
#undef EMU_TEXT
    }
    return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define EMU_NAME(number, name, text) \
    case name: \
        return #name;
        EMU_CUDA_ERRORS(EMU_NAME)
#undef EMU_NAME
    }
    return "unrecognized error code";
}

// ---- the device

static int count_devices() { return static_cast<int>(config.visible.size()); }
static bool is_device(int device) { return device >= 0 && device < count_devices(); }

cudaError_t cudaGetDeviceCount(int *count) {
    emu::world_lock guard;
    emu::start_if_unused(); // a program that starts over finds a device that does
    *count = 0; // the real one too sets it when it fails
    return call([=] {
        *count = count_devices();
        return cudaSuccess;
    });
}

cudaError_t cudaSetDevice(int device) {
    return call([=] {
        if (!is_device(device)) return cudaErrorInvalidDevice;
        emu::device_of_thread = device;
        return cudaSuccess;
    });
}

cudaError_t cudaGetDevice(int *device) {
    return call([=] {
        *device = emu::device_of_thread;
        return cudaSuccess;
    });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    return call([=] {
        if (!is_device(device)) return cudaErrorInvalidDevice;
        cudaDeviceProp p = {};
        int card = config.visible[static_cast<size_t>(device)];
        snprintf(p.name, sizeof p.name, "%s", config.name.c_str());
        memcpy(p.uuid.bytes, "emulated", 8);
        p.uuid.bytes[15] = static_cast<char>(card);
        p.totalGlobalMem = config.memory;
        p.sharedMemPerBlock = 48 << 10;
        p.sharedMemPerBlockOptin = emu::card_now().shared_bytes;
        p.totalConstMem = 64 << 10;
        p.regsPerBlock = 65536;
        p.warpSize = 32;
        p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
        p.maxThreadsDim[2] = 64;
        p.maxGridSize[0] = INT_MAX;
        p.maxGridSize[1] = p.maxGridSize[2] = 65535;
        p.major = static_cast<int>(config.sm / 10);
        p.minor = static_cast<int>(config.sm % 10);
        p.multiProcessorCount = static_cast<int>(config.multiprocessors);
        p.maxThreadsPerMultiProcessor = 2048;
        p.l2CacheSize = 50 << 20;
        p.pciBusID = 1 + card;
        p.asyncEngineCount = 2;
        p.concurrentKernels = p.unifiedAddressing = p.cooperativeLaunch = 1;
        *properties = p;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    return call([=] {
        if (!is_device(device)) return cudaErrorInvalidDevice;
        const struct {
            cudaDeviceAttr attribute;
            int value;
        } table[] = {
            { cudaDevAttrMaxThreadsPerBlock, 1024 },
            { cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10 },
            { cudaDevAttrWarpSize, 32 },
            { cudaDevAttrClockRate, 1980000 },
            { cudaDevAttrMultiProcessorCount, static_cast<int>(config.multiprocessors) },
            { cudaDevAttrMemoryClockRate, 2619000 },
            { cudaDevAttrGlobalMemoryBusWidth, 5120 },
            { cudaDevAttrL2CacheSize, 1 << 20 },
            { cudaDevAttrMaxThreadsPerMultiProcessor, 2048 },
            { cudaDevAttrComputeCapabilityMajor, static_cast<int>(config.sm / 10) },
            { cudaDevAttrComputeCapabilityMinor, static_cast<int>(config.sm % 10) },
        };
        for (const auto &row : table) {
            if (row.attribute == attribute) {
                *value = row.value;
                return cudaSuccess;
            }
        }
        return cudaErrorInvalidValue;
    });
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device) {
    return call([=] {
        if (!is_device(device)) return cudaErrorInvalidDevice;
        if (bytes < 13) return cudaErrorInvalidValue;
        snprintf(text, static_cast<size_t>(bytes), "0000:%02x:00.0",
            1u + static_cast<unsigned>(config.visible[static_cast<size_t>(device)]));
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceReset(void) {
    emu::world_lock guard;
    emu::start_anew();
    return emu::driver_error();
}

cudaError_t cudaDriverGetVersion(int *version) {
    (void)call([] { return cudaSuccess; }); // reads the settings; this call works without a driver
    *version = static_cast<int>(config.driver);
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    (void)call([] { return cudaSuccess; });
    *version = static_cast<int>(config.runtime);
    return cudaSuccess;
}
