/* The commands that need the server's code: server, dev, cluster, dump, audit verify. */
#include "agent/agent.h"
#include "audit/verify.h"
#include "base/mem.h"
#include "base/record.h"
#include "cli/client.h"
#include "cluster/membership/bootstrap/step_file.h"
#include "crypto/crypto.h"
#include "loop/loop.h"
#include "server/dev.h"
#include "server/inspect.h"
#include "server/recover.h"
#include "server/server.h"
#include "worker/worker.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

static int fail(const char *what, enum status st, const struct reason *reason)
{
    (void)fprintf(stderr, "holdfast: %s: %s\n", what,
                  reason->text[0] != '\0' ? reason->text
                                          : status_text(st)); /* standard error is all there is */
    return EXIT_FAILURE;
}

static const struct cli_flag dev_flags[] = {DEV_FLAGS};
static const struct cli_flag inspect_flags[] = {INSPECT_FLAGS};

static int run_server(struct cli *cli)
{
    struct config config;
    struct reason reason = {{0}};
    const char *file = cli_text(cli, "config");
    bool dev = cli_bool(cli, "dev", false);
    if (dev && file == NULL)
        return dev_run(cli);
    if (file == NULL || dev)
        return cli_usage_error(cli, "give either -config FILE or -dev");
    for (unsigned i = 0; i < ARRAY_LEN(dev_flags); i++)
        if (cli_text(cli, dev_flags[i].name) != NULL)
            return cli_usage_error(cli, "-config allows no other flag: other flags need -dev");
    enum status st = config_load(file, modules_blocks(), &config, &reason);
    if (st != ST_OK) {
        (void)fprintf(stderr, "holdfast: %s\n", /* a failure to print has no remedy */
                      reason.text[0] != '\0' ? reason.text : status_text(st));
        return EXIT_FAILURE;
    }
    int code = server_run(&config);
    config_done(&config);
    return code;
}

/* Split "NAME,HOST,HOST" in place. */
static enum status split_names(char *word, struct mesh_node_names *names, const char **hosts,
                               unsigned hosts_max)
{
    char *rest = word;
    names->name = strsep(&rest, ",");
    names->hosts = hosts;
    names->n_hosts = 0;
    for (char *host = strsep(&rest, ","); host != NULL; host = strsep(&rest, ",")) {
        if (names->n_hosts == hosts_max || host[0] == '\0')
            return ST_INVALID;
        hosts[names->n_hosts++] = host;
    }
    return mesh_name_valid(names->name) ? ST_OK : ST_INVALID;
}

enum { HOSTS_MAX = 16 };

/* Read the arguments as names of nodes. False with a message. */
static bool read_names(struct cli *cli, struct mesh_node_names *nodes,
                       const char *hosts[][HOSTS_MAX])
{
    for (unsigned i = 0; i < cli->n_args; i++) {
        char *word = arena_format(&cli->arena, "%s", cli->args[i]);
        if (word == NULL || split_names(word, &nodes[i], hosts[i], HOSTS_MAX) != ST_OK) {
            (void)fprintf(stderr, "holdfast: cluster: \"%s\" is not NAME or NAME,HOST,…\n",
                          cli->args[i]); /* the exit code reports the error too */
            return false;
        }
    }
    return true;
}

