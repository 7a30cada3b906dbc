// blocks.cc - runs a kernel: blocks in a random order, a few of them at a time, their threads as fibers that are left only at
// barriers and warp operations; kernels without those as plain loops. Blocks of a cluster, or of a grid that waits for each
// other, are started together.
#include "emulation.h"

#include <string.h>
#include <sys/mman.h>
#include <vector>
#ifdef EMU_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(__x86_64__) || defined(EMU_UCONTEXT)
#include <ucontext.h>
#ifndef EMU_UCONTEXT
#define EMU_UCONTEXT
#endif
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emu {

enum class lane_state { READY, AT_BARRIER, AT_CLUSTER_BARRIER, IN_WARP, ENDED };

struct fiber {
    char *stack;
    lane_state state;
    uint3 thread;
    long barriers; // that this thread has passed
#ifdef EMU_UCONTEXT
    ucontext_t context;
#else
    void *sp;
#endif
    void *fake_stack; // ASan's
    void *tsan;
};

// Of two exchanges that follow each other, one can be read while the next is being filled: a lane of the second waits for
// all lanes, so none is two behind.
struct warp {
    unsigned alive, arrived, mask;
    const char *what;
    int phase;
    alignas(16) unsigned char slots[2][32 * 16];
};

struct shared_array {
    int key;
    size_t bytes;
    unsigned char *address;
};

// The kernel that runs.
static struct {
    const kernel_work *work; // NULL: none
    size_t threads;          // of a block
    bool barriers_ignored;
    long barrier_dropped; // the number, counted in each thread; 0: none
} launched;

struct running_block;

// Blocks that wait for each other.
struct block_cluster {
    std::vector<running_block *> blocks;
    size_t waiting, ended; // threads at the cluster's barrier; blocks that have ended
};

struct running_block {
    uint3 index;
    std::shared_ptr<block_cluster> cluster;
    std::vector<fiber *> fibers;
    std::vector<warp> warps;
    std::vector<shared_array> arrays;
    size_t ended, at_barrier, at_cluster_barrier, now; // now: the thread that runs
    // A round: every thread has one turn.
    shuffled order{ 1 };
    size_t left; // of the round
    bool progress;
};

// Blocks that take turns: so many, two clusters, or a grid. Made once and never freed, as all that lives as long as the
// process: the end of the program may still use the device.
static const size_t RESIDENT = 3;
static std::vector<running_block *> &residents = *new std::vector<running_block *>();
static running_block *block; // the one that runs

static long kernels_with_barriers; // counted for skip_barrier
static const size_t SHARED_LIMIT = 48 << 10;
#ifdef EMU_ASAN
static const size_t CANARY = 0, STACK = 256 << 10;
#else
static const size_t CANARY = 32, STACK = 128 << 10;
#endif

static std::string where() {
    char text[400];
    snprintf(text, sizeof text, "kernel %.200s, grid (%u,%u,%u), block (%u,%u,%u) of (%u,%u,%u), thread (%u,%u,%u)",
        launched.work->name, gridDim.x, gridDim.y, gridDim.z, blockIdx.x, blockIdx.y, blockIdx.z, blockDim.x, blockDim.y,
        blockDim.z, threadIdx.x, threadIdx.y, threadIdx.z);
    return text;
}

// ---- switching stacks

static void fiber_main();

#ifdef EMU_UCONTEXT
static ucontext_t scheduler;
static void prepare_stack(fiber *f) {
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fiber_main, 0);
}
static void switch_to(fiber *f) { swapcontext(&scheduler, &f->context); }
static void switch_from(fiber *f) { swapcontext(&f->context, &scheduler); }
#else
// Saves the registers that a called function must keep on the running stack, and takes those of the other.
extern "C" __attribute__((visibility("hidden"))) void emu_switch_stack(void **save_sp, void *load_sp);
asm(R"(
    .text
    .p2align 4
    .globl emu_switch_stack
    .hidden emu_switch_stack
    .type emu_switch_stack, @function
emu_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emu_switch_stack, . - emu_switch_stack
)");
static void *scheduler;
static void prepare_stack(fiber *f) {
    void **top = reinterpret_cast<void **>(f->stack + STACK); // aligned to pages
    top[-1] = nullptr;                                        // no return address: fiber_main never returns
    top[-2] = reinterpret_cast<void *>(fiber_main);
    for (int i = 3; i <= 8; i++) top[-i] = nullptr;
    f->sp = top - 8;
}
static void switch_to(fiber *f) { emu_switch_stack(&scheduler, f->sp); }
static void switch_from(fiber *f) { emu_switch_stack(&f->sp, scheduler); }
#endif

