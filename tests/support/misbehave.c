// misbehave.c - preloaded (LD_PRELOAD) into a training run: one rank does what a test tells it, in the middle of the
// run. A thread looks for the file named by LOCKSTEP_TEST_MISBEHAVE with ".RANK" after it, and does the word in it:
//   exit N   calls exit(N)        quit N   calls _exit(N)        crash   abort()
//   hang     the main thread stops for ever, all others go on
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_t main_thread;
static char path[4096];

static void stop_for_ever(int signal_number) {
    (void)signal_number;
    for (;;) pause();
}

static void misbehave(const char *word, int number) {
    if (strcmp(word, "exit") == 0) exit(number);
    if (strcmp(word, "quit") == 0) _exit(number);
    if (strcmp(word, "crash") == 0) abort();
    if (strcmp(word, "hang") == 0) pthread_kill(main_thread, SIGUSR2);
}

static void *look(void *context) {
    (void)context;
    for (;;) {
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        char word[16];
        int number = 0, words = fscanf(file, "%15s %d", word, &number);
        fclose(file);
        if (words < 1) continue; // still being written
        misbehave(word, number);
        return NULL;
    }
}

__attribute__((constructor)) static void start(void) {
    const char *name = getenv("LOCKSTEP_TEST_MISBEHAVE"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!name || !rank) return;
    snprintf(path, sizeof path, "%s.%s", name, rank);
    main_thread = pthread_self();
    signal(SIGUSR2, stop_for_ever);
    pthread_t thread;
    if (pthread_create(&thread, NULL, look, NULL) == 0) pthread_detach(thread);
}
