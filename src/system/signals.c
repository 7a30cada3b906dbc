#include "system/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const struct {
    int number;
    const char *name;
} signals[] = { { SIGTERM, "SIGTERM" }, { SIGUSR1, "SIGUSR1" }, { SIGINT, "SIGINT" } };
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static struct {
    atomic_int first;
    const char *_Atomic say_first, *_Atomic say_second;
    struct sigaction before[SIGNALS];
    int listening;
} self;

static void say(const char *text) {
    const ssize_t written = text ? write(STDERR_FILENO, text, strlen(text)) : 0;
    (void)written; // ignored: the text is not important
}

static void note(int number) {
    const int error = errno;
    int none = 0;
    int was_first = atomic_compare_exchange_strong(&self.first, &none, number);
    if (number == SIGINT) say(atomic_load(was_first ? &self.say_first : &self.say_second));
    errno = error;
    if (was_first || number != SIGINT) return;
    signal(SIGINT, SIG_DFL);
    raise(SIGINT); // ends the process without waiting any longer
}

ls_status ls_signals_listen(void) {
    struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    atomic_store(&self.first, 0);
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i].number, &action, &self.before[i]) != 0)
            return ls_fail(LS_INTERNAL, "sigaction of %s: %s", signals[i].name, strerror(errno));
    self.listening = 1;
    return LS_SUCCESS;
}

void ls_signals_say(const char *first, const char *second) {
    atomic_store(&self.say_first, first);
    atomic_store(&self.say_second, second);
}

void ls_signals_ignore(void) {
    for (int i = 0; self.listening && i < SIGNALS; i++) sigaction(signals[i].number, &self.before[i], NULL);
    self.listening = 0;
    atomic_store(&self.first, 0);
}

int ls_signals_received(void) {
    return atomic_load(&self.first);
}

const char *ls_signals_name(int number) {
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i].number == number) return signals[i].name;
    return "a signal";
}