#ifdef __SANITIZE_THREAD__
static void *scheduler_tsan;
#endif
#ifdef EMU_ASAN
static const void *scheduler_stack;
static size_t scheduler_bytes;
#endif

static void resume(size_t thread) {
    fiber *f = block->fibers[thread];
    block->now = thread;
    threadIdx = f->thread;
    blockIdx = block->index;
#ifdef EMU_ASAN
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, f->stack, STACK);
#endif
#ifdef __SANITIZE_THREAD__
    scheduler_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(f->tsan, 0);
#endif
    switch_to(f);
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

static void leave(lane_state state) {
    fiber *f = block->fibers[block->now];
    f->state = state;
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(&f->fake_stack, scheduler_stack, scheduler_bytes);
#endif
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(scheduler_tsan, 0);
#endif
    switch_from(f);
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(f->fake_stack, &scheduler_stack, &scheduler_bytes);
#endif
}

static void lane_ended();

static void fiber_main() {
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_bytes);
#endif
    for (;;) { // a thread of each block that needs this many
        launched.work->thread();
        lane_ended();
        leave(lane_state::ENDED);
    }
}

static fiber *new_fiber() {
    size_t guard = 4096;
    void *pages = mmap(nullptr, guard + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages, guard, PROT_NONE) != 0) die("no memory for the stack of a thread");
    fiber *f = new fiber();
    f->stack = static_cast<char *>(pages) + guard;
#ifdef __SANITIZE_THREAD__
    f->tsan = __tsan_create_fiber(0);
#endif
    prepare_stack(f);
    return f;
}

// ---- waiting for each other

static void needs_cooperation(const char *what) {
    if (!launched.work) die("%s outside of a kernel", what);
    if (!launched.work->cooperating) die("%s in a kernel launched with LS_LAUNCH: it needs LS_LAUNCH_BLOCK\n  %s", what,
        where().c_str());
}

void barrier() {
    needs_cooperation("__syncthreads");
    fiber *f = block->fibers[block->now];
    f->barriers++;
    if (launched.barriers_ignored || f->barriers == launched.barrier_dropped) return;
    block->at_barrier++;
    leave(lane_state::AT_BARRIER);
}

static void wait_together() {
    fiber *f = block->fibers[block->now];
    f->barriers++;
    if (launched.barriers_ignored || f->barriers == launched.barrier_dropped) return;
    block->at_cluster_barrier++;
    block->cluster->waiting++;
    leave(lane_state::AT_CLUSTER_BARRIER);
}

void cluster_barrier() {
    needs_cooperation("the barrier of a cluster");
    if (launched.work->cluster == WHOLE_GRID) return barrier(); // each block is a cluster
    wait_together();
}

void grid_barrier() {
    needs_cooperation("the barrier of a grid");
    if (launched.work->cluster != WHOLE_GRID)
        die("the barrier of a grid in a kernel launched without LS_LAUNCH_GRID\n  %s", where().c_str());
    wait_together();
}

unsigned lane() {
    needs_cooperation("a warp operation");
    return static_cast<unsigned>(block->now % 32);
}

// When every lane of the mask that still lives has arrived: on to the next phase, and all of them may go on.
static bool release_if_complete(warp *w, size_t first) {
    if (w->mask & w->alive & ~w->arrived) return false;
    unsigned char *slots = w->slots[w->phase];
    for (size_t i = 0; i < 32; i++) {
        if (w->arrived >> i & 1u)
            block->fibers[first + i]->state = lane_state::READY;
        else
            memset(slots + 16 * i, 0xFF, 16);
    }
    w->arrived = 0;
    w->phase ^= 1;
    return true;
}

const unsigned char *exchange(const char *what, unsigned mask, const void *value, size_t bytes) {
    needs_cooperation(what);
    size_t me = block->now % 32, first = block->now - me;
    warp *w = &block->warps[block->now / 32];
    if (!(mask >> me & 1u)) die("%s: lane %zu is not in its own mask %08x\n  %s", what, me, mask, where().c_str());
    if (w->arrived && (w->mask != mask || strcmp(w->what, what) != 0))
        die("lanes of a warp wait in different operations: %s with mask %08x and %s with mask %08x\n  %s", w->what,
            w->mask, what, mask, where().c_str());
    w->mask = mask;
    w->what = what;
    w->arrived |= 1u << me;
    unsigned char *slots = w->slots[w->phase];
    memcpy(slots + 16 * me, value, bytes);
    if (!release_if_complete(w, first)) leave(lane_state::IN_WARP);
    return slots;
}

