/* Key/value secrets of both versions. */
#include "cli/command/command.h"
#include "cli/kv.h"
#include "text/merge.h"

static void print_path(const char *title, const char *path)
{
    cli_print_title(title);
    printf("%s\n\n", path);
}

/* Print the field that -field names. The fields are those of the secret's data; "data" is all of
 * them, unless the secret has a field "data". */
static int show_field(struct cli *cli, const struct text_value *data, const char *path)
{
    const struct text_value *inner = text_get(data, "data");
    if (inner == NULL || inner->kind == TEXT_NULL) {
        cli_complain("no data found at %s", path);
        return CLI_REMOTE_ERROR;
    }
    if (strcmp(cli->field, "data") == 0 && text_get(inner, "data") == NULL)
        return cli_show_value(cli, data);
    return cli_show_value(cli, inner);
}

static void show_secret(const struct text_value *data)
{
    const struct text_value *metadata = text_get(data, "metadata"), *inner = text_get(data, "data");
    if (metadata != NULL && metadata->kind == TEXT_OBJECT) {
        cli_print_title("Metadata");
        cli_print_table(metadata);
    }
    if (inner != NULL && inner->kind == TEXT_OBJECT) {
        printf("\n");
        cli_print_title("Data");
        cli_print_table(inner);
    }
}

static int fetch_secret(struct cli *cli, const char *path, int64_t version,
                        struct cli_reply *ret_reply)
{
    char *query = version > 0 ? arena_format(&cli->arena, "?version=%lld", (long long)version) : "";
    if (query == NULL) {
        cli_complain("%s", status_text(ST_NOMEM));
        return CLI_LOCAL_ERROR;
    }
    return cli_fetch(cli, path, query, ret_reply);
}

static int cmd_kv_get(struct cli *cli)
{
    struct kv_place place;
    struct cli_reply reply = {0};
    char *path;
    int code = kv_resolve(cli, "data", NULL, &place, &path);
    if (code == CLI_OK)
        code = fetch_secret(cli, path, place.v2 ? cli_int(cli, "version", 0) : 0, &reply);
    if (code != CLI_OK)
        return code;
    if (!place.v2 || cli_text(cli, "wrap-ttl") != NULL || (cli->json && cli->field == NULL))
        return cli_show(cli, &reply);
    const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
    if (data == NULL)
        return cli_unexpected();
    if (cli->field != NULL)
        return show_field(cli, data, path);
    print_path("Secret Path", path);
    show_secret(data);
    return CLI_OK;
}

/* Show the reply to a write of version 2: the metadata of the new version. */
static int show_written(struct cli *cli, const char *path, const struct cli_reply *reply)
{
    if (reply->body.len == 0) {
        if (!cli->json && cli->field == NULL)
            printf("Success! Data written to: %s\n", path);
        return CLI_OK;
    }
    if (cli->json || cli->field != NULL || cli_text(cli, "wrap-ttl") != NULL)
        return cli_show(cli, reply);
    const struct text_value *data = text_get(cli_parse_reply(cli, reply), "data");
    if (data == NULL)
        return cli_unexpected();
    print_path("Secret Path", path);
    cli_print_title("Metadata");
    cli_print_table(data);
    return CLI_OK;
}

/* Write {"data": …, "options": {"cas": n}}; a cas below 0 is left out. */
static void put_version2(struct text_writer *w, const struct text_value *data, int64_t cas)
{
    text_open_object(w);
    text_key(w, "data");
    text_put_value(w, data);
    text_key(w, "options");
    text_open_object(w);
    if (cas >= 0)
        text_member_int(w, "cas", cas);
    text_close(w);
    text_close(w);
}

static int cmd_kv_put(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct kv_place place;
    struct cli_reply reply = {0};
    if (cli->n_args < 2)
        return cli_usage_error(cli, "data is missing: KEY=VALUE");
    const char *needs_v2 = cli_text(cli, "cas") != NULL ? "flag -cas" : NULL;
    const struct text_value *data = cli_data(cli, 1);
    if (data == NULL)
        return CLI_LOCAL_ERROR;
    char *path;
    int code = kv_resolve(cli, "data", needs_v2, &place, &path);
    if (code != CLI_OK)
        return code;
    if (place.v2)
        put_version2(&w, data, cli_int(cli, "cas", -1));
    else
        text_put_value(&w, data);
    code = cli_request(cli, "PUT", path, &body, &reply);
    return code == CLI_OK ? show_written(cli, path, &reply) : code;
}

/* Read a version of the secret, its data and its number; `version` 0: the latest. */
static int load_version(struct cli *cli, const char *path, int64_t version,
                        const struct text_value **ret_data, int64_t *ret_version)
{
    struct cli_reply reply = {0};
    int code = fetch_secret(cli, path, version, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
    const struct text_value *n = text_get(text_get(data, "metadata"), "version");
    if (n == NULL || text_to_int(n, ret_version) != ST_OK) {
        cli_complain("the server's reply lacks the number of the version");
        return CLI_REMOTE_ERROR;
    }
    *ret_data = text_get(data, "data");
    return CLI_OK;
}

static int put_secret(struct cli *cli, const char *path, const struct text_value *data, int64_t cas)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    put_version2(&w, data, cas);
    int code = cli_request(cli, "PUT", path, &body, &reply);
    return code == CLI_OK ? show_written(cli, path, &reply) : code;
}

