/* The links of a registry token: policies and roles by name or id, identities of services and
 * nodes.
 *
 * A link is given by flags of two sets. Those of the first replace the links of the token, those of
 * the second, -append-…, add to them. Links without a flag of either set stay. -merge-…, upstream's
 * older way, makes the first set add. A link that the token has is not added again. */
#include "cli/command/acl_links.h"

struct link_kind {
    const char *member;
    const char *id[2], *name[2]; /* flags that replace, flags that add */
    const char *merge;
    const struct acl_kind *objects;
};

static const struct link_kind link_kinds[] = {
    {"Policies",
     {"policy-id", "append-policy-id"},
     {"policy-name", "append-policy-name"},
     "merge-policies",
     &acl_policies},
    {"Roles",
     {"role-id", "append-role-id"},
     {"role-name", "append-role-name"},
     "merge-roles",
     &acl_roles},
};

struct identity_kind {
    const char *member, *name; /* the member with the name of the service or node */
    const char *flag[2], *merge;
    bool node; /* NODE:DATACENTER, not SERVICE[:DATACENTER,…] */
};

static const struct identity_kind identity_kinds[] = {
    {"ServiceIdentities",
     "ServiceName",
     {"service-identity", "append-service-identity"},
     "merge-service-identities",
     false},
    {"NodeIdentities",
     "NodeName",
     {"node-identity", "append-node-identity"},
     "merge-node-identities",
     true},
};

/* Whether an item of the list has this text as its member `name`. */
static bool has_item(const struct text_value *list, const char *name, const char *text)
{
    if (list == NULL)
        return false;
    TEXT_FOR (item, list) {
        const struct text_value *v = text_get(item, name);
        if (v != NULL && v->kind == TEXT_STRING && text_is(v->text, text))
            return true;
    }
    return false;
}

static void put_link(struct text_writer *w, const char *name, const char *text)
{
    text_open_object(w);
    text_member_str(w, name, text);
    text_close(w);
}

/* Open the list `member` and write the links of the token that stay. */
static void open_list(struct text_writer *w, const char *member, const struct text_value *stay)
{
    text_key(w, member);
    text_open_list(w);
    if (stay == NULL)
        return;
    TEXT_FOR (link, stay)
        text_put_value(w, link);
}

/* A choice between links of the token and links of flags. */
struct choice {
    bool any;                      /* a flag is given */
    const struct text_value *stay; /* NULL: none */
};

/* False with a message: flags that replace stand beside flags that add. */
static bool choose_links(struct cli *cli, const struct text_value *token, const char *member,
                         const bool given[2], const char *merge, struct choice *ret_choice)
{
    const struct text_value *old = text_get(token, member);
    ASSERT(ret_choice != NULL);
    bool adds = cli_bool(cli, merge, false) || given[1];
    if (given[0] && given[1]) {
        char *why =
            arena_format(&cli->arena, "%s: flags that replace exclude -append-… flags", member);
        (void)cli_usage_error(cli, why != NULL ? why : member); /* this function returns false */
        return false;
    }
    ret_choice->any = given[0] || given[1];
    ret_choice->stay = adds && old != NULL && old->kind == TEXT_LIST ? old : NULL;
    return true;
}

static int put_links(struct cli *cli, struct text_writer *w, const struct link_kind *kind,
                     const struct text_value *token)
{
    struct choice choice;
    bool given[2];
    for (unsigned i = 0; i < 2; i++)
        given[i] = cli_text(cli, kind->id[i]) != NULL || cli_text(cli, kind->name[i]) != NULL;
    if (!choose_links(cli, token, kind->member, given, kind->merge, &choice))
        return CLI_LOCAL_ERROR;
    if (!choice.any)
        return CLI_OK;
    ASSERT(choice.stay == NULL || token != NULL);
    open_list(w, kind->member, choice.stay);
    const char *value, *id = NULL;
    for (unsigned i = 0; i < 2; i++)
        for (unsigned at = 0; (value = cli_each(cli, kind->name[i], &at)) != NULL;)
            if (!has_item(choice.stay, "Name", value))
                put_link(w, "Name", value);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned at = 0; (value = cli_each(cli, kind->id[i], &at)) != NULL;) {
            int code = acl_find(cli, kind->objects, kind->id[i], value, &id);
            if (code != CLI_OK)
                return code;
            if (!has_item(choice.stay, "ID", id))
                put_link(w, "ID", id);
        }
    text_close(w);
    return CLI_OK;
}

