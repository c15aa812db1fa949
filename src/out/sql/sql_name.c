/* Connection strings.
 *
 *   postgres://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE&…    libpq's URL; "postgresql://" too
 *   host=HOST port=PORT user=USER password='PASS WORD' …        libpq's keywords
 *   USER:PASSWORD@tcp(HOST:PORT)/DATABASE?NAME=VALUE&…          MariaDB, as Go's driver writes it
 *
 * The last '@' counts, so a raw '@' in a name does not move the host. Slots are filled after the
 * text was taken apart: no user name or password changes the meaning of the string. */
#include "out/sql/sql_internal.h"
#include "text/duration.h"
#include "text/encode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define USER_SLOT "{{username}}"
#define PASSWORD_SLOT "{{password}}"

struct parse {
    const struct out_sql_target *target;
    struct arena *arena;
    struct sql_name *out;
    struct reason *why;
    struct buf options; /* settings of a PostgreSQL session */
};

static const struct out_sql_policy nothing;
static const struct out_sql_policy *policy = &nothing; /* set before threads start */

void out_sql_set_policy(const struct out_sql_policy *given)
{
    ASSERT(given != NULL);
    policy = given;
}

const struct out_sql_policy *sql_policy(void)
{
    return policy;
}

enum status out_sql_driver_of(const char *name, enum out_sql_driver *ret_driver,
                              struct reason *reason)
{
    if (strcmp(name, "postgres") == 0 || strcmp(name, "postgresql") == 0) {
        *ret_driver = OUT_SQL_POSTGRES;
        return ST_OK;
    }
    if (strcmp(name, "mysql") == 0 || strcmp(name, "mariadb") == 0) {
        *ret_driver = OUT_SQL_MYSQL;
        return ST_OK;
    }
    if (strcmp(name, "mssql") == 0)
        reason_set(reason, "mssql is not served: \"postgres\" or \"mysql\" is expected");
    else
        reason_set(reason, "\"postgres\" or \"mysql\" is expected");
    return ST_INVALID;
}

static __attribute__((format(printf, 2, 3))) enum status refuse(struct parse *p, const char *format,
                                                                ...)
{
    va_list args;
    va_start(args, format);
    if (p->why != NULL)
        (void)vsnprintf(p->why->text, sizeof p->why->text, format, args);
    va_end(args);
    return ST_INVALID;
}

bool sql_file_is_allowed(const char *path)
{
    if (path[0] != '/' || strstr(path, "/../") != NULL || strstr(path, "//") != NULL ||
        (strlen(path) >= 3 && strcmp(path + strlen(path) - 3, "/..") == 0))
        return false;
    for (size_t i = 0; i < policy->n_directories; i++) {
        const char *directory = policy->directories[i];
        size_t len = strlen(directory);
        while (len > 1 && directory[len - 1] == '/')
            len--;
        if (strncmp(path, directory, len) == 0 && path[len] == '/' && path[len + 1] != '\0')
            return true;
    }
    return false;
}

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

/* Put user name and password in the places of the slots. */
static enum status fill_slots(struct parse *p, const char *text, const char **ret,
                              bool *ret_password)
{
    CLEANUP(buf_done) struct buf out = {0};
    *ret_password = strstr(text, PASSWORD_SLOT) != NULL;
    while (*text != '\0') {
        if (strncmp(text, USER_SLOT, strlen(USER_SLOT)) == 0) {
            buf_add(&out, bytes_str(p->target->username));
            text += strlen(USER_SLOT);
        } else if (strncmp(text, PASSWORD_SLOT, strlen(PASSWORD_SLOT)) == 0) {
            buf_add(&out, bytes_str(p->target->password));
            text += strlen(PASSWORD_SLOT);
        } else {
            buf_add_u8(&out, (uint8_t)*text++);
        }
    }
    TRY(buf_status(&out));
    *ret = arena_str(p->arena, buf_bytes(&out));
    return *ret != NULL ? ST_OK : ST_NOMEM;
}

