// test_emulation.cc - the emulation does what CUDA promises, and catches what CUDA would not forgive.
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmath>
#include <string>
#include <vector>
#include "device/cuda/kernels/cluster.cuh"
extern "C" {
#include "base/half.h"
}

static int failures;
static const char *test_name;

__attribute__((format(printf, 2, 3))) static void expect(bool ok, const char *format, ...) {
    if (ok) return;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "FAILED %s: ", test_name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    failures++;
}

static void expect_rc(cudaError_t got, cudaError_t wanted, const char *what) {
    expect(got == wanted, "%s: %s (%d), expected %s (%d)", what, cudaGetErrorName(got), static_cast<int>(got),
        cudaGetErrorName(wanted), static_cast<int>(wanted));
}
#define OK(call) expect_rc(call, cudaSuccess, #call)
#define GIVES(call, error) expect_rc(call, error, #call)

static void use(const std::string &settings) {
    setenv("LOCKSTEP_EMULATION", settings.c_str(), 1);
    cudaDeviceReset();
}

static std::string seeded(int seed, const char *more = "") { return "seed=" + std::to_string(seed) + more; }

// In a child process, which must die and say `text` (ASan's words count where it is in the build).
static void dies(const char *what, void (*run)(), const char *text, const char *asan_text = nullptr) {
    int ends[2];
    if (pipe(ends) != 0) abort();
    fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        dup2(ends[1], STDERR_FILENO);
        run();
        _exit(0);
    }
    close(ends[1]);
    std::string said;
    char piece[4096];
    for (ssize_t got; (got = read(ends[0], piece, sizeof piece)) > 0;) said.append(piece, static_cast<size_t>(got));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    expect(status != 0, "%s: nothing happened", what);
    bool found = said.find(text) != std::string::npos || (asan_text && said.find(asan_text) != std::string::npos);
    expect(status == 0 || found, "%s: expected '%s', it said: %s", what, text, said.c_str());
}

template <typename T> static T *device_array(size_t count) {
    void *address = nullptr;
    OK(cudaMalloc(&address, count * sizeof(T)));
    return static_cast<T *>(address);
}

template <typename T> static T *pinned_array(size_t count) {
    void *address = nullptr;
    OK(cudaMallocHost(&address, count * sizeof(T)));
    return static_cast<T *>(address);
}

