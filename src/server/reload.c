/* SIGHUP: read again the certificates of listeners and cluster port, and the log level; open the
 * sinks of the audit devices again. A warning names other fields of the configuration that changed.
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

static void reload_listener(struct server *s, unsigned i)
{
    ASSERT(i < s->config->n_listeners);
    const struct config_listener *listener = &s->config->listeners[i];
    struct tls_options options = reload_tls_options(listener);
    struct reason why = {{0}};
    if (s->tls[i] == NULL)
        return;
    enum status st = tls_ctx_reload(s->tls[i], &options, &why);
    if (st == ST_OK)
        trace(TRACE_INFO, "main", "listener %s: certificate read again", listener->address);
    else
        trace(TRACE_ERROR, "main", "listener %s: keeps its certificate: %s", listener->address,
              why.text[0] != '\0' ? why.text : status_text(st));
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
static void reload_config(const struct server *s)
{
    struct config config;
    struct reason why = {{0}};
    enum status st = config_load(s->config->file, s->config->blocks, &config, &why);
    if (st != ST_OK) {
        trace(TRACE_ERROR, "main", "keeps its log level: %s",
              why.text[0] != '\0' ? why.text : status_text(st));
        return;
    }
    trace_set_level(reload_level_of(config.log_level));
    warn_of_changes(s->config, &config);
    config_done(&config);
}

void reload_all(struct server *s)
{
    reload_config(s);
    trace(TRACE_INFO, "main", "SIGHUP: reading certificates and log level again");
    for (unsigned i = 0; i < s->config->n_listeners; i++)
        reload_listener(s, i);
    node_reload(s->node);
    audit_table_reopen(s->host.audit);
}