static void lane_ended() {
    size_t me = block->now % 32;
    warp *w = &block->warps[block->now / 32];
    block->ended++;
    w->alive &= ~(1u << me);
    if (w->arrived) release_if_complete(w, block->now - me);
}

// ---- shared memory

size_t shared_limit() { return card_now().shared_bytes; }

void needs_matrices(const char *what) {
    if (!card_now().matrices) die("%s on a card of compute capability %ld\n  %s", what, config.sm, where().c_str());
}

static const int DYNAMIC = -1; // a key of no array

void *shared(int key, size_t bytes) {
    needs_cooperation("shared memory");
    size_t used = bytes, dynamic = launched.work->dynamic;
    for (const shared_array &a : block->arrays) {
        if (a.key == key && a.bytes == bytes) return a.address;
        if (a.key != DYNAMIC) used += a.bytes;
    }
    size_t limit = dynamic ? shared_limit() - dynamic : SHARED_LIMIT;
    if (limit > SHARED_LIMIT) limit = SHARED_LIMIT;
    if (key != DYNAMIC && used > limit)
        die("%zu bytes of shared memory, %zu is the limit\n  %s", used, limit, where().c_str());
    shared_array a = { key, bytes, static_cast<unsigned char *>(malloc(bytes + CANARY)) };
    memset(a.address, 0xFF, bytes + CANARY); // floating-point: NaN
    block->arrays.push_back(a);
    return a.address;
}

void *dynamic_shared() { return shared(DYNAMIC, launched.work->dynamic); }

static void free_shared() {
    for (const shared_array &a : block->arrays) {
        for (size_t i = a.bytes; i < a.bytes + CANARY; i++)
            if (a.address[i] != 0xFF)
                die("a write %zu bytes behind an array of %zu bytes in shared memory\n  %s", i - a.bytes, a.bytes,
                    where().c_str());
        free(a.address);
    }
    block->arrays.clear();
}

// ---- blocks

static uint3 unflatten(size_t i, dim3 size) {
    return { static_cast<unsigned>(i % size.x), static_cast<unsigned>(i / size.x % size.y),
        static_cast<unsigned>(i / size.x / size.y) };
}

static void run_threads_alone() {
    shuffled order(launched.threads);
    for (size_t i = 0; i < launched.threads; i++) {
        threadIdx = unflatten(order.next(), blockDim);
        launched.work->thread();
    }
}

static void start_block(uint3 index) {
    block->index = index;
    block->left = 0;
    while (block->fibers.size() < launched.threads) block->fibers.push_back(new_fiber());
    for (size_t t = 0; t < launched.threads; t++) {
        block->fibers[t]->state = lane_state::READY;
        block->fibers[t]->thread = unflatten(t, blockDim);
        block->fibers[t]->barriers = 0;
    }
    block->warps.resize((launched.threads + 31) / 32);
    for (size_t i = 0; i < block->warps.size(); i++) {
        size_t lanes = std::min<size_t>(32, launched.threads - 32 * i);
        block->warps[i].alive = lanes == 32 ? ~0u : (1u << lanes) - 1;
        block->warps[i].arrived = 0;
        block->warps[i].phase = 0;
    }
    block->ended = block->at_barrier = block->at_cluster_barrier = 0;
}

static void open_barrier(running_block *of) {
    for (size_t t = 0; t < launched.threads; t++) of->fibers[t]->state = lane_state::READY;
    of->at_barrier = of->at_cluster_barrier = 0;
}

