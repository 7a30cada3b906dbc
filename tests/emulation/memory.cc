// memory.cc - device memory, pinned host memory, copies.
//
// Device memory lies in reserved address space whose pages nobody may touch but while kernels and copies run: host code
// that reads it dies at the spot. Every allocation has pages of its own with an untouchable page before and behind; its
// last page is filled up with a pattern that is checked (ASan: made untouchable to the byte). Addresses are not used
// again, so what was freed stays untouchable. New memory holds 0xFF: NaN.
#include "emulation.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <map>
#include <vector>
#ifdef EMU_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace emu {

struct allocation {
    size_t bytes;
    int device;
};

static const size_t PAGE = 4096, RESERVED = size_t{ 16 } << 30;
static const unsigned char UNUSED = 0xC5;
static auto &device_memory = *new std::map<char *, allocation>; // never freed: the program's end may still use them
static auto &pinned_memory = *new std::map<char *, allocation>;
static auto &used = *new std::map<int, size_t>; // by device
static char *free_address, *reserved_end;
static long allocations; // of both kinds, counted for malloc_fail
static int opened;

static size_t pages_of(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

// ---- who may touch it

static void protect(int rights) {
    if (!config.protect) return;
    for (const auto &a : device_memory) mprotect(a.first, pages_of(a.second.bytes), rights);
}

static void check_ends() {
#ifndef EMU_ASAN
    static const std::string untouched(PAGE, static_cast<char>(UNUSED));
    for (const auto &a : device_memory) {
        size_t rest = pages_of(a.second.bytes) - a.second.bytes;
        if (memcmp(a.first + a.second.bytes, untouched.data(), rest) != 0)
            die("a write behind an allocation of %zu bytes of device memory, by %s or before it", a.second.bytes,
                now_running);
    }
#endif
}

device_memory_open::device_memory_open() {
    if (opened++ == 0) protect(PROT_READ | PROT_WRITE);
}

device_memory_open::~device_memory_open() {
    if (--opened > 0) return;
    check_ends();
    protect(PROT_NONE);
}

// Says what happened before the process dies of it (or ASan reports it).
static struct sigaction before;
static char *watched_first, *watched_end;

static void say(const char *text) { // fit for a signal handler
    if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(1);
}

static void explain_fault(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    char *address = static_cast<char *>(info->si_addr);
    if (address >= watched_first && address < watched_end) {
        say("emulated CUDA: device memory that nobody may touch here was touched by ");
        say(opened ? now_running : "host code: only kernels and copies may touch device memory");
        say("\n");
    }
    sigaction(SIGSEGV, &before, nullptr); // and the instruction faults again
}

static void reserve(size_t bytes) {
    bytes = std::max(bytes, RESERVED);
    void *space = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) die("no address space for %zu bytes of device memory", bytes);
    free_address = static_cast<char *>(space);
    reserved_end = free_address + bytes;
    if (!watched_first) {
        struct sigaction action = {};
        action.sa_sigaction = explain_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(SIGSEGV, &action, &before);
    }
    watched_first = free_address;
    watched_end = reserved_end;
}

// ---- allocations

static char *device_new(size_t bytes) {
    size_t pages = pages_of(bytes);
    if (static_cast<size_t>(reserved_end - free_address) < pages + 2 * PAGE) reserve(pages + 2 * PAGE);
    char *address = free_address + PAGE;
    free_address = address + pages;
    if (mprotect(address, pages, PROT_READ | PROT_WRITE) != 0) die("no memory for %zu bytes of device memory", bytes);
    if (!config.dry) memset(address, 0xFF, bytes); // else zero, and pages that nobody has touched take no memory
    memset(address + bytes, UNUSED, pages - bytes);
#ifdef EMU_ASAN
    ASAN_POISON_MEMORY_REGION(address + bytes, pages - bytes);
#endif
    if (!opened && config.protect) mprotect(address, pages, PROT_NONE);
    return address;
}

static void device_delete(char *address, size_t bytes) { // the address space stays
    size_t pages = pages_of(bytes);
    mmap(address, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
#ifdef EMU_ASAN
    ASAN_UNPOISON_MEMORY_REGION(address, pages);
#endif
}

size_t memory_alive() { return device_memory.size() + pinned_memory.size(); }

void memory_forget_all() {
    for (const auto &a : device_memory) device_delete(a.first, a.second.bytes);
    for (const auto &a : pinned_memory) free(a.first);
    device_memory.clear();
    pinned_memory.clear();
    used.clear();
    allocations = 0;
}

static cudaError_t may_allocate() {
    if (sticky() != cudaSuccess) return sticky();
    cudaError_t error = unsafe_call();
    if (error == cudaSuccess && ++allocations == config.malloc_fail) error = cudaErrorMemoryAllocation;
    return error;
}

// ---- copies

enum class place { PAGEABLE, PINNED, DEVICE, OUTSIDE };

static place place_in(const std::map<char *, allocation> &all, place inside, const char *address, size_t bytes) {
    auto after = all.upper_bound(const_cast<char *>(address));
    if (after == all.begin()) return place::PAGEABLE;
    const auto &a = *std::prev(after);
    size_t offset = static_cast<size_t>(address - a.first);
    if (offset >= a.second.bytes) return place::PAGEABLE;
    return bytes <= a.second.bytes - offset ? inside : place::OUTSIDE;
}

static place place_of(const void *address, size_t bytes) {
    const char *at = static_cast<const char *>(address);
    place found = place_in(device_memory, place::DEVICE, at, bytes);
    return found != place::PAGEABLE ? found : place_in(pinned_memory, place::PINNED, at, bytes);
}

static bool on_device(place p) { return p == place::DEVICE; }

struct copy {
    place dst, src;
    cudaError_t error;
};

static copy look_at_copy(const void *dst, const void *src, size_t bytes, cudaMemcpyKind kind) {
    copy c = { place_of(dst, bytes), place_of(src, bytes), cudaSuccess };
    if (c.dst == place::OUTSIDE || c.src == place::OUTSIDE || !dst || !src) c.error = cudaErrorInvalidValue;
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (static_cast<unsigned>(kind) > cudaMemcpyDefault) c.error = cudaErrorInvalidMemcpyDirection;
    if (kind != cudaMemcpyDefault && (to_device != on_device(c.dst) || from_device != on_device(c.src)))
        c.error = cudaErrorInvalidValue;
    return c;
}

// A pageable source has been read when this returns; a pinned one is read when its turn comes, as late as that may be.
static cudaError_t enqueue_copy(void *dst, const void *src, size_t bytes, const copy &c, cudaStream_t stream) {
    if (c.src != place::PAGEABLE) return enqueue(stream, "copy", false, [=] { memmove(dst, src, bytes); });
    const unsigned char *from = static_cast<const unsigned char *>(src);
    std::vector<unsigned char> staged(from, from + bytes);
    return enqueue(stream, "copy", false, [=] { memcpy(dst, staged.data(), staged.size()); });
}

} // namespace emu

