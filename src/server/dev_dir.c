/* The folder of "holdfast dev".
 *
 *   DIR/lock               held while the nodes run
 *   DIR/tls/               the authorities, the nodes' certificates and keys
 *   DIR/seal.key           what wraps the root key
 *   DIR/init.json          the reply of sys/init: root token and recovery keys
 *   DIR/nodeN/             configuration, log, data
 *
 * Only the owner can read the files. A file or folder gets its final name when it is complete, so
 * the next start repeats a start that was interrupted. */
#include "base/fs.h"
#include "base/mem.h"
#include "cluster/mesh/mesh.h"
#include "crypto/crypto.h"
#include "loop/loop.h"
#include "server/dev.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SEAL_BYTES = 32, REMOVE_DEPTH = 16 };

static char *path_in(struct dev *dev, const char *name)
{
    char *path = arena_format(&dev->cli->arena, "%s/%s", dev->dir, name);
    if (path == NULL)
        cli_complain("%s", status_text(ST_NOMEM));
    return path;
}

static bool exists(struct dev *dev, const char *name)
{
    struct stat info;
    const char *path = path_in(dev, name);
    return path != NULL && stat(path, &info) == 0;
}

static bool make_dir(struct dev *dev, const char *data)
{
    char path[PATH_MAX];
    const char *tmp = getenv("TMPDIR");
    int n = data != NULL ? snprintf(path, sizeof path, "%s", data)
                         : snprintf(path, sizeof path, "%s/holdfast-dev-XXXXXX",
                                    tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
    bool made = n > 0 && n < PATH_MAX &&
                (data != NULL ? mkdir(path, 0700) == 0 || errno == EEXIST : mkdtemp(path) != NULL);
    if (!made || realpath(path, dev->dir) == NULL) {
        cli_complain("%s: the folder cannot be made: %s", path, strerror(errno));
        dev->dir[0] = '\0'; /* realpath may have left a path there; that path must not be removed */
        return false;
    }
    return true;
}

static unsigned count_nodes(struct dev *dev)
{
    char name[32];
    unsigned n = 0;
    do
        (void)snprintf(name, sizeof name, "node%u", n + 1); /* the text fits */
    while (exists(dev, name) && ++n < DEV_NODES_MAX);
    return n;
}

bool dev_dir_open(struct dev *dev, const char *data, unsigned *ret_nodes)
{
    struct reason reason = {{0}};
    dev->keep = data != NULL;
    if (!make_dir(dev, data))
        return false;
    enum status st = loop_fs_new(dev->dir, &dev->fs, &reason);
    if (st == ST_OK)
        st = fs_lock(dev->fs, "lock", &dev->lock);
    if (st != ST_OK) {
        cli_complain("%s: %s", dev->dir,
                     st == ST_BUSY            ? "another holdfast dev uses this folder"
                     : reason.text[0] != '\0' ? reason.text
                                              : status_text(st));
        return false;
    }
    *ret_nodes = count_nodes(dev);
    return true;
}

static bool make_certificates(struct dev *dev)
{
    struct mesh_node_names nodes[DEV_NODES_MAX];
    char names[DEV_NODES_MAX][16];
    const char *hosts[] = {dev->host};
    struct reason reason = {{0}};
    bool common = strcmp(dev->host, "127.0.0.1") == 0 || strcmp(dev->host, "::1") == 0 ||
                  strcmp(dev->host, "0.0.0.0") == 0 || strcmp(dev->host, "::") == 0;
    if (exists(dev, "tls"))
        return true;
    for (unsigned i = 0; i < dev->n_nodes; i++) {
        (void)snprintf(names[i], sizeof names[i], "node%u", i + 1); /* the text fits */
        nodes[i] =
            (struct mesh_node_names){.name = names[i], .hosts = hosts, .n_hosts = common ? 0 : 1};
    }
    char dir[32];
    (void)snprintf(dir, sizeof dir, "tls.%ld", (long)getpid()); /* the text fits */
    struct mesh_pki pki = {.fs = dev->fs, .dir = dir, .now_s = (int64_t)time(NULL)};
    enum status st = mesh_bootstrap(&pki, nodes, dev->n_nodes, &reason);
    if (st == ST_OK)
        st = fs_rename(dev->fs, dir, "tls");
    if (st != ST_OK)
        cli_complain("certificates: %s", reason.text[0] != '\0' ? reason.text : status_text(st));
    return st == ST_OK;
}

static bool make_seal_key(struct dev *dev)
{
    uint8_t key[SEAL_BYTES];
    const char *path = path_in(dev, "seal.key");
    if (path == NULL || exists(dev, "seal.key"))
        return path != NULL;
    if (crypto_random(key, sizeof key) != ST_OK) {
        cli_complain("the system gives no random bytes");
        return false;
    }
    bool good = cli_replace(dev->cli, path, bytes_of(key, sizeof key), 0600);
    mem_wipe(key, sizeof key);
    return good;
}

/* `name`: a path below the folder. */
static void put_path(struct dev *dev, struct text_writer *w, const char *name, const char *format,
                     unsigned node)
{
    char file[64], path[PATH_MAX + 64];
    (void)snprintf(file, sizeof file, format, node); /* fits: formats below, with a small number */
    (void)snprintf(path, sizeof path, "%s/%s", dev->dir, file); /* the text fits */
    text_member_str(w, name, path);
}

/* Write "host:port" for a port of a node. */
static void put_address(struct text_writer *w, const char *name, const char *host, unsigned port)
{
    char text[300];
    bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(text, sizeof text, "%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "",
                   port); /* the text fits */
    text_member_str(w, name, text);
}

static void put_cluster(struct dev *dev, struct text_writer *w, unsigned node)
{
    text_key(w, "cluster");
    text_open_object(w);
    text_member_str(w, "name", "dev");
    put_address(w, "address", "127.0.0.1", dev->port + (node - 1) * DEV_PORTS_APART + 1);
    put_path(dev, w, "ca_file", "tls/ca.pem", node);
    put_path(dev, w, "cert_file", "tls/node%u.pem", node);
    put_path(dev, w, "key_file", "tls/node%u-key.pem", node);
    text_key(w, "member");
    text_open_object(w);
    for (unsigned i = 0; i < dev->n_nodes; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "node%u", i + 1); /* the text fits */
        text_key(w, name);
        text_open_object(w);
        put_address(w, "address", "127.0.0.1", dev->port + i * DEV_PORTS_APART + 1);
        text_close(w);
    }
    text_close(w);
    text_close(w);
}

