// streams.cc - streams, events, capture, graphs.
//
// A stream is a queue of work that nobody runs until something has to be waited for; then the work of all streams is run
// in a random order that the rules allow, until what was waited for is there.
#include "emulation.h"

#include <string.h>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <vector>

namespace emu {

// One record of an event. A wait is for the record that was the last when it was called.
struct marker {
    bool reached;
    double seconds;
};

struct node {
    const char *name;
    std::string counts_as; // of the log of work; empty: part of the one before
    bool kernel;
    std::function<void()> run;
    joint_maker make; // not empty: a joint in place of run
    std::vector<size_t> before; // nodes that must have run
    int priority;               // of the stream that it was captured in
};

struct capture {
    cudaStream_t origin;
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    bool open, broken;
    std::vector<node> nodes;
};

struct runnable_graph {
    std::vector<node> nodes;
    uint64_t launched, finished; // launches of one graph run one after the other
};

// A launch of a graph that has begun.
struct graph_run {
    std::shared_ptr<runnable_graph> graph;
    uint64_t ticket;
    std::vector<size_t> missing; // by node: how many that must run before it have not
    std::vector<size_t> ready;
    std::vector<std::shared_ptr<joint>> joints; // by node; null: none
    size_t left;
};

struct work {
    const char *name;
    bool kernel;
    std::function<void()> run;
    std::shared_ptr<marker> record, wait;
    std::shared_ptr<graph_run> graph;
    std::shared_ptr<emu::joint> joint;
};

} // namespace emu

struct CUstream_st {
    int device, priority;
    bool blocking; // waits for the default stream, and that for it
    bool destroyed;
    std::deque<emu::work> queue;
    std::shared_ptr<emu::capture> capture;
    std::vector<size_t> last; // of the capture: the nodes that this stream's next one comes after
};

struct CUevent_st {
    bool timed;
    std::shared_ptr<emu::marker> record; // the last
    std::shared_ptr<emu::capture> capture;
    std::vector<size_t> nodes;
};

struct CUgraph_st {
    std::vector<emu::node> nodes;
};

struct CUgraphExec_st {
    std::shared_ptr<emu::runnable_graph> graph;
};