/* Write an identity, "NAME:DATACENTER" or "NAME[:DATACENTER,…]". False: the value has another form.
 */
static bool put_identity(struct text_writer *w, const struct identity_kind *kind, const char *value)
{
    size_t len = strcspn(value, ":");
    ASSERT(len <= strlen(value));
    const char *behind = value[len] == ':' ? value + len + 1 : NULL;
    if (len == 0 || (behind != NULL && (behind[0] == '\0' || strchr(behind, ':') != NULL)) ||
        (kind->node && behind == NULL))
        return false;
    text_open_object(w);
    text_key(w, kind->name);
    text_put_bytes(w, bytes_of(value, len));
    if (kind->node) {
        text_member_str(w, "Datacenter", behind);
    } else if (behind != NULL) {
        text_key(w, "Datacenters");
        text_open_list(w);
        cli_put_split(w, behind);
        text_close(w);
    }
    text_close(w);
    return true;
}

/* Whether a flag gives this identity of the token anew: a service of the name, a node of the name
 * and datacenter. */
static bool given_anew(struct cli *cli, const struct identity_kind *kind,
                       const struct text_value *old)
{
    const struct text_value *name = text_get(old, kind->name);
    const struct text_value *place = kind->node ? text_get(old, "Datacenter") : NULL;
    const char *value;
    for (unsigned i = 0; i < 2; i++)
        for (unsigned at = 0; (value = cli_each(cli, kind->flag[i], &at)) != NULL;) {
            size_t len = strcspn(value, ":");
            if (name == NULL || !bytes_eq(name->text, bytes_of(value, len)))
                continue;
            if (place == NULL || text_is(place->text, value + len + (value[len] == ':' ? 1 : 0)))
                return true;
        }
    return false;
}

static int put_identities(struct cli *cli, struct text_writer *w, const struct identity_kind *kind,
                          const struct text_value *token)
{
    struct choice choice;
    const char *value;
    const bool given[2] = {cli_text(cli, kind->flag[0]) != NULL,
                           cli_text(cli, kind->flag[1]) != NULL};
    if (!choose_links(cli, token, kind->member, given, kind->merge, &choice))
        return CLI_LOCAL_ERROR;
    if (!choice.any)
        return CLI_OK;
    ASSERT(choice.stay == NULL || token != NULL);
    open_list(w, kind->member, NULL);
    if (choice.stay != NULL)
        TEXT_FOR (old, choice.stay)
            if (!given_anew(cli, kind, old))
                text_put_value(w, old);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned at = 0; (value = cli_each(cli, kind->flag[i], &at)) != NULL;)
            if (!put_identity(w, kind, value)) {
                cli_complain("-%s must be %s", kind->flag[i],
                             kind->node ? "NODE:DATACENTER" : "SERVICE or SERVICE:DATACENTER,…");
                return CLI_LOCAL_ERROR;
            }
    text_close(w);
    return CLI_OK;
}

int acl_put_links(struct cli *cli, struct text_writer *w, const struct text_value *token)
{
    int code = CLI_OK;
    for (size_t i = 0; i < ARRAY_LEN(link_kinds) && code == CLI_OK; i++)
        code = put_links(cli, w, &link_kinds[i], token);
    for (size_t i = 0; i < ARRAY_LEN(identity_kinds) && code == CLI_OK; i++)
        code = put_identities(cli, w, &identity_kinds[i], token);
    return code;
}

bool acl_links_given(struct cli *cli)
{
    bool given = false;
    for (size_t i = 0; i < ARRAY_LEN(link_kinds); i++)
        given |= cli_text(cli, link_kinds[i].id[0]) != NULL ||
                 cli_text(cli, link_kinds[i].name[0]) != NULL;
    for (size_t i = 0; i < ARRAY_LEN(identity_kinds); i++)
        given |= cli_text(cli, identity_kinds[i].flag[0]) != NULL;
    return given;
}
