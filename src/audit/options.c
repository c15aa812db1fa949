/* One row for each option: its name, the types that have it, its preset, and the function that
 * reads its value. A preset is read by the same function as a given value. */
#include "audit/options.h"
#include "text/address.h"
#include "text/duration.h"

#include <assert.h>
#include <strings.h>
#include <sys/un.h>

enum { F = 1 << AUDIT_FILE, S = 1 << AUDIT_SOCKET, L = 1 << AUDIT_SYSLOG, ALL = F | S | L };

static const char *const type_names[] = {"file", "socket", "syslog"};
static const char *const socket_names[] = {"tcp", "udp", "unix", "unixgram"};
static const char *const facility_names[] = {
    "KERN",   "USER",   "MAIL",     "DAEMON", "AUTH",   "SYSLOG", "LPR",    "NEWS",
    "UUCP",   "CRON",   "AUTHPRIV", "FTP",    "NTP",    "AUDIT",  "ALERT",  "CLOCK",
    "LOCAL0", "LOCAL1", "LOCAL2",   "LOCAL3", "LOCAL4", "LOCAL5", "LOCAL6", "LOCAL7"};

enum status audit_type_parse(const char *text, enum audit_type *ret_type)
{
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++)
        if (strcmp(text, type_names[i]) == 0) {
            *ret_type = (enum audit_type)i;
            return ST_OK;
        }
    return ST_NOT_FOUND;
}

const char *audit_type_name(enum audit_type type)
{
    ASSERT(type < ARRAY_LEN(type_names));
    return type_names[type];
}

/* Readers of values. NULL: the value is good; else what the value must be. */

const char *audit_options_name_of(const char *file_path)
{
    static const struct {
        const char *name, *path;
    } rows[] = {{"stdout", "/dev/stdout"}, {"stderr", "/dev/stderr"}, {"discard", "/dev/null"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcasecmp(file_path, rows[i].name) == 0 || strcmp(file_path, rows[i].path) == 0)
            return rows[i].name;
    return NULL;
}

bool audit_options_is_named(const struct audit_options *options)
{
    return audit_options_name_of(options->file_path) != NULL;
}

static const char *read_path(const char *text, struct audit_options *o)
{
    const char *name = audit_options_name_of(text);
    o->file_path = name != NULL ? name : text;
    return text[0] != '\0' ? NULL : "must not be empty";
}

static const char *read_mode(const char *text, struct audit_options *o)
{
    uint32_t mode = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 5 || strspn(text, "01234567") != len)
        return "must be an octal number like 0600";
    for (size_t i = 0; i < len; i++)
        mode = mode << 3 | (uint32_t)(text[i] - '0');
    if ((mode & ~UINT32_C(0666)) != 0)
        return "must only have bits to read and write: 0600 and the like, or 0000";
    if (mode != AUDIT_MODE_KEEP && (mode & 0600) != 0600)
        return "must let the owner read and write";
    ASSERT((mode & ~UINT32_C(0666)) == 0);
    o->mode = mode;
    return NULL;
}

static const char *read_rotate_bytes(const char *text, struct audit_options *o)
{
    uint64_t n = 0;
    if (text_size_parse(bytes_str(text), &n) != ST_OK || (n != 0 && n < AUDIT_ROTATE_BYTES_MIN))
        return "must be a size of at least 4KiB, or 0";
    o->rotate_bytes = n;
    return NULL;
}

static const char *read_rotate_duration(const char *text, struct audit_options *o)
{
    int64_t ns = 0;
    if (text_duration_parse(bytes_str(text), &ns) != ST_OK || (ns != 0 && ns < 1000000000))
        return "must be a duration of at least 1s, or 0";
    o->rotate_ms = ns / 1000000;
    return NULL;
}

static const char *read_rotate_files(const char *text, struct audit_options *o)
{
    int64_t n = 0;
    if (text_int_parse(bytes_str(text), &n) != ST_OK || n < 0 || n > 100000)
        return "must be a number from 0 to 100000";
    o->rotate_files = (uint64_t)n;
    return NULL;
}

static const char *read_bool(const char *text, bool *ret_truth)
{
    return text_bool_parse(bytes_str(text), ret_truth) == ST_OK ? NULL : "must be true or false";
}

static const char *read_chain(const char *text, struct audit_options *o)
{
    return read_bool(text, &o->hash_chain);
}

static const char *read_raw(const char *text, struct audit_options *o)
{
    return read_bool(text, &o->log_raw);
}

