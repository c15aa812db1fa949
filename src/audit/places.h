/* Where the audit devices of this node may write files: the block `audit { … }` of its
 * configuration file. The API cannot change it, so a token that may enable devices cannot reach
 * other files. */
#ifndef HOLDFAST_AUDIT_PLACES_H
#define HOLDFAST_AUDIT_PLACES_H

#include "audit/options.h"

/* Strings are borrowed, except in a copy of audit_places_dup. */
struct audit_places {
    const char *data_dir;           /* no file may lie below; NULL: none */
    const char *const *directories; /* text_path_is_canonical */
    size_t n;
    bool prefix; /* devices may write text before each line */
};

/* A copy in one piece of memory, freed with mem_free. `from` NULL: no directory. ST_NOMEM. */
NODISCARD enum status audit_places_dup(const struct audit_places *from,
                                       struct audit_places **ret_copy);

/* The end of `path` below the directory that contains it, and the directory: the longest one.
 * ST_IO with a reason: the path is not canonical, or lies below no directory. */
NODISCARD enum status audit_places_find(const struct audit_places *places, const char *path,
                                        const char **ret_directory, const char **ret_below,
                                        struct reason *why);

/* The options that a request or the configuration file gives to a new device: refuse a path outside
 * of the directories, a mode above AUDIT_MODE_MAX, and a prefix that is not allowed. ST_INVALID
 * with a reason that names the option. */
NODISCARD enum status audit_places_check(const struct audit_places *places,
                                         const struct audit_options *options, struct reason *why);

/* The options of a device of the state, which an earlier build may have stored: narrow the mode to
 * AUDIT_MODE_MAX, and leave out a prefix that is not allowed. `why` says what was changed; its text
 * is empty if nothing was. The path stays: its device fails with a reason. */
void audit_places_narrow(const struct audit_places *places, struct audit_options *options,
                         struct reason *why);

#endif
