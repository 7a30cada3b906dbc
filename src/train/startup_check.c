#include "train/startup_check.h"

#include <string.h>
#include "base/hash.h"
#include "base/memory.h"
#include "base/version.h"
#include "dist/fingerprint.h"

static ls_status add_program(const ls_run_plan *plan, const ls_run_session *session, ls_fingerprint *mine) {
    (void)session;
    const char *name;
    char value[LS_TEXT_BYTES];
    ls_fingerprint_add(mine, "program", "%s", ls_version());
    for (int i = 0; ls_config_value(plan->cfg, i, &name, value, sizeof value); i++)
        ls_fingerprint_add(mine, name, "%s", value);
    return LS_SUCCESS;
}

// Adds a fact that decides how this rank's device rounds. With run.cross_check it must be the same on all ranks.
static void add_kind(const ls_run_plan *plan, ls_fingerprint *mine, const char *name, const char *value) {
    char text[LS_FINGERPRINT_TEXT];
    snprintf(text, sizeof text, "%s (run.cross_check needs the same)", name);
    if (plan->cfg->run_cross_check > 0)
        ls_fingerprint_add(mine, text, "%s", value);
    else
        ls_fingerprint_note(mine, name, "%s", value);
}

static ls_status add_device(const ls_run_plan *plan, const ls_run_session *session, ls_fingerprint *mine) {
    const ls_device_info *facts = &plan->info.device_info;
    ls_fingerprint_add(mine, "device", "%s", plan->info.device);
    ls_fingerprint_add(mine, "libraries", "%s", facts->libraries);
    if (!facts->uuid[0]) return LS_SUCCESS;
    const ls_collective_api *collective = session->compute.device->api->collective;
    int summed_by_host = plan->cfg->dist_backend == LS_BACKEND_MPI || ls_device_assignment_shares(plan->assignment);
    char version[64];
    if (collective && !summed_by_host)
        ls_fingerprint_add(
            mine, collective->name, "%s", ls_failed(collective->probe(version, sizeof version)) ? "none" : version);
    add_kind(plan, mine, "GPU", facts->name);
    ls_fingerprint_note(mine, "driver", "%s", facts->driver);
    return LS_SUCCESS;
}

static uint64_t hash_more_algorithms(uint64_t hash, const ls_program *program) {
    uint64_t both[2] = { hash, 0 };
    for (int i = 0; i < program->count; i++) {
        const char *name = program->instructions[i].plan->algorithm;
        both[1] = name ? ls_hash(name, strlen(name)) : 0;
        both[0] = ls_hash(both, sizeof both);
    }
    return both[0];
}

// Returns a hash of the algorithms that this rank uses, because different algorithms round differently. A difference
// between ranks is reported but is not an error: processors may differ. Short micro-batches are left out: not every
// rank has one.
static uint64_t hash_algorithms(const ls_run_session *session) {
    if (session->plan->evaluates) return hash_more_algorithms(0, session->compute.program[LS_RUN_EVAL_PROGRAM]);
    uint64_t hash = 0;
    for (int p = 0; p < LS_RUN_EVAL_PROGRAM; p += 2)
        if (session->compute.program[p]) hash = hash_more_algorithms(hash, session->compute.program[p]);
    return hash;
}

static void add_set(ls_fingerprint *mine, const char *name, const ls_dataset_info *facts) {
    ls_fingerprint_add(mine, name, "%016llx", (unsigned long long)ls_dataset_identity(facts));
}

static ls_status add_data(const ls_run_plan *plan, const ls_run_session *session, ls_fingerprint *mine) {
    (void)session;
    add_set(mine, "training data", plan->info.train_data);
    if (plan->info.val_data)
        add_set(mine, "validation data", plan->info.val_data);
    else
        ls_fingerprint_add(mine, "validation data", "none");
    add_set(mine, "test data", plan->info.test_data);
    return LS_SUCCESS;
}

// Adds the algorithms of a program to the list `known` and returns the sum of the hashes that were new. Each algorithm
// counts once, because the number and order of uses depend on the number of ranks.
static uint64_t add_algorithms(const ls_program *program, uint64_t *known, int *count, int most) {
    uint64_t sum = 0;
    for (int i = 0; i < program->count; i++) {
        const char *name = program->instructions[i].plan->algorithm;
        const uint64_t hash = name ? ls_hash(name, strlen(name)) : 0;
        int k = 0;
        while (k < *count && known[k] != hash) k++;
        if (!hash || k < *count || *count == most) continue;
        known[(*count)++] = hash;
        sum += hash;
    }
    return sum;
}

// Returns a hash of the set of algorithms that the run's whole micro-batches use.
static uint64_t hash_algorithms_used(const ls_run_session *session) {
    enum { KINDS = 256 };
    uint64_t known[KINDS], sum = 0;
    int count = 0;
    for (int p = 0; p < LS_RUN_EVAL_PROGRAM; p += 2)
        if (session->compute.program[p]) sum += add_algorithms(session->compute.program[p], known, &count, KINDS);
    return sum;
}

static void describe_arithmetic(ls_run_plan *plan, const ls_run_session *session) {
    const ls_device_info *d = &plan->info.device_info;
    const char *how = d->uuid[0] ? d->name : d->vectors;
    snprintf(plan->info.arithmetic, sizeof plan->info.arithmetic, "%s%s%s, %s, algorithms %016llx", plan->info.device,
        how[0] ? ", " : "", how, d->libraries, (unsigned long long)hash_algorithms_used(session));
}

static ls_status add_state(const ls_run_plan *plan, const ls_run_session *session, ls_fingerprint *mine) {
    uint64_t hash;
    LS_TRY(ls_param_store_hash(session->compute.store, &hash));
    ls_fingerprint_add(mine, "initial weights", "%016llx", (unsigned long long)hash);
    char algorithms[17];
    ls_hash_text(hash_algorithms(session), algorithms);
    add_kind(plan, mine, "algorithms", algorithms);
    add_kind(plan, mine, "vector instructions", plan->info.device_info.vectors);
    if (plan->info.train_data->decoder[0])
        ls_fingerprint_add(mine, "decoder of pictures", "%s", plan->info.train_data->decoder);
    return add_data(plan, session, mine);
}

typedef ls_status (*add_facts)(const ls_run_plan *plan, const ls_run_session *session, ls_fingerprint *mine);

static ls_status compare(ls_run_plan *plan, const ls_run_session *session, add_facts add) {
    if (plan->info.comm->world_size == 1) return LS_SUCCESS;
    char warning[LS_STATUS_TEXT_BYTES];
    ls_fingerprint *mine = ls_new(1, sizeof *mine, "fingerprint");
    ls_status status = ls_comm_agree(plan->comm, add(plan, session, mine), NULL);
    LS_THEN(status, ls_fingerprint_compare(plan->comm, mine, warning));
    if (!ls_failed(status) && warning[0] && !plan->info.warning[0]) memcpy(plan->info.warning, warning, sizeof warning);
    free(mine);
    return status;
}

ls_status ls_startup_check_programs(ls_run_plan *plan) {
    return compare(plan, NULL, add_program);
}

ls_status ls_startup_check_devices(ls_run_plan *plan, const ls_run_session *session) {
    return compare(plan, session, add_device);
}

ls_status ls_startup_check_state(ls_run_plan *plan, const ls_run_session *session) {
    describe_arithmetic(plan, session);
    return compare(plan, session, add_state);
}

ls_status ls_startup_check_data(ls_run_plan *plan) {
    return compare(plan, NULL, add_data);
}
