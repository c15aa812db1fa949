/* Commands. */
#include "main.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "crypto/crypto.h"
#include "loop/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

static int usage(const char *line)
{
    (void)fprintf(stderr, "usage: holdfast %s\n", line); /* standard error is all there is */
    return EXIT_FAILURE;
}

static int fail(const char *what, enum status st, const struct reason *reason)
{
    (void)fprintf(stderr, "holdfast: %s: %s\n", what,
                  reason->text[0] != '\0' ? reason->text : status_text(st)); /* as above */
    return EXIT_FAILURE;
}

/* The value of "-name VALUE", "--name VALUE" or "-name=VALUE" at the front; NULL otherwise. */
static const char *take_flag(int *argc, char ***argv, const char *name)
{
    const char *word = *argc > 0 ? **argv : "";
    size_t len = strlen(name);
    if (word[0] != '-')
        return NULL;
    word += word[1] == '-' ? 2 : 1;
    if (strncmp(word, name, len) != 0)
        return NULL;
    const char *value = NULL;
    int used = 0;
    if (word[len] == '=') {
        value = word + len + 1;
        used = 1;
    } else if (word[len] == '\0' && *argc > 1) {
        value = (*argv)[1];
        used = 2;
    }
    *argc -= used;
    *argv += used;
    return value;
}

static int run_server(int argc, char **argv)
{
    struct config config;
    struct reason reason = {{0}};
    const char *file = take_flag(&argc, &argv, "config");
    if (file == NULL || argc != 0)
        return usage("server -config FILE");
    enum status st = config_load(file, &config, &reason);
    if (st != ST_OK) {
        (void)fprintf(stderr, "holdfast: %s\n",
                      reason.text[0] != '\0' ? reason.text : status_text(st)); /* as above */
        return EXIT_FAILURE;
    }
    int code = server_run(&config);
    config_done(&config);
    return code;
}

/* "NAME,HOST,HOST": cut in place. */
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

static int make_certificates(const char *out, int argc, char **argv, bool add)
{
    struct mesh_node_names nodes[NODE_FOUNDERS_MAX];
    const char *hosts[NODE_FOUNDERS_MAX][HOSTS_MAX];
    struct reason reason = {{0}};
    struct fs *fs;
    bool locked;
    for (int i = 0; i < argc; i++)
        if (split_names(argv[i], &nodes[i], hosts[i], HOSTS_MAX) != ST_OK) {
            reason_set(&reason, "\"%s\" is not NAME or NAME,HOST,…", argv[i]);
            return fail("cluster", ST_INVALID, &reason);
        }
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
             : mesh_bootstrap(&pki, nodes, (unsigned)argc, &reason);
    loop_fs_free(fs);
    if (st != ST_OK)
        return fail("cluster", st, &reason);
    printf(
        "Certificates are in %s. Each node needs ca.pem, its NAME.pem and NAME-key.pem, and its\n"
        "tls-NAME.pem and tls-NAME-key.pem; clients need tls-ca.pem. Keep ca-key.pem and\n"
        "tls-ca-key.pem away from the nodes.\n",
        out);
    return EXIT_SUCCESS;
}

static int run_cluster(int argc, char **argv, bool add)
{
    const char *out = take_flag(&argc, &argv, "out");
    if (out == NULL || argc < 1 || argc > (add ? 1 : NODE_FOUNDERS_MAX))
        return usage(add ? "cluster add -out DIR NAME[,HOST…]"
                         : "cluster bootstrap -out DIR NAME[,HOST…] …");
    return make_certificates(out, argc, argv, add);
}

static int run_cluster_bootstrap(int argc, char **argv)
{
    return run_cluster(argc, argv, false);
}

static int run_cluster_add(int argc, char **argv)
{
    return run_cluster(argc, argv, true);
}

static void print_line(void *ctx, const char *text)
{
    (void)ctx;
    printf("%s\n", text);
}

/* The directory a path stands in, and its name there. */
static void split_path(const char *path, char dir[PATH_MAX], const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    *ret_name = slash == NULL ? path : slash + 1;
    (void)snprintf(dir, PATH_MAX, "%.*s", slash == NULL ? 1 : (int)MAX(len, (size_t)1),
                   slash == NULL ? "." : path); /* a path that is too long is not found */
}

/* A node's data_dir holds the replica in a folder of its own; either may be named. */
static enum status dump_log(const char *path, struct reason *reason)
{
    struct fs *fs;
    struct stat info;
    char whole[PATH_MAX], replica[PATH_MAX + 8], dir[PATH_MAX];
    const char *name;
    if (realpath(path, whole) == NULL) {
        reason_set(reason, "%s", strerror(errno));
        return status_from_errno(errno);
    }
    (void)snprintf(replica, sizeof replica, "%s/raft", whole); /* fits */
    split_path(stat(replica, &info) == 0 ? replica : whole, dir, &name);
    TRY(loop_fs_new(dir, &fs, reason));
    enum status st = rlog_dump_log(fs, name, print_line, NULL);
    loop_fs_free(fs);
    return st;
}

static enum status dump_snapshot(const char *path, struct reason *reason)
{
    struct fs *fs;
    char dir[PATH_MAX];
    const char *name;
    split_path(path, dir, &name);
    TRY(loop_fs_new(dir, &fs, reason));
    enum status st = rlog_dump_snapshot(fs, name, print_line, NULL);
    loop_fs_free(fs);
    return st;
}

static int run_dump_log(int argc, char **argv)
{
    struct reason reason = {{0}};
    if (argc != 1)
        return usage("dump log DIR");
    enum status st = dump_log(argv[0], &reason);
    return st == ST_OK ? EXIT_SUCCESS : fail(argv[0], st, &reason);
}

static int run_dump_snapshot(int argc, char **argv)
{
    struct reason reason = {{0}};
    if (argc != 1)
        return usage("dump snapshot FILE");
    enum status st = dump_snapshot(argv[0], &reason);
    return st == ST_OK ? EXIT_SUCCESS : fail(argv[0], st, &reason);
}

static const struct cli_flag server_flags[] = {
    {"config", CLI_FILE, "the configuration, HCL or JSON"}};
static const struct cli_flag cluster_flags[] = {{"out", CLI_FILE, "the directory to write to"}};

static const struct cli_command commands[] = {
    {.name = "server",
     .args = "",
     .flags = server_flags,
     .n_flags = ARRAY_LEN(server_flags),
     .run_words = run_server,
     .help = "Run a node."},
    {.name = "cluster bootstrap",
     .args = "NAME[,HOST…]…",
     .flags = cluster_flags,
     .n_flags = ARRAY_LEN(cluster_flags),
     .run_words = run_cluster_bootstrap,
     .help = "Make the certificates of a new cluster."},
    {.name = "cluster add",
     .args = "NAME[,HOST…]",
     .flags = cluster_flags,
     .n_flags = ARRAY_LEN(cluster_flags),
     .run_words = run_cluster_add,
     .help = "Make the certificates of one more node."},
    {.name = "dump log",
     .args = "DIR",
     .run_words = run_dump_log,
     .help = "Explain the log of a data directory."},
    {.name = "dump snapshot",
     .args = "FILE",
     .run_words = run_dump_snapshot,
     .help = "Explain a snapshot."},
};

int main(int argc, char **argv)
{
    return cli_main(commands, ARRAY_LEN(commands), argc - 1, argv + 1);
}
