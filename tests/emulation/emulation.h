// emulation.h - what the emulation's own files share (README.md describes the whole).
#pragma once

#include <stdint.h>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include "cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#define EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#endif

namespace emu {

// LOCKSTEP_EMULATION; README.md has the meanings.
struct settings {
    uint64_t seed = 1;
    size_t memory = size_t{ 1 } << 30;
    long devices = 1, sm = 90, multiprocessors = 4;
    long driver = 13000; // 0: there is none
    long runtime = CUDART_VERSION;
    std::string name = "Emulated GPU"; // of every device
    std::vector<int> visible;          // devices, in CUDA_VISIBLE_DEVICES' order
    long malloc_fail = 0, launch_fail = 0, drop_wait = 0;
    std::string skip_barrier;
    long backlog = 1024;
    long protect = 1;
    long dry = 0;      // 1: kernels and memsets do not run
    std::string nodes; // file for the names of all work; empty: none
    long collective = 1, collective_version = 22809; // 0: no library; of the library
    long collective_rank = -1;                       // the faults below are this rank's; -1: every rank's
    long collective_delay = 0, collective_fail = 0, collective_hang = 0, collective_open_fail = 0;
    long idle = 5; // ms
    long report = 0;
};
extern settings &config;

// What differs between the cards that the program is for (source: CUDA C++ Programming Guide, technical specifications per compute
// capability). Ends the program where LOCKSTEP_EMULATION names a card that is not described.
struct card {
    long sm;             // compute capability
    size_t shared_bytes; // the most shared memory of a block
    unsigned clusters;   // the most blocks of a cluster; 1: the card has no clusters
    bool matrices;       // bf16, TF32 and the operations of tensor_cores.h
};
const card &card_now();

[[noreturn]] __attribute__((format(printf, 1, 2))) void die(const char *format, ...);
uint64_t random_bits();
size_t random_below(size_t n); // n > 0

// The numbers 0 .. n-1, each once, in an order that looks random; cheap for any n.
class shuffled {
  public:
    explicit shuffled(size_t n);
    size_t next();

  private:
    size_t n_, at_, step_;
};

// Every call holds this: one thread at a time is in the emulation.
class world_lock {
  public:
    explicit world_lock(bool host = true); // a host's thread: not idle
    ~world_lock();
    world_lock(const world_lock &) = delete;

  private:
    bool host_;
};
void leave_world_for(double seconds); // of whoever holds it: others come in meanwhile
double seconds_now();
bool world_is_idle(); // no call since `idle` ms; under the lock

// Every function of the runtime is one call of this: the world's lock, its fresh start where due, the errors that precede
// the function's own, and the thread's last error.
cudaError_t call(const std::function<cudaError_t()> &body);
void start_anew(); // forgets everything and reads LOCKSTEP_EMULATION again
void start_if_unused();

// device.cc: from now on every call fails with this
void set_sticky(cudaError_t error);
cudaError_t sticky();
void keep_last_error(cudaError_t error);
int current_device();

// blocks.cc
void run_kernel(const kernel_work &work);
size_t shared_limit(); // bytes of a block's shared memory, of all kinds
void blocks_forget_all();

// memory.cc: device memory can be touched only while one of these lives
class device_memory_open {
  public:
    device_memory_open();
    ~device_memory_open();
    device_memory_open(const device_memory_open &) = delete;
};
size_t memory_alive(); // allocations, of both kinds
void memory_forget_all();

// streams.cc
extern const char *now_running; // name of a kernel, or "copy", "memset"
cudaError_t enqueue(cudaStream_t stream, const char *name, bool kernel, std::function<void()> run);
// Work that can end only when other processes have come to it, too (ranks.cc). Others may run before it ends.
class joint {
  public:
    virtual ~joint() = default;
    virtual bool ready() = 0; // asked again and again once its turn has come; the first time begins it. True: end it
    virtual void end() = 0;
};
// make: called at every launch, in the order of launches; recorded: from a graph.
using joint_maker = std::function<std::shared_ptr<joint>(bool recorded)>;
cudaError_t enqueue_joint(cudaStream_t stream, const char *name, joint_maker make);
void run_what_can(); // and return when nothing can
cudaError_t drain(cudaStream_t stream);          // runs until this stream is empty
cudaError_t drain_all();                         // and until all are
cudaError_t unsafe_call();                       // an error where this thread captures: the call is not allowed there
cudaError_t capture_broken(cudaStream_t stream); // an error where this stream captures, which ends the capture
size_t streams_alive();                          // streams, events, graphs
void streams_forget_all();

} // namespace emu
