#include "cli/command/dr_view.h"
#include "text/encode.h"

#include <inttypes.h>
#include <poll.h>

#define TOKEN_PROMPT "DR operation token (will be hidden): "

const char *dr_view_text(const struct dr_view *view, const char *name)
{
    const struct text_value *v = text_get(view->data, name);
    return v != NULL && v->kind != TEXT_NULL ? (const char *)v->text.data : "";
}

static int64_t number_of(const struct text_value *object, const char *name)
{
    const struct text_value *v = text_get(object, name);
    int64_t n = 0;
    return v != NULL && text_int_parse(v->text, &n) == ST_OK ? n : 0;
}

int64_t dr_view_number(const struct dr_view *view, const char *name)
{
    return number_of(view->data, name);
}

bool dr_view_is(const struct dr_view *view, const char *mode, const char *state)
{
    return strcmp(dr_view_text(view, "mode"), mode) == 0 &&
           (state == NULL || strcmp(dr_view_text(view, "state"), state) == 0);
}

void dr_view_pause(void)
{
    enum { PAUSE_MS = 250 };
    (void)poll(NULL, 0, PAUSE_MS); /* an early end only asks earlier */
}

const char *dr_view_other(struct cli *cli)
{
    const char *flag = cli_text(cli, "other");
    return flag != NULL ? flag : cli_env(cli, "DR_NODES");
}

/* The status of one node. NULL: there is none, and *why says more. */
static const struct text_value *ask_node(struct cli *cli, const char *address, struct reason *why)
{
    const struct cli_request ask = {
        .method = "GET", .path = "/v1/" DR_PATH "status", .token = "", .aside = true};
    const char *before = cli->address;
    struct cli_reply reply = {0};
    ASSERT(address[0] != '\0');
    cli->address = address;
    enum status st = cli_send(cli, &ask, &reply, why);
    cli->address = before;
    if (st != ST_OK)
        return NULL;
    if (reply.status != 200) {
        reason_set(why, "the node replied with status %d", reply.status);
        return NULL;
    }
    return text_get(cli_parse_reply(cli, &reply), "data");
}

/* How much a node knows of the link: the greatest wins. */
static int rank(const struct text_value *data)
{
    const struct dr_view view = {.data = data};
    if (text_get(data, "mode") == NULL)
        return 0;
    if (strcmp(dr_view_text(&view, "connection_state"), "ready") == 0)
        return 4;
    return dr_view_is(&view, "secondary", NULL) && number_of(data, "last_heard_ms") >= 0 ? 3 : 2;
}

bool dr_view_load(struct cli *cli, const char *addresses, struct dr_view *ret_view)
{
    struct reason why = {{0}};
    struct dr_view best = {0};
    ASSERT(addresses != NULL);
    for (const char *at = addresses; *at != '\0';) {
        size_t len = strcspn(at, ",");
        const char *address = arena_str(&cli->arena, bytes_of(at, len));
        at += len + (at[len] == ',' ? 1 : 0);
        if (address == NULL)
            return false;
        const struct text_value *data = len != 0 ? ask_node(cli, address, &why) : NULL;
        if (data != NULL && (best.data == NULL || rank(data) > rank(best.data)))
            best = (struct dr_view){address, data};
    }
    if (best.data == NULL)
        cli_complain("no node of %s told its status: %s", addresses, why.text);
    else
        *ret_view = best;
    return best.data != NULL;
}

/* Print */

static void add(struct cli *cli, struct text_value *to, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0')
        cli_add_text(cli, to, name, text);
}

static const char *role_of(const struct dr_view *view)
{
    if (dr_view_is(view, "primary", "running"))
        return "primary: serves clients and ships its writes";
    if (dr_view_is(view, "primary", NULL))
        return "primary that gave way to another cluster: refuses writes; demote it";
    if (dr_view_is(view, "secondary", "stream-wals"))
        return "secondary: applies the writes of its primary";
    if (dr_view_is(view, "secondary", "idle"))
        return "secondary that follows no primary";
    if (dr_view_is(view, "secondary", NULL))
        return "secondary that takes over its primary's state: cannot be promoted yet";
    if (dr_view_is(view, "disabled", NULL))
        return "none: this cluster takes no part in disaster recovery";
    return "not known: the node is starting";
}

/* "roots equal at version 7"; the version is 0 while none were compared. */
static const char *verified_text(struct cli *cli, int64_t version)
{
    return version != 0 ? arena_format(&cli->arena, "roots equal at version %" PRId64, version)
                        : "roots not compared yet";
}