static enum status take_user(struct parse *p, const char *text)
{
    bool password;
    if (strstr(text, USER_SLOT) == NULL)
        return refuse(p, "write {{username}} in place of the user, and give the field username");
    TRY(fill_slots(p, text, &p->out->user, &password));
    return password ? refuse(p, "the slot {{password}} stands for the password alone") : ST_OK;
}

static enum status take_password(struct parse *p, const char *text)
{
    if (text[0] != '\0' && strcmp(text, PASSWORD_SLOT) != 0) {
        p->out->has_secret = true;
        return refuse(p, "the password stands in it: write {{password}} there and give the field "
                         "password");
    }
    p->out->password = text[0] != '\0' ? p->target->password : NULL;
    return ST_OK;
}

static enum status take_host(struct parse *p, const char *host)
{
    bool marks = strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "-._:") == strlen(host);
    if (host[0] == '/' || host[0] == '@') {
        if (!policy->allow_sockets)
            return refuse(p, "sockets are refused: stores { allow_sockets = true } of the "
                             "configuration allows them");
        p->out->is_socket = true;
        p->out->host = host;
        return strlen(host) < 90 ? ST_OK : refuse(p, "the path of the socket is too long");
    }
    if (strchr(host, ',') != NULL)
        return refuse(p, "one host is expected");
    if (host[0] == '\0' || strlen(host) > 253 || !marks)
        return refuse(p, "the host is malformed");
    p->out->host = host;
    return ST_OK;
}

static enum status take_port(struct parse *p, const char *text)
{
    char *end;
    unsigned long port = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    if (port == 0 || port > UINT16_MAX || *end != '\0')
        return refuse(p, "the port is malformed: 1 to 65535 is expected");
    p->out->port = (uint16_t)port;
    return ST_OK;
}

static enum status take_file(struct parse *p, const char *name, const char *path, const char **ret)
{
    if (!sql_file_is_allowed(path))
        return refuse(p,
                      "%s: files must lie below a directory of stores { file_directories } of "
                      "the configuration; certificates of authorities can stand in tls_ca",
                      name);
    *ret = path;
    return ST_OK;
}

static enum status take_ms(struct parse *p, const char *name, int64_t ms)
{
    if (ms <= 0)
        return refuse(p, "%s: a time above 0 is expected", name);
    p->out->connect_ms = (uint32_t)MIN(ms, (int64_t)OUT_SQL_CONNECT_MS);
    return ST_OK;
}

static enum status take_seconds(struct parse *p, const char *name, const char *value)
{
    int64_t s = 0;
    if (text_seconds_parse(bytes_str(value), &s) != ST_OK)
        return refuse(p, "%s: whole seconds are expected", name);
    return take_ms(p, name, 1000 * MIN(s, INT64_C(3600)));
}

static const struct {
    const char *name;
    enum sql_tls tls;
} sslmodes[] = {{"disable", SQL_TLS_OFF}, {"allow", SQL_TLS_PREFER}, {"prefer", SQL_TLS_PREFER},
                {"require", SQL_TLS_ANY}, {"verify-ca", SQL_TLS_CA}, {"verify-full", SQL_TLS_FULL}};

static enum status take_sslmode(struct parse *p, const char *value)
{
    for (size_t i = 0; i < ARRAY_LEN(sslmodes); i++)
        if (strcmp(value, sslmodes[i].name) == 0) {
            p->out->tls = sslmodes[i].tls;
            return ST_OK;
        }
    return refuse(p, "sslmode: disable, allow, prefer, require, verify-ca or verify-full is "
                     "expected");
}