template <typename T> static std::vector<T> fetch(const T *address, size_t count) {
    OK(cudaDeviceSynchronize());
    std::vector<T> host(count);
    OK(cudaMemcpy(host.data(), address, count * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
}

// ---- numbers

static void test_half() {
    for (unsigned i = 0; i < 65536; i++) {
        uint16_t bits = static_cast<uint16_t>(i);
        unsigned h = __float_as_uint(__half2float(__ushort_as_half(bits)));
        unsigned b = __float_as_uint(__bfloat162float(__ushort_as_bfloat16(bits)));
        expect(h == __float_as_uint(ls_float_from_f16(bits)), "fp16 %04x becomes %08x", i, h);
        expect(b == __float_as_uint(ls_float_from_bf16(bits)), "bf16 %04x becomes %08x", i, b);
    }
    auto compare = [](unsigned bits) {
        float value = __uint_as_float(bits);
        unsigned h = __half_as_ushort(__float2half_rn(value)), b = __bfloat16_as_ushort(__float2bfloat16_rn(value));
        expect(h == ls_f16_from_float(value), "%08x becomes fp16 %04x, not %04x", bits, h, ls_f16_from_float(value));
        expect(b == ls_bf16_from_float(value), "%08x becomes bf16 %04x, not %04x", bits, b, ls_bf16_from_float(value));
    };
    for (uint64_t i = 0; i < uint64_t{ 1 } << 32; i += 3989) compare(static_cast<unsigned>(i));
    for (unsigned i = 0; i < 65536; i++) // around each value, and each middle between two
        for (unsigned near = 0; near < 3; near++) {
            unsigned h = __float_as_uint(ls_float_from_f16(static_cast<uint16_t>(i)));
            compare(h + near - 1);
            compare(h + 0x1000 + near - 1);
            compare((i << 16) + near - 1);
            compare((i << 16) + 0x8000 + near - 1);
        }
}

static void test_conversions() {
    expect(__double2ll_rn(2.5) == 2 && __double2ll_rn(-3.5) == -4, "ties go to even");
    expect(__double2ll_rn(1e300) == LLONG_MAX && __double2ll_rn(-1e300) == LLONG_MIN, "saturation to 64 bits");
    expect(__float2int_rn(1e30f) == INT_MAX && __float2int_rn(NAN) == 0, "saturation to 32 bits");
    expect(__float2int_rd(-0.5f) == -1 && __float2int_rz(-0.5f) == 0, "down, and to zero");
    expect(__popc(0xF0u) == 4 && __clz(1) == 31 && __ffs(8) == 4 && __umulhi(1u << 31, 6) == 3, "bits");
    expect(min(NAN, 1.0f) == 1 && max(3u, 4u) == 4, "least and greatest");
}

// ---- threads

static __global__ void block_sums(const float *from, float *sums) {
    LS_SHARED(float, room, 1024);
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    float sum = ls_block_sum(from[i], room, static_cast<int>(blockDim.x));
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

static int wrong_sums(const std::string &settings, unsigned threads) {
    use(settings);
    const unsigned blocks = 5;
    std::vector<float> host(blocks * threads);
    for (size_t i = 0; i < host.size(); i++) host[i] = static_cast<float>(i % 97);
    float *from = device_array<float>(host.size()), *sums = device_array<float>(blocks);
    OK(cudaMemcpy(from, host.data(), host.size() * sizeof(float), cudaMemcpyDefault));
    LS_LAUNCH_BLOCK(block_sums, blocks, threads, nullptr, from, sums);
    std::vector<float> got = fetch(sums, blocks);
    int wrong = 0;
    for (unsigned b = 0; b < blocks; b++) {
        float sum = 0;
        for (unsigned t = 0; t < threads; t++) sum += host[b * threads + t];
        wrong += got[b] != sum;
    }
    return wrong;
}

static void test_barriers() {
    for (int seed = 0; seed < 20; seed++)
        for (unsigned threads : { 32u, 128u, 1024u })
            expect(wrong_sums(seeded(seed), threads) == 0, "sums of %u threads, seed %d", threads, seed);
    const char *faults[] = { ",skip_barrier=1", ",skip_barrier=block_sums", ",skip_barrier=sums:1",
        ",skip_barrier=sums:3" };
    for (const char *fault : faults) {
        int seen = 0;
        for (int seed = 0; seed < 40; seed++) seen += wrong_sums(seeded(seed, fault), 128) > 0;
        expect(seen >= 32, "a missing barrier (%s) gave wrong sums in %d of 40 seeds", fault, seen);
    }
    expect(wrong_sums("skip_barrier=2", 64) == 0, "the second kernel's barriers are not the first's");
    expect(wrong_sums("skip_barrier=other", 64) == 0, "another kernel's barriers");
}

// Each block leaves its sum; behind the cluster's barrier each of its blocks adds all of them up.
static __global__ void cluster_sums(const int *from, int *parts, int *sums) {
    LS_SHARED(int, room, 64);
    LS_SHARED_DYNAMIC(kept);
    unsigned block = blockIdx.x * gridDim.y + blockIdx.y, t = threadIdx.x;
    kept[t].w = static_cast<unsigned>(from[block * 64 + t]);
    int sum = ls_block_sum(static_cast<int>(kept[t].w), room, 64);
    if (t == 0) parts[block] = sum;
    ls_cluster_sync();
    sum = 0;
    for (unsigned i = 0; i < gridDim.y; i++) sum += parts[blockIdx.x * gridDim.y + i];
    sums[block * 64 + t] = sum;
}

static int wrong_cluster_sums(const std::string &settings, unsigned clusters, unsigned members) {
    use(settings);
    size_t threads = clusters * members * 64;
    std::vector<int> host(threads);
    for (size_t i = 0; i < threads; i++) host[i] = static_cast<int>(i % 97);
    int *from = device_array<int>(threads), *sums = device_array<int>(threads), *parts = device_array<int>(threads / 64);
    OK(cudaMemcpy(from, host.data(), threads * sizeof(int), cudaMemcpyDefault));
    LS_LAUNCH_CLUSTER(cluster_sums, dim3(clusters, members), 64, 64 * sizeof(uint4), nullptr, from, parts, sums);
    OK(cudaGetLastError());
    std::vector<int> got = fetch(sums, threads);
    int wrong = 0;
    for (size_t i = 0; i < threads; i++) {
        size_t first = i / (members * 64) * members * 64;
        int sum = 0;
        for (size_t k = first; k < first + members * 64; k++) sum += host[k];
        wrong += got[i] != sum;
    }
    return wrong;
}

static void test_clusters() {
    for (int seed = 0; seed < 10; seed++)
        for (unsigned members : { 1u, 2u, 3u, 8u })
            expect(wrong_cluster_sums(seeded(seed), 5, members) == 0, "clusters of %u, seed %d", members, seed);
    int seen = 0; // the block's sum has 8 barriers before it
    for (int seed = 0; seed < 20; seed++) seen += wrong_cluster_sums(seeded(seed, ",skip_barrier=cluster_sums:9"), 5, 4) > 0;
    expect(seen >= 16, "without the cluster's barrier sums were wrong with %d of 20 seeds", seen);
    use("");
    int *none = nullptr;
    LS_LAUNCH_CLUSTER(cluster_sums, dim3(1, 9), 64, 0, nullptr, none, none, none);
    GIVES(cudaGetLastError(), cudaErrorInvalidClusterSize);
    use("sm=80");
    LS_LAUNCH_CLUSTER(cluster_sums, dim3(1, 2), 64, 0, nullptr, none, none, none);
    GIVES(cudaGetLastError(), cudaErrorInvalidClusterSize);
    LS_LAUNCH_CLUSTER(cluster_sums, dim3(1, 1), 64, (163 << 10) + 16, nullptr, none, none, none);
    GIVES(cudaGetLastError(), cudaErrorInvalidValue);
    use("sm=75");
    LS_LAUNCH_CLUSTER(cluster_sums, dim3(1, 1), 64, (64 << 10) + 16, nullptr, none, none, none);
    GIVES(cudaGetLastError(), cudaErrorInvalidValue);
}

// The same of a whole grid.
static __global__ void grid_sums(const int *from, int *parts, int *sums) {
    LS_SHARED(int, room, 64);
    unsigned blocks = gridDim.x * gridDim.y, block = blockIdx.x * gridDim.y + blockIdx.y, t = threadIdx.x;
    int sum = ls_block_sum(from[block * 64 + t], room, 64);
    if (t == 0) parts[block] = sum;
    ls_grid_sync();
    sum = 0;
    for (unsigned i = 0; i < blocks; i++) sum += parts[i];
    sums[block * 64 + t] = sum;
}

static int wrong_grid_sums(const std::string &settings, unsigned columns, unsigned rows) {
    use(settings);
    size_t threads = columns * rows * 64;
    std::vector<int> host(threads);
    int sum = 0, wrong = 0;
    for (size_t i = 0; i < threads; i++) sum += host[i] = static_cast<int>(i % 97);
    int *from = device_array<int>(threads), *sums = device_array<int>(threads), *parts = device_array<int>(threads / 64);
    OK(cudaMemcpy(from, host.data(), threads * sizeof(int), cudaMemcpyDefault));
    LS_LAUNCH_GRID(grid_sums, dim3(columns, rows), 64, 0, nullptr, from, parts, sums);
    OK(cudaGetLastError());
    for (int each : fetch(sums, threads)) wrong += each != sum;
    return wrong;
}

static void test_grids() {
    for (int seed = 0; seed < 10; seed++)
        for (unsigned rows : { 1u, 2u, 9u })
            expect(wrong_grid_sums(seeded(seed, ",sm=80,multiprocessors=18"), 2, rows) == 0, "a grid of 2 x %u, seed %d", rows, seed);
    int seen = 0; // the block's sum has 8 barriers before it
    for (int seed = 0; seed < 20; seed++)
        seen += wrong_grid_sums(seeded(seed, ",multiprocessors=8,skip_barrier=grid_sums:9"), 2, 4) > 0;
    expect(seen >= 16, "without the grid's barrier sums were wrong with %d of 20 seeds", seen);
    use("multiprocessors=8");
    int *none = nullptr;
    LS_LAUNCH_GRID(grid_sums, dim3(3, 3), 64, 0, nullptr, none, none, none);
    GIVES(cudaGetLastError(), cudaErrorCooperativeLaunchTooLarge);
}

static __global__ void warp_sums(const int *from, int *sums, int *lefts) {
    unsigned i = blockIdx.x * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
    int sum = from[i];
    for (int bits = 16; bits > 0; bits /= 2) sum += __shfl_xor_sync(~0u, sum, bits);
    sums[i] = sum;
    lefts[i] = __shfl_up_sync(~0u, from[i], 1u, 8) + 1000 * __shfl_down_sync(~0u, from[i], 1u, 8) +
        1000000 * __shfl_sync(~0u, from[i], 3, 8);
}

static void test_shuffles() {
    for (int seed = 0; seed < 20; seed++) {
        use(seeded(seed));
        const int count = 3 * 96;
        std::vector<int> host(count);
        for (int i = 0; i < count; i++) host[static_cast<size_t>(i)] = i % 89;
        int *from = device_array<int>(count), *sums = device_array<int>(count), *lefts = device_array<int>(count);
        OK(cudaMemcpy(from, host.data(), count * sizeof(int), cudaMemcpyHostToDevice));
        LS_LAUNCH_BLOCK(warp_sums, 3, dim3(8, 12), nullptr, from, sums, lefts);
        std::vector<int> got = fetch(sums, count), shifted = fetch(lefts, count);
        for (int i = 0; i < count; i++) {
            int sum = 0, group = i / 8 * 8, left = i == group ? i : i - 1, right = i == group + 7 ? i : i + 1;
            for (int k = i / 32 * 32; k < i / 32 * 32 + 32; k++) sum += k % 89;
            int want = left % 89 + 1000 * (right % 89) + 1000000 * ((group + 3) % 89);
            size_t at = static_cast<size_t>(i);
            expect(got[at] == sum, "thread %d, seed %d: sum %d, expected %d", i, seed, got[at], sum);
            expect(shifted[at] == want, "thread %d, seed %d: neighbours %d, expected %d", i, seed, shifted[at], want);
        }
    }
}

static __global__ void votes(unsigned *out) { // 40 threads: the second warp has 8 lanes, of which 4 leave
    unsigned all = __ballot_sync(~0u, threadIdx.x % 3 == 0);
    int some = __any_sync(~0u, threadIdx.x == 35), every = __all_sync(~0u, threadIdx.x < 32);
    out[threadIdx.x] = all + (some ? 1u << 30 : 0) + (every ? 1u << 31 : 0);
    if (threadIdx.x >= 36) return;
    float lost = __shfl_down_sync(~0u, 1.0f, 16);
    if (threadIdx.x >= 32) out[threadIdx.x] += std::isnan(lost) ? 1u << 29 : 0;
}

static void test_votes() {
    use("");
    unsigned *out = device_array<unsigned>(40);
    LS_LAUNCH_BLOCK(votes, 1, 40, nullptr, out);
    std::vector<unsigned> got = fetch(out, 40);
    expect(got[5] == 0x49249249u + (1u << 31), "the first warp's votes: %08x", got[5]);
    expect(got[33] == 0x92u + (1u << 30) + (1u << 29), "the second warp's votes: %08x", got[33]);
}

// The block that is counted last takes what all others left; without the barrier some of it is not there yet.
static __global__ void last_adds_up(bool waits, int *left, unsigned *count, int *sum) {
    int t = static_cast<int>(threadIdx.x), at = static_cast<int>(blockIdx.x) * 64 + t;
    LS_SHARED(int, last, 1);
    left[at] = 1;
    __threadfence();
    if (waits) __syncthreads();
    if (t == 0) last[0] = atomicAdd(count, 1u) == gridDim.x - 1;
    __syncthreads();
    for (int i = 0; last[0] && t == 0 && i < static_cast<int>(gridDim.x) * 64; i++) *sum += left[i];
}

static int wrong_sums(bool waits) {
    const int blocks = 8;
    int wrong = 0;
    for (int seed = 0; seed < 20; seed++) {
        use("seed=" + std::to_string(seed));
        int *left = device_array<int>(blocks * 64), *sum = device_array<int>(1);
        unsigned *count = device_array<unsigned>(1);
        OK(cudaMemset(left, 0, blocks * 64 * sizeof(int)));
        OK(cudaMemset(sum, 0, sizeof(int)));
        OK(cudaMemset(count, 0, sizeof(unsigned)));
        LS_LAUNCH_BLOCK(last_adds_up, blocks, 64, nullptr, waits, left, count, sum);
        wrong += fetch(sum, 1)[0] != blocks * 64;
    }
    return wrong;
}

static void test_blocks() {
    expect(wrong_sums(true) == 0, "%d of 20 seeds: the last block misses something", wrong_sums(true));
    expect(wrong_sums(false) > 0, "a block that is counted before it has finished is not seen");
}

static __global__ void divergent(int) {
    if (threadIdx.x < 40) __syncthreads();
}
static __global__ void lonely(int) { __syncthreads(); }
static __global__ void lonely_shuffle(int *out) { out[0] = __shfl_sync(~0u, out[0], 0); }
static __global__ void not_in_mask(int) { __syncwarp(0xFFFFu); }
static __global__ void two_masks(int) { __syncwarp(threadIdx.x < 8 ? 0xFFu : ~0u); }
static __global__ void half_a_shuffle(int) {
    if (threadIdx.x < 8) (void)__shfl_sync(~0u, 1, 0);
    __syncthreads();
}
static __global__ void behind_shared(int) {
    LS_SHARED(float, room, 33);
    room[threadIdx.x + 2] = 1;
}
static __global__ void much_shared(int) {
    LS_SHARED(char, room, 49 * 1024);
    room[threadIdx.x] = 1;
}

static __global__ void meets_the_grid(int) { ls_grid_sync(); }

template <void kernel(int), bool cooperating> static void launch_and_wait() {
    use("");
    emu::launch(cooperating, "the_kernel", 2, 64, nullptr, kernel, 0);
    cudaDeviceSynchronize();
}
template <void kernel(int)> static void launch_warp() {
    use("");
    LS_LAUNCH_BLOCK(kernel, 1, 32, nullptr, 0);
    cudaDeviceSynchronize();
}

static void test_threads_that_cannot_go_on() {
    dies("a barrier that some do not reach", launch_and_wait<divergent, true>,
        "40 of 64 threads wait at a barrier, 24 have ended");
    dies("its kernel", launch_and_wait<divergent, true>, "kernel the_kernel, grid (2,1,1)");
    dies("a barrier in LS_LAUNCH", launch_and_wait<lonely, false>, "__syncthreads in a kernel launched with LS_LAUNCH");
    dies("a grid's barrier without LS_LAUNCH_GRID", launch_and_wait<meets_the_grid, true>, "launched without LS_LAUNCH_GRID");
    dies("a shuffle in LS_LAUNCH",
        [] {
            use("");
            int *out = device_array<int>(1);
            LS_LAUNCH(lonely_shuffle, 1, 32, nullptr, out);
            cudaDeviceSynchronize();
        },
        "in a kernel launched with LS_LAUNCH");
    dies("a lane outside of its mask", launch_warp<not_in_mask>, "is not in its own mask 0000ffff");
    dies("two masks", launch_warp<two_masks>, "lanes of a warp wait in different operations");
    dies("a shuffle that half of the warp reaches", launch_warp<half_a_shuffle>, "8 wait in a warp operation");
    dies("a write behind shared memory", launch_warp<behind_shared>, "behind an array of 132 bytes in shared memory",
        "heap-buffer-overflow");
    dies("too much shared memory", launch_warp<much_shared>, "50176 bytes of shared memory");
}

static __global__ void leftover(float *out) {
    LS_SHARED(float, room, 32);
    out[blockIdx.x * 32 + threadIdx.x] = room[threadIdx.x];
    room[threadIdx.x] = 7;
}

static __global__ void number_in_order(int *counter, int *place) {
    place[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(counter, 1);
}

static void test_order() {
    use("");
    float *left = device_array<float>(4 * 32);
    LS_LAUNCH_BLOCK(leftover, 4, 32, nullptr, left);
    for (float value : fetch(left, 4 * 32)) expect(std::isnan(value), "shared memory of a new block holds %g", value);
    std::vector<std::vector<int>> orders;
    for (int seed = 0; seed < 8; seed++) {
        use(seeded(seed / 2));
        int *counter = device_array<int>(1), *place = device_array<int>(70);
        OK(cudaMemset(counter, 0, sizeof(int)));
        LS_LAUNCH(number_in_order, 7, 10, nullptr, counter, place);
        orders.push_back(fetch(place, 70));
        std::vector<int> sorted = orders.back();
        std::sort(sorted.begin(), sorted.end());
        for (int i = 0; i < 70; i++) expect(sorted[static_cast<size_t>(i)] == i, "seed %d: no thread was number %d", seed, i);
    }
    expect(orders[0] == orders[1] && orders[2] == orders[3], "the same seed gives another order");
    expect(orders[0] != orders[2] && orders[2] != orders[4], "another seed gives the same order");
}

static __global__ void add(float *to, float value, int count) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) to[i] += value;
}
static __global__ void copy_twice(const float *from, float *to, int count) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) to[i] = 2 * from[i];
}

