#include "system/ticker.h"

#include <pthread.h>
#include "base/memory.h"
#include "base/thread.h"

struct ls_ticker {
    pthread_t thread;
    pthread_mutex_t lock; // guards stopping
    pthread_cond_t wake;
    int stopping;
    double period_s;
    void (*tick)(void *context);
    void *context;
};

static void *run(void *context) {
    ls_ticker *ticker = context;
    for (int stopping = 0; !stopping;) {
        ticker->tick(ticker->context);
        const struct timespec until = ls_cond_deadline(ticker->period_s);
        pthread_mutex_lock(&ticker->lock);
        for (int rc = 0; rc == 0 && !ticker->stopping;)
            rc = pthread_cond_timedwait(&ticker->wake, &ticker->lock, &until);
        stopping = ticker->stopping;
        pthread_mutex_unlock(&ticker->lock);
    }
    return NULL;
}

static void end(ls_ticker *ticker) {
    pthread_cond_destroy(&ticker->wake);
    pthread_mutex_destroy(&ticker->lock);
    free(ticker);
}

ls_status ls_ticker_start(
    const char *what, double period_s, void (*tick)(void *context), void *context, ls_ticker **out) {
    ls_ticker *ticker = ls_new(1, sizeof *ticker, "%s", what);
    ticker->period_s = period_s;
    ticker->tick = tick;
    ticker->context = context;
    ls_cond_init(&ticker->wake);
    pthread_mutex_init(&ticker->lock, NULL);
    int rc = ls_thread_start(&ticker->thread, run, ticker);
    ls_status status = rc == 0 ? LS_SUCCESS : ls_fail(LS_DEVICE, "%s: pthread_create: %s", what, strerror(rc));
    return LS_GIVE_OR_FREE(status, ticker, out, end);
}

void ls_ticker_stop(ls_ticker *ticker) {
    if (!ticker) return;
    pthread_mutex_lock(&ticker->lock);
    ticker->stopping = 1;
    pthread_cond_signal(&ticker->wake);
    pthread_mutex_unlock(&ticker->lock);
    pthread_join(ticker->thread, NULL);
    end(ticker);
}
