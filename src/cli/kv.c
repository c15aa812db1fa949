#include "cli/kv.h"

/* Ask the server for the mount of `path`: members data.path and data.options.version of the reply
 * to sys/internal/ui/mounts/PATH. A server without this route (404) has version 1 only: then the
 * mount is unknown, and *ret has the whole path. */
static int preflight(struct cli *cli, const char *path, struct kv_place *ret)
{
    struct cli_reply reply = {0};
    char *asked = arena_format(&cli->arena, "sys/internal/ui/mounts/%s", path);
    struct cli_request request = {
        .method = "GET", .path = asked != NULL ? cli_path(cli, asked) : NULL, .aside = true};
    int code = cli_ask(cli, &request, &reply);
    *ret = (struct kv_place){.mount = "", .rest = path};
    if (code != CLI_OK)
        return reply.status == 404        ? CLI_OK
               : code == CLI_REMOTE_ERROR ? cli_refused(cli, &request, &reply)
                                          : code;
    const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
    const struct text_value *mount = text_get(data, "path");
    const struct text_value *version = text_get(text_get(data, "options"), "version");
    if (mount == NULL || mount->kind != TEXT_STRING) {
        cli_complain("the server does not say where %s is mounted", path);
        return CLI_REMOTE_ERROR;
    }
    ret->mount = (const char *)mount->text.data;
    ret->v2 = version != NULL && text_is(version->text, "2");
    return CLI_OK;
}

static int kv_locate(struct cli *cli, struct kv_place *ret_place)
{
    const char *mount = cli_text(cli, "mount");
    const char *given = cli->n_args > 0 ? cli->args[0] : "";
    char *path = cli_trim_path(cli, given);
    char *asked = mount != NULL ? cli_trim_path(cli, mount) : path;
    if (path == NULL || asked == NULL) {
        cli_complain("%s", status_text(ST_NOMEM));
        return CLI_LOCAL_ERROR;
    }
    if (asked[0] == '\0')
        return cli_usage_error(cli, "the path is empty");
    struct kv_place place;
    int code = preflight(cli, asked, &place);
    if (code != CLI_OK)
        return code;
    size_t len = strlen(place.mount);
    if (mount != NULL) {
        if (len == 0)
            place.mount = arena_format(&cli->arena, "%s/", asked);
        place.rest = path;
    } else if (strncmp(path, place.mount, len) == 0) {
        place.rest = path + len;
    } else if (len == strlen(path) + 1) {
        place.rest = ""; /* the path is the mount itself */
    }
    if (place.mount == NULL)
        return CLI_LOCAL_ERROR;
    *ret_place = place;
    return CLI_OK;
}

int kv_resolve(struct cli *cli, const char *api, const char *needs_v2, struct kv_place *ret_place,
               char **ret_path)
{
    struct kv_place place;
    int code = kv_locate(cli, &place);
    if (code != CLI_OK)
        return code;
    if (needs_v2 != NULL && !place.v2) {
        cli_complain("%s needs a key/value engine of version 2", needs_v2);
        return CLI_REMOTE_ERROR;
    }
    if (place.rest[0] == '\0' && place.mount[0] != '\0' &&
        strcmp(cli->command->name, "kv list") != 0) {
        cli_complain(
            "%s is where the engine is mounted: name a secret below it; \"holdfast kv list "
            "%s\" lists them",
            place.mount, place.mount);
        return CLI_LOCAL_ERROR;
    }
    char *path = arena_format(&cli->arena, "%s%s%s%s", place.mount, place.v2 ? api : "",
                              place.v2 && place.rest[0] != '\0' ? "/" : "", place.rest);
    if (path == NULL) {
        cli_complain("%s", status_text(ST_NOMEM));
        return CLI_LOCAL_ERROR;
    }
    *ret_place = place;
    *ret_path = path;
    return CLI_OK;
}

bool kv_put_versions(struct cli *cli, struct text_writer *w)
{
    unsigned at = 0, n = 0;
    text_open_list(w);
    for (const char *value; (value = cli_each(cli, "versions", &at)) != NULL;) {
        while (*value != '\0') {
            size_t len = strcspn(value, ",");
            int64_t version;
            if (text_int_parse(bytes_of(value, len), &version) != ST_OK || version < 1) {
                cli_complain("flag -versions needs whole numbers above 0");
                return false;
            }
            text_put_int(w, version);
            n++;
            value += len + (value[len] == ',' ? 1 : 0);
        }
    }
    text_close(w);
    if (n == 0)
        (void)cli_usage_error(cli, "-versions=N,… is missing"); /* returns false */
    return n != 0;
}