/* One directory for all nodes: a device of the state has the same path on each node. */
static void put_audit(struct dev *dev, struct text_writer *w)
{
    char path[PATH_MAX + 64];
    ASSERT(dev->dir[0] == '/');
    (void)snprintf(path, sizeof path, "%s/audit", dev->dir); /* the text fits */
    text_key(w, "audit");
    text_open_object(w);
    text_key(w, "directories");
    text_open_list(w);
    text_put_str(w, path);
    text_close(w);
    text_close(w);
}

/* Write the configuration as JSON, which can contain any path. */
static void write_config(struct dev *dev, struct text_writer *w, unsigned node)
{
    char name[16];
    (void)snprintf(name, sizeof name, "node%u", node); /* the text fits */
    text_open_object(w);
    text_member_str(w, "node_name", name);
    put_path(dev, w, "data_dir", "node%u/data", node);
    char *url = dev_url(dev, node - 1);
    if (url != NULL)
        text_member_str(w, "api_addr", url);
    put_cluster(dev, w, node);
    put_audit(dev, w);
    text_key(w, "listener");
    text_open_object(w);
    text_key(w, "tcp");
    text_open_object(w);
    put_address(w, "address", dev->host, dev->port + (node - 1) * DEV_PORTS_APART);
    put_path(dev, w, "tls_cert_file", "tls/tls-node%u.pem", node);
    put_path(dev, w, "tls_key_file", "tls/tls-node%u-key.pem", node);
    text_close(w);
    text_close(w);
    text_key(w, "seal");
    text_open_object(w);
    text_key(w, "static");
    text_open_object(w);
    put_path(dev, w, "key_file", "seal.key", node);
    text_member_str(w, "key_id", "dev");
    text_close(w);
    text_close(w);
    text_close(w);
}

static bool make_node(struct dev *dev, unsigned node)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text};
    char name[32];
    (void)snprintf(name, sizeof name, "node%u", node); /* the text fits */
    enum status st = fs_mkdir(dev->fs, name);
    if (st == ST_OK)
        st = fs_mkdir(dev->fs, "audit");
    write_config(dev, &w, node);
    if (st == ST_OK)
        st = buf_status(&text);
    if (st != ST_OK) {
        cli_complain("%s/%s: %s", dev->dir, name, status_text(st));
        return false;
    }
    (void)snprintf(name, sizeof name, "node%u/holdfast.json", node); /* the text fits */
    const char *path = path_in(dev, name);
    return path != NULL && cli_replace(dev->cli, path, buf_bytes(&text), 0600);
}

bool dev_dir_fill(struct dev *dev)
{
    if (!make_certificates(dev) || !make_seal_key(dev))
        return false;
    for (unsigned i = 0; i < dev->n_nodes; i++)
        if (!make_node(dev, i + 1))
            return false;
    dev->ca_file = path_in(dev, "tls/tls-ca.pem");
    return dev->ca_file != NULL;
}

bool dev_dir_keep_init(struct dev *dev, struct bytes reply)
{
    const char *path = path_in(dev, "init.json");
    return path != NULL && cli_replace(dev->cli, path, reply, 0600);
}

const char *dev_dir_token(struct dev *dev)
{
    const struct text_value *v = NULL;
    struct bytes text;
    const char *path = path_in(dev, "init.json");
    if (path == NULL || !exists(dev, "init.json") || !cli_slurp(dev->cli, path, path, &text) ||
        text_json_parse(&dev->cli->arena, text, &v, NULL) != ST_OK)
        return NULL;
    const struct text_value *token = text_get(v, "root_token");
    return token != NULL && token->kind == TEXT_STRING ? arena_str(&dev->cli->arena, token->text)
                                                       : NULL;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

void dev_dir_close(struct dev *dev)
{
    fs_close(dev->lock);
    loop_fs_free(dev->fs);
    if (!dev->keep && dev->dir[0] != '\0' &&
        nftw(dev->dir, remove_one, REMOVE_DEPTH, FTW_DEPTH | FTW_PHYS) != 0)
        cli_complain("%s cannot be removed: %s", dev->dir, strerror(errno));
}
