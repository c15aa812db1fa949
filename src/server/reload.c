/* SIGHUP: read again the certificates of listeners and cluster port, and the log level; open the
 * sinks of the audit devices again. A warning names other fields of the configuration that changed.
 * sys/config/reload does one of these on request.
 *
 * Each file is applied by itself. If a file cannot be used, the certificate in use stays, and the
 * log names the file and the cause. Open connections keep their certificate. */
#include "audit/audit_table.h"
#include "base/trace.h"
#include "crypto/tls.h"
#include "server/server.h"

#include <string.h>

enum trace_level reload_level_of(const char *name)
{
    static const char *const names[] = {"debug", "info", "warn", "error", "off"};
    for (unsigned i = 0; name != NULL && i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum trace_level)i;
    ASSERT(name == NULL); /* the configuration was checked */
    return TRACE_INFO;
}

struct tls_options reload_tls_options(const struct config_listener *listener)
{
    return (struct tls_options){.server = true,
                                .cert = {.path = listener->tls_cert_file},
                                .key = {.path = listener->tls_key_file},
                                .alpn = "http/1.1"};
}

static enum status reload_listener(const struct server *s, unsigned i, struct reason *ret_why)
{
    ASSERT(i < s->config->n_listeners);
    const struct config_listener *listener = &s->config->listeners[i];
    struct tls_options options = reload_tls_options(listener);
    struct reason why = {{0}};
    if (s->tls[i] == NULL)
        return ST_OK;
    enum status st = tls_ctx_reload(s->tls[i], &options, &why);
    if (st == ST_OK) {
        trace(TRACE_INFO, "main", "listener %s: certificate read again", listener->address);
        return ST_OK;
    }
    reason_set(ret_why, "listener %s: keeps its certificate: %s", listener->address,
               why.text[0] != '\0' ? why.text : status_text(st));
    trace(TRACE_ERROR, "main", "%s", ret_why->text);
    return st;
}

/* Read the certificate of each listener. The status is the first failure's. */
static enum status reload_listeners(const struct server *s, struct reason *ret_why)
{
    enum status first = ST_OK;
    for (unsigned i = 0; i < s->config->n_listeners; i++) {
        struct reason why;
        enum status st = reload_listener(s, i, &why);
        if (st != ST_OK && first == ST_OK) {
            first = st;
            *ret_why = why;
        }
    }
    return first;
}

static void warn_of_changes(const struct config *in_use, const struct config *loaded)
{
    CLEANUP(buf_drop) struct buf names = {0};
    enum status st = config_changes(in_use, loaded, &names);
    if (st != ST_OK)
        trace(TRACE_ERROR, "main", "reload: cannot tell which fields changed: %s", status_text(st));
    else if (names.len != 0)
        trace(TRACE_WARN, "main", "reload: these fields take effect at the next start: %.*s",
              (int)names.len, (const char *)names.data);
}

/* Apply the fields that the tables mark as reloaded, which is the log level. */
static enum status reload_config(const struct server *s, struct reason *ret_why)
{
    struct config config;
    struct reason why = {{0}};
    enum status st = config_load(s->config->file, s->config->blocks, &config, &why);
    if (st != ST_OK) {
        reason_set(ret_why, "keeps its log level: %s",
                   why.text[0] != '\0' ? why.text : status_text(st));
        trace(TRACE_ERROR, "main", "%s", ret_why->text);
        return st;
    }
    trace_set_level(reload_level_of(config.log_level));
    warn_of_changes(s->config, &config);
    config_done(&config);
    return ST_OK;
}

enum status reload_part(struct router_host *host, enum router_reload part, struct reason *ret_why)
{
    struct server *s = CONTAINER_OF(host, struct server, host);
    switch (part) {
    case RELOAD_LOG_LEVEL: return reload_config(s, ret_why);
    case RELOAD_LISTENER: return reload_listeners(s, ret_why);
    case RELOAD_CLUSTER: node_reload(s->node); return ST_OK;
    case RELOAD_AUDIT: audit_table_reopen(s->host.audit); return ST_OK;
    }
    ASSERT(false); /* no such part */
    return ST_INTERNAL;
}

void reload_all(struct server *s)
{
    static const enum router_reload parts[] = {RELOAD_LISTENER, RELOAD_CLUSTER, RELOAD_AUDIT};
    struct reason why;
    (void)reload_part(&s->host, RELOAD_LOG_LEVEL, &why); /* the log tells a failure */
    trace(TRACE_INFO, "main", "SIGHUP: reading certificates and log level again");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        (void)reload_part(&s->host, parts[i], &why); /* the log tells a failure */
}
