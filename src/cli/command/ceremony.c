#include "cli/command/ceremony.h"

static const struct text_value *get(const struct text_value *answer, const char *field)
{
    const struct text_value *v = text_get(answer, field);
    bool empty = v == NULL || v->kind == TEXT_NULL || (v->kind == TEXT_STRING && v->text.len == 0);
    return empty ? NULL : v;
}

int ceremony_show(struct cli *cli, const struct text_value *answer, const char *required,
                  const struct ceremony_row *rows, size_t n)
{
    struct text_value *table = cli_object(cli, NULL);
    const struct text_value *of = answer != NULL ? get(answer, required) : NULL;
    ASSERT(n != 0);
    if (answer == NULL || table == NULL)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(answer);
        return CLI_OK;
    }
    for (size_t i = 0; i < n; i++) {
        const struct text_value *v = get(answer, rows[i].field);
        if (v != NULL && of != NULL && strcmp(rows[i].field, "progress") == 0) {
            char *text =
                arena_format(&cli->arena, "%.*s/%.*s", (int)v->text.len, (const char *)v->text.data,
                             (int)of->text.len, (const char *)of->text.data);
            if (text != NULL)
                cli_add_text(cli, table, rows[i].title, text);
        } else if (v != NULL) {
            cli_add(cli, table, rows[i].title, v);
        }
    }
    cli_print_table(table);
    return CLI_OK;
}

int ceremony_share_body(struct cli *cli, const struct text_value *status, const char *field,
                        struct buf *out)
{
    struct text_writer w = {.out = out};
    const struct text_value *now = get(status, field);
    ASSERT(cli->n_args <= 1);
    const char *key = cli->n_args != 0 ? cli->args[0] : NULL;
    if (cli_text(cli, "nonce") == NULL && now == NULL)
        return cli_unexpected();
    if (key == NULL || strcmp(key, "-") == 0)
        key = cli_secret(cli, "Key share (will be hidden): ");
    if (key == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    text_member_str(&w, "key", key);
    text_key(&w, "nonce");
    if (cli_text(cli, "nonce") != NULL)
        text_put_str(&w, cli_text(cli, "nonce"));
    else
        text_put_bytes(&w, now->text);
    text_close(&w);
    return buf_status(out) == ST_OK ? CLI_OK : CLI_LOCAL_ERROR;
}
