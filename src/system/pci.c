#include "system/pci.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Whether the file `name` of a device starts with `text`.
static int begins(const char *folder, const char *device, const char *name, const char *text) {
    char path[2048], line[32] = "";
    snprintf(path, sizeof path, "%.1024s/%.255s/%s", folder, device, name);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    const int read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    return read && strncmp(line, text, strlen(text)) == 0;
}

int ls_pci_displays(const char *vendor) {
    const char *root = getenv("LOCKSTEP_SYS_ROOT");
    char folder[1025];
    int count = 0;
    snprintf(folder, sizeof folder, "%.990s/sys/bus/pci/devices", root ? root : "");
    DIR *devices = opendir(folder);
    if (!devices) return 0;
    for (const struct dirent *entry; (entry = readdir(devices));)
        count += begins(folder, entry->d_name, "vendor", vendor) && begins(folder, entry->d_name, "class", "0x03");
    closedir(devices);
    return count;
}
