// newest_checkpoint.c - reads names of folders of checkpoints, one a line, and answers each with the update of the
// newest good one in it ("-1" for none), found as a resumed run finds it.
#include <stdio.h>
#include <string.h>
#include "run/checkpoint_manager.h"

static void ignore(void *context, ls_status why) {
    (void)context;
    (void)why;
}

int main(void) {
    char folder[4096];
    while (fgets(folder, sizeof folder, stdin)) {
        ls_checkpoint *checkpoint = NULL;
        folder[strcspn(folder, "\n")] = 0;
        ls_status status = ls_checkpoint_manager_newest(folder, ignore, NULL, &checkpoint);
        if (ls_failed(status)) {
            fprintf(stderr, "%s: %s\n", folder, status.text);
            return status.code;
        }
        printf("%lld\n", checkpoint ? (long long)checkpoint->counters.update : -1LL);
        fflush(stdout);
        ls_checkpoint_free(checkpoint);
    }
    return 0;
}