namespace emu {

static CUstream_st *legacy; // the default stream
static auto &streams = *new std::vector<CUstream_st *>; // never freed: the program's end may still use them
static auto &events = *new std::set<CUevent_st *>;
static auto &graphs = *new std::set<CUgraph_st *>;
static auto &execs = *new std::set<CUgraphExec_st *>;
static auto &captures = *new std::vector<std::shared_ptr<capture>>; // open ones
const char *now_running = "";
static long kernels_run, waits_called;                 // counted for the planted faults

size_t streams_alive() {
    size_t alive = events.size() + graphs.size() + execs.size();
    for (const CUstream_st *s : streams) alive += s != legacy && !s->destroyed;
    return alive;
}

void streams_forget_all() {
    for (CUstream_st *s : streams) delete s;
    for (CUevent_st *e : events) delete e;
    for (CUgraph_st *g : graphs) delete g;
    for (CUgraphExec_st *e : execs) delete e;
    streams.clear();
    events.clear();
    graphs.clear();
    execs.clear();
    captures.clear();
    kernels_run = waits_called = 0;
    legacy = new CUstream_st();
    legacy->blocking = true;
    streams.push_back(legacy);
}

// NULL: no such stream
static CUstream_st *find(cudaStream_t stream) {
    if (!stream) return legacy;
    for (CUstream_st *s : streams)
        if (s == stream && !s->destroyed) return s;
    return nullptr;
}

// ---- order between streams

static work record_work(std::shared_ptr<marker> record) {
    work w = {};
    w.name = "event record";
    w.record = std::move(record);
    return w;
}

static void push_wait(CUstream_st *s, std::shared_ptr<marker> record) {
    work w = {};
    w.name = "event wait";
    w.wait = std::move(record);
    s->queue.push_back(std::move(w));
}

static void wait_for_stream(CUstream_st *waiting, CUstream_st *other) {
    if (other == waiting || other->queue.empty()) return;
    auto record = std::make_shared<marker>();
    other->queue.push_back(record_work(record));
    push_wait(waiting, record);
}

static void legacy_waits() { // the default stream, for all that do not refuse it
    for (CUstream_st *other : streams)
        if (other->blocking) wait_for_stream(legacy, other);
}

// ---- the log of work, `nodes`: a line for each piece of a stream, "graph N" before the N pieces of a graph

static thread_local std::string library_call; // what this thread enqueues is one piece of this name
static thread_local bool library_counted;

// "(bias_add<T>)" is bias_add.
static std::string counts_as(const char *name) {
    if (library_call.empty()) {
        std::string plain = name;
        plain.erase(0, plain.find_first_not_of('('));
        return plain.substr(0, plain.find_first_of("<)"));
    }
    bool first = !library_counted;
    library_counted = true;
    return first ? library_call : "";
}

static void log_work(const CUstream_st *s, const std::string &name) {
    static FILE *log;
    static std::string opened;
    if (config.nodes.empty() || name.empty()) return;
    if (opened != config.nodes) {
        if (log) fclose(log);
        opened = config.nodes;
        log = fopen(opened.c_str(), "w");
        if (!log) die("LOCKSTEP_EMULATION: nodes=%s cannot be written", opened.c_str());
    }
    fprintf(log, "%p %s\n", static_cast<const void *>(s), name.c_str());
    fflush(log);
}

static void log_graph(const CUstream_st *s, const std::vector<node> &nodes) {
    size_t count = 0;
    for (const node &n : nodes) count += !n.counts_as.empty();
    log_work(s, "graph " + std::to_string(count));
    for (const node &n : nodes) log_work(s, n.counts_as);
}

// ---- running

static void run_one(const char *name, bool kernel, const std::function<void()> &run) {
    now_running = name;
    if (config.dry && (kernel || strcmp(name, "memset") == 0)) return;
    if (kernel && ++kernels_run == config.launch_fail)
        set_sticky(cudaErrorIllegalAddress);
    else
        run();
}

static void begin(graph_run *g) {
    const std::vector<node> &nodes = g->graph->nodes;
    g->left = nodes.size();
    g->missing.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); i++) {
        g->missing[i] = nodes[i].before.size();
        if (g->missing[i] == 0) g->ready.push_back(i);
    }
}

// Of g->ready: the places of those that can run now.
static std::vector<size_t> able_nodes(graph_run *g) {
    if (g->missing.empty()) begin(g);
    std::vector<size_t> able;
    for (size_t i = 0; i < g->ready.size(); i++) {
        joint *j = g->joints[g->ready[i]].get();
        if (!j || j->ready()) able.push_back(i);
    }
    return able;
}

static void run_a_node(graph_run *g) {
    const std::vector<node> &nodes = g->graph->nodes;
    std::vector<size_t> able = able_nodes(g);
    if (g->left > 0 && !able.empty()) {
        size_t pick = able[random_below(able.size())], chosen = g->ready[pick];
        g->ready.erase(g->ready.begin() + static_cast<std::ptrdiff_t>(pick));
        now_running = nodes[chosen].name;
        if (g->joints[chosen])
            g->joints[chosen]->end();
        else
            run_one(nodes[chosen].name, nodes[chosen].kernel, nodes[chosen].run);
        g->joints[chosen] = nullptr;
        for (size_t i = chosen + 1; i < nodes.size(); i++)
            for (size_t before : nodes[i].before)
                if (before == chosen && --g->missing[i] == 0) g->ready.push_back(i);
        g->left--;
    }
    if (g->left == 0) g->graph->finished = g->ticket;
}