/* A parameter that libpq does not need from us is a setting of the session. */
static enum status take_setting(struct parse *p, const char *name, const char *value)
{
    size_t len = strlen(name);
    if (len == 0 || len > 63 ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") != len)
        return refuse(p, "the name of a parameter is malformed");
    buf_add_format(&p->options, "-c %s=", name);
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == ' ' || *c == '\\')
            buf_add_u8(&p->options, '\\');
        buf_add_u8(&p->options, (uint8_t)*c);
    }
    buf_add_u8(&p->options, ' ');
    return buf_status(&p->options);
}

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static enum status take_postgres(struct parse *p, const char *name, const char *value)
{
    static const char *const refused[] = {
        "hostaddr",   "service",       "servicefile",   "passfile",    "requirepeer", "gssencmode",
        "krbsrvname", "gsslib",        "replication",   "sslcrldir",   "sslpassword", "ssl",
        "requiressl", "sslkeylogfile", "gssdelegation", "oauth_issuer"};
    static const char *const ignored[] = {"client_encoding",
                                          "fallback_application_name",
                                          "sslsni",
                                          "sslcompression",
                                          "parseTime",
                                          "keepalives",
                                          "keepalives_idle",
                                          "keepalives_interval",
                                          "keepalives_count",
                                          "tcp_user_timeout",
                                          "channel_binding",
                                          "target_session_attrs",
                                          "ssl_min_protocol_version",
                                          "ssl_max_protocol_version",
                                          "binary_parameters",
                                          "require_auth",
                                          "load_balance_hosts",
                                          "sslcertmode",
                                          "sslnegotiation",
                                          "disable_prepared_binary_result"};
    struct sql_name *out = p->out;
    if (!is_plain(value))
        return refuse(p, "it contains a control character");
    if (is_one_of(name, refused, ARRAY_LEN(refused)))
        return refuse(p, "the parameter %s is refused", name);
    if (is_one_of(name, ignored, ARRAY_LEN(ignored)))
        return ST_OK;
    if (strcmp(name, "host") == 0)
        return take_host(p, value);
    if (strcmp(name, "port") == 0)
        return take_port(p, value);
    if (strcmp(name, "user") == 0)
        return take_user(p, value);
    if (strcmp(name, "password") == 0)
        return take_password(p, value);
    if (strcmp(name, "dbname") == 0) {
        out->database = value;
        return strchr(value, '=') == NULL && strstr(value, "://") == NULL
                   ? ST_OK
                   : refuse(p, "dbname: a name is expected");
    }
    if (strcmp(name, "sslmode") == 0)
        return take_sslmode(p, value);
    if (strcmp(name, "sslrootcert") == 0)
        return strcmp(value, "system") == 0 ? ST_OK : take_file(p, name, value, &out->root_file);
    if (strcmp(name, "sslcert") == 0)
        return take_file(p, name, value, &out->cert_file);
    if (strcmp(name, "sslkey") == 0)
        return take_file(p, name, value, &out->key_file);
    if (strcmp(name, "sslcrl") == 0)
        return take_file(p, name, value, &out->crl_file);
    if (strcmp(name, "connect_timeout") == 0)
        return take_seconds(p, name, value);
    if (strcmp(name, "application_name") == 0) {
        out->application = value;
        return ST_OK;
    }
    if (strcmp(name, "options") == 0) {
        buf_add_format(&p->options, "%s ", value);
        return buf_status(&p->options);
    }
    return take_setting(p, name, value);
}

static enum status take_tls(struct parse *p, const char *value)
{
    enum sql_tls tls = SQL_TLS_SILENT;
    if (strcmp(value, "true") == 0)
        tls = SQL_TLS_FULL;
    else if (strcmp(value, "false") == 0)
        tls = SQL_TLS_OFF;
    else if (strcmp(value, "skip-verify") == 0)
        tls = SQL_TLS_ANY;
    else if (strcmp(value, "preferred") == 0)
        tls = SQL_TLS_PREFER;
    else
        return refuse(p, "tls: true, false, skip-verify or preferred is expected; certificates of "
                         "authorities stand in tls_ca");
    p->out->tls = tls;
    return ST_OK;
}

