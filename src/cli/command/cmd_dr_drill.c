/* operator dr drill: rehearse a promotion on a copy of a secondary's state. */
#include "cli/command/cmd_dr.h"
#include "cli/command/command.h"

#include <inttypes.h>

/* The server ends a drill before: its limit is lower. */
enum { PATIENCE_MS = 10 * 60 * 1000 };

/* The report, as the server sent it. */
static struct dr_view view_of(const struct text_value *data)
{
    return (struct dr_view){.data = data};
}

static bool is_true(const struct text_value *data, const char *name)
{
    const struct text_value *v = text_get(data, name);
    return v != NULL && v->truth;
}

static void add_count(struct cli *cli, struct text_value *to, const char *title,
                      const struct dr_view *view, const char *name)
{
    cli_add_text(cli, to, title, arena_format(&cli->arena, "%" PRId64, dr_view_number(view, name)));
}

static const char *lag_text(struct cli *cli, const struct dr_view *view)
{
    int64_t entries = dr_view_number(view, "lag_entries");
    if (dr_view_number(view, "last_heard_ms") < 0)
        return "not known: the primary was not heard";
    return entries == 0 ? "none: every write that was heard of is in the copy"
                        : arena_format(&cli->arena, "%" PRId64 " writes, %" PRId64 " ms", entries,
                                       dr_view_number(view, "lag_ms"));
}

static void print_copy(struct cli *cli, const struct text_value *data)
{
    const struct dr_view view = view_of(data);
    struct text_value *table = cli_object(cli, NULL);
    if (table == NULL)
        return;
    add_count(cli, table, "Version", &view, "version");
    cli_add_text(cli, table, "Merkle root", dr_view_text(&view, "merkle_root"));
    cli_add_text(cli, table, "Epoch",
                 arena_format(&cli->arena, "%" PRId64 ", after a promotion %" PRId64,
                              dr_view_number(&view, "epoch"),
                              dr_view_number(&view, "epoch_after")));
    cli_add_text(cli, table, "Lag", lag_text(cli, &view));
    cli_add_text(cli, table, "Keys opened by",
                 is_true(data, "own_seal")
                     ? "this cluster's own seal"
                     : "the root key in memory; after a restart key shares are needed");
    cli_add_text(cli, table, "Keys read",
                 arena_format(&cli->arena, "%" PRId64 " of %" PRId64, dr_view_number(&view, "keys"),
                              dr_view_number(&view, "keys_total")));
    add_count(cli, table, "Values decrypted", &view, "values");
    add_count(cli, table, "Mounts", &view, "mounts");
    add_count(cli, table, "Policies", &view, "policies");
    add_count(cli, table, "Tokens", &view, "tokens");
    add_count(cli, table, "Wrong hashes", &view, "wrong_hashes");
    add_count(cli, table, "Unreadable values", &view, "unreadable");
    cli_add_text(cli, table, "Duration",
                 arena_format(&cli->arena, "%" PRId64 " ms", dr_view_number(&view, "duration_ms")));
    cli_print_table(table);
}

static void print_damage(const struct text_value *damage)
{
    if (damage == NULL || damage->kind != TEXT_LIST)
        return;
    TEXT_FOR (one, damage) {
        const struct dr_view view = view_of(one);
        printf("Damaged: %s: %s\n", dr_view_text(&view, "key"), dr_view_text(&view, "problem"));
    }
}

static int show_drill(struct cli *cli, const struct text_value *data)
{
    const struct text_value *checks = text_get(data, "checks");
    bool passed = is_true(data, "passed");
    if (checks == NULL || checks->kind != TEXT_LIST)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(data);
    } else {
        print_copy(cli, data);
        printf("\n");
        dr_print_checks(cli, checks);
        printf("\n");
        print_damage(text_get(data, "damage"));
        printf("%s\n",
               passed ? "The drill passed: a promoted cluster could read everything. The copy was "
                        "dropped; nothing was changed."
                      : "The drill did not pass: see above. Nothing was changed.");
    }
    return passed ? CLI_OK : CLI_REMOTE_ERROR;
}

int cmd_dr_drill(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    struct cli_reply reply = {0};
    const char *authority = dr_token(cli);
    if (authority == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    text_member_str(&w, "dr_operation_token", authority);
    cli_put_text(cli, &w, "limit", "limit");
    text_close(&w);
    cli->timeout_ms = MAX(cli->timeout_ms, (int64_t)PATIENCE_MS);
    int code =
        dr_send(cli, cli->address,
                cli_request_of(cli, "POST", DR_PATH "secondary/drill", &body, NULL), 0, &reply);
    return code == CLI_OK ? show_drill(cli, text_get(cli_parse_reply(cli, &reply), "data")) : code;
}
