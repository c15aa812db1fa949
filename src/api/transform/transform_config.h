/* The block `transform` of the configuration file. */
#ifndef HOLDFAST_API_TRANSFORM_TRANSFORM_CONFIG_H
#define HOLDFAST_API_TRANSFORM_TRANSFORM_CONFIG_H

#include "base/macros.h"

#define TRANSFORM_FF31 "ff3-1"
#define TRANSFORM_FF1 "ff1"

struct transform_config {
    const char *fpe_algorithm; /* of new transformations that name none */
    bool forbid_ff3_1;         /* no new transformation may use it */
};
/* Never NULL: the presets where the server has read no configuration. */
const struct transform_config *transform_config(void);

#endif
