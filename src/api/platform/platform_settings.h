/* Settings of administrators: six records, each with its presets until it is changed. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_SETTINGS_H
#define HOLDFAST_API_PLATFORM_PLATFORM_SETTINGS_H

#include "api/platform/platform_doc.h"

struct platform_setting {
    const char *path;     /* "smtp-settings", in "admin/smtp-settings" */
    const char *id;       /* of the record and of documents */
    const char *shown_id; /* of documents, where a path is an alias; NULL: id */
    struct platform_resource resource;
    struct platform_row shown, changed; /* of its routes */
    /* Check and complete changed settings. ST_REFUSED with the request's error. NULL: no check. */
    enum status (*settle)(struct req *req, const struct platform_object *before,
                          struct platform_object *after);
};

/* Load settings; presets where they were never changed. */
NODISCARD enum status platform_setting_load(struct state_txn *txn,
                                            const struct platform_setting *setting,
                                            struct platform_object *ret_object);
/* Stage changed settings. */
NODISCARD enum status platform_setting_put(struct req *req, const struct platform_setting *setting,
                                           struct platform_object *object);
/* platform_settings_kinds.c: all settings, and those whose kind is `id`. */
extern const struct platform_setting platform_setting_list[];
extern const size_t platform_setting_n;
const struct platform_setting *platform_setting_at(struct bytes path);

#endif