static int make_cluster_certificates(struct cli *cli, const char *out, bool add)
{
    struct mesh_node_names nodes[INITIAL_MEMBERS_MAX];
    const char *hosts[INITIAL_MEMBERS_MAX][HOSTS_MAX];
    struct reason reason = {{0}};
    struct fs *fs;
    bool locked;
    ASSERT(cli->n_args >= 1);
    ASSERT(cli->n_args <= (add ? 1 : INITIAL_MEMBERS_MAX));
    if (!read_names(cli, nodes, hosts))
        return EXIT_FAILURE;
    if (mkdir(out, 0700) != 0 && errno != EEXIST) {
        reason_set(&reason, "%s: %s", out, strerror(errno));
        return fail("cluster", ST_IO, &reason);
    }
    enum status st = crypto_init(&locked);
    if (st == ST_OK)
        st = loop_fs_new(out, &fs, &reason);
    if (st != ST_OK)
        return fail("cluster", st, &reason);
    struct mesh_pki pki = {.fs = fs, .dir = "", .now_s = (int64_t)time(NULL)};
    st = add ? mesh_bootstrap_node(&pki, nodes, &reason)
             : mesh_bootstrap(&pki, nodes, cli->n_args, &reason);
    loop_fs_free(fs);
    if (st != ST_OK)
        return fail("cluster", st, &reason);
    printf(
        "Certificates are in %s. Each node needs ca.pem, its NAME.pem and NAME-key.pem, and its\n"
        "tls-NAME.pem and tls-NAME-key.pem; clients need tls-ca.pem. Do not store ca-key.pem\n"
        "and tls-ca-key.pem on the nodes.\n",
        out);
    return EXIT_SUCCESS;
}

static int run_cluster(struct cli *cli, bool add)
{
    const char *out = cli_text(cli, "out");
    if (out == NULL)
        return cli_usage_error(cli, "-out DIR is missing");
    return make_cluster_certificates(cli, out, add);
}

static int run_cluster_bootstrap(struct cli *cli)
{
    return run_cluster(cli, false);
}

static int run_cluster_add(struct cli *cli)
{
    return run_cluster(cli, true);
}

static void print_line(void *ctx, const char *text)
{
    (void)ctx;
    printf("%s\n", text);
}

/* Split a path into its directory and the name in that directory. */
static void split_path(const char *path, char dir[PATH_MAX], const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    *ret_name = slash == NULL ? path : slash + 1;
    (void)snprintf(dir, PATH_MAX, "%.*s", slash == NULL ? 1 : (int)MAX(len, (size_t)1),
                   slash == NULL ? "." : path); /* a path that is too long is not found */
}

/* The folder of the replica in a data directory; MEMBER_RAFT_DIR if its file does not say. */
static enum status find_replica(const char *data_dir, char ret_folder[MEMBER_RAFT_DIR_MAX],
                                struct reason *reason)
{
    struct initial_members none;
    struct step_record record = {0};
    static const uint8_t no_nonce[INITIAL_NONCE_BYTES];
    struct fs *fs;
    ASSERT(data_dir[0] == '/');
    TRY(loop_fs_new(data_dir, &fs, reason));
    initial_members_init(&none, NULL, 0, 0, no_nonce);
    enum status st = step_file_load(fs, &record, &none);
    loop_fs_free(fs);
    step_folder(st == ST_OK ? record.folder : 0, ret_folder);
    ASSERT(ret_folder[0] != '\0' && ret_folder[0] != '/');
    return ST_OK;
}

/* Print the log of a node's data_dir, or of the folder of its replica. */
static enum status dump_log(const char *path, struct reason *reason)
{
    struct fs *fs;
    struct stat info;
    char folder[MEMBER_RAFT_DIR_MAX];
    char whole[PATH_MAX], replica[PATH_MAX + MEMBER_RAFT_DIR_MAX + 1], dir[PATH_MAX];
    const char *name;
    if (realpath(path, whole) == NULL) {
        reason_set(reason, "%s", strerror(errno));
        return status_from_errno(errno);
    }
    TRY(find_replica(whole, folder, reason));
    (void)snprintf(replica, sizeof replica, "%s/%s", whole, folder); /* fits */
    split_path(stat(replica, &info) == 0 ? replica : whole, dir, &name);
    TRY(loop_fs_new(dir, &fs, reason));
    enum status st = rlog_dump_log(fs, name, print_line, NULL);
    loop_fs_free(fs);
    return st;
}

/* Print what `explain` says about a file. */
static enum status explain_file(const char *path,
                                enum status (*explain)(struct fs *fs, const char *path,
                                                       void (*line)(void *ctx, const char *text),
                                                       void *ctx),
                                struct reason *reason)
{
    struct fs *fs;
    char dir[PATH_MAX];
    const char *name;
    split_path(path, dir, &name);
    TRY(loop_fs_new(dir, &fs, reason));
    enum status st = explain(fs, name, print_line, NULL);
    loop_fs_free(fs);
    return st;
}

