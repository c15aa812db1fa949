/* The audit devices of this node, from start to end. A timer of the first worker follows the state
 * and the seal, and tells the node whether requests can be recorded. */
#include "audit/audit_table.h"
#include "server/server.h"

/* The path of a device as the API spells it, with '/' at its end. */
static enum status declare(struct server *s, const struct config_audit *from, struct reason *reason)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct reason why = {{0}};
    ASSERT(from->type != NULL && from->path != NULL);
    struct audit_entry entry = {
        .type = from->type, .description = from->description, .options = from->options};
    enum status st = mount_path(&arena, from->path, &entry.path, &why);
    if (st == ST_OK && strlen(entry.path) > AUDIT_ENTRY_PATH_MAX) {
        reason_set(&why, "the path is longer than %d bytes", AUDIT_ENTRY_PATH_MAX);
        st = ST_INVALID;
    }
    if (st == ST_OK)
        st = audit_table_declare(s->host.audit, &entry, &why);
    if (st != ST_OK)
        reason_set(reason, "%s: audit \"%.32s\" \"%.64s\": %s", s->config->file, from->type,
                   from->path, why.text[0] != '\0' ? why.text : status_text(st));
    return st;
}

enum status trail_open(struct server *s, struct reason *reason)
{
    ASSERT(s->host.audit == NULL && s->config != NULL);
    const struct config_audit_rules *rules = &s->config->audit_rules;
    s->audit_places = (struct audit_places){.data_dir = s->config->data_dir,
                                            .directories = rules->directories.items,
                                            .n = rules->directories.n,
                                            .prefix = rules->allow_prefix};
    TRY(audit_table_new(&s->audit_places, &s->host.audit));
    for (unsigned i = 0; i < s->config->n_audits; i++)
        TRY(declare(s, &s->config->audits[i], reason));
    return ST_OK;
}

static void on_watch(struct env_timer *timer)
{
    struct worker *w = CONTAINER_OF(timer, struct worker, audit_timer);
    struct audit_table *table = w->server->host.audit;
    audit_table_watch(table, w->state);
    node_set_mute(w->server->node, audit_table_is_mute(table));
    env_timer_set(w->env, timer, env_mono_ms(w->env) + AUDIT_WATCH_MS);
}

void trail_watch(struct worker *w)
{
    if (w != &w->server->workers[0])
        return;
    w->audit_timer = (struct env_timer){.fire = on_watch};
    env_timer_set(w->env, &w->audit_timer, env_mono_ms(w->env));
}

void trail_unwatch(struct worker *w)
{
    if (w == &w->server->workers[0])
        env_timer_stop(w->env, &w->audit_timer);
}

/* Each device posts the results of its last records to the workers, and then its thread ends: the
 * tasks of the flush come behind them. */
void trail_close(struct server *s)
{
    ASSERT(s->stopping);
    audit_table_close(s->host.audit);
    for (unsigned i = 0; i < s->n_workers; i++)
        worker_flush(&s->workers[i]);
}