// After the last turn of a round: a barrier that all have reached opens.
static void end_round() {
    block_cluster *cluster = block->cluster.get();
    size_t at_barrier = block->at_barrier + block->at_cluster_barrier;
    if (block->at_barrier == launched.threads) {
        open_barrier(block);
    } else if (cluster->waiting == launched.threads * cluster->blocks.size()) {
        for (running_block *member : cluster->blocks) open_barrier(member);
        cluster->waiting = 0;
    } else if (!block->progress && block->at_cluster_barrier == launched.threads) {
        if (cluster->ended > 0)
            die("a block waits at the barrier of its %s, %zu of whose %zu blocks have ended\n  %s",
                launched.work->cluster == WHOLE_GRID ? "grid" : "cluster", cluster->ended, cluster->blocks.size(),
                where().c_str());
    } else if (!block->progress) {
        die("%zu of %zu threads wait at a barrier, %zu have ended, %zu wait in a warp operation: none can go on\n  %s",
            at_barrier, launched.threads, block->ended, launched.threads - at_barrier - block->ended, where().c_str());
    }
}

// So many turns for the block, in the middle of a round perhaps.
static void take_turns(size_t turns) {
    for (; turns > 0 && block->ended < launched.threads; turns--) {
        if (block->left == 0) {
            block->order = shuffled(launched.threads);
            block->left = launched.threads;
            block->progress = false;
        }
        size_t t = block->order.next();
        if (block->fibers[t]->state == lane_state::READY) {
            resume(t);
            block->progress = true;
        }
        if (--block->left == 0) end_round();
    }
}

// The blocks of a cluster are neighbours in y.
static uint3 member_of(size_t number, size_t member) {
    if (launched.work->cluster == WHOLE_GRID) return unflatten(member, gridDim);
    unsigned members = launched.work->cluster;
    uint3 first = unflatten(number, dim3(gridDim.x, gridDim.y / members, gridDim.z));
    return { first.x, first.y * members + static_cast<unsigned>(member), first.z };
}

static void start_cluster(size_t number, size_t members, size_t live) {
    auto cluster = std::make_shared<block_cluster>();
    cluster->waiting = cluster->ended = 0;
    for (size_t m = 0; m < members; m++) {
        if (live + m == residents.size()) residents.push_back(new running_block());
        block = residents[live + m];
        block->cluster = cluster;
        cluster->blocks.push_back(block);
        start_block(member_of(number, m));
    }
}

static void run_blocks_together(size_t blocks) {
    size_t members = launched.work->cluster == WHOLE_GRID ? blocks : launched.work->cluster;
    size_t most = members > 1 ? 2 * members : RESIDENT;
    shuffled order(blocks / members);
    size_t live = 0; // the first of the residents
    while (blocks > 0 || live > 0) {
        for (; blocks > 0 && live + members <= most; blocks -= members, live += members) {
            start_cluster(order.next(), members, live);
        }
        size_t pick = random_below(live);
        block = residents[pick];
        take_turns(1 + random_below((random_below(2) ? 1 : 8) * launched.threads)); // a part of a round, or several
        if (block->ended < launched.threads) continue;
        free_shared();
        block->cluster->ended++;
        std::swap(residents[pick], residents[--live]);
    }
}

static void run_blocks_alone(size_t blocks) {
    shuffled order(blocks);
    for (size_t i = 0; i < blocks; i++) {
        blockIdx = unflatten(order.next(), gridDim);
        run_threads_alone();
    }
}

// skip_barrier = N: the barriers of the N-th kernel that may have some; NAME or NAME:K: of every kernel whose name has
// NAME in it, all or the K-th.
static void plant_missing_barrier() {
    launched.barriers_ignored = false;
    launched.barrier_dropped = 0;
    const std::string &fault = config.skip_barrier;
    if (fault.empty() || !launched.work->cooperating) return;
    kernels_with_barriers++;
    if (fault.find_first_not_of("0123456789") == std::string::npos) {
        launched.barriers_ignored = kernels_with_barriers == atol(fault.c_str());
        return;
    }
    size_t colon = fault.find(':');
    if (!strstr(launched.work->name, fault.substr(0, colon).c_str())) return;
    if (colon == std::string::npos)
        launched.barriers_ignored = true;
    else
        launched.barrier_dropped = atol(fault.c_str() + colon + 1);
}

void blocks_forget_all() { kernels_with_barriers = 0; }

void run_kernel(const kernel_work &work) {
    launched.work = &work;
    blockDim = work.block;
    gridDim = work.grid;
    launched.threads = static_cast<size_t>(blockDim.x) * blockDim.y * blockDim.z;
    plant_missing_barrier();
    size_t blocks = static_cast<size_t>(gridDim.x) * gridDim.y * gridDim.z;
    if (work.cooperating)
        run_blocks_together(blocks);
    else
        run_blocks_alone(blocks);
    launched.work = nullptr;
}

} // namespace emu
