/* Stages and levels of run tasks. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_TASK_H
#define HOLDFAST_API_PLATFORM_PLATFORM_TASK_H

#include "api/platform/platform_object.h"

extern const char *const platform_stages[], *const platform_levels[]; /* end in NULL */

/* Check a list of stages. ST_REFUSED with the request's error. */
NODISCARD enum status platform_stages_check(struct req *req, const char *attribute,
                                            const struct text_value *list);

#endif