static const char *read_hmac_accessor(const char *text, struct audit_options *o)
{
    return read_bool(text, &o->hmac_accessor);
}

static const char *read_elide(const char *text, struct audit_options *o)
{
    return read_bool(text, &o->elide_list_responses);
}

static const char *read_address(const char *text, struct audit_options *o)
{
    o->address = text;
    return text[0] != '\0' ? NULL : "must not be empty";
}

static const char *read_socket_type(const char *text, struct audit_options *o)
{
    for (size_t i = 0; i < ARRAY_LEN(socket_names); i++)
        if (strcmp(text, socket_names[i]) == 0) {
            o->socket_type = (enum audit_socket)i;
            return NULL;
        }
    return "must be tcp, udp, unix or unixgram";
}

static const char *read_facility(const char *text, struct audit_options *o)
{
    for (unsigned i = 0; i < ARRAY_LEN(facility_names); i++)
        if (strcasecmp(text, facility_names[i]) == 0) {
            o->facility = i;
            return NULL;
        }
    return "must be a syslog facility like AUTH, DAEMON or LOCAL0";
}

static bool printable(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static const char *read_tag(const char *text, struct audit_options *o)
{
    o->tag = text;
    if (text[0] == '\0' || strlen(text) > AUDIT_TAG_MAX || strpbrk(text, " :[]") != NULL)
        return "must have 1 to 64 characters, none of them a space, ':', '[' or ']'";
    return printable(text) ? NULL : "must not contain control characters";
}

static const char *read_prefix(const char *text, struct audit_options *o)
{
    o->prefix = text;
    return printable(text) ? NULL : "must not contain control characters";
}

static const char *read_format(const char *text, struct audit_options *o)
{
    (void)o;
    return strcmp(text, "json") == 0 ? NULL : "must be json: no other format is written";
}

static const char *read_timeout(const char *text, struct audit_options *o)
{
    int64_t ns = 0;
    if (text_duration_parse(bytes_str(text), &ns) != ST_OK ||
        ns < (int64_t)AUDIT_TIMEOUT_MIN_MS * 1000000 ||
        ns > (int64_t)AUDIT_TIMEOUT_MAX_MS * 1000000)
        return "must be a duration from 10ms to 60s";
    o->write_timeout_ms = ns / 1000000;
    return NULL;
}

const struct audit_option audit_option_rows[] = {
    {"file_path", NULL,
     "The file to append to, `stdout`, `stderr`, or `discard`, which writes nothing. The file lies "
     "below a directory that the configuration of the node lists; `/dev/stdout`, `/dev/stderr` and "
     "`/dev/null` stand for the three names.",
     F, true},
    {"mode", "0600",
     "Permissions of files that the device makes, in octal, at most `0640`. `0000` is `0600`. A "
     "file that exists keeps its mode.",
     F, false},
    {"rotate_bytes", "0",
     "Rename the file before it exceeds this size (`100MiB`); `0`: at no size. The new name is the "
     "old one with a time.",
     F, false},
    {"rotate_duration", "0",
     "Rename the file at the first record after this time (`24h`), counted from the file's first "
     "record; `0`: at no age.",
     F, false},
    {"rotate_max_files", "0", "Rotated files to keep; `0`: all.", F, false},
    {"hash_chain", "false",
     "End each line with a number and a hash that links the line to the line before, for `audit "
     "verify`.",
     F, false},
    {"address", NULL, "`HOST:PORT`, or the path of a unix socket.", S, true},
    {"socket_type", "tcp", "`tcp`, `udp`, `unix` (a stream) or `unixgram` (datagrams).", S, false},
    {"facility", "AUTH", "The syslog facility.", L, false},
    {"tag", "holdfast", "The program's name in each syslog line.", L, false},
    {"format", "json", "`json` is the only format.", ALL, false},
    {"prefix", "",
     "Text before each line: letters, digits, `-`, `_`, `:`, `@` and spaces, where the "
     "configuration of the node has `allow_prefix`.",
     ALL, false},
    {"log_raw", "false", "Write secrets in clear, without HMAC. For tests only.", ALL, false},
    {"hmac_accessor", "true", "Write accessors as HMAC.", ALL, false},
    {"elide_list_responses", "false",
     "Write the number of entries of a list reply instead of the entries.", ALL, false},
    {"write_timeout", "2s",
     "How long a request waits for this device. A device that takes longer is left out until it "
     "answers.",
     ALL, false},
};
const size_t audit_n_option_rows = ARRAY_LEN(audit_option_rows);

static const char *(*const readers[])(const char *, struct audit_options *) = {
    read_path,         read_mode,          read_rotate_bytes, read_rotate_duration,
    read_rotate_files, read_chain,         read_address,      read_socket_type,
    read_facility,     read_tag,           read_format,       read_prefix,
    read_raw,          read_hmac_accessor, read_elide,        read_timeout,
};
static_assert(ARRAY_LEN(readers) == ARRAY_LEN(audit_option_rows), "one reader for each option");

static enum status read_row(size_t row, const char *text, struct audit_options *o,
                            struct reason *why)
{
    const char *wrong = strlen(text) <= AUDIT_TEXT_MAX ? readers[row](text, o) : "is too long";
    if (wrong == NULL)
        return ST_OK;
    reason_set(why, "%s: %s", audit_option_rows[row].name, wrong);
    return ST_INVALID;
}

static const char *find(const struct field_map *given, const char *name)
{
    for (size_t i = 0; i < given->n; i++)
        if (strcmp(given->pairs[2 * i], name) == 0)
            return given->pairs[2 * i + 1];
    return NULL;
}

/* Refuse a name that no row of the type has. */
static enum status check_names(const struct field_map *given, enum audit_type type,
                               struct reason *why)
{
    ASSERT(type < ARRAY_LEN(type_names));
    for (size_t i = 0; i < given->n; i++) {
        const char *name = given->pairs[2 * i];
        size_t row = 0;
        while (row < ARRAY_LEN(audit_option_rows) &&
               (strcmp(audit_option_rows[row].name, name) != 0 ||
                (audit_option_rows[row].types & 1U << type) == 0))
            row++;
        if (row == ARRAY_LEN(audit_option_rows)) {
            reason_set(why, "%.64s: unknown option of a device of type %s", name, type_names[type]);
            return ST_INVALID;
        }
    }
    return ST_OK;
}

/* Rules about more than one option. */
static enum status check_whole(const struct audit_options *o, struct reason *why)
{
    char host[TEXT_HOST_MAX];
    uint16_t port = 0;
    bool file = o->type == AUDIT_FILE && !audit_options_is_named(o);
    bool rotates = o->rotate_bytes != 0 || o->rotate_ms != 0;
    ASSERT(o->type != AUDIT_FILE || o->file_path != NULL);
    ASSERT(o->type != AUDIT_SOCKET || o->address != NULL);
    if (o->type == AUDIT_FILE && !file && (o->hash_chain || rotates)) {
        reason_set(why, "%s: needs a file, not %s", o->hash_chain ? "hash_chain" : "rotation",
                   o->file_path);
        return ST_INVALID;
    }
    if (o->rotate_files != 0 && !rotates) {
        reason_set(why, "rotate_max_files: needs rotate_bytes or rotate_duration");
        return ST_INVALID;
    }
    if (o->type != AUDIT_SOCKET)
        return ST_OK;
    if (o->socket_type <= AUDIT_UDP && text_address_split(o->address, host, &port) != ST_OK) {
        reason_set(why, "address: must be HOST:PORT");
        return ST_INVALID;
    }
    if (o->socket_type > AUDIT_UDP &&
        strlen(o->address) >= sizeof((struct sockaddr_un *)0)->sun_path) {
        reason_set(why, "address: a path of a unix socket has at most %zu bytes",
                   sizeof((struct sockaddr_un *)0)->sun_path - 1);
        return ST_INVALID;
    }
    return ST_OK;
}

enum status audit_options_parse(const char *type, const struct field_map *given,
                                struct audit_options *ret_options, struct reason *why)
{
    struct audit_options o = {.prefix = ""};
    if (audit_type_parse(type, &o.type) != ST_OK) {
        reason_set(why, "type: must be file, socket or syslog");
        return ST_INVALID;
    }
    TRY(check_names(given, o.type, why));
    for (size_t i = 0; i < ARRAY_LEN(audit_option_rows); i++) {
        const struct audit_option *row = &audit_option_rows[i];
        bool of_type = (row->types & 1U << o.type) != 0;
        const char *text = of_type ? find(given, row->name) : NULL;
        if (text == NULL && row->required && of_type) {
            reason_set(why, "%s: missing", row->name);
            return ST_INVALID;
        }
        if (text == NULL)
            text = row->preset;
        if (text != NULL)
            TRY(read_row(i, text, &o, why));
    }
    TRY(check_whole(&o, why));
    ASSERT(o.prefix != NULL && o.write_timeout_ms > 0);
    *ret_options = o;
    return ST_OK;
}
