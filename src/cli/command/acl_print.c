/* Output of the acl commands, in the columns of upstream's tool. As there, an empty line ends the
 * output, and Hash is hexadecimal. */
#include "cli/command/acl.h"
#include "text/encode.h"

/* Names stand in a column of this width, behind the indent. */
struct columns {
    const char *indent;
    int width;
};

static const struct columns policy_columns = {"", 14}, listed_columns = {"   ", 14},
                            token_columns = {"", 18};

static struct bytes text_of(const struct text_value *of, const char *name)
{
    const struct text_value *v = text_get(of, name);
    return v != NULL && (v->kind == TEXT_STRING || v->kind == TEXT_NUMBER) ? v->text
                                                                           : (struct bytes){0};
}

static bool is_true(const struct text_value *of, const char *name)
{
    const struct text_value *v = text_get(of, name);
    return v != NULL && v->kind == TEXT_BOOL && v->truth;
}

/* The list of this name; NULL: there is none, or it is empty. */
static const struct text_value *list_of(const struct text_value *of, const char *name)
{
    const struct text_value *v = text_get(of, name);
    return v != NULL && v->kind == TEXT_LIST && v->first != NULL ? v : NULL;
}

static void put_row(struct buf *b, const struct columns *c, const char *name, struct bytes value)
{
    int used = (int)strlen(name) + 1;
    ASSERT(used < c->width);
    buf_add_format(b, "%s%s:%*s", c->indent, name, c->width - used, "");
    buf_add(b, value);
    buf_add_u8(b, '\n');
}

static void put_joined(struct buf *b, const struct text_value *list)
{
    if (list == NULL)
        return;
    TEXT_FOR (item, list) {
        buf_add(b, item->text);
        if (item->next != NULL)
            buf_add_str(b, ", ");
    }
}

/* Put Hash and the indexes, if -meta asks for them. */
static void put_meta_rows(struct buf *b, const struct columns *c, bool meta,
                          const struct text_value *of)
{
    CLEANUP(buf_done) struct buf raw = {0}, hex = {0};
    struct bytes hash = text_of(of, "Hash");
    size_t n = 0;
    if (!meta)
        return;
    uint8_t *binary = buf_extend(&raw, TEXT_BASE64_BYTES(hash.len));
    if (binary != NULL && text_base64_parse(hash, binary, &n) == ST_OK) {
        ASSERT(n <= TEXT_BASE64_BYTES(hash.len));
        char *text = (char *)buf_extend(&hex, TEXT_HEX_LEN(n) + 1);
        if (text != NULL)
            text_hex_put(bytes_of(binary, n), text);
        hash = bytes_of(text, text != NULL ? TEXT_HEX_LEN(n) : 0);
    }
    put_row(b, c, "Hash", hash);
    b->failed |= raw.failed || hex.failed;
    put_row(b, c, "Create Index", text_of(of, "CreateIndex"));
    put_row(b, c, "Modify Index", text_of(of, "ModifyIndex"));
}

static void put_namespace(struct buf *b, const struct columns *c, const struct text_value *of)
{
    if (text_of(of, "Namespace").len != 0)
        put_row(b, c, "Namespace", text_of(of, "Namespace"));
}

/* Put all but the name of a policy. */
static void put_policy_rows(struct buf *b, const struct columns *c, bool meta,
                            const struct text_value *policy)
{
    CLEANUP(buf_done) struct buf datacenters = {0};
    put_joined(&datacenters, list_of(policy, "Datacenters"));
    put_namespace(b, c, policy);
    put_row(b, c, "Description", text_of(policy, "Description"));
    put_row(b, c, "Datacenters", buf_bytes(&datacenters));
    put_meta_rows(b, c, meta, policy);
    b->failed |= datacenters.failed;
}

/* Put a time as Go prints it: "2020-05-22T18:52:31.5Z" as "2020-05-22 18:52:31.5 +0000 UTC". */
static void put_time_row(struct buf *b, const char *name, struct bytes time)
{
    enum { DATE_LEN = sizeof "2020-05-22" - 1 };
    if (time.len <= DATE_LEN + 1 || time.data[DATE_LEN] != 'T' || time.data[time.len - 1] != 'Z') {
        put_row(b, &token_columns, name, time);
        return;
    }
    CLEANUP(buf_done) struct buf text = {0};
    ASSERT(time.len >= DATE_LEN + 2);
    buf_add(&text, bytes_of(time.data, DATE_LEN));
    buf_add_u8(&text, ' ');
    buf_add(&text, bytes_of(time.data + DATE_LEN + 1, time.len - DATE_LEN - 2));
    buf_add_str(&text, " +0000 UTC");
    put_row(b, &token_columns, name, buf_bytes(&text));
    b->failed |= text.failed;
}