static void test_launches() {
    use("");
    float *a = device_array<float>(8);
    OK(cudaMemset(a, 0, 8 * sizeof(float)));
    float value = 3;
    LS_LAUNCH(add, 1, 8, nullptr, a, value, 8);
    value = 100; // too late to matter
    expect(fetch(a, 8)[7] == 3, "the arguments are those of the launch");
    LS_LAUNCH(add, 1, 1025, nullptr, a, value, 8);
    GIVES(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
    GIVES(cudaGetLastError(), cudaErrorInvalidConfiguration);
    OK(cudaGetLastError());
    LS_LAUNCH(add, 0, 8, nullptr, a, value, 8);
    GIVES(cudaGetLastError(), cudaErrorInvalidConfiguration);
    expect(fetch(a, 8)[0] == 3, "a launch that was refused did something");
}

// ---- streams

struct pair_of_streams {
    cudaStream_t first, second;
    cudaEvent_t event;
    pair_of_streams() {
        OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
        OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
        OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
};

// Ten rounds of a producer and a consumer with one buffer between them: copy in, add (first), double (second).
static int wrong_rounds(const std::string &settings) {
    use(settings);
    pair_of_streams s;
    cudaEvent_t taken;
    OK(cudaEventCreateWithFlags(&taken, cudaEventDisableTiming));
    const int rounds = 10, count = 16;
    float *in = pinned_array<float>(rounds * count), *buffer = device_array<float>(count);
    float *out = device_array<float>(rounds * count);
    for (int i = 0; i < rounds * count; i++) in[i] = static_cast<float>(i);
    for (int r = 0; r < rounds; r++) {
        OK(cudaStreamWaitEvent(s.first, taken, 0)); // never recorded in the first round: no wait
        OK(cudaMemcpyAsync(buffer, in + r * count, count * sizeof(float), cudaMemcpyHostToDevice, s.first));
        LS_LAUNCH(add, 2, 8, s.first, buffer, 1.0f, count);
        OK(cudaEventRecord(s.event, s.first));
        OK(cudaStreamWaitEvent(s.second, s.event, 0));
        LS_LAUNCH(copy_twice, 2, 8, s.second, buffer, out + r * count, count);
        OK(cudaEventRecord(taken, s.second));
    }
    std::vector<float> got = fetch(out, rounds * count);
    int wrong = 0;
    for (int i = 0; i < rounds * count; i++) wrong += got[static_cast<size_t>(i)] != 2 * (static_cast<float>(i) + 1);
    return wrong;
}

static void test_streams() {
    for (int seed = 0; seed < 200; seed++)
        expect(wrong_rounds(seeded(seed, seed % 2 ? ",backlog=7" : "")) == 0, "a correct program, seed %d", seed);
    for (int wait : { 2, 9, 20 }) { // the first is of an event that was never recorded
        int seen = 0;
        std::string fault = ",drop_wait=" + std::to_string(wait);
        for (int seed = 0; seed < 100; seed++) seen += wrong_rounds(seeded(seed, fault.c_str())) > 0;
        // the last wait alone has little time to go wrong
        expect(seen >= (wait == 20 ? 25 : 50), "wait %d dropped: wrong in %d of 100 seeds", wait, seen);
    }
}

static void test_late_copies() {
    int seen = 0;
    for (int seed = 0; seed < 40; seed++) {
        use(seeded(seed));
        pair_of_streams s;
        float *host = pinned_array<float>(4), *to = device_array<float>(4);
        for (int early = 0; early < 2; early++) {
            for (int i = 0; i < 4; i++) host[i] = 5;
            OK(cudaMemcpyAsync(to, host, 16, cudaMemcpyHostToDevice, s.first));
            if (!early) OK(cudaStreamSynchronize(s.first));
            host[3] = 6; // too early where nobody waited
            float got = fetch(to, 4)[3];
            if (early)
                seen += got == 6;
            else
                expect(got == 5, "after waiting, the copy still gave %g, seed %d", got, seed);
        }
        float pageable[4] = { 1, 2, 3, 4 };
        OK(cudaMemcpyAsync(to, pageable, 16, cudaMemcpyHostToDevice, s.first));
        pageable[0] = 9; // allowed: pageable memory has been read
        float back[4] = {};
        OK(cudaMemcpyAsync(back, to, 16, cudaMemcpyDeviceToHost, s.first));
        expect(back[0] == 1 && back[3] == 4, "pageable copies gave %g, %g", back[0], back[3]);
    }
    expect(seen == 40, "a pinned buffer written too early was seen in %d of 40 seeds", seen);
}

static void test_default_stream() {
    for (int seed = 0; seed < 50; seed++) {
        use(seeded(seed));
        cudaStream_t blocking, other;
        OK(cudaStreamCreate(&blocking));
        OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
        float *a = device_array<float>(4);
        OK(cudaMemset(a, 0, 16));
        LS_LAUNCH(add, 1, 4, blocking, a, 1.0f, 4);
        LS_LAUNCH(copy_twice, 1, 4, nullptr, a, a, 4);
        LS_LAUNCH(add, 1, 4, blocking, a, 5.0f, 4);
        float got = 0;
        OK(cudaMemcpy(&got, a, 4, cudaMemcpyDeviceToHost));
        expect(got == 7, "blocking streams and the default stream take turns: %g, seed %d", got, seed);
        LS_LAUNCH(add, 1, 4, other, a, 1.0f, 4);
        OK(cudaStreamDestroy(other));
        expect(fetch(a, 1)[0] == 8, "a stream that was destroyed runs what is in it");
    }
}

static void test_queries() {
    use("seed=5");
    cudaStream_t s;
    cudaEvent_t start, end;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    float *a = device_array<float>(4), milliseconds = -1;
    OK(cudaEventQuery(start));
    GIVES(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
    OK(cudaEventRecord(start, s));
    for (int i = 0; i < 30; i++) LS_LAUNCH(add, 1, 4, s, a, 1.0f, 4);
    OK(cudaEventRecord(end, s));
    GIVES(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
    GIVES(cudaStreamQuery(s), cudaErrorNotReady);
    int polls = 0;
    while (cudaEventQuery(end) == cudaErrorNotReady) polls++;
    expect(polls > 3 && polls <= 32, "%d polls", polls);
    OK(cudaStreamQuery(s));
    OK(cudaEventElapsedTime(&milliseconds, start, end));
    expect(milliseconds >= 0, "%g ms", milliseconds);
    OK(cudaEventDestroy(end));
    GIVES(cudaEventRecord(end, s), cudaErrorInvalidResourceHandle);
    OK(cudaStreamDestroy(s));
    GIVES(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
    (void)cudaGetLastError();
}

// ---- graphs

// a: += 1 (first); then, side by side, b = 2a (first) and c = 2a (second); joined: b += 10
static void enqueue_diamond(const pair_of_streams &s, cudaEvent_t joined, float *a, float *b, float *c, int count) {
    LS_LAUNCH(add, 1, count, s.first, a, 1.0f, count);
    OK(cudaEventRecord(s.event, s.first));
    OK(cudaStreamWaitEvent(s.second, s.event, 0));
    LS_LAUNCH(copy_twice, 1, count, s.first, a, b, count);
    LS_LAUNCH(copy_twice, 1, count, s.second, a, c, count);
    OK(cudaEventRecord(joined, s.second));
    OK(cudaStreamWaitEvent(s.first, joined, 0));
    LS_LAUNCH(add, 1, count, s.first, b, 10.0f, count);
    OK(cudaMemcpyAsync(c + count, b, static_cast<size_t>(count) * 4, cudaMemcpyDeviceToDevice, s.first));
}

static std::vector<float> run_diamond(int seed, bool captured, size_t *nodes) {
    use(seeded(seed));
    pair_of_streams s;
    cudaEvent_t joined;
    OK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    const int count = 8;
    float *a = device_array<float>(3 * count + count), *b = a + count, *c = b + count;
    OK(cudaMemset(a, 0, 4 * count * sizeof(float)));
    OK(cudaDeviceSynchronize());
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    if (captured) {
        OK(cudaStreamBeginCapture(s.first, cudaStreamCaptureModeThreadLocal));
        enqueue_diamond(s, joined, a, b, c, count);
        cudaStreamCaptureStatus status;
        OK(cudaStreamIsCapturing(s.second, &status));
        expect(status == cudaStreamCaptureStatusActive, "a stream that waited for the capture is part of it");
        OK(cudaStreamEndCapture(s.first, &graph));
        OK(cudaGraphGetNodes(graph, nullptr, nodes));
        OK(cudaGraphInstantiate(&exec, graph, 0));
        OK(cudaGraphDestroy(graph));
        expect(fetch(a, 1)[0] == 0, "a capture ran something");
    }
    for (int i = 0; i < 3; i++) {
        if (captured)
            OK(cudaGraphLaunch(exec, s.first));
        else
            enqueue_diamond(s, joined, a, b, c, count);
    }
    if (captured) OK(cudaGraphExecDestroy(exec)); // with launches waiting: they still run
    return fetch(a, 4 * count);
}

static void test_graphs() {
    for (int seed = 0; seed < 100; seed++) {
        size_t nodes = 0;
        std::vector<float> eager = run_diamond(seed, false, &nodes), graph = run_diamond(seed, true, &nodes);
        expect(nodes == 5, "%zu nodes, expected 5: events are none", nodes);
        expect(eager == graph, "graph and eager differ, seed %d", seed);
        expect(eager[0] == 3 && eager[8] == 16 && eager[16] == 6 && eager[24] == 16, "results %g %g %g %g", eager[0],
            eager[8], eager[16], eager[24]);
    }
}

struct capturing : pair_of_streams {
    float *a, *host;
    cudaGraph_t graph = nullptr;
    capturing() {
        a = device_array<float>(8);
        host = pinned_array<float>(8);
        OK(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
        LS_LAUNCH(add, 1, 8, first, a, 1.0f, 8);
    }
};

static cudaError_t malloc_in_capture(capturing &) {
    void *p;
    return cudaMalloc(&p, 8);
}
static cudaError_t sync_stream(capturing &c) { return cudaStreamSynchronize(c.first); }
static cudaError_t sync_other(capturing &c) { return cudaStreamSynchronize(c.second); }
static cudaError_t sync_device(capturing &) { return cudaDeviceSynchronize(); }
static cudaError_t query_stream(capturing &c) { return cudaStreamQuery(c.first); }
static cudaError_t copy_sync(capturing &c) { return cudaMemcpy(c.a, c.host, 8, cudaMemcpyHostToDevice); }
static cudaError_t copy_pageable(capturing &c) {
    float pageable[2] = {};
    return cudaMemcpyAsync(c.a, pageable, 8, cudaMemcpyHostToDevice, c.first);
}
static cudaError_t copy_pinned(capturing &c) {
    return cudaMemcpyAsync(c.a, c.host, 8, cudaMemcpyHostToDevice, c.first);
}
static cudaError_t wait_outside(capturing &c) {
    OK(cudaEventRecord(c.event, c.second));
    return cudaStreamWaitEvent(c.first, c.event, 0);
}
static cudaError_t query_captured(capturing &c) {
    OK(cudaEventRecord(c.event, c.first));
    return cudaEventQuery(c.event);
}
static cudaError_t begin_again(capturing &c) { return cudaStreamBeginCapture(c.first, cudaStreamCaptureModeRelaxed); }
static cudaError_t not_joined(capturing &c) {
    OK(cudaEventRecord(c.event, c.first));
    OK(cudaStreamWaitEvent(c.second, c.event, 0));
    LS_LAUNCH(add, 1, 8, c.second, c.a, 1.0f, 8);
    return cudaSuccess;
}
static cudaError_t two_captures(capturing &c) {
    OK(cudaStreamBeginCapture(c.second, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(c.event, c.second));
    cudaError_t rc = cudaStreamWaitEvent(c.first, c.event, 0);
    cudaGraph_t graph;
    GIVES(cudaStreamEndCapture(c.second, &graph), cudaErrorStreamCaptureInvalidated);
    return rc;
}
static cudaError_t eager_elsewhere(capturing &c) {
    LS_LAUNCH(add, 1, 8, c.second, c.a, 1.0f, 8);
    return cudaGetLastError();
}

static void test_capture_rules() {
    const struct {
        const char *name;
        cudaError_t (*act)(capturing &c);
        cudaError_t gives, end;
    } rows[] = {
        { "an allocation", malloc_in_capture, cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated },
        { "waiting for the stream", sync_stream, cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated },
        { "waiting for another", sync_other, cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated },
        { "waiting for all", sync_device, cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated },
        { "a query", query_stream, cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated },
        { "a waiting copy", copy_sync, cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated },
        { "a pageable copy", copy_pageable, cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated },
        { "a pinned copy", copy_pinned, cudaSuccess, cudaSuccess },
        { "an event of outside", wait_outside, cudaErrorStreamCaptureIsolation, cudaErrorStreamCaptureInvalidated },
        { "a query of an event", query_captured, cudaErrorCapturedEvent, cudaErrorStreamCaptureInvalidated },
        { "a second beginning", begin_again, cudaErrorIllegalState, cudaErrorStreamCaptureInvalidated },
        { "a stream not joined", not_joined, cudaSuccess, cudaErrorStreamCaptureUnjoined },
        { "two captures merged", two_captures, cudaErrorStreamCaptureMerge, cudaErrorStreamCaptureInvalidated },
        { "other work elsewhere", eager_elsewhere, cudaSuccess, cudaSuccess },
    };
    for (const auto &row : rows) {
        use("");
        capturing c;
        expect_rc(row.act(c), row.gives, row.name);
        expect_rc(cudaStreamEndCapture(c.first, &c.graph), row.end, row.name);
        expect((c.graph != nullptr) == (row.end == cudaSuccess), "%s: graph %p", row.name, static_cast<void *>(c.graph));
        (void)cudaGetLastError();
        LS_LAUNCH(add, 1, 8, c.first, c.a, 1.0f, 8); // the streams are ordinary ones again
        OK(cudaGetLastError());
        OK(cudaDeviceSynchronize());
    }
    use("");
    pair_of_streams s;
    cudaGraph_t graph;
    GIVES(cudaStreamEndCapture(s.first, &graph), cudaErrorIllegalState);
    GIVES(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal), cudaErrorStreamCaptureUnsupported);
    cudaStream_t blocking;
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
    float *a = nullptr;
    void *room = nullptr;
    OK(cudaMalloc(&room, 64)); // relaxed: allowed
    a = static_cast<float *>(room);
    LS_LAUNCH(add, 1, 8, nullptr, a, 1.0f, 8);
    GIVES(cudaGetLastError(), cudaErrorStreamCaptureImplicit);
    GIVES(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
}

// ---- memory

static void host_reads() {
    use("");
    float *a = device_array<float>(8);
    OK(cudaMemset(a, 0, 32));
    OK(cudaDeviceSynchronize());
    volatile float got = a[0];
    (void)got;
}
static void kernel_far_outside() {
    use("");
    float *a = device_array<float>(8);
    LS_LAUNCH(add, 1, 1, nullptr, a + 5000, 1.0f, 8);
    cudaDeviceSynchronize();
}
static void kernel_just_outside() {
    use("");
    float *a = device_array<float>(8);
    LS_LAUNCH(add, 1, 9, nullptr, a, 1.0f, 9);
    cudaDeviceSynchronize();
}
static void graph_of_freed() {
    use("");
    capturing c;
    cudaGraphExec_t exec;
    OK(cudaStreamEndCapture(c.first, &c.graph));
    OK(cudaGraphInstantiate(&exec, c.graph, 0));
    OK(cudaFree(c.a));
    OK(cudaGraphLaunch(exec, c.first));
    cudaDeviceSynchronize();
}

static void test_memory() {
    dies("the host reads device memory", host_reads, "touched by host code");
    dies("a kernel far outside", kernel_far_outside, "touched by add");
    dies("a kernel just outside", kernel_just_outside, "behind an allocation of 32 bytes",
        "use-after-poison");
    dies("a graph with freed memory", graph_of_freed, "touched by add");
    dies("a setting that is none",
        [] {
            use("seeed=3");
            cudaDeviceSynchronize();
        },
        "'seeed' is no setting");

    use("memory=1M,malloc_fail=4");
    size_t unused = 0, all = 0;
    OK(cudaMemGetInfo(&unused, &all));
    expect(unused == 1 << 20 && all == 1 << 20, "%zu of %zu bytes", unused, all);
    float *a = device_array<float>(1 << 17);
    expect(std::isnan(fetch(a, 10)[9]), "new memory is not NaN");
    void *more = nullptr;
    GIVES(cudaMalloc(&more, (1 << 19) + 1), cudaErrorMemoryAllocation);
    GIVES(cudaGetLastError(), cudaErrorMemoryAllocation);
    OK(cudaMalloc(&more, 1000));
    OK(cudaMemGetInfo(&unused, &all));
    expect(unused == (1 << 19) - 1024, "%zu bytes are left", unused);
    void *fourth = nullptr, *fifth = nullptr;
    GIVES(cudaMallocHost(&fourth, 8), cudaErrorMemoryAllocation);
    OK(cudaMallocHost(&fifth, 8));
    OK(cudaFreeHost(fifth));
    OK(cudaFree(more));
    GIVES(cudaFree(more), cudaErrorInvalidValue);
    OK(cudaFree(a));
    OK(cudaFree(nullptr));
    OK(cudaMemGetInfo(&unused, &all));
    expect(unused == all, "%zu of %zu bytes after all was freed", unused, all);

    use("");
    a = device_array<float>(8);
    float host[16] = {};
    GIVES(cudaMemcpy(a, host, 36, cudaMemcpyHostToDevice), cudaErrorInvalidValue); // four bytes too many
    GIVES(cudaMemcpy(host, a, 32, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    GIVES(cudaMemsetAsync(host, 0, 4, nullptr), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

// ---- faults

static void test_faults() {
    use("launch_fail=3");
    pair_of_streams s;
    float *a = device_array<float>(8);
    OK(cudaMemset(a, 0, 32));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 5; i++) LS_LAUNCH(add, 1, 8, s.first, a, 1.0f, 8);
    OK(cudaGetLastError()); // nothing has run yet
    GIVES(cudaStreamSynchronize(s.first), cudaErrorIllegalAddress);
    GIVES(cudaGetLastError(), cudaErrorIllegalAddress);
    GIVES(cudaGetLastError(), cudaErrorIllegalAddress);
    void *more = nullptr;
    GIVES(cudaMalloc(&more, 8), cudaErrorIllegalAddress);
    LS_LAUNCH(add, 1, 8, s.first, a, 1.0f, 8);
    GIVES(cudaPeekAtLastError(), cudaErrorIllegalAddress);
    GIVES(cudaFree(a), cudaErrorIllegalAddress); // and it is free
    GIVES(cudaStreamDestroy(s.first), cudaErrorIllegalAddress);
    GIVES(cudaStreamDestroy(s.second), cudaErrorIllegalAddress);
    GIVES(cudaEventDestroy(s.event), cudaErrorIllegalAddress);
    int count = 0;
    OK(cudaGetDeviceCount(&count)); // nothing is alive: a new start
    expect(count == 1, "%d devices", count);
    OK(cudaMalloc(&more, 8));
    OK(cudaFree(more));

    setenv("LOCKSTEP_EMULATION", "devices=0", 1); // taken without a reset, as nothing is alive
    GIVES(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    GIVES(cudaMalloc(&more, 8), cudaErrorNoDevice);
    int driver = -1;
    setenv("LOCKSTEP_EMULATION", "driver=0", 1);
    OK(cudaDriverGetVersion(&driver));
    expect(driver == 0, "driver %d", driver);
    GIVES(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    setenv("LOCKSTEP_EMULATION", "driver=12040", 1);
    GIVES(cudaSetDevice(0), cudaErrorInsufficientDriver);

    use("devices=2,sm=120,memory=3G");
    cudaDeviceProp p;
    char bus[16];
    OK(cudaGetDeviceProperties(&p, 1));
    OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
    expect(p.major == 12 && p.minor == 0 && p.totalGlobalMem == size_t{ 3 } << 30, "properties of device 1");
    expect(std::string(bus) == "0000:02:00.0", "bus id %s", bus);
    GIVES(cudaSetDevice(2), cudaErrorInvalidDevice);
    (void)cudaGetLastError();
    expect(std::string(cudaGetErrorName(cudaErrorIllegalAddress)) == "cudaErrorIllegalAddress", "an error's name");
}

int main(int count, char **names) { // names of tests: these alone
    const struct {
        const char *name;
        void (*run)();
    } tests[] = {
        { "half", test_half },
        { "conversions", test_conversions },
        { "barriers", test_barriers },
        { "clusters", test_clusters },
        { "grids", test_grids },
        { "shuffles", test_shuffles },
        { "votes", test_votes },
        { "blocks", test_blocks },
        { "threads that cannot go on", test_threads_that_cannot_go_on },
        { "order", test_order },
        { "launches", test_launches },
        { "streams", test_streams },
        { "late copies", test_late_copies },
        { "default stream", test_default_stream },
        { "queries", test_queries },
        { "graphs", test_graphs },
        { "capture rules", test_capture_rules },
        { "memory", test_memory },
        { "faults", test_faults },
    };
    for (const auto &test : tests) {
        bool wanted = count == 1;
        for (int i = 1; i < count; i++) wanted |= std::string(names[i]) == test.name;
        if (!wanted) continue;
        test_name = test.name;
        int before = failures;
        test.run();
        printf("%-30s %s\n", test.name, failures == before ? "ok" : "FAILED");
    }
    use("");
    return failures != 0;
}