static void print_secondaries(struct cli *cli, const struct dr_view *view, struct text_value *to)
{
    const struct text_value *known = text_get(view->data, "known_secondaries");
    const struct text_value *heard = text_get(view->data, "secondaries");
    ASSERT(to->kind == TEXT_OBJECT);
    if (known == NULL || known->kind != TEXT_LIST)
        return;
    if (known->n == 0)
        add(cli, to, "Secondaries", "none: make a token by \"operator dr enable primary NAME\"");
    TEXT_FOR (id, known) {
        const char *name = (const char *)id->text.data;
        const char *title = arena_format(&cli->arena, "Secondary %s", name);
        const char *text = "not heard by this node";
        if (heard == NULL || heard->kind != TEXT_LIST || title == NULL)
            continue;
        TEXT_FOR (peer, heard) {
            const struct dr_view one = {.data = peer};
            if (strcmp(dr_view_text(&one, "node_id"), name) != 0)
                continue;
            int64_t behind =
                MAX(dr_view_number(view, "version") - dr_view_number(&one, "last_remote_wal"), 0);
            text = arena_format(
                &cli->arena, "%s, last heard %s, has version %" PRId64 " (%" PRId64 " behind), %s",
                dr_view_text(&one, "connection_status"), dr_view_text(&one, "last_seen"),
                dr_view_number(&one, "last_remote_wal"), behind,
                verified_text(cli, dr_view_number(&one, "last_verified_index")));
        }
        add(cli, to, title, text);
    }
}

static void print_link(struct cli *cli, const struct dr_view *view, struct text_value *to)
{
    int64_t heard_ms = dr_view_number(view, "last_heard_ms");
    const struct text_value *sync = text_get(view->data, "merkle_sync_progress");
    if (sync != NULL && sync->kind == TEXT_OBJECT)
        add(cli, to, "Sync",
            arena_format(&cli->arena, "%" PRId64 " of %" PRId64 " keys",
                         number_of(sync, "sync_progress"), number_of(sync, "sync_total_keys")));
    if (!dr_view_is(view, "secondary", "idle"))
        add(cli, to, "Connection", dr_view_text(view, "connection_state"));
    if (heard_ms < 0) {
        add(cli, to, "Lag", "not known to this node");
        return;
    }
    int64_t entries = dr_view_number(view, "lag_entries");
    add(cli, to, "Primary heard",
        arena_format(&cli->arena, "%" PRId64 ".%" PRId64 " s ago", heard_ms / 1000,
                     heard_ms % 1000 / 100));
    add(cli, to, "Lag",
        entries == 0 ? "none: all received writes are applied"
                     : arena_format(&cli->arena, "%" PRId64 " writes, %" PRId64 " ms", entries,
                                    dr_view_number(view, "lag_ms")));
    add(cli, to, "Verified", verified_text(cli, dr_view_number(view, "last_verified_index")));
}

void dr_view_print(struct cli *cli, const struct dr_view *view)
{
    struct text_value *table = cli_object(cli, NULL);
    const struct text_value *differs = text_get(view->data, "corrupted_merkle_tree");
    if (table == NULL)
        return;
    add(cli, table, "Cluster", view->address);
    add(cli, table, "Role", role_of(view));
    add(cli, table, "State", dr_view_text(view, "state"));
    add(cli, table, "Reason", dr_view_text(view, "reason"));
    add(cli, table, "Set", dr_view_text(view, "cluster_id"));
    add(cli, table, "Epoch", dr_view_text(view, "epoch"));
    add(cli, table, "Version", dr_view_text(view, "version"));
    if (text_get(view->data, "merkle_root") != NULL)
        add(cli, table, "Merkle root",
            arena_format(&cli->arena, "%s at version %s", dr_view_text(view, "merkle_root"),
                         dr_view_text(view, "root_version")));
    if (differs != NULL && differs->truth)
        add(cli, table, "Warning", "the roots of primary and secondary differ at one version");
    if (dr_view_is(view, "primary", NULL))
        print_secondaries(cli, view, table);
    if (dr_view_is(view, "secondary", NULL))
        print_link(cli, view, table);
    cli_print_table(table);
}

/* Requests */

int dr_send(struct cli *cli, const char *address, struct cli_request request, int expected,
            struct cli_reply *ret_reply)
{
    const char *before = cli->address;
    cli->address = address;
    int code = cli_ask(cli, &request, ret_reply);
    if (code != CLI_OK && ret_reply->status != 0 && ret_reply->status != expected)
        code = cli_refused(cli, &request, ret_reply);
    cli->address = before;
    return code;
}

const char *dr_token(struct cli *cli)
{
    const char *token = cli_env(cli, "DR_TOKEN");
    return token != NULL ? token : cli_secret(cli, TOKEN_PROMPT);
}
