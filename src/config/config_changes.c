/* Compare two configurations: the fields that a reload leaves for the next start. */
#include "config/config_fields.h"

#include <stdio.h>

struct changes {
    struct buf *names;
    unsigned n_omitted; /* names for which there was no room */
};

static void add(struct changes *c, const char *block, const char *field)
{
    const char *comma = c->names->len != 0 ? ", " : "";
    const char *dot = block[0] != '\0' && field[0] != '\0' ? "." : "";
    size_t len = strlen(comma) + strlen(block) + strlen(dot) + strlen(field);
    if (c->n_omitted != 0 || c->names->len + len > CONFIG_CHANGES_BYTES)
        c->n_omitted++;
    else
        buf_add_format(c->names, "%s%s%s%s", comma, block, dot, field);
}

static void compare(struct changes *c, const char *block, const struct schema *schema,
                    const void *in_use, const void *loaded)
{
    for (size_t i = 0; i < schema->n; i++)
        if (!schema->fields[i].reloaded && !schema->fields[i].hidden &&
            !field_same(&schema->fields[i], in_use, loaded))
            add(c, block, schema->fields[i].name);
}

static const struct config_member *find_member(const struct config_cluster *cluster,
                                               const char *name)
{
    for (unsigned i = 0; i < cluster->n_members; i++)
        if (strcmp(cluster->members[i].name, name) == 0)
            return &cluster->members[i];
    return NULL;
}

/* Compare the member blocks with the same name: the order of the blocks means nothing. */
static void compare_members(struct changes *c, const struct config_cluster *in_use,
                            const struct config_cluster *loaded)
{
    char block[96];
    for (unsigned i = 0; i < in_use->n_members; i++) {
        const struct config_member *old = &in_use->members[i];
        const struct config_member *new = find_member(loaded, old->name);
        (void)snprintf(block, sizeof block, "cluster.member[%s]", old->name); /* the text fits */
        if (new != NULL)
            compare(c, block, &config_member_schema, old, new);
        else
            add(c, block, "");
    }
    for (unsigned i = 0; i < loaded->n_members; i++) {
        const char *name = loaded->members[i].name;
        (void)snprintf(block, sizeof block, "cluster.member[%s]", name); /* the text fits */
        if (find_member(in_use, name) == NULL)
            add(c, block, "");
    }
}

/* Compare the listeners at the same position: a listener has no name. */
static void compare_listeners(struct changes *c, const struct config *in_use,
                              const struct config *loaded)
{
    char block[32];
    for (unsigned i = 0; i < MAX(in_use->n_listeners, loaded->n_listeners); i++) {
        (void)snprintf(block, sizeof block, "listener[%u]", i); /* the text fits */
        if (i < MIN(in_use->n_listeners, loaded->n_listeners))
            compare(c, block, &config_listener_schema, &in_use->listeners[i],
                    &loaded->listeners[i]);
        else
            add(c, block, "");
    }
}

/* Compare the seals of one role; a seal without a type is absent. */
static void compare_seals(struct changes *c, const char *block, const struct config_seal *in_use,
                          const struct config_seal *loaded)
{
    bool both = in_use->type != NULL && loaded->type != NULL;
    if (both && strcmp(in_use->type, loaded->type) == 0)
        compare(c, block, &config_seal_schema, in_use, loaded);
    else if (in_use->type != NULL || loaded->type != NULL)
        add(c, block, "");
}

static const struct config_audit *find_audit(const struct config *config, const char *path)
{
    for (unsigned i = 0; i < config->n_audits; i++)
        if (strcmp(config->audits[i].path, path) == 0)
            return &config->audits[i];
    return NULL;
}

/* Compare the audit devices with the same path: the order of the blocks means nothing. */
static void compare_audits(struct changes *c, const struct config *in_use,
                           const struct config *loaded)
{
    char block[96];
    compare(c, "audit", &config_audit_rules_schema, &in_use->audit_rules, &loaded->audit_rules);
    ASSERT(in_use->n_audits <= CONFIG_AUDITS_MAX && loaded->n_audits <= CONFIG_AUDITS_MAX);
    for (unsigned i = 0; i < in_use->n_audits; i++) {
        const struct config_audit *old = &in_use->audits[i];
        const struct config_audit *new = find_audit(loaded, old->path);
        (void)snprintf(block, sizeof block, "audit[%.64s]", old->path); /* a long path is cut */
        if (new != NULL && strcmp(old->type, new->type) == 0)
            compare(c, block, &config_audit_schema, old, new);
        else
            add(c, block, "");
    }
    for (unsigned i = 0; i < loaded->n_audits; i++) {
        const char *path = loaded->audits[i].path;
        (void)snprintf(block, sizeof block, "audit[%.64s]", path); /* a long path is cut */
        if (find_audit(in_use, path) == NULL)
            add(c, block, "");
    }
}

enum status config_changes(const struct config *in_use, const struct config *loaded,
                           struct buf *names)
{
    struct changes c = {.names = names};
    struct config_compat old = {.reported_version = in_use->reported_version};
    struct config_compat new = {.reported_version = loaded->reported_version};

    ASSERT(names->len == 0);
    compare(&c, "", &config_root_schema, in_use, loaded);
    compare(&c, "cluster", &config_cluster_schema, &in_use->cluster, &loaded->cluster);
    compare_members(&c, &in_use->cluster, &loaded->cluster);
    compare_listeners(&c, in_use, loaded);
    compare_seals(&c, "seal", &in_use->seal, &loaded->seal);
    compare_seals(&c, "seal[disabled]", &in_use->former_seal, &loaded->former_seal);
    compare_audits(&c, in_use, loaded);
    compare(&c, "compat", &config_compat_schema, &old, &new);
    ASSERT(in_use->blocks == loaded->blocks);
    for (size_t i = 0; in_use->blocks != NULL && i < in_use->blocks->n; i++) {
        const struct config_block *block = in_use->blocks->items[i];
        compare(&c, block->name, block->schema, in_use->block_data[i], loaded->block_data[i]);
    }
    if (c.n_omitted != 0)
        buf_add_format(names, " and %u more", c.n_omitted);
    return buf_status(names);
}
