#include "cli/command/ceremony.h"
#include "text/encode.h"

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

/* Write the key of one file: text as the file has it, binary in base64. */
static int put_key_file(struct cli *cli, struct text_writer *w, const char *file, const char *flag)
{
    struct bytes key;
    if (strncmp(file, "keybase:", strlen("keybase:")) == 0) {
        cli_complain("-%s: keys of keybase are not fetched: name a file with the public key, which "
                     "\"gpg --export\" writes",
                     flag);
        return CLI_LOCAL_ERROR;
    }
    if (!cli_slurp(cli, file, flag, &key))
        return CLI_LOCAL_ERROR;
    if (key.len == 0 || (key.data[0] & 0x80) == 0) {
        text_put_bytes(w, key);
        return CLI_OK;
    }
    char *text = arena_alloc(&cli->arena, TEXT_BASE64_LEN(key.len) + 1);
    if (text == NULL)
        return CLI_LOCAL_ERROR;
    text_put_bytes(w, bytes_of(text, text_base64_put(key, TEXT_BASE64, text)));
    return CLI_OK;
}

/* Write the keys of the files in a list separated by commas. */
static int put_key_files(struct cli *cli, struct text_writer *w, const char *files,
                         const char *flag)
{
    int code = CLI_OK;
    ASSERT(flag[0] != '\0');
    while (*files != '\0' && code == CLI_OK) {
        size_t len = strcspn(files, ",");
        char *file = arena_str(&cli->arena, bytes_of(files, len));
        if (file == NULL)
            return CLI_LOCAL_ERROR;
        if (len != 0)
            code = put_key_file(cli, w, file, flag);
        files += len + (files[len] == ',' ? 1 : 0);
    }
    return code;
}

int ceremony_put_pgp_keys(struct cli *cli, struct text_writer *w, const char *flag,
                          const char *name)
{
    unsigned at = 0;
    int code = CLI_OK;
    if (cli_text(cli, flag) == NULL)
        return CLI_OK;
    text_key(w, name);
    text_open_list(w);
    for (const char *files; code == CLI_OK && (files = cli_each(cli, flag, &at)) != NULL;)
        code = put_key_files(cli, w, files, flag);
    text_close(w);
    return code;
}

int ceremony_put_pgp_key(struct cli *cli, struct text_writer *w, const char *flag, const char *name)
{
    const char *file = cli_text(cli, flag);
    if (file == NULL)
        return CLI_OK;
    text_key(w, name);
    return put_key_file(cli, w, file, flag);
}
