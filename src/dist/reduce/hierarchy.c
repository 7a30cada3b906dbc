#include "dist/reduce/hierarchy.h"

#include "base/memory.h"

typedef struct {
    const int *host_of;
    double *sent, *received; // by host: amounts in one all-reduce to and from other hosts, as multiples of the data
} traffic;

static void send(traffic *t, int from, int to, double share) {
    if (t->host_of[from] == t->host_of[to]) return;
    t->sent[t->host_of[from]] += share;
    t->received[t->host_of[to]] += share;
}

static void all_reduce(traffic *t, int ranks) {
    int paired = 1;
    while (paired * 2 <= ranks) paired *= 2;
    int extra = ranks - paired;
    for (int even = 0; even < 2 * extra; even += 2) {
        send(t, even, even + 1, 0.5 + 1); // half of the data to add, and the result at the end
        send(t, even + 1, even, 0.5 + 0.5);
    }
    for (int mask = 1; mask < paired; mask *= 2) {
        for (int v = 0; v < paired; v++) {
            int w = v ^ mask;
            int from = v < extra ? 2 * v : v + extra, to = w < extra ? 2 * w : w + extra;
            send(t, from, to, 2 * 0.5 / mask); // this part of the data goes there and back
        }
    }
}

double ls_halving_volume(const int *host_of, int ranks) {
    double *memory = ls_new(ranks * 2, sizeof *memory, "traffic between hosts of %d ranks", ranks);
    traffic t = { host_of, memory, memory + ranks };
    all_reduce(&t, ranks);
    double volume = 0;
    for (int i = 0; i < 2 * ranks; i++) volume = memory[i] > volume ? memory[i] : volume;
    free(memory);
    return volume;
}

int ls_hierarchy_wins(const int *host_of, int ranks, int hosts) {
    if (hosts == 1 || hosts == ranks) return 0;
    int *alone = ls_new(hosts, sizeof *alone, "traffic between %d hosts", hosts);
    for (int i = 0; i < hosts; i++) alone[i] = i;
    const int wins = ls_halving_volume(alone, hosts) <= ls_halving_volume(host_of, ranks);
    free(alone);
    return wins;
}
