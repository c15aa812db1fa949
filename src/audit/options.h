/* The options of an audit device. One table describes them: for the API, for the configuration file
 * and for the documents. */
#ifndef HOLDFAST_AUDIT_OPTIONS_H
#define HOLDFAST_AUDIT_OPTIONS_H

#include "text/schema.h"

enum audit_type { AUDIT_FILE, AUDIT_SOCKET, AUDIT_SYSLOG };

enum audit_socket { AUDIT_TCP, AUDIT_UDP, AUDIT_UNIX, AUDIT_UNIXGRAM };

enum {
    AUDIT_TEXT_MAX = 1024,         /* bytes of one option */
    AUDIT_TAG_MAX = 64,            /* bytes of `tag` */
    AUDIT_MODE_KEEP = 0,           /* `mode`: 0600, as when it is absent */
    AUDIT_MODE_MAX = 0640,         /* `mode` of a new device */
    AUDIT_ROTATE_BYTES_MIN = 4096, /* `rotate_bytes`, unless it is 0 */
    AUDIT_TIMEOUT_MIN_MS = 10,     /* `write_timeout` */
    AUDIT_TIMEOUT_MAX_MS = 60000,
};

/* Options of another type than the device's have their presets. Strings are NULL when absent. */
struct audit_options {
    enum audit_type type;
    /* file */
    const char *file_path; /* a path, "stdout", "stderr" or "discard" */
    uint32_t mode;         /* permissions of files that the device makes, or AUDIT_MODE_KEEP */
    uint64_t rotate_bytes; /* 0: the size does not matter */
    int64_t rotate_ms;     /* rotate_duration; 0: the age does not matter */
    uint64_t rotate_files; /* rotate_max_files: rotated files to keep; 0: all */
    bool hash_chain;
    /* socket */
    const char *address;
    enum audit_socket socket_type;
    /* syslog */
    unsigned facility; /* 0..23 (RFC 3164 4.1.1) */
    const char *tag;
    /* all */
    const char *prefix; /* written before each line; "" when absent */
    bool log_raw, hmac_accessor, elide_list_responses;
    int64_t write_timeout_ms;
};

/* One option, for documents and for readers of configuration. */
struct audit_option {
    const char *name;
    const char *preset; /* the value of an absent option; NULL: none, or required */
    const char *help;   /* a sentence */
    unsigned types;     /* bits: 1 << enum audit_type */
    bool required;
};

extern const struct audit_option audit_option_rows[];
extern const size_t audit_n_option_rows;

/* "file", "socket", "syslog". ST_NOT_FOUND. */
NODISCARD enum status audit_type_parse(const char *text, enum audit_type *ret_type);
const char *audit_type_name(enum audit_type type);

/* Whether `file_path` is one of the names "stdout", "stderr" and "discard" instead of a path. */
bool audit_options_is_named(const struct audit_options *options);
/* The name that `file_path` stands for, also as /dev/stdout, /dev/stderr and /dev/null; else NULL.
 */
const char *audit_options_name_of(const char *file_path);

/* Read the options of a device of the type. Values are strings; booleans are as Go reads them,
 * durations "2s" or seconds. Strings of the result borrow from `given`. ST_INVALID with a reason
 * that names the option: unknown, of another type, missing, or a value that is not allowed. `why`
 * may be NULL. */
NODISCARD enum status audit_options_parse(const char *type, const struct field_map *given,
                                          struct audit_options *ret_options, struct reason *why);

#endif
