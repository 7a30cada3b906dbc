#include "command/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *open_of_parent(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)getppid(), name);
    return fopen(path, "re");
}

int ls_launcher_is_parent(void) {
    static const char *const launchers[] = { "mpirun", "mpiexec", "orterun", "prterun" };
    char name[32] = "";
    FILE *file = open_of_parent("comm");
    if (!file) return 0;
    int known = 0;
    if (!fgets(name, sizeof name, file)) name[0] = '\0';
    fclose(file);
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        known |= strncmp(name, launchers[i], strlen(launchers[i])) == 0;
    return known;
}

// Open MPI 5's mpirun becomes prterun, which has other options if a user starts it by that name. Replaces that name by
// the command that the user started. Returns the number of bytes, or 0 if they do not fit.
static int put_tool_name(char *words, int bytes) {
    const char *tool = getenv("OMPI_TOOL_NAME"), *slash = strrchr(words, '/');
    char *name = slash ? words + (slash + 1 - words) : words;
    if (!tool || strcmp(name, "prterun") != 0) return bytes;
    const size_t old = strlen(name), length = strlen(tool);
    if ((size_t)bytes - old + length > LS_LAUNCHER_BYTES) return 0;
    memmove(name + length, name + old, (size_t)bytes - (size_t)(name - words) - old);
    memcpy(name, tool, length);
    return bytes - (int)old + (int)length;
}

int ls_launcher_command(char *dst) {
    FILE *file = ls_launcher_is_parent() ? open_of_parent("cmdline") : NULL;
    if (!file) return 0;
    const size_t bytes = fread(dst, 1, LS_LAUNCHER_BYTES, file);
    fclose(file);
    if (bytes == 0 || bytes == LS_LAUNCHER_BYTES || dst[bytes - 1] != '\0') return 0;
    return put_tool_name(dst, (int)bytes);
}

// Whether a word of a command line is an option by which mpirun changes the output of its ranks.
static int is_output_option(const char *word) {
    static const char *const names[] = { "output", "output-filename", "tag-output", "timestamp-output", "xml" };
    if (word[0] != '-') return 0;
    word += strspn(word, "-");
    const size_t length = strcspn(word, "=");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && strncmp(word, names[i], length) == 0) return 1;
    return 0;
}

int ls_launcher_changes_lines(void) {
    static const char *const variables[] = { "OMPI_MCA_orte_output_filename", "OMPI_MCA_orte_tag_output",
        "OMPI_MCA_orte_timestamp_output", "OMPI_MCA_orte_xml_output" };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (getenv(variables[i])) return 1;
    char words[LS_LAUNCHER_BYTES];
    const char *end = words + ls_launcher_command(words);
    for (const char *word = words; word < end; word += strlen(word) + 1)
        if (is_output_option(word)) return 1;
    return 0;
}