/* Read the secret, apply the patch, and write the result if the version read is still the latest
 * (check-and-set). */
static int read_then_write(struct cli *cli, const char *path, const struct text_value *patch)
{
    const struct text_value *data = NULL, *merged = NULL;
    int64_t version = 0;
    int code = load_version(cli, path, 0, &data, &version);
    if (code != CLI_OK)
        return code;
    if (data == NULL || data->kind != TEXT_OBJECT) {
        cli_complain("no data found at %s", path);
        return CLI_REMOTE_ERROR;
    }
    int64_t cas = cli_int(cli, "cas", version);
    if (text_merge_patch(&cli->arena, data, patch, &merged) != ST_OK) {
        cli_complain("%s", status_text(ST_NOMEM));
        return CLI_LOCAL_ERROR;
    }
    return put_secret(cli, path, merged, cas);
}

/* The patch: the data of the arguments, and a null for each name of -remove-data. */
static const struct text_value *patch_data(struct cli *cli)
{
    unsigned at = 0;
    const struct text_value *given = cli_data(cli, 1);
    struct text_value *patch = cli_object(cli, NULL);
    if (given == NULL || patch == NULL)
        return NULL;
    *patch = *given;
    for (const char *name; (name = cli_each(cli, "remove-data", &at)) != NULL;)
        if (text_value_new(&cli->arena, patch, TEXT_NULL, bytes_str(name)) == NULL)
            return NULL;
    return patch;
}

static int cmd_kv_patch(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct kv_place place;
    struct cli_reply reply = {0};
    const char *method = cli_text(cli, "method");
    if (method != NULL && strcmp(method, "patch") != 0 && strcmp(method, "rw") != 0)
        return cli_usage_error(cli, "-method must be patch or rw");
    if (cli->n_args < 2 && cli_text(cli, "remove-data") == NULL)
        return cli_usage_error(cli, "data is missing: KEY=VALUE or -remove-data");
    const struct text_value *patch = patch_data(cli);
    if (patch == NULL)
        return CLI_LOCAL_ERROR;
    char *path;
    int code = kv_resolve(cli, "data", "patch", &place, &path);
    if (code != CLI_OK)
        return code;
    if (method != NULL && strcmp(method, "rw") == 0)
        return read_then_write(cli, path, patch);
    put_version2(&w, patch, cli_int(cli, "cas", -1));
    struct cli_request request = cli_request_of(cli, "PATCH", path, &body, CLI_MERGE_PATCH);
    code = cli_ask(cli, &request, &reply);
    if (code == CLI_OK)
        return show_written(cli, path, &reply);
    if (reply.status == 405 && method == NULL)
        return read_then_write(cli, path, patch);
    if (reply.status != 404)
        return cli_refused(cli, &request, &reply);
    (void)fprintf(stderr, "No value found at %s\n", path); /* standard error is all there is */
    return CLI_REMOTE_ERROR;
}

static int cmd_kv_rollback(struct cli *cli)
{
    struct kv_place place;
    const struct text_value *data = NULL, *latest = NULL;
    int64_t version = 0, from = cli_int(cli, "version", 0);
    if (from == 0)
        return cli_usage_error(cli, "-version=N is missing");
    char *path;
    int64_t found = 0;
    int code = kv_resolve(cli, "data", "rollback", &place, &path);
    if (code == CLI_OK)
        code = load_version(cli, path, 0, &latest, &version);
    if (code == CLI_OK)
        code = load_version(cli, path, from, &data, &found);
    if (code != CLI_OK)
        return code;
    if (data == NULL || data->kind != TEXT_OBJECT) {
        cli_complain("version %lld at %s is deleted", (long long)from, path);
        return CLI_REMOTE_ERROR;
    }
    return put_secret(cli, path, data, version);
}

static int say_done(struct cli *cli, const char *what, const char *path)
{
    if (!cli->json)
        printf("Success! Data %s: %s\n", what, path);
    return CLI_OK;
}

/* Send the numbers of -versions to the path `api`. `said` is the verb of the message. */
static int send_versions(struct cli *cli, const char *api, const char *said)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct kv_place place;
    struct cli_reply reply = {0};
    text_open_object(&w);
    text_key(&w, "versions");
    if (!kv_put_versions(cli, &w))
        return CLI_LOCAL_ERROR;
    text_close(&w);
    char *path;
    int code = kv_resolve(cli, api, api, &place, &path);
    if (code == CLI_OK)
        code = cli_request(cli, "PUT", path, &body, &reply);
    return code == CLI_OK ? say_done(cli, said, path) : code;
}

