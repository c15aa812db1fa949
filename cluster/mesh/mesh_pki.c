#include "cluster/mesh/mesh_pki.h"
#include "base/buf.h"
#include "base/fs.h"
#include "crypto/cert.h"
#include "crypto/crypto.h"

#include <arpa/inet.h>
#include <stdio.h>

enum {
    PATH_MAX_BYTES = 1024,
    HOSTS_MAX = 16,
    NODES_MAX = 64,
    PEM_FILE_MAX = 64 * 1024,
    DAY_S = 86400,
    CA_DAYS = 3650,
    NODE_DAYS = 1825,
    BACKDATE_DAYS = MESH_BACKDATE_DAYS,
};

/* One of the two authorities of the cluster. */
struct authority {
    const char *file; /* name of its files without ".pem" */
    const char *prefix;
    bool for_clients;
};

static const struct authority authorities[] = {{"ca", "", false}, {"tls-ca", "tls-", true}};

static enum status write_file(struct fs *fs, const char *path, struct bytes data)
{
    struct fs_file *file = NULL;
    TRY(fs_open(fs, path, FS_WRITE | FS_CREATE | FS_EXCL, &file));
    enum status st = fs_write_at(file, &data, 1, 0);
    if (st == ST_OK)
        st = fs_sync(file);
    fs_close(file);
    if (st != ST_OK)
        st = fs_unlink(fs, path) == ST_OK ? st : ST_IO;
    return st;
}

static enum status read_file(struct fs *fs, const char *path, struct buf *out)
{
    struct fs_file *file = NULL;
    size_t n = 0;
    TRY(fs_open(fs, path, FS_READ, &file));
    uint8_t *at = buf_extend(out, PEM_FILE_MAX);
    enum status st = at != NULL ? fs_read_at(file, at, PEM_FILE_MAX, 0, &n) : ST_NOMEM;
    if (st == ST_OK && n == PEM_FILE_MAX)
        st = ST_TOO_BIG;
    out->len = st == ST_OK ? n : 0;
    fs_close(file);
    return st;
}

static enum status path_of(const char *dir, const char *prefix, const char *name, const char *end,
                           char ret_path[PATH_MAX_BYTES])
{
    int n = snprintf(ret_path, PATH_MAX_BYTES, "%s%s%s%s%s", dir, dir[0] != '\0' ? "/" : "", prefix,
                     name, end);
    ASSERT(n > 0);
    return n < PATH_MAX_BYTES ? ST_OK : ST_TOO_BIG;
}

/* The key is written first, so that no certificate exists without its key. */
static const char *const pair_ends[] = {"-key.pem", ".pem"};

/* Remove the first `n` files of a pair that was just made, so that the pair can be made again. */
static void drop_pair(const struct mesh_pki *pki, const char *prefix, const char *name, size_t n)
{
    while (n-- > 0) {
        char path[PATH_MAX_BYTES];
        enum status st = path_of(pki->dir, prefix, name, pair_ends[n], path);
        if (st == ST_OK)
            st = fs_unlink(pki->fs, path);
        (void)st; /* the caller reports the first failure */
    }
}

static enum status store_pair(const struct mesh_pki *pki, const char *prefix, const char *name,
                              const struct cert_pair *pair, struct reason *reason)
{
    const struct buf *texts[] = {&pair->key, &pair->cert};
    for (size_t i = 0; i < ARRAY_LEN(pair_ends); i++) {
        char path[PATH_MAX_BYTES];
        TRY(path_of(pki->dir, prefix, name, pair_ends[i], path));
        enum status st = write_file(pki->fs, path, buf_bytes(texts[i]));
        if (st != ST_OK) {
            drop_pair(pki, prefix, name, i);
            reason_set(reason, "%s: %s", path, status_text(st));
            return st;
        }
    }
    return ST_OK;
}

static enum status load_pair(const struct mesh_pki *pki, const char *name, struct cert_pair *pair,
                             struct reason *reason)
{
    struct buf *texts[] = {&pair->key, &pair->cert};
    for (size_t i = 0; i < ARRAY_LEN(pair_ends); i++) {
        char path[PATH_MAX_BYTES];
        TRY(path_of(pki->dir, "", name, pair_ends[i], path));
        enum status st = read_file(pki->fs, path, texts[i]);
        if (st != ST_OK) {
            reason_set(reason, "%s: %s", path, status_text(st));
            return st;
        }
    }
    return ST_OK;
}

