#ifndef HOLDFAST_API_OUTGOING_OUTGOING_H
#define HOLDFAST_API_OUTGOING_OUTGOING_H

#include "router/table/module.h"

/* The block `outgoing` of the configuration, which sets the rules of src/out. */
extern const struct module outgoing_module;

#endif
