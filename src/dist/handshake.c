#include "dist/handshake.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/hash.h"
#include "base/memory.h"
#include "base/version.h"
#include "dist/fingerprint.h"

static_assert(sizeof(ls_handshake) == 296, "the record that all versions exchange");
static_assert((int)LS_HANDSHAKE_TEXT <= (int)LS_FINGERPRINT_TEXT, "a table shows it whole");

static const char magic[8] = "lockstep"; // without a 0 at its end

static void put(char dst[LS_HANDSHAKE_TEXT], const char *text) {
    enum { HASH_BYTES = 20 }; // "... 0123456789abcdef"
    size_t bytes = strlen(text);
    if (bytes < LS_HANDSHAKE_TEXT) {
        memcpy(dst, text, bytes + 1);
        return;
    }
    int kept = LS_HANDSHAKE_TEXT - 1 - HASH_BYTES;
    snprintf(dst, LS_HANDSHAKE_TEXT, "%.*s... %016llx", kept, text, (unsigned long long)ls_hash(text, bytes));
}

void ls_handshake_make(const char *command, ls_handshake *out) {
    memset(out, 0, sizeof *out);
    memcpy(out->magic, magic, sizeof magic);
    put(out->version, ls_version());
    put(out->build, ls_version_compiler());
    put(out->command, command ? command : "");
}

// Adds a text as a fact. Another program may have sent the text, so it need not end with 0.
static void add(ls_fingerprint *facts, const char *name, const char text[LS_HANDSHAKE_TEXT]) {
    ls_fingerprint_add(facts, name, "%.*s", LS_HANDSHAKE_TEXT - 1, text);
}

ls_status ls_handshake_check(const ls_handshake *all, int world_size) {
    int same = 1, commands_known = 1;
    for (int r = 0; r < world_size; r++) {
        same &= memcmp(&all[r], &all[0], sizeof *all) == 0;
        commands_known &= all[r].command[0] != 0;
    }
    if (same) return LS_SUCCESS;
    ls_fingerprint *facts = ls_new(world_size, sizeof *facts, "what %d ranks were started as", world_size);
    for (int r = 0; r < world_size; r++) {
        int is_ours = memcmp(all[r].magic, magic, sizeof magic) == 0;
        ls_fingerprint_add(&facts[r], "program", "%s", is_ours ? "lockstep" : "another one");
        if (!is_ours) continue;
        add(&facts[r], "version", all[r].version);
        add(&facts[r], "build", all[r].build);
        if (commands_known) add(&facts[r], "command", all[r].command);
    }
    char unused[LS_STATUS_TEXT_BYTES];
    ls_status status = ls_fingerprint_compare_gathered(
        facts, world_size, "ranks were started as different programs, or to do different things", unused);
    free(facts);
    return status;
}