static enum status make_ca(const struct authority *a, const uint8_t cluster[MESH_CLUSTER_ID_BYTES],
                           int64_t now_s, struct cert_pair *ret_pair, struct reason *reason)
{
    char uri[MESH_CLUSTER_URI_MAX], id[MESH_CLUSTER_ID_TEXT], name[MESH_NAME_MAX];
    ASSERT(now_s >= 0);
    mesh_cluster_uri(cluster, uri);
    mesh_cluster_text(cluster, id);
    int n =
        snprintf(name, sizeof name, "holdfast %s %.8s", a->for_clients ? "clients" : "cluster", id);
    ASSERT(n > 0 && (size_t)n < sizeof name);
    const struct cert_san san = {CERT_SAN_URI, uri};
    const struct cert_request request = {
        .common_name = name,
        .sans = &san,
        .n_sans = 1,
        .not_before_s = now_s - (int64_t)BACKDATE_DAYS * DAY_S,
        .not_after_s = now_s + (int64_t)CA_DAYS * DAY_S,
        .ca = true,
    };
    return cert_make(&request, NULL, ret_pair, reason);
}

static enum cert_san_kind host_kind(const char *host)
{
    uint8_t raw[sizeof(struct in6_addr)];
    bool address = inet_pton(AF_INET, host, raw) == 1 || inet_pton(AF_INET6, host, raw) == 1;
    return address ? CERT_SAN_IP : CERT_SAN_DNS;
}

static unsigned node_sans(const struct authority *a, const struct mesh_node_names *node,
                          const char *uri, struct cert_san sans[HOSTS_MAX + 4])
{
    unsigned n = 0;
    ASSERT(node->n_hosts <= HOSTS_MAX);
    if (!a->for_clients) {
        sans[n++] = (struct cert_san){CERT_SAN_URI, uri};
        return n;
    }
    sans[n++] = (struct cert_san){CERT_SAN_DNS, "localhost"};
    sans[n++] = (struct cert_san){CERT_SAN_IP, "127.0.0.1"};
    sans[n++] = (struct cert_san){CERT_SAN_IP, "::1"};
    sans[n++] = (struct cert_san){CERT_SAN_DNS, node->name};
    for (unsigned i = 0; i < node->n_hosts; i++)
        sans[n++] = (struct cert_san){host_kind(node->hosts[i]), node->hosts[i]};
    ASSERT(n <= HOSTS_MAX + 4);
    return n;
}

/* The URI of a node; the certificate of the CA names the cluster. */
static enum status node_uri(const struct cert_pair *ca, const char *name, char uri[MESH_URI_MAX],
                            struct reason *reason)
{
    char ca_uri[CERT_URI_MAX];
    struct mesh_identity identity;
    int n = 0;
    enum status st = cert_uri(buf_bytes(&ca->cert), ca_uri);
    if (st == ST_OK)
        n = snprintf(uri, MESH_URI_MAX, "%s/node/%s", ca_uri, name);
    if (st == ST_OK && n < MESH_URI_MAX && mesh_uri_parse(uri, &identity) == ST_OK)
        return ST_OK;
    reason_set(reason, "the CA is not one of a cluster");
    return ST_INVALID;
}

/* The authority that signs, and the directory of the files. */
struct signer {
    const struct mesh_pki *pki;
    const struct authority *authority;
    struct cert_pair ca;
};

static enum status issue(const struct signer *s, const struct mesh_node_names *node,
                         struct reason *reason)
{
    char uri[MESH_URI_MAX];
    struct cert_san sans[HOSTS_MAX + 4];
    ASSERT(mesh_name_valid(node->name));
    CLEANUP(cert_pair_done) struct cert_pair pair = {0};
    TRY(node_uri(&s->ca, node->name, uri, reason));
    const struct cert_request request = {
        .common_name = node->name,
        .sans = sans,
        .n_sans = node_sans(s->authority, node, uri, sans),
        .not_before_s = s->pki->now_s - (int64_t)BACKDATE_DAYS * DAY_S,
        .not_after_s = s->pki->now_s + (int64_t)NODE_DAYS * DAY_S,
        .server = true,
        .client = !s->authority->for_clients,
    };
    TRY(cert_make(&request, &s->ca, &pair, reason));
    return store_pair(s->pki, s->authority->prefix, node->name, &pair, reason);
}

enum status mesh_authority_check(const struct cert_pair *ca,
                                 const uint8_t cluster[MESH_CLUSTER_ID_BYTES],
                                 struct reason *reason)
{
    char uri[CERT_URI_MAX], wanted[MESH_CLUSTER_URI_MAX];
    TRY(cert_check_ca(ca, reason));
    mesh_cluster_uri(cluster, wanted);
    if (cert_uri(buf_bytes(&ca->cert), uri) == ST_OK && strcmp(uri, wanted) == 0)
        return ST_OK;
    reason_set(reason, "this is not the authority of this cluster");
    return ST_INVALID;
}