static bool can_run(CUstream_st *s) {
    if (s->queue.empty()) return false;
    const work &front = s->queue.front();
    if (front.wait) return front.wait->reached;
    now_running = front.name;
    if (front.joint) return front.joint->ready();
    graph_run *g = front.graph.get();
    return !g || (g->graph->finished + 1 == g->ticket && (!able_nodes(g).empty() || g->left == 0));
}

// Whether a stream goes on when other processes do.
static bool awaits_others(const CUstream_st *s) {
    if (s->queue.empty()) return false;
    if (s->queue.front().joint) return true;
    const graph_run *g = s->queue.front().graph.get();
    bool awaited = false;
    if (g)
        for (size_t i : g->ready) awaited = awaited || g->joints[i];
    return awaited;
}

static void run_front(CUstream_st *s) {
    work *front = &s->queue.front();
    if (front->graph) {
        run_a_node(front->graph.get());
        if (front->graph->left > 0) return;
    } else if (front->record) {
        front->record->reached = true;
        front->record->seconds = seconds_now();
    } else if (front->joint) {
        now_running = front->name;
        front->joint->end();
    } else if (!front->wait) {
        run_one(front->name, front->kernel, front->run);
    }
    s->queue.pop_front();
}

[[noreturn]] static void die_of_deadlock() {
    fprintf(stderr, "emulated CUDA: streams and what each waits with:");
    for (const CUstream_st *s : streams)
        if (!s->queue.empty()) fprintf(stderr, " %p (%s)", static_cast<const void *>(s), s->queue.front().name);
    fprintf(stderr, "\n");
    die("deadlock: no stream can go on");
}

