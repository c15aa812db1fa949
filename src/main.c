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

static int usage(FILE *to)
{
    (void)fprintf(to, "usage: holdfast COMMAND …\n\n"
                      "  server -config FILE   run a node\n"
                      "  cluster bootstrap -out DIR NAME[,HOST…] …\n"
                      "                        make the certificates of a new cluster\n"
                      "  cluster add -out DIR NAME[,HOST…]\n"
                      "                        make those of one more node\n"
                      "  dump log DIR          explain the log of a data directory\n"
                      "  dump snapshot FILE    explain a snapshot\n"
                      "  version\n"); /* standard output and error are all there is */
    if (to == stdout)
        cli_usage();
    return to == stdout ? EXIT_SUCCESS : EXIT_FAILURE;
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
        return usage(stderr);
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

static int run_cluster(int argc, char **argv)
{
    const char *what = argc > 0 ? argv[0] : "";
    bool add = strcmp(what, "add") == 0;
    if (!add && strcmp(what, "bootstrap") != 0)
        return usage(stderr);
    argc--;
    argv++;
    const char *out = take_flag(&argc, &argv, "out");
    if (out == NULL || argc < 1 || argc > (add ? 1 : NODE_FOUNDERS_MAX))
        return usage(stderr);
    return make_certificates(out, argc, argv, add);
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

static int run_dump(int argc, char **argv)
{
    struct reason reason = {{0}};
    enum status st;
    if (argc != 2)
        return usage(stderr);
    if (strcmp(argv[0], "log") == 0)
        st = dump_log(argv[1], &reason);
    else if (strcmp(argv[0], "snapshot") == 0)
        st = dump_snapshot(argv[1], &reason);
    else
        return usage(stderr);
    return st == ST_OK ? EXIT_SUCCESS : fail(argv[1], st, &reason);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (argc < 2)
        return usage(stderr);
    argc -= 2;
    argv += 2;
    if (strcmp(command, "server") == 0)
        return run_server(argc, argv);
    if (strcmp(command, "cluster") == 0)
        return run_cluster(argc, argv);
    if (strcmp(command, "dump") == 0)
        return run_dump(argc, argv);
    if (strcmp(command, "version") == 0 || strcmp(command, "-version") == 0) {
        printf("holdfast %s\n", HOLDFAST_VERSION);
        return EXIT_SUCCESS;
    }
    if (cli_knows(command))
        return cli_run(command, argc, argv);
    return usage(strcmp(command, "help") == 0 || strcmp(command, "-h") == 0 ||
                         strcmp(command, "--help") == 0
                     ? stdout
                     : stderr);
}
