/* Requests of the acl commands: the query that all of them share, and ids by their first
 * characters.
 */
#include "cli/command/acl.h"
#include "text/merge.h"

enum { UUID_LEN = 36 };

const struct acl_kind acl_policies = {"policy", "acl/policies", "ID", "global-management",
                                      "00000000-0000-0000-0000-000000000001"};
const struct acl_kind acl_tokens = {"token", "acl/tokens", "AccessorID", "anonymous",
                                    "00000000-0000-0000-0000-000000000002"};
const struct acl_kind acl_roles = {"role", "acl/roles", "ID", NULL, NULL};

/* The path of a request with its query, escaped; NULL when out of memory. */
static char *whole_path(struct cli *cli, const struct acl_call *call)
{
    CLEANUP(buf_done) struct buf b = {0};
    const char *datacenter = cli_text(cli, "datacenter"), *query = call->query;
    bool stale = cli_bool(cli, "stale", false) && strcmp(call->method, "GET") == 0;
    char *path = call->path != NULL ? cli_path(cli, call->path) : NULL;
    char *escaped = cli_escape(cli, datacenter != NULL ? datacenter : "");
    if (path == NULL || escaped == NULL)
        return NULL;
    buf_add_str(&b, path);
    if (datacenter != NULL)
        buf_add_format(&b, "?dc=%s", escaped);
    if (stale)
        buf_add_format(&b, "%cstale", datacenter != NULL ? '&' : '?');
    if (query != NULL)
        buf_add_format(&b, "%c%s", datacenter != NULL || stale ? '&' : '?', query);
    return buf_status(&b) == ST_OK ? arena_str(&cli->arena, buf_bytes(&b)) : NULL;
}

int acl_do(struct cli *cli, const struct acl_call *call, const struct text_value **ret_body)
{
    struct cli_reply reply = {0};
    struct cli_request request = {
        .method = call->method, .purpose = call->purpose, .token = call->token};
    ASSERT(call->method != NULL);
    if (call->body == NULL || buf_status(call->body) == ST_OK)
        request.path = whole_path(cli, call);
    if (call->body != NULL)
        request.body = buf_bytes(call->body);
    int code = cli_ask(cli, &request, &reply);
    if (code == CLI_REMOTE_ERROR && reply.status == 404 && call->may_be_absent) {
        *ret_body = NULL;
        return CLI_OK;
    }
    if (code != CLI_OK)
        return code == CLI_REMOTE_ERROR ? cli_refused(cli, &request, &reply) : code;
    *ret_body = cli_parse_reply(cli, &reply);
    return *ret_body != NULL ? CLI_OK : CLI_REMOTE_ERROR;
}

int acl_find(struct cli *cli, const struct acl_kind *kind, const char *flag, const char *given,
             const char **ret_id)
{
    const struct text_value *list = NULL, *found = NULL;
    ASSERT(given != NULL && ret_id != NULL);
    if (given[0] == '\0') { /* each ID begins with no characters */
        cli_complain("-%s is empty", flag);
        return CLI_LOCAL_ERROR;
    }
    if (kind->word != NULL && strcmp(given, kind->word) == 0)
        given = kind->stands_for;
    if (strlen(given) == UUID_LEN) {
        *ret_id = given;
        return CLI_OK;
    }
    char *purpose = arena_format(&cli->arena, "Error determining %s ID", kind->what);
    const struct acl_call call = {.method = "GET", .path = kind->list, .purpose = purpose};
    int code = acl_do(cli, &call, &list);
    if (code != CLI_OK)
        return code;
    ASSERT(list != NULL);
    TEXT_FOR (item, list) {
        const struct text_value *id = text_get(item, kind->id);
        if (id == NULL || id->kind != TEXT_STRING || !bytes_has_prefix(id->text, bytes_str(given)))
            continue;
        if (found != NULL) {
            cli_complain("-%s: more than one %s has an ID that begins so", flag, kind->what);
            return CLI_REMOTE_ERROR;
        }
        found = id;
    }
    if (found == NULL) {
        cli_complain("-%s: no %s has an ID that begins so", flag, kind->what);
        return CLI_REMOTE_ERROR;
    }
    *ret_id = (const char *)found->text.data; /* a zero follows the text */
    return CLI_OK;
}

bool acl_merge(struct cli *cli, const struct text_value *now, const struct buf *given,
               const struct text_value **ret_whole)
{
    const struct text_value *patch = NULL;
    ASSERT(ret_whole != NULL);
    if (buf_status(given) == ST_OK &&
        text_json_parse(&cli->arena, buf_bytes(given), &patch, NULL) == ST_OK &&
        text_merge_patch(&cli->arena, now, patch, ret_whole) == ST_OK)
        return true;
    cli_complain("the object cannot be put together: no memory, or a flag is not UTF-8");
    return false;
}
