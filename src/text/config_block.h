/* A block of the configuration file that a module adds. */
#ifndef HOLDFAST_TEXT_CONFIG_BLOCK_H
#define HOLDFAST_TEXT_CONFIG_BLOCK_H

#include "text/schema.h"

/* A block without a label that a module of the server adds to the file: `name { FIELD = VALUE … }`.
 * A reload does not apply its fields. Secret fields are strings, and `hidden`. */
struct config_block {
    const char *name;
    const struct schema *schema;
    /* Why the fields cannot be used, as "FIELD: …", static; NULL: they can. NULL: nothing is to be
     * checked. */
    const char *(*check)(const void *fields);
};

#endif
