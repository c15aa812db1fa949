/* Metadata of a secret: the settings kept beside its versions. */
#include "cli/command/command.h"
#include "cli/kv.h"

/* The path of the secret's metadata. Returns an exit code, with a message unless CLI_OK. */
static int metadata_locate(struct cli *cli, char **ret_path)
{
    struct kv_place place;
    return kv_resolve(cli, "metadata", "metadata", &place, ret_path);
}

static void show_metadata(struct cli *cli, const struct text_value *data)
{
    struct text_value *own = cli_object(cli, NULL);
    const struct text_value *versions = text_get(data, "versions");
    if (own == NULL || data->kind != TEXT_OBJECT)
        return;
    TEXT_FOR (item, data) {
        char *name = arena_str(&cli->arena, item->name);
        if (item != versions && name != NULL)
            cli_add(cli, own, name, item);
    }
    cli_print_title("Metadata");
    cli_print_table(own);
    if (versions == NULL || versions->kind != TEXT_OBJECT)
        return;
    TEXT_FOR (item, versions) {
        char *title = arena_format(&cli->arena, "Version %.*s", (int)item->name.len,
                                   (const char *)item->name.data);
        printf("\n");
        if (title != NULL)
            cli_print_title(title);
        cli_print_table(item);
    }
}

static int cmd_kv_metadata_get(struct cli *cli)
{
    struct cli_reply reply = {0};
    char *path = NULL;
    int code = metadata_locate(cli, &path);
    if (code == CLI_OK)
        code = cli_fetch(cli, path, "", &reply);
    if (code != CLI_OK)
        return code;
    if (cli->json || cli->field != NULL)
        return cli_show(cli, &reply);
    const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
    if (data == NULL)
        return cli_unexpected();
    cli_print_title("Metadata Path");
    printf("%s\n\n", path);
    show_metadata(cli, data);
    return CLI_OK;
}

/* Write the settings that have a flag; the names of -remove-custom-metadata as null. */
static void put_metadata_settings(struct cli *cli, struct text_writer *w)
{
    unsigned at = 0;
    bool custom = cli_text(cli, "custom-metadata") != NULL;
    const char *name = cli_text(cli, "remove-custom-metadata");
    text_open_object(w);
    if (cli_text(cli, "max-versions") != NULL)
        text_member_int(w, "max_versions", cli_int(cli, "max-versions", 0));
    if (cli_text(cli, "cas-required") != NULL)
        text_member_bool(w, "cas_required", cli_bool(cli, "cas-required", false));
    cli_put_text(cli, w, "delete-version-after", "delete_version_after");
    if (custom || name != NULL) {
        text_key(w, "custom_metadata");
        text_open_object(w);
        cli_put_pairs(cli, w, "custom-metadata");
        while ((name = cli_each(cli, "remove-custom-metadata", &at)) != NULL) {
            text_key(w, name);
            text_put_null(w);
        }
        text_close(w);
    }
    text_close(w);
}

static int send_settings(struct cli *cli, const char *method, const char *type)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    char *path = NULL;
    put_metadata_settings(cli, &w);
    int code = metadata_locate(cli, &path);
    if (code != CLI_OK)
        return code;
    struct cli_request request = cli_request_of(cli, method, path, &body, type);
    code = cli_do(cli, &request, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Data written to: %s\n", path);
    return code;
}

static int cmd_kv_metadata_put(struct cli *cli)
{
    return send_settings(cli, "PUT", NULL);
}

static int cmd_kv_metadata_patch(struct cli *cli)
{
    return send_settings(cli, "PATCH", CLI_MERGE_PATCH);
}

static int cmd_kv_metadata_delete(struct cli *cli)
{
    struct cli_reply reply = {0};
    char *path = NULL;
    int code = metadata_locate(cli, &path);
    if (code == CLI_OK)
        code = cli_request(cli, "DELETE", path, NULL, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Data deleted (if it existed) at: %s\n", path);
    return code;
}

#define SETTING_FLAGS                                                                          \
    MOUNT_FLAG, {"max-versions", CLI_INT, "versions to keep; 0: as many as the engine keeps"}, \
        {"cas-required", CLI_BOOL, "refuse a write without -cas"},                             \
        {"delete-version-after", CLI_DURATION, "delete a version after this time"},            \
    {                                                                                          \
        "custom-metadata", CLI_PAIRS, "a name and value to store with the secret"              \
    }
static const struct cli_flag kv_metadata_get_flags[] = {MOUNT_FLAG, FIELD_FLAG};
static const struct cli_flag kv_metadata_put_flags[] = {SETTING_FLAGS};
static const struct cli_flag kv_metadata_patch_flags[] = {
    SETTING_FLAGS, {"remove-custom-metadata", CLI_MANY, "a name to remove"}};
static const struct cli_flag mount_flags[] = {MOUNT_FLAG};

static const struct cli_command kv_metadata_commands[] = {
    {.name = "kv metadata get",
     ARGS("PATH", 1, 1),
     FLAGS(kv_metadata_get_flags),
     .run = cmd_kv_metadata_get,
     .help = "Print the settings and versions of a secret."},
    {.name = "kv metadata put",
     ARGS("PATH", 1, 1),
     FLAGS(kv_metadata_put_flags),
     .run = cmd_kv_metadata_put,
     .help = "Set the settings of a secret."},
    {.name = "kv metadata patch",
     ARGS("PATH", 1, 1),
     FLAGS(kv_metadata_patch_flags),
     .run = cmd_kv_metadata_patch,
     .help = "Change some settings of a secret."},
    {.name = "kv metadata delete",
     ARGS("PATH", 1, 1),
     FLAGS(mount_flags),
     .run = cmd_kv_metadata_delete,
     .help = "Remove a secret with all its versions."},
};

const struct cli_group cli_kv_metadata_commands = {kv_metadata_commands,
                                                   ARRAY_LEN(kv_metadata_commands)};
