// algorithm_choice.c - runs the rounds and picks the candidate with the shortest time.
#include "device/algorithm_choice.h"

#include <math.h>
#include "base/memory.h"

enum { WARM_UPS = 1, ROUNDS = 7 };
static const float enough_faster = 0.97F, hopeless = 2.0F;

typedef struct {
    float ms; // shortest time; INFINITY: no run was counted
    int out;  // the candidate failed or is hopeless
} candidate;

static void run_round(const ls_algorithm_candidates *c, candidate *all, int counted, ls_status *refused) {
    for (int i = 0; i < c->count; i++) {
        float ms = INFINITY;
        if (all[i].out) continue;
        ls_status status = c->time_once(c->context, i, &ms);
        if (ls_failed(status)) {
            all[i] = (candidate){ INFINITY, 1 };
            ls_keep_first(refused, status);
        } else if (counted && ms < all[i].ms) {
            all[i].ms = ms;
        }
    }
}

static int pick(const candidate *all, int count) {
    int best = -1;
    for (int i = 0; i < count; i++)
        if (isfinite(all[i].ms) && (best < 0 || all[i].ms < all[best].ms * enough_faster)) best = i;
    return best;
}

static void leave_out_hopeless(candidate *all, int count) {
    float shortest = INFINITY;
    for (int i = 0; i < count; i++) shortest = fminf(shortest, all[i].ms);
    for (int i = 0; i < count; i++) all[i].out |= all[i].ms > hopeless * shortest;
}

ls_status ls_algorithm_fastest(const ls_algorithm_candidates *c, int *best) {
    ls_status refused = LS_SUCCESS;
    candidate *all = ls_new(c->count, sizeof *all, "layer %s: timing of %d algorithms", c->layer, c->count);
    for (int i = 0; i < c->count; i++) all[i].ms = INFINITY;
    for (int round = 0; round < WARM_UPS + ROUNDS; round++) {
        const int counted = round >= WARM_UPS;
        run_round(c, all, counted, &refused);
        if (counted) leave_out_hopeless(all, c->count);
    }
    *best = pick(all, c->count);
    free(all);
    if (*best >= 0) return LS_SUCCESS;
    return ls_fail(LS_DEVICE,
        "layer %s: %s: none of the library's %d algorithms runs on this GPU; run train doctor to check the GPU and "
        "the libraries. The first error: %s",
        c->layer, c->what, c->count, ls_failed(refused) ? refused.text : "it took no time that could be measured");
}
