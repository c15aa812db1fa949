/* Runs a fuzz target over every file of a folder, for compilers without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

int main(int argc, char **argv)
{
    unsigned n = 0;
    int failed = 0;
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    if (dir == NULL) {
        (void)fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 2;
    }
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (e->d_name[0] != '.') {
            failed |= replay(argv[1], e->d_name);
            n++;
        }
    (void)closedir(dir);
    printf("%u inputs replayed\n", n);
    return failed != 0 || n == 0;
}
