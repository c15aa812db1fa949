#include "base/plant.h"

#ifdef HOLDFAST_PLANT
_Thread_local uint64_t plant_mask;
#endif

static const struct {
    const char *name, *text;
} table[] = {
#define PLANT_ROW(name, text) {#name, text},
    PLANT_TABLE(PLANT_ROW)
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