static void sweep() { // streams that were destroyed and have nothing left to do
    for (size_t i = 0; i < streams.size();) {
        if (streams[i]->destroyed && streams[i]->queue.empty()) {
            delete streams[i];
            streams.erase(streams.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
            i++;
        }
    }
}

// Runs work until reached() says so (true) or nothing can run before other processes have done their part (false). One
// stream often gets far ahead of the others, and no one can rely on when.
static bool run_until(const std::function<bool()> &reached) {
    device_memory_open open;
    size_t change = 1 + random_below(16); // one in so many steps looks for another stream
    CUstream_st *running = nullptr;
    while (sticky() == cudaSuccess && !reached()) {
        if (!running || !can_run(running) || random_below(change) == 0) {
            std::vector<CUstream_st *> able;
            for (CUstream_st *s : streams)
                if (can_run(s)) able.push_back(s);
            if (able.empty()) {
                if (std::any_of(streams.begin(), streams.end(), awaits_others)) return false;
                die_of_deadlock();
            }
            running = able[random_below(able.size())];
        }
        run_front(running);
    }
    return true;
}

// The host waits: while nothing can run, other threads may come in.
static cudaError_t replay(const std::function<bool()> &reached, bool patient = true) {
    double nap_s = 20e-6;
    while (sticky() == cudaSuccess && !reached() && !run_until(reached) && patient) {
        leave_world_for(nap_s);
        nap_s = std::min(2 * nap_s, 1e-3);
    }
    if (sticky() != cudaSuccess)
        for (CUstream_st *s : streams) s->queue.clear(); // of a dead context nothing runs any more
    sweep();
    return sticky();
}

static bool all_empty() {
    for (const CUstream_st *s : streams)
        if (!s->queue.empty()) return false;
    return true;
}

static void run_a_little(const std::function<bool()> &reached) { // at least one step: who polls gets there
    size_t steps = 1 + random_below(4);
    replay([&] { return reached() || all_empty() || steps-- == 0; }, false);
}

void run_what_can() { replay(all_empty, false); }

cudaError_t drain(cudaStream_t stream) {
    CUstream_st *s = find(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (s == legacy) legacy_waits();
    return replay([=] { return s->queue.empty(); });
}

cudaError_t drain_all() { return replay(all_empty); }

// ---- what a capture allows

static cudaError_t break_capture(capture *c, cudaError_t error) {
    c->broken = true;
    return error;
}

cudaError_t capture_broken(cudaStream_t stream) {
    CUstream_st *s = find(stream);
    return s && s->capture ? break_capture(s->capture.get(), cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t unsafe_call() {
    for (const auto &c : captures) {
        bool mine = c->thread == std::this_thread::get_id();
        if (c->mode == cudaStreamCaptureModeGlobal || (c->mode == cudaStreamCaptureModeThreadLocal && mine))
            return break_capture(c.get(), cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
}

static cudaError_t check_legacy_use() { // the default stream would have to wait for a stream that captures
    for (CUstream_st *s : streams)
        if (s->capture && s->blocking) return break_capture(s->capture.get(), cudaErrorStreamCaptureImplicit);
    return cudaSuccess;
}

// ---- enqueueing

static cudaError_t push(CUstream_st *s, work w) {
    if (s == legacy) {
        cudaError_t error = check_legacy_use();
        if (error != cudaSuccess) return error;
        legacy_waits();
    } else if (s->blocking) {
        wait_for_stream(s, legacy);
    }
    s->queue.push_back(std::move(w));
    size_t all = 0;
    for (const CUstream_st *each : streams) all += each->queue.size();
    if (all <= static_cast<size_t>(config.backlog)) return cudaSuccess;
    size_t steps = all / 2;
    return replay([&] { return all_empty() || steps-- == 0; }, false);
}

static cudaError_t capture_node(
    CUstream_st *s, const char *name, bool kernel, std::function<void()> run, joint_maker make = {}) {
    if (s->capture->broken) return cudaErrorStreamCaptureInvalidated;
    s->capture->nodes.push_back({ name, counts_as(name), kernel, std::move(run), std::move(make), s->last, s->priority });
    s->last = { s->capture->nodes.size() - 1 };
    return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, const char *name, bool kernel, std::function<void()> run) {
    CUstream_st *s = find(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (sticky() != cudaSuccess) return sticky();
    if (s->capture) return capture_node(s, name, kernel, std::move(run));
    log_work(s, counts_as(name));
    work w = {};
    w.name = name;
    w.kernel = kernel;
    w.run = std::move(run);
    return push(s, std::move(w));
}

cudaError_t enqueue_joint(cudaStream_t stream, const char *name, joint_maker make) {
    CUstream_st *s = find(stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (sticky() != cudaSuccess) return sticky();
    if (s->capture) return capture_node(s, name, false, {}, std::move(make));
    log_work(s, counts_as(name));
    work w = {};
    w.name = name;
    w.joint = make(false);
    return push(s, std::move(w));
}

void enqueue_kernel(kernel_work kernel, cudaStream_t stream) {
    (void)call([&] {
        const dim3 &g = kernel.grid, &b = kernel.block;
        bool fits = g.x >= 1 && g.y >= 1 && g.z >= 1 && g.x <= INT_MAX && g.y <= 65535 && g.z <= 65535;
        fits = fits && b.x >= 1 && b.y >= 1 && b.z >= 1 && b.x <= 1024 && b.y <= 1024 && b.z <= 64;
        if (!fits || b.x * b.y * b.z > 1024) return cudaErrorInvalidConfiguration;
        unsigned clusters = card_now().clusters;
        if (kernel.dynamic > shared_limit()) return cudaErrorInvalidValue;
        if (kernel.cluster == WHOLE_GRID) { // a block on each multiprocessor: there may be room for more
            if (1.0 * g.x * g.y * g.z > config.multiprocessors) return cudaErrorCooperativeLaunchTooLarge;
        } else if (kernel.cluster > clusters || g.y % kernel.cluster) {
            return cudaErrorInvalidClusterSize;
        }
        const CUstream_st *s = find(stream);
        if (s && s != legacy && s->device != current_device()) return cudaErrorInvalidResourceHandle;
        return enqueue(stream, kernel.name, true, [kernel] { run_kernel(kernel); });
    });
}

// ---- events

static bool is_event(CUevent_st *event) { return events.count(event) == 1; }

static void record(CUevent_st *event, CUstream_st *s) {
    event->capture = s->capture;
    event->nodes = s->last;
    event->record = nullptr;
    if (s->capture) return;
    event->record = std::make_shared<marker>();
    push(s, record_work(event->record));
}

static void join(std::vector<size_t> *last, const std::vector<size_t> &others) {
    for (size_t n : others)
        if (std::find(last->begin(), last->end(), n) == last->end()) last->push_back(n);
}

static cudaError_t wait_in_capture(CUstream_st *s, CUevent_st *event) {
    if (s->capture && s->capture->broken) return cudaErrorStreamCaptureInvalidated;
    if (!event->capture || !event->capture->open) {
        if (!s->capture) return cudaErrorCapturedEvent;
        return break_capture(s->capture.get(), cudaErrorStreamCaptureIsolation);
    }
    if (s == legacy) return break_capture(event->capture.get(), cudaErrorStreamCaptureImplicit);
    if (s->capture && s->capture != event->capture) {
        break_capture(event->capture.get(), cudaSuccess);
        return break_capture(s->capture.get(), cudaErrorStreamCaptureMerge);
    }
    s->capture = event->capture; // a stream that waits for the capture becomes part of it
    join(&s->last, event->nodes);
    return cudaSuccess;
}

static cudaError_t wait(CUstream_st *s, CUevent_st *event) {
    if (++waits_called == config.drop_wait) return cudaSuccess;
    if (s->capture || event->capture) return wait_in_capture(s, event);
    if (event->record && !event->record->reached) push_wait(s, event->record); // never recorded: nothing to wait for
    return cudaSuccess;
}

// Of the host, on an event.
static cudaError_t check_host_wait(CUevent_st *event) {
    if (!is_event(event)) return cudaErrorInvalidResourceHandle;
    if (event->capture) {
        if (event->capture->open) break_capture(event->capture.get(), cudaSuccess);
        return cudaErrorCapturedEvent;
    }
    return unsafe_call();
}

static const int HIGHEST_PRIORITY = -5; // the lowest is 0

static cudaError_t make_stream(cudaStream_t *stream, unsigned flags, int priority) {
    *stream = nullptr;
    if (flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    if (sticky() != cudaSuccess) return sticky();
    CUstream_st *s = new CUstream_st();
    s->device = current_device();
    s->blocking = !(flags & cudaStreamNonBlocking);
    s->priority = std::clamp(priority, HIGHEST_PRIORITY, 0);
    streams.push_back(s);
    *stream = s;
    return cudaSuccess;
}

// ---- capture

static bool all_joined(const capture &c, const std::vector<size_t> &last) {
    std::vector<bool> seen(c.nodes.size());
    for (size_t n : last) seen[n] = true;
    for (size_t n = c.nodes.size(); n-- > 0;)
        for (size_t before : c.nodes[n].before)
            if (seen[n]) seen[before] = true;
    for (bool each : seen)
        if (!each) return false;
    return true;
}

static cudaError_t begin_capture(CUstream_st *s, cudaStreamCaptureMode mode) {
    if (s == legacy) return cudaErrorStreamCaptureUnsupported;
    if (s->capture) return break_capture(s->capture.get(), cudaErrorIllegalState);
    s->capture = std::make_shared<capture>();
    s->capture->origin = s;
    s->capture->mode = mode;
    s->capture->thread = std::this_thread::get_id();
    s->capture->open = true;
    captures.push_back(s->capture);
    return cudaSuccess;
}

static cudaError_t end_capture(CUstream_st *s, cudaGraph_t *graph) {
    *graph = nullptr;
    std::shared_ptr<capture> c = s->capture;
    if (!c) return cudaErrorIllegalState;
    if (c->origin != s) return break_capture(c.get(), cudaErrorStreamCaptureUnmatched);
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
        return break_capture(c.get(), cudaErrorStreamCaptureWrongThread);
    bool joined = all_joined(*c, s->last);
    c->open = false;
    for (CUstream_st *each : streams) {
        if (each->capture != c) continue;
        each->capture = nullptr;
        each->last.clear();
    }
    captures.erase(std::find(captures.begin(), captures.end(), c));
    if (c->broken) return cudaErrorStreamCaptureInvalidated;
    if (!joined) return cudaErrorStreamCaptureUnjoined;
    *graph = new CUgraph_st();
    (*graph)->nodes = std::move(c->nodes);
    graphs.insert(*graph);
    return cudaSuccess;
}

// report=1: how many nodes have which priority, the highest first. Only a test reads it: no order of nodes follows from it.
static void report_graph(const std::vector<node> &nodes, bool by_node) {
    std::map<int, std::pair<int, int>> counts; // all nodes, and collectives
    for (const node &n : nodes) {
        auto &count = counts[by_node ? n.priority : 0];
        count.first++;
        count.second += n.make ? 1 : 0;
    }
    fprintf(stderr, "emulated CUDA: graph of %zu nodes", nodes.size());
    for (const auto &[priority, count] : counts)
        fprintf(stderr, "; %d of priority %d, %d of them collectives", count.first, priority, count.second);
    fprintf(stderr, "\n");
}

static cudaError_t launch_graph(CUgraphExec_st *exec, CUstream_st *s) {
    if (sticky() != cudaSuccess) return sticky();
    if (s->capture) return break_capture(s->capture.get(), cudaErrorStreamCaptureUnsupported); // no graphs in graphs here
    log_graph(s, exec->graph->nodes);
    work w = {};
    w.name = "graph";
    w.graph = std::make_shared<graph_run>();
    w.graph->graph = exec->graph;
    w.graph->ticket = ++exec->graph->launched;
    for (const node &n : exec->graph->nodes) w.graph->joints.push_back(n.make ? n.make(true) : nullptr);
    return push(s, std::move(w));
}

} // namespace emu

using emu::call;
using emu::find;

void emuLibraryCall(const char *name) {
    emu::library_call = name ? name : "";
    emu::library_counted = false;
}

// A call on a stream: body(stream), once it is known to be one.
template <typename F> static cudaError_t on_stream(cudaStream_t stream, F body) {
    return call([&] {
        CUstream_st *s = find(stream);
        return s ? body(s) : cudaErrorInvalidResourceHandle;
    });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    return call([=] { return emu::make_stream(stream, flags, priority); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest) {
    return call([=] {
        *lowest = 0;
        *highest = emu::HIGHEST_PRIORITY;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) { // what is in it still runs
    return on_stream(stream, [](CUstream_st *s) {
        if (s == emu::legacy) return cudaErrorInvalidResourceHandle;
        if (s->capture) return emu::break_capture(s->capture.get(), cudaErrorStreamCaptureUnsupported);
        s->destroyed = true;
        emu::sweep();
        return cudaSuccess;
    });
}

static cudaError_t check_stream_wait(CUstream_st *s) {
    if (s->capture) return emu::break_capture(s->capture.get(), cudaErrorStreamCaptureUnsupported);
    return s == emu::legacy ? emu::check_legacy_use() : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return on_stream(stream, [=](CUstream_st *s) {
        cudaError_t error = check_stream_wait(s);
        if (error == cudaSuccess) error = emu::unsafe_call();
        return error != cudaSuccess ? error : emu::drain(stream);
    });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return on_stream(stream, [](CUstream_st *s) {
        cudaError_t error = check_stream_wait(s);
        if (error == cudaSuccess) error = emu::unsafe_call();
        if (error != cudaSuccess) return error;
        emu::run_a_little([=] { return s->queue.empty(); });
        return s->queue.empty() ? cudaSuccess : cudaErrorNotReady;
    });
}

cudaError_t cudaDeviceSynchronize(void) {
    return call([] {
        cudaError_t error = emu::unsafe_call();
        for (CUstream_st *s : emu::streams)
            if (s->capture) error = emu::break_capture(s->capture.get(), cudaErrorStreamCaptureUnsupported);
        return error != cudaSuccess ? error : emu::drain_all();
    });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    if (flags != 0) return cudaErrorInvalidValue;
    return on_stream(stream, [=](CUstream_st *s) {
        return emu::is_event(event) ? emu::wait(s, event) : cudaErrorInvalidResourceHandle;
    });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return call([=] {
        *event = nullptr;
        if (emu::sticky() != cudaSuccess) return emu::sticky();
        *event = new CUevent_st();
        (*event)->timed = !(flags & cudaEventDisableTiming);
        emu::events.insert(*event);
        return cudaSuccess;
    });
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return call([=] {
        if (!emu::is_event(event)) return cudaErrorInvalidResourceHandle;
        emu::events.erase(event);
        delete event;
        return cudaSuccess;
    });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return on_stream(stream, [=](CUstream_st *s) {
        if (!emu::is_event(event)) return cudaErrorInvalidResourceHandle;
        if (s->capture && s->capture->broken) return cudaErrorStreamCaptureInvalidated;
        cudaError_t error = s == emu::legacy ? emu::check_legacy_use() : cudaSuccess;
        if (error == cudaSuccess) emu::record(event, s);
        return error;
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return call([=] {
        cudaError_t error = emu::check_host_wait(event);
        if (error != cudaSuccess || !event->record) return error;
        auto record = event->record;
        return emu::replay([=] { return record->reached; });
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return call([=] {
        cudaError_t error = emu::check_host_wait(event);
        if (error != cudaSuccess || !event->record) return error;
        auto record = event->record;
        emu::run_a_little([=] { return record->reached; });
        return record->reached ? cudaSuccess : cudaErrorNotReady;
    });
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return call([=] {
        if (!emu::is_event(start) || !emu::is_event(end)) return cudaErrorInvalidResourceHandle;
        if (!start->timed || !end->timed || !start->record || !end->record) return cudaErrorInvalidResourceHandle;
        if (!start->record->reached || !end->record->reached) return cudaErrorNotReady;
        *milliseconds = static_cast<float>(1e3 * (end->record->seconds - start->record->seconds));
        return cudaSuccess;
    });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    return on_stream(stream, [=](CUstream_st *s) { return emu::begin_capture(s, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    return on_stream(stream, [=](CUstream_st *s) { return emu::end_capture(s, graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    return on_stream(stream, [=](CUstream_st *s) {
        *status = !s->capture ? cudaStreamCaptureStatusNone
            : s->capture->broken ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    return call([=] {
        *exec = nullptr;
        if (emu::graphs.count(graph) == 0 || (flags & ~static_cast<unsigned long long>(cudaGraphInstantiateFlagUseNodePriority)))
            return cudaErrorInvalidValue;
        if (emu::config.report) emu::report_graph(graph->nodes, flags != 0);
        *exec = new CUgraphExec_st();
        (*exec)->graph = std::make_shared<emu::runnable_graph>();
        (*exec)->graph->nodes = graph->nodes;
        emu::execs.insert(*exec);
        return cudaSuccess;
    });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    return on_stream(stream, [=](CUstream_st *s) {
        return emu::execs.count(exec) == 1 ? emu::launch_graph(exec, s) : cudaErrorInvalidValue;
    });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { // launches that wait still run
    return call([=] {
        if (emu::execs.erase(exec) == 0) return cudaErrorInvalidValue;
        delete exec;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return call([=] {
        if (emu::graphs.erase(graph) == 0) return cudaErrorInvalidValue;
        delete graph;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return call([=] {
        if (emu::graphs.count(graph) == 0 || nodes) return cudaErrorInvalidValue;
        *count = graph->nodes.size();
        return cudaSuccess;
    });
}