enum status mesh_certify(const struct cert_pair *ca, const char *name, struct bytes public_pem,
                         int64_t now_s, struct buf *ret_cert, struct reason *reason)
{
    char uri[MESH_URI_MAX];
    ASSERT(mesh_name_valid(name));
    ASSERT(now_s >= 0);
    TRY(node_uri(ca, name, uri, reason));
    const struct cert_san san = {CERT_SAN_URI, uri};
    const struct cert_request request = {
        .common_name = name,
        .sans = &san,
        .n_sans = 1,
        .not_before_s = now_s - (int64_t)BACKDATE_DAYS * DAY_S,
        .not_after_s = now_s + (int64_t)MESH_CERT_DAYS * DAY_S,
        .server = true,
        .client = true,
    };
    return cert_sign(&request, ca, public_pem, ret_cert, reason);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Refuse names that would give two files the same name. */
static enum status check_node(const struct mesh_node_names *node, struct reason *reason)
{
    const char *wrong = NULL;
    if (!mesh_name_valid(node->name))
        wrong = "1 to 63 letters, digits, '.', '_' or '-', beginning with a letter or digit";
    else if (strcmp(node->name, "ca") == 0 || strncmp(node->name, "tls-", 4) == 0 ||
             ends_with(node->name, "-key"))
        wrong = "\"ca\", names beginning with \"tls-\" and names ending in \"-key\" are taken";
    else if (node->n_hosts > HOSTS_MAX)
        wrong = "too many hosts";
    if (wrong == NULL)
        return ST_OK;
    reason_set(reason, "node name \"%.64s\": %s", node->name, wrong);
    return ST_INVALID;
}

static enum status check_nodes(const struct mesh_node_names *nodes, unsigned n_nodes,
                               struct reason *reason)
{
    if (n_nodes == 0 || n_nodes > NODES_MAX) {
        reason_set(reason, "name 1 to %d nodes", NODES_MAX);
        return ST_INVALID;
    }
    for (unsigned i = 0; i < n_nodes; i++) {
        TRY(check_node(&nodes[i], reason));
        for (unsigned j = 0; j < i; j++) {
            if (strcasecmp(nodes[i].name, nodes[j].name) != 0)
                continue;
            reason_set(reason, "node \"%s\" is named twice", nodes[i].name);
            return ST_INVALID;
        }
    }
    return ST_OK;
}

static enum status sync_dir(const struct mesh_pki *pki, struct reason *reason)
{
    enum status st = fs_sync_dir(pki->fs, pki->dir);
    if (st != ST_OK)
        reason_set(reason, "directory \"%s\": %s", pki->dir, status_text(st));
    return st;
}

static enum status make_dir(const struct mesh_pki *pki, struct reason *reason)
{
    enum status st = pki->dir[0] != '\0' ? fs_mkdir(pki->fs, pki->dir) : ST_OK;
    if (st != ST_OK)
        reason_set(reason, "directory \"%s\": %s", pki->dir, status_text(st));
    return st;
}

static void signer_done(struct signer *s)
{
    cert_pair_done(&s->ca);
}

enum status mesh_bootstrap(const struct mesh_pki *pki, const struct mesh_node_names *nodes,
                           unsigned n_nodes, struct reason *reason)
{
    uint8_t cluster[MESH_CLUSTER_ID_BYTES];
    ASSERT(pki->fs != NULL && pki->dir != NULL);
    TRY(check_nodes(nodes, n_nodes, reason));
    TRY(crypto_random(cluster, sizeof cluster));
    TRY(make_dir(pki, reason));
    /* ca.pem is written last: if it exists, all files exist. */
    for (size_t i = ARRAY_LEN(authorities); i-- > 0;) {
        CLEANUP(signer_done) struct signer s = {.pki = pki, .authority = &authorities[i]};
        TRY(make_ca(s.authority, cluster, pki->now_s, &s.ca, reason));
        for (unsigned j = 0; j < n_nodes; j++)
            TRY(issue(&s, &nodes[j], reason));
        TRY(store_pair(pki, "", s.authority->file, &s.ca, reason));
    }
    return sync_dir(pki, reason);
}

enum status mesh_bootstrap_node(const struct mesh_pki *pki, const struct mesh_node_names *node,
                                struct reason *reason)
{
    ASSERT(pki->fs != NULL && pki->dir != NULL);
    TRY(check_node(node, reason));
    for (size_t i = 0; i < ARRAY_LEN(authorities); i++) {
        CLEANUP(signer_done) struct signer s = {.pki = pki, .authority = &authorities[i]};
        enum status st = load_pair(pki, s.authority->file, &s.ca, reason);
        if (st == ST_OK)
            st = issue(&s, node, reason);
        if (st == ST_OK)
            continue;
        while (i-- > 0) /* write all four files or none: remove those already written */
            drop_pair(pki, authorities[i].prefix, node->name, ARRAY_LEN(pair_ends));
        return st;
    }
    return sync_dir(pki, reason);
}
