// cmd_devices.c - `train devices [--json]`: prints the part of `train doctor` about devices, for rank 0's host.
#include "base/memory.h"
#include "command/commands.h"
#include "tools/doctor/devices.h"

static ls_status print_json(const ls_devices *devices) {
    cJSON *tree = cJSON_CreateObject();
    ls_devices_json(devices, tree);
    ls_status status = ls_json_write_line(stdout, "standard output", tree);
    cJSON_Delete(tree);
    return status;
}

static ls_status print_devices_of_host(int as_json) {
    ls_devices *devices = ls_new(1, sizeof *devices, "list of devices");
    ls_status status = LS_SUCCESS;
    ls_devices_look(devices);
    ls_devices_try(devices);
    if (as_json)
        status = print_json(devices);
    else
        ls_devices_print(devices, stdout);
    free(devices);
    ls_keep_first(&status, ls_command_flush(stdout));
    return status;
}

ls_status ls_cmd_devices(const ls_args *args, ls_comm *comm) {
    int is_first = ls_comm_get_info(comm)->rank == 0;
    return ls_command_agree(comm, is_first ? print_devices_of_host(args->json) : LS_SUCCESS);
}