static enum status take_mysql(struct parse *p, const char *name, const char *value)
{
    static const char *const unsafe[] = {"allowAllFiles",     "allowCleartextPasswords",
                                         "allowOldPasswords", "multiStatements",
                                         "clientFoundRows",   "allowFallbackToPlaintext"};
    static const char *const ignored[] = {"parseTime",
                                          "loc",
                                          "charset",
                                          "collation",
                                          "interpolateParams",
                                          "maxAllowedPacket",
                                          "allowNativePasswords",
                                          "checkConnLiveness",
                                          "columnsWithAlias",
                                          "rejectReadOnly",
                                          "readTimeout",
                                          "writeTimeout",
                                          "connectionAttributes",
                                          "timeTruncate",
                                          "compress"};
    int64_t ns;
    if (!is_plain(value))
        return refuse(p, "it contains a control character");
    if (is_one_of(name, unsafe, ARRAY_LEN(unsafe)))
        return strcmp(value, "false") == 0 ? ST_OK : refuse(p, "the parameter %s is refused", name);
    if (is_one_of(name, ignored, ARRAY_LEN(ignored)))
        return ST_OK;
    if (strcmp(name, "tls") == 0)
        return take_tls(p, value);
    if (strcmp(name, "timeout") == 0) {
        if (text_duration_parse(bytes_str(value), &ns) != ST_OK)
            return refuse(p, "timeout: a duration as 5s is expected");
        return take_ms(p, name, ns / 1000000);
    }
    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") != strlen(name))
        return refuse(p, "a parameter is not known"); /* the name may be a part of a raw password */
    return refuse(p, "the parameter \"%.32s\" is not known", name);
}

static enum status take(struct parse *p, const char *name, const char *value)
{
    return p->out->driver == OUT_SQL_POSTGRES ? take_postgres(p, name, value)
                                              : take_mysql(p, name, value);
}

static enum status copy(struct parse *p, const char *from, size_t len, char **ret)
{
    *ret = arena_str(p->arena, bytes_of(from, len));
    return *ret != NULL ? ST_OK : ST_NOMEM;
}

/* A part of a URL, with its percent-encoding undone. */
static enum status decoded(struct parse *p, const char *from, size_t len, const char **ret)
{
    char *text, *to;
    TRY(copy(p, from, len, &text));
    to = text;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c != '%') {
            *to++ = *c;
            continue;
        }
        unsigned high = text_hex_digit((uint8_t)c[1]);
        unsigned low = high < 16 ? text_hex_digit((uint8_t)c[2]) : 16;
        if (high > 15 || low > 15 || (high == 0 && low == 0))
            return refuse(p, "percent-encoding as %%40 is expected behind '%%'");
        *to++ = (char)(high << 4 | low);
        c += 2;
    }
    *to = '\0';
    *ret = text;
    return ST_OK;
}

/* "name=value&name=value". */
static enum status take_query(struct parse *p, const char *query)
{
    for (size_t n = 0; *query != '\0'; n++) {
        size_t len = strcspn(query, "&");
        const char *equals = memchr(query, '=', len);
        const char *name, *value;
        if (n == SQL_PAIRS_MAX)
            return refuse(p, "%d parameters at most", SQL_PAIRS_MAX);
        if (equals == NULL)
            return refuse(p, "parameters as name=value are expected");
        TRY(decoded(p, query, (size_t)(equals - query), &name));
        TRY(decoded(p, equals + 1, len - (size_t)(equals + 1 - query), &value));
        TRY(take(p, name, value));
        query += len + (query[len] == '&');
    }
    return ST_OK;
}

/* "host", "host:port", "[v6]:port", or nothing. */
static enum status take_authority(struct parse *p, const char *from, size_t len)
{
    const char *text, *port = NULL;
    TRY(decoded(p, from, len, &text));
    if (text[0] == '\0')
        return ST_OK;
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        char *host;
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return refuse(p, "the host is malformed");
        TRY(copy(p, text + 1, (size_t)(end - text - 1), &host));
        TRY(take_host(p, host));
        return end[1] == ':' && end[2] != '\0' ? take_port(p, end + 2) : ST_OK;
    }
    char *host;
    port = text[0] != '/' ? strchr(text, ':') : NULL;
    TRY(copy(p, text, port != NULL ? (size_t)(port - text) : strlen(text), &host));
    TRY(take_host(p, host));
    return port != NULL && port[1] != '\0' ? take_port(p, port + 1) : ST_OK;
}

