// ranks.cc - collectives: processes that meet in shared memory.
//
// A rank arrives at a collective when its turn comes in its stream: it puts its elements and what it believes the
// collective to be into the shared memory. When all have arrived, each rank sums for itself, in the order of the ranks.
// Nobody waits for a rank's host: while a collective is in a stream, a thread runs what can run whenever the host stays
// away from the emulation for a few milliseconds, as a GPU does.
#include "ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <atomic>
#include <condition_variable>
#include <thread>
#include <vector>

namespace emu {

// Two slots are enough: a rank arrives at n + 1 after its n has ended, so all had arrived at n, so their n - 1 had ended.
static const size_t SLOTS = 2, SLOT_BYTES = size_t{ 256 } << 20; // of address space; memory where it is touched
static const size_t DATA_AT = size_t{ 1 } << 20;

struct description { // of a collective, as one rank has it
    int64_t count;
    int32_t type, maximum, tag, recorded;
    uint64_t adopted;
};

struct shared_rank {
    std::atomic<uint32_t> joined, closed;
    std::atomic<uint64_t> given; // when it closed
    int32_t version, world_size;
    char gpu[24], host[32]; // host: NCCL_HOSTID
    struct {
        std::atomic<uint64_t> arrived; // number of the collective in this slot
        description what;
    } slots[SLOTS];
};
static_assert(sizeof(shared_rank) * RANKS_MAX <= DATA_AT, "the ranks fit before the data");
static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");

class group {
  public:
    int rank, world_size;
    char *memory;
    size_t bytes;
    uint64_t given = 0, arrived = 0, ended = 0, recorded = 0, adopted = 0; // recorded: nodes of graphs that are alive
    uint64_t alive = 0;                                                    // given and not ended
    bool abandoned = false, failed = false;
    std::thread driver;
    std::atomic<bool> stop{ false };

