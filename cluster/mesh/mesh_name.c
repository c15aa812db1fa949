#include "base/buf.h"
#include "cluster/mesh/mesh_pki.h"
#include "crypto/cert.h"
#include "crypto/tls.h"

#include <ctype.h>
#include <stdio.h>

static const char SCHEME[] = "holdfast://";
static const char NODE[] = "/node/";

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool mesh_name_valid(const char *name)
{
    size_t n = 0;
    for (; name[n] != '\0'; n++) {
        bool inner = name[n] == '.' || name[n] == '_' || name[n] == '-';
        if (n + 1 >= MESH_NAME_MAX || !(name_char(name[n]) || (n > 0 && inner)))
            return false;
    }
    return n != 0;
}

void mesh_cluster_text(const uint8_t cluster[MESH_CLUSTER_ID_BYTES],
                       char ret_text[MESH_CLUSTER_ID_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < MESH_CLUSTER_ID_BYTES; i++) {
        ret_text[2 * i] = digits[cluster[i] >> 4];
        ret_text[2 * i + 1] = digits[cluster[i] & 15];
    }
    ret_text[MESH_CLUSTER_ID_TEXT - 1] = '\0';
}

void mesh_cluster_uri(const uint8_t cluster[MESH_CLUSTER_ID_BYTES],
                      char ret_uri[MESH_CLUSTER_URI_MAX])
{
    char id[MESH_CLUSTER_ID_TEXT];
    mesh_cluster_text(cluster, id);
    int n = snprintf(ret_uri, MESH_CLUSTER_URI_MAX, "%s%s", SCHEME, id);
    ASSERT(n > 0 && n < MESH_CLUSTER_URI_MAX);
}

void mesh_uri(const struct mesh_identity *identity, char ret_uri[MESH_URI_MAX])
{
    char cluster[MESH_CLUSTER_URI_MAX];
    mesh_cluster_uri(identity->cluster, cluster);
    int n = snprintf(ret_uri, MESH_URI_MAX, "%s%s%s", cluster, NODE, identity->name);
    ASSERT(n > 0 && n < MESH_URI_MAX);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *mesh_id_parse(const char *text, uint8_t ret_id[MESH_CLUSTER_ID_BYTES])
{
    for (size_t i = 0; i < MESH_CLUSTER_ID_BYTES; i++, text += 2) {
        int high = hex_digit(text[0]);
        int low = high >= 0 ? hex_digit(text[1]) : -1;
        if (low < 0)
            return NULL;
        ret_id[i] = (uint8_t)(high << 4 | low);
    }
    return text;
}

const char *mesh_cluster_parse(const char *uri, uint8_t ret_cluster[MESH_CLUSTER_ID_BYTES])
{
    if (strncmp(uri, SCHEME, sizeof SCHEME - 1) != 0)
        return NULL;
    return mesh_id_parse(uri + sizeof SCHEME - 1, ret_cluster);
}

enum status mesh_uri_parse(const char *uri, struct mesh_identity *ret_identity)
{
    struct mesh_identity identity = {0};
    const char *rest = mesh_cluster_parse(uri, identity.cluster);
    if (rest == NULL || strncmp(rest, NODE, sizeof NODE - 1) != 0)
        return ST_INVALID;
    rest += sizeof NODE - 1;
    if (!mesh_name_valid(rest))
        return ST_INVALID;
    memcpy(identity.name, rest, strlen(rest));
    *ret_identity = identity;
    return ST_OK;
}

enum status mesh_identity_read(const char *path, struct mesh_identity *ret_identity,
                               struct reason *reason)
{
    CLEANUP(buf_done) struct buf pem = {0};
    char uri[CERT_URI_MAX];
    TRY(tls_pem_read(path, &pem, reason));
    if (cert_uri(buf_bytes(&pem), uri) == ST_OK && mesh_uri_parse(uri, ret_identity) == ST_OK)
        return ST_OK;
    reason_set(reason, "%s: not the certificate of a node of a cluster", path);
    return ST_INVALID;
}
