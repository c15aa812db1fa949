/* The rules for outgoing requests that the configuration gives: one set for the whole process. */
#ifndef HOLDFAST_OUT_OUT_SETTINGS_H
#define HOLDFAST_OUT_OUT_SETTINGS_H

#include "out/out_rules.h"

/* Set once, before threads start; all is borrowed. */
void out_settings_set(const struct out_rules *rules, const char *ca_file);
/* Loopback, link-local, private and metadata addresses are denied, unless `allow` has them. */
const struct out_rules *out_settings_rules(void);
const char *out_settings_ca_file(void); /* "": the system's authorities */

#endif
