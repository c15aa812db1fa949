/* The block `stores` of the configuration: what databases of tokens may do on this node. */
#ifndef HOLDFAST_API_STORES_STORES_H
#define HOLDFAST_API_STORES_STORES_H

#include "router/table/module.h"

extern const struct module stores_module;

#endif