static const char *last_at(const char *from, const char *end)
{
    return memrchr(from, '@', (size_t)(end - from));
}

/* "user" or "user:password", raw for MariaDB, percent-encoded in a URL. */
static enum status take_credentials(struct parse *p, const char *from, const char *end, bool url)
{
    const char *colon = memchr(from, ':', (size_t)(end - from));
    const char *user = NULL, *password = NULL;
    char *raw;
    size_t user_len = (size_t)((colon != NULL ? colon : end) - from);
    if (url) {
        TRY(decoded(p, from, user_len, &user));
        if (colon != NULL)
            TRY(decoded(p, colon + 1, (size_t)(end - colon - 1), &password));
    } else {
        TRY(copy(p, from, user_len, &raw));
        user = raw;
        if (colon != NULL) {
            TRY(copy(p, colon + 1, (size_t)(end - colon - 1), &raw));
            password = raw;
        }
    }
    if (user[0] != '\0')
        TRY(take_user(p, user));
    return password != NULL ? take_password(p, password) : ST_OK;
}

static enum status parse_url(struct parse *p, const char *text)
{
    const char *query = strchr(text, '?');
    const char *end = query != NULL ? query : text + strlen(text);
    const char *at = last_at(text, end);
    const char *host = at != NULL ? at + 1 : text;
    const char *slash = memchr(host, '/', (size_t)(end - host));
    const char *database;
    if (at != NULL)
        TRY(take_credentials(p, text, at, true));
    TRY(take_authority(p, host, (size_t)((slash != NULL ? slash : end) - host)));
    if (slash != NULL) {
        TRY(decoded(p, slash + 1, (size_t)(end - slash - 1), &database));
        if (database[0] != '\0')
            TRY(take(p, "dbname", database));
    }
    return query != NULL ? take_query(p, query + 1) : ST_OK;
}

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t\r\n");
}

/* A value of a keyword: to the next blank, or in single quotes; '\' takes the next byte as it is.
 */
static enum status read_keyword_value(struct parse *p, const char **at, const char **ret)
{
    CLEANUP(buf_done) struct buf value = {0};
    const char *c = *at;
    bool quoted = *c == '\'';
    if (quoted)
        c++;
    while (*c != '\0' && (quoted ? *c != '\'' : strchr(" \t\r\n", *c) == NULL)) {
        if (*c == '\\' && c[1] != '\0')
            c++;
        buf_add_u8(&value, (uint8_t)*c++);
    }
    if (quoted && *c++ != '\'')
        return refuse(p, "a quote is not closed");
    TRY(buf_status(&value));
    *at = c;
    *ret = arena_str(p->arena, buf_bytes(&value));
    return *ret != NULL ? ST_OK : ST_NOMEM;
}

static enum status parse_keywords(struct parse *p, const char *text)
{
    size_t n = 0;
    for (text = skip_blanks(text); *text != '\0'; text = skip_blanks(text)) {
        size_t len = strcspn(text, "= \t\r\n");
        const char *value = "";
        char *name;
        TRY(copy(p, text, len, &name));
        text = skip_blanks(text + len);
        if (len == 0 || *text != '=')
            return refuse(p, "a URL as postgres://host/database, or parameters as host=name "
                             "dbname=name, are expected");
        if (++n > SQL_PAIRS_MAX)
            return refuse(p, "%d parameters at most", SQL_PAIRS_MAX);
        text = skip_blanks(text + 1);
        TRY(read_keyword_value(p, &text, &value));
        TRY(take(p, name, value));
    }
    return ST_OK;
}

static enum status parse_postgres(struct parse *p, const char *text)
{
    static const char *const schemes[] = {"postgres://", "postgresql://"};
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
            return parse_url(p, text + strlen(schemes[i]));
    return parse_keywords(p, text);
}