/* Put the rows of a token before its links. */
static void put_token_rows(struct buf *b, bool meta, const struct text_value *token)
{
    const struct columns *c = &token_columns;
    struct bytes method = text_of(token, "AuthMethod"), end = text_of(token, "ExpirationTime");
    put_row(b, c, "AccessorID", text_of(token, "AccessorID"));
    put_row(b, c, "SecretID", text_of(token, "SecretID"));
    put_namespace(b, c, token);
    put_row(b, c, "Description", text_of(token, "Description"));
    put_row(b, c, "Local", bytes_str(is_true(token, "Local") ? "true" : "false"));
    if (method.len != 0)
        put_row(b, c, "Auth Method", method);
    put_time_row(b, "Create Time", text_of(token, "CreateTime"));
    if (end.len != 0 && !bytes_has_prefix(end, BYTES("0001-01-01T00:00:00")))
        put_time_row(b, "Expiration Time", end);
    put_meta_rows(b, c, meta, token);
}

static void put_link_rows(struct buf *b, const char *title, const struct text_value *links)
{
    if (links == NULL)
        return;
    buf_add_format(b, "%s:\n", title);
    TEXT_FOR (link, links) {
        struct bytes id = text_of(link, "ID"), name = text_of(link, "Name");
        buf_add_str(b, "   ");
        buf_add(b, id);
        buf_add_str(b, " - ");
        buf_add(b, name);
        buf_add_u8(b, '\n');
    }
}

static void put_identity_rows(struct buf *b, const struct text_value *token, const char *before)
{
    const struct text_value *services = list_of(token, "ServiceIdentities");
    const struct text_value *nodes = list_of(token, "NodeIdentities");
    if (services != NULL) {
        buf_add_str(b, "Service Identities:\n");
        TEXT_FOR (service, services) {
            buf_add_str(b, before);
            buf_add(b, text_of(service, "ServiceName"));
            buf_add_str(b, " (Datacenters: ");
            if (list_of(service, "Datacenters") != NULL)
                put_joined(b, list_of(service, "Datacenters"));
            else
                buf_add_str(b, "all");
            buf_add_str(b, ")\n");
        }
    }
    if (nodes != NULL) {
        buf_add_str(b, "Node Identities:\n");
        TEXT_FOR (node, nodes) {
            buf_add_str(b, before);
            buf_add(b, text_of(node, "NodeName"));
            buf_add_str(b, " (Datacenter: ");
            buf_add(b, text_of(node, "Datacenter"));
            buf_add_str(b, ")\n");
        }
    }
}

static void put_line(struct buf *b, const char *before, struct bytes text)
{
    buf_add_str(b, before);
    buf_add(b, text);
    buf_add_u8(b, '\n');
}

/* Put a policy of an expanded token, with its rules. */
static void put_expanded_policy(struct buf *b, const struct text_value *policy)
{
    struct bytes rules = text_of(policy, "Rules");
    put_line(b, "\tPolicy Name: ", text_of(policy, "Name"));
    put_line(b, "\t\tID: ", text_of(policy, "ID"));
    put_line(b, "\t\tDescription: ", text_of(policy, "Description"));
    buf_add_str(b, "\t\tRules:\n\t\t\t");
    for (size_t i = 0; i < rules.len; i++) {
        buf_add_u8(b, rules.data[i]);
        if (rules.data[i] == '\n')
            buf_add_str(b, "\t\t\t");
    }
    buf_add_str(b, "\n\n");
}

/* Put what follows the rows of an expanded token. Policies that roles bring stand among the others.
 */
