// NCCL itself, as far as it goes without a GPU: the plugin's own table finds the library, names its version, makes ids,
// and refuses to open a communicator in one line. Skipped where the plugin or the library is not there.
#include <dlfcn.h>

#include "device/cuda_device.h"
#include "system/nvidia.h"
#include "device/gpu/plugin.h"
#include "support/cmocka.h"

static const ls_collective_api *collectives;

// The plugin beside this program, without its device: 0, or 77.
static int open_table(void) {
    static ls_gpu_machine machine; // looking opens the libraries, which the plugin then finds
    const char *path;
    (void)ls_gpu_nvidia.missing(&path); // first: NVIDIA's libraries do not open under a sanitizer, which has no plugin
    if (path) ls_gpu_nvidia.fill(&machine);
    if (!path || !machine.libraries[LS_NVIDIA_NCCL].path[0]) {
        printf("skipped: the CUDA plugin or libnccl.so.2 is not there\n");
        return 77;
    }
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const ls_gpu_plugin *plugin = file ? dlsym(file, "lockstep_cuda_plugin") : NULL;
    if (!plugin) {
        printf("skipped: %s\n", dlerror());
        return 77;
    }
    collectives = plugin->device->collective;
    return 0;
}

static void the_library_is_found(void **unused) {
    (void)unused;
    char version[64] = "";
    ls_status status = collectives->probe(version, sizeof version);
    if (ls_failed(status)) {
        assert_int_equal(status.code, LS_DEVICE);
        assert_null(strchr(status.text, '\n'));
        fail_msg("%s", status.text);
    }
    printf("%s\n", version);
    assert_int_equal(strncmp(version, "NCCL 2.", 7), 0);
}

static void ids_differ(void **unused) {
    (void)unused;
    uint8_t ids[2][LS_COLLECTIVE_ID_BYTES] = { { 0 } };
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    for (int i = 0; i < 2; i++) {
        ls_status status = collectives->make_id(ids[i]);
        if (ls_failed(status)) fail_msg("%s", status.text);
    }
    assert_memory_not_equal(ids[0], ids[1], LS_COLLECTIVE_ID_BYTES);
}

int main(void) {
    int skipped = open_table();
    if (skipped) return skipped;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_is_found),
        cmocka_unit_test(ids_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
