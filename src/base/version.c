#include "base/version.h"

#ifndef HOLDFAST_VERSION_MORE
#define HOLDFAST_VERSION_MORE ""
#endif

const char holdfast_version[] = HOLDFAST_VERSION HOLDFAST_VERSION_MORE;