    shared_rank *of(int r) const { return reinterpret_cast<shared_rank *>(memory) + r; }
    char *data(int r, uint64_t number) const {
        return memory + DATA_AT + (static_cast<size_t>(r) * SLOTS + number % SLOTS) * SLOT_BYTES;
    }
    bool faulty() const { return config.collective_rank < 0 || config.collective_rank == rank; }
};

// ---- one collective

static size_t element_bytes(element type) {
    return type == element::BF16 ? 2 : type == element::F32 || type == element::I32 ? 4 : 8;
}

static float bf16_value(uint16_t bits) { return cast<float>(static_cast<uint32_t>(bits) << 16); }
static uint16_t bf16_bits(float v) { // to nearest, ties to even
    uint32_t bits = cast<uint32_t>(v);
    if (v != v) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

template <typename T> static T both(T a, T b, bool maximum) { return maximum ? (a > b ? a : b) : a + b; }
template <> int64_t both(int64_t a, int64_t b, bool maximum) { // wraps, as on the device
    return maximum ? std::max(a, b) : static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <> int32_t both(int32_t a, int32_t b, bool maximum) {
    return maximum ? std::max(a, b) : static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

template <typename T> static void add(char *to, const char *from, int64_t count, bool maximum) {
    for (int64_t i = 0; i < count; i++) {
        T a, b;
        memcpy(&a, to + static_cast<size_t>(i) * sizeof a, sizeof a);
        memcpy(&b, from + static_cast<size_t>(i) * sizeof b, sizeof b);
        a = both(a, b, maximum);
        memcpy(to + static_cast<size_t>(i) * sizeof a, &a, sizeof a);
    }
}

static void add_bf16(char *to, const char *from, int64_t count, bool maximum) { // rounded at every rank, as in a ring
    for (int64_t i = 0; i < count; i++) {
        uint16_t a, b;
        memcpy(&a, to + 2 * i, 2);
        memcpy(&b, from + 2 * i, 2);
        a = bf16_bits(both(bf16_value(a), bf16_value(b), maximum));
        memcpy(to + 2 * i, &a, 2);
    }
}

static void add_to(char *to, const char *from, const collective &c) {
    switch (c.type) {
    case element::F32: add<float>(to, from, c.count, c.maximum); break;
    case element::F64: add<double>(to, from, c.count, c.maximum); break;
    case element::I32: add<int32_t>(to, from, c.count, c.maximum); break;
    case element::I64: add<int64_t>(to, from, c.count, c.maximum); break;
    case element::BF16: add_bf16(to, from, c.count, c.maximum); break;
    }
}

static std::string words(const description &d) {
    static const char *const types[] = { "f32", "f64", "bf16", "i32", "i64" };
    char text[160];
    snprintf(text, sizeof text, "%s of %lld %s, tag %d, %s", d.maximum ? "maximum" : "sum",
        static_cast<long long>(d.count), types[d.type], d.tag, d.recorded ? "recorded" : "not recorded");
    return text;
}

class one_collective : public joint {
  public:
    one_collective(std::shared_ptr<group> g, const collective &c, bool recorded)
        : g_(std::move(g)), c_(c), number_(++g_->given) {
        what_ = { c.count, static_cast<int32_t>(c.type), c.maximum, c.tag, recorded, g_->adopted };
        g_->alive++;
    }
    ~one_collective() override { g_->alive--; }

    bool ready() override {
        if (g_->abandoned) return true;
        if (state_ == TURN && !arrive()) return false;
        if (state_ == STUCK) return false;
        bool all = true;
        for (int r = 0; r < g_->world_size; r++) all = all && has_arrived(r);
        return all;
    }

    void end() override {
        g_->ended++;
        if (g_->abandoned) return; // the data is anything
        check();
        std::vector<char> sum(bytes());
        memcpy(sum.data(), g_->data(0, number_), bytes());
        for (int r = 1; r < g_->world_size; r++) add_to(sum.data(), g_->data(r, number_), c_);
        memcpy(c_.data, sum.data(), bytes());
    }

  private:
    size_t bytes() const { return static_cast<size_t>(c_.count) * element_bytes(c_.type); }

    bool arrive() {
        if (number_ != g_->arrived + 1 || g_->ended != g_->arrived)
            die("rank %d: collective %llu (%s) runs while number %llu of the same communicator is to come or under way: "
                "no queue or event orders the two", g_->rank, ull(number_), words(what_).c_str(), ull(g_->ended + 1));
        if (due_ == 0 && g_->faulty() && config.collective_delay > 0)
            due_ = seconds_now() + 1e-6 * static_cast<double>(random_below(
                1 + 1000 * static_cast<size_t>(config.collective_delay)));
        if (seconds_now() < due_) return false;
        if (g_->faulty() && static_cast<long>(number_) == config.collective_fail) g_->failed = true;
        bool stuck = g_->failed || (g_->faulty() && static_cast<long>(number_) == config.collective_hang);
        state_ = stuck ? STUCK : ARRIVED;
        g_->arrived++;
        if (stuck) return false;
        auto *slot = &g_->of(g_->rank)->slots[number_ % SLOTS];
        memcpy(g_->data(g_->rank, number_), c_.data, bytes());
        slot->what = what_;
        slot->arrived.store(number_, std::memory_order_release);
        return true;
    }

    bool has_arrived(int r) const {
        const shared_rank *other = g_->of(r);
        if (other->slots[number_ % SLOTS].arrived.load(std::memory_order_acquire) == number_) return true;
        if (other->closed.load(std::memory_order_acquire) && other->given.load() < number_)
            die("rank %d closed the communicator after %llu collectives, but rank %d waits in number %llu (%s)", r,
                ull(other->given.load()), g_->rank, ull(number_), words(what_).c_str());
        return false;
    }

    void check() const { // all ranks must have meant the same
        for (int r = 0; r < g_->world_size; r++) {
            const description &other = g_->of(r)->slots[number_ % SLOTS].what;
            if (other.count != what_.count || other.type != what_.type || other.maximum != what_.maximum ||
                other.tag != what_.tag || other.recorded != what_.recorded)
                die("the ranks differ in collective %llu: rank %d gave %s, rank %d gave %s", ull(number_), g_->rank,
                    words(what_).c_str(), r, words(other).c_str());
            if (other.adopted != what_.adopted)
                die("the ranks differ in what they adopted before collective %llu: rank %d and rank %d", ull(number_),
                    g_->rank, r);
        }
    }

    static unsigned long long ull(uint64_t v) { return v; }

    enum { TURN, ARRIVED, STUCK } state_ = TURN;
    std::shared_ptr<group> g_;
    collective c_;
    description what_;
    uint64_t number_;
    double due_ = 0;
};

// What a graph holds of a collective: NCCL's communicator counts them, and its end waits until they are gone.
struct recorded_collective {
    std::shared_ptr<group> g;
    collective c;
    recorded_collective(std::shared_ptr<group> group_, const collective &c_) : g(std::move(group_)), c(c_) { g->recorded++; }
    ~recorded_collective() { g->recorded--; }
    recorded_collective(const recorded_collective &) = delete;
};

cudaError_t ranks_enqueue(const std::shared_ptr<group> &g, const collective &c, cudaStream_t stream) {
    if (static_cast<size_t>(c.count) * element_bytes(c.type) > SLOT_BYTES)
        die("a collective of more than %zu bytes", SLOT_BYTES);
    return call([&] {
        auto kept = std::make_shared<recorded_collective>(g, c);
        return enqueue_joint(stream, "collective", [kept](bool recorded) {
            return std::make_shared<one_collective>(kept->g, kept->c, recorded);
        });
    });
}

// ---- opening and closing

static void drive(group *g) {
    while (!g->stop) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        world_lock guard(false);
        if (!g->stop && g->alive > 0 && world_is_idle()) run_what_can();
    }
}

static int unclaimed = -1; // the last memory that was made and not met in

std::string ranks_make_id(uint8_t id[ID_BYTES]) {
    world_lock guard;
    if (unclaimed >= 0) close(unclaimed);
    unclaimed = memfd_create("lockstep-emulated-ranks", MFD_CLOEXEC);
    if (unclaimed < 0 || ftruncate(unclaimed, static_cast<off_t>(DATA_AT + RANKS_MAX * SLOTS * SLOT_BYTES)) != 0)
        return std::string("no shared memory: ") + strerror(errno);
    memset(id, 0, ID_BYTES);
    snprintf(reinterpret_cast<char *>(id), ID_BYTES, "/proc/%ld/fd/%d", static_cast<long>(getpid()), unclaimed);
    return "";
}

static std::string map(const uint8_t id[ID_BYTES], group *g) {
    const char *path = reinterpret_cast<const char *>(id);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return std::string("the ranks' memory ") + path + ": " + strerror(errno);
    g->bytes = DATA_AT + static_cast<size_t>(g->world_size) * SLOTS * SLOT_BYTES;
    void *at = mmap(nullptr, g->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (at == MAP_FAILED) return std::string("the ranks' memory: ") + strerror(errno);
    g->memory = static_cast<char *>(at);
    return "";
}

static std::string compare(const group &g) {
    char text[200] = "";
    for (int r = 0; r < g.world_size && !text[0]; r++) {
        for (int s = 0; s < r && !text[0]; s++) {
            const shared_rank *a = g.of(s), *b = g.of(r);
            if (a->version != b->version)
                snprintf(text, sizeof text, "Mismatched NCCL version detected : rank %d %d rank %d %d", s, a->version, r,
                    b->version);
            else if (strcmp(a->gpu, b->gpu) == 0 && strcmp(a->host, b->host) == 0)
                snprintf(text, sizeof text, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %s", s, r,
                    a->gpu);
        }
    }
    return text;
}

int library_version() {
    int device = 0;
    (void)cudaGetDevice(&device); // reads the settings
    world_lock guard;
    return config.collective ? static_cast<int>(config.collective_version) : 0;
}

static std::string meet(const uint8_t id[ID_BYTES], double timeout_s, bool *timed_out, group *g) {
    if (g->world_size > RANKS_MAX) return "more ranks than the emulation has room for";
    std::string error = map(id, g);
    if (!error.empty()) return error;
    shared_rank *mine = g->of(g->rank);
    int device = 0;
    (void)cudaGetDevice(&device);
    if (cudaDeviceGetPCIBusId(mine->gpu, sizeof mine->gpu, device) != cudaSuccess) return "no device";
    const char *host = getenv("NCCL_HOSTID"), *switches = getenv("NCCL_NVLS_ENABLE");
    if (config.report) fprintf(stderr, "emulated NCCL: NCCL_NVLS_ENABLE=%s\n", switches ? switches : "");
    snprintf(mine->host, sizeof mine->host, "%s", host ? host : "");
    mine->version = library_version();
    mine->joined.store(1, std::memory_order_release);
    double until = seconds_now() + timeout_s;
    for (int r = 0; r < g->world_size;) {
        if (g->of(r)->joined.load(std::memory_order_acquire)) {
            r++;
        } else if (seconds_now() > until) {
            *timed_out = true;
            return "rank " + std::to_string(r) + " has not come";
        } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    return compare(*g);
}

std::string ranks_open(const uint8_t id[ID_BYTES], int rank, int world_size, double timeout_s, bool *timed_out,
    std::shared_ptr<group> *out) {
    auto g = std::make_shared<group>();
    g->rank = rank;
    g->world_size = world_size;
    g->memory = nullptr;
    *timed_out = false;
    {
        world_lock guard;
        if (config.collective_open_fail && g->faulty()) return "unhandled system error (injected)";
    }
    std::string error = meet(id, timeout_s, timed_out, g.get());
    {
        world_lock guard;
        if (unclaimed >= 0) { // all who come have it open
            close(unclaimed);
            unclaimed = -1;
        }
    }
    if (!error.empty()) {
        if (g->memory) munmap(g->memory, g->bytes);
        return error;
    }
    g->driver = std::thread(drive, g.get());
    *out = g;
    return "";
}

void ranks_adopt(const std::shared_ptr<group> &g, size_t bytes) {
    world_lock guard;
    g->adopted = g->adopted * 1000003 + bytes;
}

std::string ranks_health(const std::shared_ptr<group> &g) {
    world_lock guard(false); // whoever asks often must not keep the driver away
    return g->failed ? "remote process exited or there was a network error (injected)" : "";
}

static void finish(const std::shared_ptr<group> &g, double timeout_s) {
    double until = seconds_now() + timeout_s;
    world_lock guard;
    while (!g->failed && g->alive > 0 && seconds_now() < until) {
        run_what_can();
        if (g->alive > 0) leave_world_for(1e-3);
    }
    if (g->alive == 0 && g->recorded > 0)
        die("rank %d closes the communicator while recordings hold %llu of its collectives: NCCL waits for their end "
            "forever", g->rank, static_cast<unsigned long long>(g->recorded));
    if (g->alive > 0 || g->failed) return;
    g->of(g->rank)->given.store(g->given);
    g->of(g->rank)->closed.store(1, std::memory_order_release);
    for (int r = 0; r < g->world_size; r++)
        while (!g->of(r)->closed.load(std::memory_order_acquire)) {
            if (seconds_now() >= until) return;
            leave_world_for(1e-3);
        }
}

void ranks_close(const std::shared_ptr<group> &g, double timeout_s) {
    finish(g, timeout_s);
    g->stop = true;
    g->driver.join();
    world_lock guard;
    g->abandoned = true;
    run_what_can(); // what waited goes on, with anything in its data
    munmap(g->memory, g->bytes);
}

} // namespace emu
