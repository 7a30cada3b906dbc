// delay_link.c - a network with latency and a rate for hosts.sh where the kernel has no netem: a switch of TAP devices.
//
//   delay_link LATENCY_MS RATE_MBIT NETNS...
//     RATE_MBIT  0: no limit
//     NETNS      files of network namespaces (/run/netns/NAME)
//
// Makes a device net0 in every namespace, prints "ready", and forwards until SIGTERM or until its parent dies;
// the devices go with it. A frame takes its bytes' time on the sender's and on the receiver's wire (cut-through: once,
// if both are free), then LATENCY_MS; what would wait longer than QUEUE_S for a wire is dropped, as a switch drops it.
// Frames carry virtio headers, so TCP's segments of up to 64 KiB pass as one frame and cost one read and one write:
// the program shares the machine with what is measured. A frame for an address not yet seen goes to all.
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { PORTS_MAX = 16, HEADER = 10, FRAME_MAX = HEADER + 14 + 65536, BATCH = 16 };
static const double queue_s = 0.2, queue_bytes_max = 64e6; // the latter where there is no rate

typedef struct frame {
    struct frame *next;
    double due_s;
    size_t bytes;
    unsigned char data[];
} frame;

typedef struct {
    int fd;
    unsigned char mac[6]; // of the host behind it, learned; zeros: not yet
    double sends_until_s, receives_until_s, queued_bytes;
    frame *first, **last; // to be received, by due time
} port;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "delay_link: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_tap(const char *netns) {
    int space = open(netns, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) fail(netns);
    close(space);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) fail("/dev/net/tun");
    struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
    strcpy(request.ifr_name, "net0");
    if (ioctl(fd, TUNSETIFF, &request) != 0) fail("TUNSETIFF");
    if (ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) fail("TUNSETOFFLOAD");
    return fd;
}

static double later(double a, double b) {
    return a > b ? a : b;
}

static void queue(port *to, const unsigned char *data, size_t bytes, double sent_s, double wire_s, double latency_s) {
    double received_s = later(sent_s, to->receives_until_s + wire_s);
    if (received_s - now_s() > queue_s + wire_s || to->queued_bytes > queue_bytes_max) return;
    frame *f = malloc(sizeof *f + bytes);
    if (!f) fail("frame");
    *f = (frame){ .due_s = received_s + latency_s, .bytes = bytes };
    memcpy(f->data, data, bytes);
    to->receives_until_s = received_s;
    to->queued_bytes += (double)bytes;
    *to->last = f;
    to->last = &f->next;
}

static void receive(port *ports, int count, int from, double latency_s, double byte_s) {
    static unsigned char data[FRAME_MAX];
    port *source = &ports[from];
    for (int n = 0; n < BATCH; n++) {
        ssize_t bytes = read(source->fd, data, sizeof data);
        if (bytes < HEADER + 14) return; // EAGAIN; EIO: the device is down
        const unsigned char *to = data + HEADER;
        memcpy(source->mac, to + 6, 6);
        double wire_s = (double)(bytes - HEADER) * byte_s, sent_s = later(now_s(), source->sends_until_s) + wire_s;
        if (sent_s - now_s() > queue_s + wire_s) continue;
        source->sends_until_s = sent_s;
        int only = -1;
        for (int i = 0; i < count; i++)
            if (memcmp(ports[i].mac, to, 6) == 0) only = i;
        for (int i = 0; i < count; i++)
            if (i != from && (only < 0 || only == i)) queue(&ports[i], data, (size_t)bytes, sent_s, wire_s, latency_s);
    }
}

// Gives the host what is due; the time until the next is due, or a second.
static double deliver(port *to) {
    while (to->first) {
        frame *f = to->first;
        double wait_s = f->due_s - now_s();
        if (wait_s > 0) return wait_s;
        ssize_t written = write(to->fd, f->data, f->bytes); // fails where the device is down: the frame is lost
        (void)written;
        to->first = f->next;
        if (!to->first) to->last = &to->first;
        to->queued_bytes -= (double)f->bytes;
        free(f);
    }
    return 1;
}

int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_TIMERSLACK, 1UL);
    int count = argc - 3, home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (count < 2 || count > PORTS_MAX) {
        fprintf(stderr, "usage: delay_link LATENCY_MS RATE_MBIT NETNS... (2 to %d)\n", PORTS_MAX);
        return 2;
    }
    double latency_s = 1e-3 * strtod(argv[1], NULL), rate = strtod(argv[2], NULL), byte_s = rate > 0 ? 8e-6 / rate : 0;
    static port ports[PORTS_MAX];
    struct pollfd polls[PORTS_MAX];
    for (int i = 0; i < count; i++) {
        ports[i].fd = open_tap(argv[3 + i]);
        ports[i].last = &ports[i].first;
        polls[i] = (struct pollfd){ .fd = ports[i].fd, .events = POLLIN };
    }
    // Back home: what runs in a host's namespace is the host's.
    if (home < 0 || setns(home, CLONE_NEWNET) != 0) fail("/proc/self/ns/net");
    puts("ready");
    fflush(stdout);
    for (;;) {
        double wait_s = 1;
        for (int i = 0; i < count; i++) {
            double next_s = deliver(&ports[i]);
            if (next_s < wait_s) wait_s = next_s;
        }
        struct timespec wait = { (time_t)wait_s, (long)(1e9 * (wait_s - (double)(time_t)wait_s)) };
        if (ppoll(polls, (nfds_t)count, &wait, NULL) < 0 && errno != EINTR) fail("poll");
        int down = 0;
        for (int i = 0; i < count; i++) {
            if (polls[i].revents & POLLIN) receive(ports, count, i, latency_s, byte_s);
            down |= polls[i].revents & (POLLERR | POLLHUP);
        }
        if (down) nanosleep(&(struct timespec){ 0, 100000 }, NULL); // a device that is down is always "ready"
    }
}