using emu::call;
using emu::config;

cudaError_t cudaMalloc(void **address, size_t bytes) {
    return call([=] {
        *address = nullptr;
        cudaError_t error = emu::may_allocate();
        if (error != cudaSuccess || bytes == 0) return error;
        size_t *used = &emu::used[emu::current_device()], all = (bytes + 255) / 256 * 256;
        if (all < bytes || all > config.memory - *used) return cudaErrorMemoryAllocation;
        char *made = emu::device_new(bytes);
        emu::device_memory[made] = { bytes, emu::current_device() };
        *used += all;
        *address = made;
        return cudaSuccess;
    });
}

cudaError_t cudaFree(void *address) {
    return call([=] {
        cudaError_t error = emu::unsafe_call();
        if (error != cudaSuccess || !address) return error;
        auto found = emu::device_memory.find(static_cast<char *>(address));
        if (found == emu::device_memory.end()) return cudaErrorInvalidValue;
        error = emu::drain_all(); // as the real one: the device is idle when memory goes
        emu::used[found->second.device] -= (found->second.bytes + 255) / 256 * 256;
        emu::device_delete(found->first, found->second.bytes);
        emu::device_memory.erase(found);
        return error;
    });
}

cudaError_t cudaHostAlloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    return call([=] {
        *address = nullptr;
        cudaError_t error = emu::may_allocate();
        if (error != cudaSuccess || bytes == 0) return error;
        if (posix_memalign(address, 4096, bytes) != 0) return cudaErrorMemoryAllocation;
        memset(*address, 0xFF, bytes);
        emu::pinned_memory[static_cast<char *>(*address)] = { bytes, 0 };
        return cudaSuccess;
    });
}

cudaError_t cudaMallocHost(void **address, size_t bytes) { return cudaHostAlloc(address, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void *address) {
    return call([=] {
        cudaError_t error = emu::unsafe_call();
        if (error != cudaSuccess || !address) return error;
        auto found = emu::pinned_memory.find(static_cast<char *>(address));
        if (found == emu::pinned_memory.end()) return cudaErrorInvalidValue;
        error = emu::drain_all();
        free(found->first);
        emu::pinned_memory.erase(found);
        return error;
    });
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes) {
    return call([=] {
        *all_bytes = config.memory;
        *free_bytes = config.memory - emu::used[emu::current_device()];
        return cudaSuccess;
    });
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return call([=] {
        if (bytes == 0) return cudaSuccess;
        emu::copy c = emu::look_at_copy(dst, src, bytes, kind);
        if (c.error != cudaSuccess) return c.error;
        bool pageable = c.dst == emu::place::PAGEABLE || c.src == emu::place::PAGEABLE;
        if (pageable) c.error = emu::capture_broken(stream);
        if (c.error == cudaSuccess) c.error = emu::enqueue_copy(dst, src, bytes, c, stream);
        if (c.error == cudaSuccess && c.dst == emu::place::PAGEABLE) c.error = emu::drain(stream);
        return c.error;
    });
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind) {
    return call([=] {
        cudaError_t error = emu::unsafe_call();
        if (error != cudaSuccess || bytes == 0) return error;
        emu::copy c = emu::look_at_copy(dst, src, bytes, kind);
        if (c.error == cudaSuccess) c.error = emu::enqueue_copy(dst, src, bytes, c, nullptr);
        bool waits = !emu::on_device(c.dst) || !emu::on_device(c.src); // within the device the host does not
        if (c.error == cudaSuccess && waits) c.error = emu::drain(nullptr);
        return c.error;
    });
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream) {
    return call([=] {
        if (bytes == 0) return cudaSuccess;
        if (!emu::on_device(emu::place_of(dst, bytes))) return cudaErrorInvalidValue;
        return emu::enqueue(stream, "memset", false, [=] { memset(dst, value, bytes); });
    });
}

cudaError_t cudaMemset(void *dst, int value, size_t bytes) { // the host does not wait for it
    return call([=] {
        cudaError_t error = emu::unsafe_call();
        return error != cudaSuccess ? error : cudaMemsetAsync(dst, value, bytes, nullptr);
    });
}