static void put_expanded(struct buf *b, const struct text_value *token)
{
    const struct text_value *policies = list_of(token, "ExpandedPolicies");
    if (policies != NULL) {
        buf_add_str(b, "Policies:\n");
        TEXT_FOR (policy, policies)
            put_expanded_policy(b, policy);
    }
    put_identity_rows(b, token, "\tName: ");
    put_link_rows(b, "Roles", list_of(token, "Roles"));
    buf_add_str(b, "=== End of Authorizer Layer 0: Token ===\n");
    if (text_of(token, "ResolvedByAgent").len != 0)
        put_line(b, "Resolved By Agent: ", text_of(token, "ResolvedByAgent"));
    if (text_of(token, "AgentACLDefaultPolicy").len != 0)
        put_line(b, "Default Policy: ", text_of(token, "AgentACLDefaultPolicy"));
    if (text_of(token, "AgentACLDownPolicy").len != 0)
        put_line(b, "Down Policy: ", text_of(token, "AgentACLDownPolicy"));
}

static void put_whole_token(struct buf *b, bool meta, const struct text_value *token)
{
    put_token_rows(b, meta, token);
    if (text_get(token, "ExpandedPolicies") != NULL) {
        put_expanded(b, token);
        return;
    }
    put_link_rows(b, "Policies", list_of(token, "Policies"));
    put_link_rows(b, "Roles", list_of(token, "Roles"));
    put_identity_rows(b, token, "   ");
}

/* Print the text and an empty line; nothing when there is no text. */
static int print(struct buf *b)
{
    if (b->len != 0)
        buf_add_u8(b, '\n');
    if (buf_status(b) != ST_OK) {
        cli_complain("%s", status_text(ST_NOMEM));
        return CLI_LOCAL_ERROR;
    }
    cli_put(stdout, buf_bytes(b));
    return CLI_OK;
}

/* Print JSON if it is asked for. *ret_meta: whether -meta is set. */
static bool printed(struct cli *cli, const struct text_value *v, bool *ret_meta)
{
    *ret_meta = cli_bool(cli, "meta", false);
    if (cli->json)
        cli_print_json(v);
    return cli->json;
}

int acl_print_policy(struct cli *cli, const struct text_value *policy)
{
    CLEANUP(buf_done) struct buf b = {0};
    bool meta;
    if (policy->kind != TEXT_OBJECT)
        return cli_unexpected();
    if (printed(cli, policy, &meta))
        return CLI_OK;
    put_row(&b, &policy_columns, "ID", text_of(policy, "ID"));
    put_row(&b, &policy_columns, "Name", text_of(policy, "Name"));
    put_policy_rows(&b, &policy_columns, meta, policy);
    buf_add_str(&b, "Rules:\n");
    buf_add(&b, text_of(policy, "Rules"));
    return print(&b);
}

int acl_print_policies(struct cli *cli, const struct text_value *policies)
{
    CLEANUP(buf_done) struct buf b = {0};
    bool meta;
    if (policies->kind != TEXT_LIST)
        return cli_unexpected();
    if (printed(cli, policies, &meta))
        return CLI_OK;
    ASSERT(!cli->json);
    TEXT_FOR (policy, policies) {
        buf_add(&b, text_of(policy, "Name"));
        buf_add_str(&b, ":\n");
        put_row(&b, &listed_columns, "ID", text_of(policy, "ID"));
        put_policy_rows(&b, &listed_columns, meta, policy);
    }
    return print(&b);
}

int acl_print_token(struct cli *cli, const struct text_value *token)
{
    CLEANUP(buf_done) struct buf b = {0};
    bool meta;
    if (token->kind != TEXT_OBJECT)
        return cli_unexpected();
    if (printed(cli, token, &meta))
        return CLI_OK;
    put_whole_token(&b, meta, token);
    return print(&b);
}

int acl_print_tokens(struct cli *cli, const struct text_value *tokens)
{
    CLEANUP(buf_done) struct buf b = {0};
    bool meta;
    if (tokens->kind != TEXT_LIST)
        return cli_unexpected();
    if (printed(cli, tokens, &meta))
        return CLI_OK;
    ASSERT(!cli->json);
    TEXT_FOR (token, tokens) {
        if (b.len != 0)
            buf_add_u8(&b, '\n');
        put_whole_token(&b, meta, token);
    }
    return print(&b);
}

int acl_print_deleted(struct cli *cli, const char *what, const char *id,
                      const struct text_value *reply)
{
    ASSERT(what[0] >= 'a' && what[0] <= 'z');
    if (reply->kind != TEXT_BOOL)
        return cli_unexpected();
    if (!reply->truth) {
        cli_complain("there is no %s with this ID", what);
        return CLI_REMOTE_ERROR;
    }
    if (!cli->json)
        printf("%c%s \"%s\" deleted successfully\n", what[0] - 'a' + 'A', what + 1, id);
    return CLI_OK;
}
