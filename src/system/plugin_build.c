#include "system/plugin_build.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

static int read_at(FILE *file, uint64_t offset, void *to, size_t bytes) {
    return offset <= INT64_MAX && fseeko(file, (off_t)offset, SEEK_SET) == 0 && fread(to, 1, bytes, file) == bytes;
}

static int read_section(FILE *file, const Elf64_Ehdr *head, int index, Elf64_Shdr *section) {
    return read_at(file, head->e_shoff + (uint64_t)index * sizeof *section, section, sizeof *section);
}

static int find_section(FILE *file, const Elf64_Ehdr *head, Elf64_Shdr *section) {
    static const char wanted[] = LS_PLUGIN_BUILD_SECTION;
    Elf64_Shdr names;
    char name[sizeof wanted];
    if (!read_section(file, head, head->e_shstrndx, &names)) return 0;
    for (int i = 0; i < head->e_shnum; i++) {
        if (!read_section(file, head, i, section)) return 0;
        if (read_at(file, names.sh_offset + section->sh_name, name, sizeof name) &&
            memcmp(name, wanted, sizeof wanted) == 0)
            return 1;
    }
    return 0;
}

int ls_plugin_build_read(const char *path, ls_plugin_build *build) {
    Elf64_Ehdr head;
    Elf64_Shdr section;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int found = read_at(file, 0, &head, sizeof head) && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
                head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_shentsize == sizeof section &&
                find_section(file, &head, &section) && section.sh_size == sizeof *build &&
                read_at(file, section.sh_offset, build, sizeof *build) &&
                memchr(build->folders, 0, sizeof build->folders);
    fclose(file);
    return found && build->runtime >= 1000;
}