static int run_dump_log(struct cli *cli)
{
    struct reason reason = {{0}};
    enum status st = dump_log(cli->args[0], &reason);
    return st == ST_OK ? EXIT_SUCCESS : fail(cli->args[0], st, &reason);
}

static int run_dump_snapshot(struct cli *cli)
{
    struct reason reason = {{0}};
    enum status st = explain_file(cli->args[0], rlog_dump_snapshot, &reason);
    return st == ST_OK ? EXIT_SUCCESS : fail(cli->args[0], st, &reason);
}

static int by_name(const void *a, const void *b)
{
    const struct record *const *one = a, *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

/* Print the form of every record and small frame in Markdown: tests/documents/generate reads it. */
static int run_dump_formats(struct cli *cli)
{
    enum { MAX_RECORDS = 512 };
    static const struct record *all[MAX_RECORDS];
    CLEANUP(buf_done) struct buf text = {0};
    size_t n = 0;
    (void)cli;
    for (const struct record *record; (record = record_at(n)) != NULL && n < MAX_RECORDS; n++)
        all[n] = record;
    qsort(all, n, sizeof all[0], by_name);
    for (size_t i = 0; i < n; i++) {
        buf_add_format(&text, "## %s\n\n", all[i]->name);
        if (all[i]->key != NULL)
            buf_add_format(&text, "At `%s`, %s.\n\n", all[i]->key,
                           all[i]->raw ? "not encrypted" : "encrypted");
        else
            buf_add_format(&text, "%s.\n\n", all[i]->where);
        record_draw(all[i], &text);
        buf_add_str(&text, "\n");
    }
    if (buf_status(&text) != ST_OK)
        return EXIT_FAILURE;
    return fwrite(text.data, 1, text.len, stdout) == text.len ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run_snapshot_verify(struct cli *cli)
{
    struct reason reason = {{0}};
    enum status st = explain_file(cli->args[0], rlog_verify_archive, &reason);
    return st == ST_OK ? EXIT_SUCCESS : fail(cli->args[0], st, &reason);
}

static void print_misfit(const struct audit_verdict *v)
{
    (void)fprintf(stderr, "%s:%llu: %s\n", v->file, (unsigned long long)v->line,
                  v->wrong); /* the exit code reports the error too */
    if (v->goes_on)
        (void)fprintf(stderr, "The line behind it follows the line before it: no line is missing "
                              "here.\n"); /* the exit code reports the error too */
}

static int run_audit_verify(struct cli *cli)
{
    struct reason reason = {{0}};
    struct audit_verdict v;
    bool locked;
    enum status st = crypto_init(&locked);
    if (st == ST_OK)
        st = audit_verify(cli->args, cli->n_args, &v, &reason);
    if (st != ST_OK)
        return fail("audit verify", st, &reason);
    ASSERT(v.wrong != NULL || v.lines == 0 || v.first > 0);
    if (v.lines == 0)
        printf("No line fits.\n");
    else
        printf("%llu lines fit: records %llu to %llu, from %s to %s\nhash of record %llu: %s\n",
               (unsigned long long)v.lines, (unsigned long long)v.first, (unsigned long long)v.last,
               v.begin, v.end, (unsigned long long)v.last, v.last_hash);
    (void)fflush(stdout); /* the message about a line comes behind it */
    if (v.wrong != NULL)
        print_misfit(&v);
    return v.wrong == NULL && v.lines != 0 ? CLI_OK : CLI_REMOTE_ERROR;
}

static const struct cli_flag server_flags[] = {
    {"config", CLI_FILE, "the configuration file, HCL or JSON"},
    {"dev", CLI_BOOL, "do what the command \"dev\" does"},
    DEV_FLAGS};
static const struct cli_flag recover_flags[] = {RECOVER_FLAGS};
static const struct cli_flag cluster_flags[] = {{"out", CLI_FILE, "the directory to write to"}};

static int run_agent(struct cli *cli)
{
    const char *file = cli_text(cli, "config");
    return file != NULL ? agent_run(file) : cli_usage_error(cli, "-config FILE is missing");
}

static int run_worker(struct cli *cli)
{
    const char *file = cli_text(cli, "config");
    return file != NULL ? worker_run(file) : cli_usage_error(cli, "-config FILE is missing");
}

static const struct cli_flag agent_flags[] = {{"config", CLI_FILE, "configuration file"}};
static const struct cli_command commands[] = {
    {.name = "dev",
     .args = "",
     .flags = dev_flags,
     .n_flags = ARRAY_LEN(dev_flags),
     .offline = true,
     .run = dev_run,
     .help = "Run unsealed nodes for experiments, in a temporary folder."},
    {.name = "server",
     .args = "",
     .flags = server_flags,
     .n_flags = ARRAY_LEN(server_flags),
     .offline = true,
     .run = run_server,
     .help = "Run a node."},
    {.name = "agent",
     .args = "",
     .flags = agent_flags,
     .n_flags = ARRAY_LEN(agent_flags),
     .offline = true,
     .run = run_agent,
     .help = "Run tasks of the scheduler on this machine."},
    {.name = "worker",
     .args = "",
     .flags = agent_flags,
     .n_flags = ARRAY_LEN(agent_flags),
     .offline = true,
     .run = run_worker,
     .help = "Run plans and applies of the platform on this machine."},
    {.name = "cluster bootstrap",
     .args = "NAME[,HOST…]…",
     .args_min = 1,
     .args_max = INITIAL_MEMBERS_MAX,
     .flags = cluster_flags,
     .n_flags = ARRAY_LEN(cluster_flags),
     .offline = true,
     .run = run_cluster_bootstrap,
     .help = "Make the certificates of a new cluster."},
    {.name = "cluster add",
     .args = "NAME[,HOST…]",
     .args_min = 1,
     .args_max = 1,
     .flags = cluster_flags,
     .n_flags = ARRAY_LEN(cluster_flags),
     .offline = true,
     .run = run_cluster_add,
     .help = "Make the certificates of one more node."},
    {.name = "audit verify",
     .args = "FILE…",
     .args_min = 1,
     .args_max = CLI_ARGS_MAX,
     .offline = true,
     .run = run_audit_verify,
     .help = "Check the hash chain of audit files, given from the oldest to the newest."},
    {.name = "dump log",
     .args = "DIR",
     .args_min = 1,
     .args_max = 1,
     .offline = true,
     .run = run_dump_log,
     .help = "Print the log in a data directory, as text."},
    {.name = "dump snapshot",
     .args = "FILE",
     .args_min = 1,
     .args_max = 1,
     .offline = true,
     .run = run_dump_snapshot,
     .help = "Print a snapshot, as text."},
    {.name = "dump formats",
     .args = "",
     .offline = true,
     .run = run_dump_formats,
     .help = "Print the form of every stored record and small frame, as Markdown."},
    {.name = "operator raft snapshot inspect",
     .args = "FILE",
     .args_min = 1,
     .args_max = 1,
     .flags = inspect_flags,
     .n_flags = ARRAY_LEN(inspect_flags),
     .offline = true,
     .run = inspect_run,
     .help = "Show the facts of a saved snapshot and its keys by prefix."},
    {.name = "operator raft recover",
     .args = "DATA_DIR",
     .args_min = 1,
     .args_max = 1,
     .flags = recover_flags,
     .n_flags = ARRAY_LEN(recover_flags),
     .offline = true,
     .run = recover_run,
     .help = "Make a cluster again of a survivor's data, after a majority is lost for good."},
    {.name = "operator raft snapshot verify",
     .args = "FILE",
     .args_min = 1,
     .args_max = 1,
     .offline = true,
     .run = run_snapshot_verify,
     .help = "Check that a saved snapshot is whole."},
};

int main(int argc, char **argv)
{
    return cli_main(commands, ARRAY_LEN(commands), argc - 1, argv + 1);
}
