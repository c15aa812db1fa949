/* Runs a fuzz target over every file of a folder, for compilers without libFuzzer.
 *
 * Inputs that libFuzzer kept for their coverage have hashes for names. With HOLDFAST_CORPUS=I/N in
 * the environment, only every N-th of them runs. Inputs with other names were written by hand or
 * once failed: they always run. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_DIGITS 40

static unsigned slice_number, slice_count = 1;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *folder, const char *name)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return 1;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        return 1;
    long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc((size_t)size + 1);
    int failed = data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size;
    if (!failed)
        (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    (void)fclose(file);
    return failed;
}

/* Whether this run replays the input: by the first digits of the hash. */
static bool chosen(const char *name)
{
    if (name[0] == '.')
        return false;
    if (strlen(name) != HASH_DIGITS || strspn(name, "0123456789abcdef") != HASH_DIGITS)
        return true;
    char first[8] = {0};
    memcpy(first, name, sizeof first - 1);
    return strtoul(first, NULL, 16) % slice_count == slice_number;
}

/* false: the environment names no slice that there is. */
static bool read_slice(void)
{
    const char *text = getenv("HOLDFAST_CORPUS");
    char end;
    return text == NULL || (sscanf(text, "%u/%u%c", &slice_number, &slice_count, &end) == 2 &&
                            slice_number < slice_count);
}

int main(int argc, char **argv)
{
    unsigned n = 0;
    int failed = 0;
    DIR *dir = argc == 2 && read_slice() ? opendir(argv[1]) : NULL;
    if (dir == NULL) {
        (void)fprintf(stderr, "usage: [HOLDFAST_CORPUS=I/N] %s CORPUS\n", argv[0]);
        return 2;
    }
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (chosen(e->d_name)) {
            failed |= replay(argv[1], e->d_name);
            n++;
        }
    (void)closedir(dir);
    printf("%u inputs replayed\n", n);
    return failed != 0 || (n == 0 && slice_count == 1);
}
