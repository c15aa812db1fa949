/* The configuration as a running node shows it. */
#include "config/config.h"

static void put_list(struct text_writer *w, const char *name, const struct field_strings *list)
{
    text_key(w, name);
    text_open_list(w);
    for (size_t i = 0; i < list->n; i++)
        text_put_str(w, list->items[i]);
    text_close(w);
}

static void put_listener(struct text_writer *w, const struct config_listener *l)
{
    text_open_object(w);
    text_member_str(w, "type", "tcp");
    text_key(w, "config");
    text_open_object(w);
    text_member_str(w, "address", l->address);
    if (l->apis.given)
        put_list(w, "apis", &l->apis);
    text_member_bool(w, "tls_disable", l->tls_disable);
    text_member_bool(w, "unauthenticated_metrics_access", l->unauthenticated_metrics);
    text_member_bool(w, "require_request_header", l->require_request_header);
    text_member_str(w, "proxy_protocol_behavior", l->proxy_protocol_behavior);
    put_list(w, "proxy_protocol_authorized_addrs", &l->proxy_protocol_authorized_addrs);
    put_list(w, "x_forwarded_for_authorized_addrs", &l->x_forwarded_for_authorized_addrs);
    text_member_int(w, "x_forwarded_for_hop_skips", l->x_forwarded_for_hop_skips);
    text_member_bool(w, "x_forwarded_for_reject_not_authorized",
                     l->x_forwarded_for_reject_not_authorized);
    text_member_bool(w, "x_forwarded_for_reject_not_present",
                     l->x_forwarded_for_reject_not_present);
    text_close(w);
    text_close(w);
}

static void put_storage(struct text_writer *w, const struct config *c)
{
    text_key(w, "storage");
    text_open_object(w);
    text_member_str(w, "type", "raft");
    text_member_str(w, "cluster_addr", c->cluster.advertise);
    text_member_str(w, "redirect_addr", c->api_addr);
    text_member_bool(w, "disable_clustering", false);
    text_key(w, "raft");
    text_open_object(w);
    text_member_str(w, "node_id", c->node_name);
    text_close(w);
    text_close(w);
}

static void put_audit_rules(struct text_writer *w, const struct config_audit_rules *rules)
{
    text_key(w, "audit_rules");
    text_open_object(w);
    put_list(w, "directories", &rules->directories);
    text_member_bool(w, "allow_prefix", rules->allow_prefix);
    text_close(w);
}

static void put_audits(struct text_writer *w, const struct config *c)
{
    ASSERT(c->n_audits <= CONFIG_AUDITS_MAX);
    text_key(w, "audit");
    text_open_list(w);
    for (unsigned i = 0; i < c->n_audits; i++) {
        text_open_object(w);
        text_member_str(w, "type", c->audits[i].type);
        text_member_str(w, "path", c->audits[i].path);
        text_member_str(w, "description", c->audits[i].description);
        text_close(w);
    }
    text_close(w);
}

static void put_seal(struct text_writer *w, const struct config_seal *seal)
{
    if (seal->type == NULL)
        return;
    text_open_object(w);
    text_member_str(w, "type", seal->type);
    text_member_bool(w, "disabled", seal->disabled);
    text_close(w);
}

/* Write the fields of a module's block, without the secret ones. */
static void put_block(struct text_writer *w, const struct config_block *block, const void *data)
{
    enum { FIELDS_MAX = 64 };
    struct field shown[FIELDS_MAX];
    struct schema schema = *block->schema;
    ASSERT(schema.n <= FIELDS_MAX);
    schema.n = 0;
    for (size_t i = 0; i < block->schema->n; i++)
        if (!block->schema->fields[i].hidden)
            shown[schema.n++] = block->schema->fields[i];
    schema.fields = shown;
    text_key(w, block->name);
    schema_encode(&schema, data, w);
}

void config_show(const struct config *c, struct buf *out)
{
    struct text_writer w = {.out = out};
    text_open_object(&w);
    text_member_str(&w, "api_addr", c->api_addr);
    text_member_str(&w, "cluster_addr", c->cluster.advertise);
    text_member_str(&w, "cluster_name", c->cluster.name);
    text_member_str(&w, "log_format", c->log_format != NULL ? c->log_format : "");
    text_member_str(&w, "log_level", c->log_level != NULL ? c->log_level : "info");
    text_member_str(&w, "log_requests_level", c->log_requests_level);
    text_member_bool(&w, "enable_response_header_hostname", c->enable_response_header_hostname);
    text_member_bool(&w, "enable_response_header_raft_node_id",
                     c->enable_response_header_raft_node_id);
    text_member_bool(&w, "peer_unseal", c->peer_unseal);
    text_member_bool(&w, "performance_standby", c->performance_standby);
    text_member_int(&w, "workers", c->workers);
    text_key(&w, "listeners");
    text_open_list(&w);
    for (unsigned i = 0; i < c->n_listeners; i++)
        put_listener(&w, &c->listeners[i]);
    text_close(&w);
    text_key(&w, "seals");
    text_open_list(&w);
    put_seal(&w, &c->seal);
    put_seal(&w, &c->former_seal);
    text_close(&w);
    put_storage(&w, c);
    put_audit_rules(&w, &c->audit_rules);
    put_audits(&w, c);
    for (size_t i = 0; c->blocks != NULL && i < c->blocks->n; i++)
        put_block(&w, c->blocks->items[i], c->block_data[i]);
    text_close(&w);
    ASSERT(w.depth == 0);
}
