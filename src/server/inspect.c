#include "server/inspect.h"

#include "loop/loop.h"
#include "raft/snapshot/rlog_inspect.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

enum { DEPTH_DEFAULT = 2 };

/* Names of keys hold any bytes: other bytes than printable ASCII, and '\', are written as \xNN. */
static void put_name(struct text_writer *w, struct bytes name)
{
    CLEANUP(buf_done) struct buf text = {0};
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];
        if (c < ' ' || c > '~' || c == '\\')
            buf_add_format(&text, "\\x%02x", c);
        else
            buf_add_u8(&text, c);
    }
    if (buf_status(&text) == ST_OK)
        text_put_bytes(w, buf_bytes(&text));
    else
        text_put_null(w);
}

static void put_number(struct text_writer *w, const char *name, uint64_t n)
{
    text_key(w, name);
    text_put_uint(w, n);
}

/* A size for people, in the table alone: "1.5KB". */
static void put_size(struct text_writer *w, const char *name, uint64_t bytes, bool exact)
{
    static const char units[] = "BKMGT";
    char text[32];
    unsigned unit = 0;
    double size = (double)bytes;
    if (exact) {
        put_number(w, name, bytes);
        return;
    }
    for (; size >= 1024 && unit < sizeof units - 2; unit++)
        size /= 1024;
    ASSERT(unit < sizeof units - 1);
    (void)snprintf(text, sizeof text, unit == 0 ? "%.0fB" : "%.1f%cB", size,
                   units[unit]); /* fits: less than 2^64 bytes */
    text_member_str(w, name, text);
}

static void put_meta(struct text_writer *w, const struct rlog_archive_found *found)
{
    const struct rlog_archive_facts *facts = &found->facts;
    char id[80];
    (void)snprintf(id, sizeof id, "%" PRIu64 "-%" PRIu64 "-%" PRId64, facts->term, facts->index,
                   facts->time_ms); /* fits: three numbers */
    text_open_object(w);
    text_member_str(w, "ID", id);
    put_number(w, "Size", found->state_bytes);
    put_number(w, "Index", facts->index);
    put_number(w, "Term", facts->term);
    put_number(w, "Version", RLOG_ARCHIVE_FORMAT);
    text_member_str(w, "Cluster", facts->cluster);
    put_number(w, "StateVersion", facts->version);
    text_member_time(w, "Time", facts->time_ms);
    put_number(w, "FeatureLevel", found->feature);
    text_close(w);
}

static void put_groups(struct text_writer *w, const struct rlog_inspect *in, bool exact)
{
    ASSERT(in->n_groups <= RLOG_INSPECT_GROUPS_MAX);
    text_open_list(w);
    for (size_t i = 0; i < in->n_groups; i++) {
        text_open_object(w);
        text_key(w, exact ? "Name" : "Key Name");
        put_name(w, in->groups[i].name);
        put_number(w, "Count", in->groups[i].count.keys);
        put_size(w, "Size", in->groups[i].count.bytes, exact);
        text_close(w);
    }
    text_close(w);
}

/* `exact`: for JSON. */
static void put_all(struct text_writer *w, const struct rlog_inspect *in, bool details, bool exact)
{
    text_open_object(w);
    text_key(w, "Meta");
    put_meta(w, in->found);
    text_key(w, "StatsKV");
    if (details)
        put_groups(w, in, exact);
    else
        text_put_null(w);
    put_number(w, "TotalCountKV", in->total.keys);
    put_size(w, "TotalSizeKV", in->total.bytes, exact);
    text_close(w);
}

static enum status inspect_file(struct cli *cli, const struct rlog_inspect_options *options,
                                struct rlog_inspect *ret, struct reason *reason)
{
    const char *path = cli->args[0], *slash = strrchr(path, '/');
    struct fs *fs;
    char *dir = slash == NULL
                    ? arena_format(&cli->arena, ".")
                    : arena_format(&cli->arena, "%.*s/", (int)MIN(slash - path, PATH_MAX), path);
    if (dir == NULL)
        return ST_NOMEM;
    TRY(loop_fs_new(dir, &fs, reason));
    enum status st =
        rlog_inspect_file(fs, slash == NULL ? path : slash + 1, options, &cli->arena, ret, reason);
    loop_fs_free(fs);
    return st;
}

static void print_table(const struct text_value *all, bool details)
{
    const struct text_value *count = text_get(all, "TotalCountKV");
    const struct text_value *size = text_get(all, "TotalSizeKV");
    ASSERT(count != NULL && size != NULL);
    cli_print_table(text_get(all, "Meta"));
    printf("\n");
    if (details)
        cli_print_grid(text_get(all, "StatsKV"));
    printf("Total: %.*s keys, %.*s\n", (int)count->text.len, (const char *)count->text.data,
           (int)size->text.len, (const char *)size->text.data);
}

static int print_all(struct cli *cli, const struct rlog_inspect *in, bool details, bool json)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text};
    const struct text_value *all = NULL;
    ASSERT(details || in->n_groups == 0);
    put_all(&w, in, details, json);
    enum status st = buf_status(&text);
    if (st == ST_OK)
        st = text_json_parse(&cli->arena, buf_bytes(&text), &all, NULL);
    if (st != ST_OK) {
        cli_complain("%s", status_text(st));
        return CLI_LOCAL_ERROR;
    }
    if (json)
        cli_print_json(all);
    else
        print_table(all, details);
    if (in->others.keys != 0)
        cli_say("%" PRIu64 " more keys with %" PRIu64 " bytes are in prefixes that are not shown: "
                "give a -filter, or a smaller -depth\n",
                in->others.keys, in->others.bytes);
    return CLI_OK;
}

int inspect_run(struct cli *cli)
{
    struct rlog_inspect in;
    struct reason reason = {{0}};
    const char *filter = cli_text(cli, "filter"), *format = cli_text(cli, "format");
    int64_t depth = cli_int(cli, "depth", -1);
    bool details = cli_bool(cli, "details", true);
    bool json = format != NULL && strcmp(format, "json") == 0;
    if (format != NULL && !json && strcmp(format, "table") != 0)
        return cli_usage_error(cli, "-format is table or json");
    if (!details && (depth >= 0 || filter != NULL))
        return cli_usage_error(cli, "-depth and -filter need -details");
    ASSERT(cli->n_args == 1);
    const struct rlog_inspect_options options = {
        .groups = details,
        .depth = depth >= 0 ? (uint64_t)depth : DEPTH_DEFAULT,
        .filter = filter != NULL ? bytes_str(filter) : (struct bytes){0},
    };
    enum status st = inspect_file(cli, &options, &in, &reason);
    if (st == ST_OK)
        return print_all(cli, &in, details, json);
    cli_complain("%s: %s", cli->args[0], reason.text[0] != '\0' ? reason.text : status_text(st));
    return CLI_LOCAL_ERROR;
}
