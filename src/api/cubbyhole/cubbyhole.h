/* The cubbyhole: a private tree of JSON objects for each service token. No other token sees the
 * cubbyhole of a token, and the cubbyhole ends with its token. */
#ifndef HOLDFAST_API_CUBBYHOLE_CUBBYHOLE_H
#define HOLDFAST_API_CUBBYHOLE_CUBBYHOLE_H

#include "router/table/module.h"

extern const struct module cubbyhole_module;

#endif
