#include "base/version.h"

#ifdef HOLDFAST_PLANT
#define HOLDFAST_VERSION_MORE "+planted"
#endif
#ifndef HOLDFAST_VERSION_MORE
#define HOLDFAST_VERSION_MORE ""
#endif

const char holdfast_version[] = HOLDFAST_VERSION HOLDFAST_VERSION_MORE;
