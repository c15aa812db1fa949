#include "base/plant.h"

#ifdef HOLDFAST_PLANT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local unsigned plant_number;
bool plant_process[PLANTS];
#endif

static const struct {
    const char *name, *text;
} table[] = {
#define PLANT_ROW(name, text) {#name, text},
    PLANT_TABLE(PLANT_ROW) PLANT_PROCESS_TABLE(PLANT_ROW)
#undef PLANT_ROW
};

const char *plant_name(enum plant p)
{
    ASSERT(p < PLANTS);
    return table[p].name;
}

const char *plant_text(enum plant p)
{
    ASSERT(p < PLANTS);
    return table[p].text;
}

#ifdef HOLDFAST_PLANT
static bool plant_one(const char *name, size_t n)
{
    for (size_t p = 0; p < PLANTS; p++)
        if (strlen(table[p].name) == n && memcmp(table[p].name, name, n) == 0) {
            plant_process[p] = true;
            return true;
        }
    return false;
}

__attribute__((constructor)) static void plant_by_environment(void)
{
    const char *at = getenv("HOLDFAST_PLANT");
    while (at != NULL && *at != '\0') {
        size_t n = strcspn(at, ",");
        if (!plant_one(at, n)) {
            (void)fprintf(stderr, "HOLDFAST_PLANT: no planted bug '%.*s'\n", (int)n, at);
            _Exit(2);
        }
        at += n + (at[n] == ',');
    }
}
#endif