/* "tcp(host:port)", "tcp", "unix(/path)" or nothing. */
static enum status take_net(struct parse *p, const char *from, const char *end)
{
    const char *open = memchr(from, '(', (size_t)(end - from));
    size_t len = (size_t)((open != NULL ? open : end) - from);
    if (open != NULL && end[-1] != ')')
        return refuse(p, "an address as tcp(host:3306) is expected");
    if (len == 4 && strncmp(from, "unix", len) == 0) {
        char *path;
        if (open == NULL || open[1] != '/')
            return refuse(p, "a socket as unix(/path) is expected");
        TRY(copy(p, open + 1, (size_t)(end - open - 2), &path));
        return take_host(p, path);
    }
    if (len != 0 && (len != 3 || strncmp(from, "tcp", len) != 0))
        return refuse(p, "an address as tcp(host:3306) is expected");
    return open != NULL ? take_authority(p, open + 1, (size_t)(end - open - 2)) : ST_OK;
}

static enum status parse_mysql(struct parse *p, const char *text)
{
    const char *query = strchr(text, '?');
    const char *end = query != NULL ? query : text + strlen(text);
    const char *slash = memrchr(text, '/', (size_t)(end - text));
    const char *database;
    if (slash == NULL)
        return refuse(p, "\"{{username}}:{{password}}@tcp(host:3306)/database\" is expected");
    const char *at = last_at(text, slash);
    if (at != NULL)
        TRY(take_credentials(p, text, at, false));
    TRY(take_net(p, at != NULL ? at + 1 : text, slash));
    TRY(decoded(p, slash + 1, (size_t)(end - slash - 1), &database));
    if (database[0] == '\0' || strlen(database) > 64 || !is_plain(database))
        return refuse(p, "the name of the database is missing or malformed");
    p->out->database = database;
    return query != NULL ? take_query(p, query + 1) : ST_OK;
}

static enum status check_words(struct parse *p)
{
    const struct out_sql_target *t = p->target;
    if (strlen(t->text) > OUT_SQL_TEXT_MAX || !is_plain(t->text))
        return refuse(p, "it is longer than %d bytes, or contains a control character",
                      OUT_SQL_TEXT_MAX);
    if (strlen(t->username) > OUT_SQL_WORD_MAX || strlen(t->password) > OUT_SQL_WORD_MAX)
        return refuse(p, "username and password: %d bytes at most", OUT_SQL_WORD_MAX);
    return ST_OK;
}

enum status sql_name_parse(const struct out_sql_target *target, struct arena *arena,
                           struct sql_name *ret_name, struct reason *reason)
{
    struct parse p = {.target = target, .arena = arena, .out = ret_name, .why = reason};
    bool postgres = target->driver == OUT_SQL_POSTGRES;
    *ret_name = (struct sql_name){.driver = target->driver,
                                  .host = NULL,
                                  .port = postgres ? 5432 : 3306,
                                  .application = "holdfast",
                                  .connect_ms = OUT_SQL_CONNECT_MS};
    enum status st = check_words(&p);
    if (st == ST_OK)
        st = postgres ? parse_postgres(&p, target->text) : parse_mysql(&p, target->text);
    if (st == ST_OK && p.options.len != 0) {
        ret_name->options = arena_str(arena, buf_bytes(&p.options));
        st = ret_name->options != NULL ? ST_OK : ST_NOMEM;
    }
    buf_done(&p.options);
    TRY(st);
    if (ret_name->host == NULL)
        ret_name->host = "localhost";
    if (ret_name->user == NULL)
        ret_name->user = target->username;
    if (ret_name->password == NULL)
        ret_name->password = target->password;
    if (ret_name->database == NULL)
        ret_name->database = ret_name->user;
    if ((ret_name->cert_file == NULL) != (ret_name->key_file == NULL))
        return refuse(&p, "sslcert and sslkey are given together");
    return ST_OK;
}

enum status out_sql_check(const struct out_sql_target *target, struct reason *reason)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct sql_name name;
    return sql_name_parse(target, &arena, &name, reason);
}