static int cmd_kv_delete(struct cli *cli)
{
    struct kv_place place;
    struct cli_reply reply = {0};
    if (cli_text(cli, "versions") != NULL)
        return send_versions(cli, "delete", "deleted (if it existed) at");
    char *path;
    int code = kv_resolve(cli, "data", NULL, &place, &path);
    if (code == CLI_OK)
        code = cli_request(cli, "DELETE", path, NULL, &reply);
    return code == CLI_OK ? say_done(cli, "deleted (if it existed) at", path) : code;
}

static int cmd_kv_undelete(struct cli *cli)
{
    return send_versions(cli, "undelete", "written to");
}

static int cmd_kv_destroy(struct cli *cli)
{
    return send_versions(cli, "destroy", "written to");
}

static int cmd_kv_list(struct cli *cli)
{
    struct kv_place place;
    struct cli_reply reply = {0};
    if (cli->n_args == 0 && cli_text(cli, "mount") == NULL)
        return cli_usage_error(cli, "an argument is missing");
    char *path;
    int code = kv_resolve(cli, "metadata", NULL, &place, &path);
    if (code == CLI_OK)
        code = cli_fetch(cli, path, "?list=true", &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
    const struct text_value *keys = text_get(data, "keys");
    if (keys == NULL)
        return cli_unexpected();
    cli_print_keys(cli, keys);
    return CLI_OK;
}

static int cmd_kv_enable_versioning(struct cli *cli)
{
    struct cli_reply reply = {0};
    CLEANUP(buf_done) struct buf body = {0};
    ASSERT(cli->n_args == 1);
    char *mount = cli_trim_path(cli, cli->args[0]);
    char *path = mount != NULL ? arena_format(&cli->arena, "sys/mounts/%s/tune", mount) : NULL;
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    buf_add_str(&body, "{\"options\":{\"version\":\"2\"}}");
    int code = cli_request(cli, "PUT", path, &body, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Tuned the secrets engine at: %s/\n", mount);
    return code;
}

static const struct cli_flag kv_get_flags[] = {
    MOUNT_FLAG, WRAP_FLAG, FIELD_FLAG, {"version", CLI_INT, "number of an older version"}};
static const struct cli_flag kv_put_flags[] = {MOUNT_FLAG, WRAP_FLAG, FIELD_FLAG, CAS_FLAG};
static const struct cli_flag kv_patch_flags[] = {
    MOUNT_FLAG,
    FIELD_FLAG,
    CAS_FLAG,
    {"method", CLI_TEXT, "patch, or rw (read, change, write); default: patch, else rw"},
    {"remove-data", CLI_MANY, "a key to remove"}};
static const struct cli_flag kv_versions_flags[] = {MOUNT_FLAG, VERSIONS_FLAG};
static const struct cli_flag mount_flags[] = {MOUNT_FLAG};
static const struct cli_flag kv_rollback_flags[] = {
    MOUNT_FLAG, FIELD_FLAG, {"version", CLI_INT, "number of the version to write again"}};

static const struct cli_command kv_commands[] = {
    {.name = "kv get",
     ARGS("PATH", 1, 1),
     FLAGS(kv_get_flags),
     .run = cmd_kv_get,
     .help = "Print a secret."},
    {.name = "kv put",
     ARGS("PATH " CLI_DATA, 1, CLI_ANY),
     FLAGS(kv_put_flags),
     .run = cmd_kv_put,
     .help = "Write a secret; an engine of version 2 keeps older versions."},
    {.name = "kv patch",
     ARGS("PATH " CLI_DATA, 1, CLI_ANY),
     FLAGS(kv_patch_flags),
     .run = cmd_kv_patch,
     .help = "Change some keys of a secret."},
    {.name = "kv delete",
     ARGS("PATH", 1, 1),
     FLAGS(kv_versions_flags),
     .run = cmd_kv_delete,
     .help = "Delete a secret; \"kv undelete\" restores a version."},
    {.name = "kv undelete",
     ARGS("PATH", 1, 1),
     FLAGS(kv_versions_flags),
     .run = cmd_kv_undelete,
     .help = "Restore deleted versions of a secret."},
    {.name = "kv destroy",
     ARGS("PATH", 1, 1),
     FLAGS(kv_versions_flags),
     .run = cmd_kv_destroy,
     .help = "Remove the data of versions permanently."},
    {.name = "kv list",
     ARGS("[PATH]", 0, 1),
     FLAGS(mount_flags),
     .run = cmd_kv_list,
     .help = "List the secrets below a path."},
    {.name = "kv rollback",
     ARGS("PATH", 1, 1),
     FLAGS(kv_rollback_flags),
     .run = cmd_kv_rollback,
     .help = "Write an older version again as the newest."},
    {.name = "kv enable-versioning",
     ARGS("MOUNT", 1, 1),
     .run = cmd_kv_enable_versioning,
     .help = "Upgrade a key/value engine to version 2."},
};

const struct cli_group cli_kv_commands = {kv_commands, ARRAY_LEN(kv_commands)};
