#include "cluster/dr/link/dr_name.h"

#include <assert.h>
#include <stdio.h>

static const char DR[] = "/dr/";

/* scheme, cluster, "/dr/", set, '/', epoch, '/', id with its zero */
static_assert(sizeof "holdfast://" - 1 + 2 * MESH_CLUSTER_ID_BYTES + sizeof DR - 1 +
                      2 * DR_SET_BYTES + 1 + sizeof "18446744073709551615" + DR_ID_MAX <=
                  DR_URI_MAX,
              "the longest name fits");

bool dr_name_id_valid(const char *id)
{
    size_t n = 0;
    for (; id[n] != '\0'; n++) {
        char c = id[n];
        bool inner = c == '.' || c == '_' || c == '-';
        bool first = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (n + 1 >= DR_ID_MAX || !(first || (n > 0 && inner)))
            return false;
    }
    return n != 0;
}

void dr_name_authority_uri(const struct dr_name *name, char ret_uri[DR_URI_MAX])
{
    char cluster[MESH_CLUSTER_URI_MAX], set[MESH_CLUSTER_ID_TEXT];
    static_assert((int)DR_SET_BYTES == (int)MESH_CLUSTER_ID_BYTES, "one form of text for both");
    mesh_cluster_uri(name->cluster, cluster);
    mesh_cluster_text(name->set, set);
    int n = snprintf(ret_uri, DR_URI_MAX, "%s%s%s", cluster, DR, set);
    ASSERT(n > 0 && n < DR_URI_MAX);
}

void dr_name_uri(const struct dr_name *name, char ret_uri[DR_URI_MAX])
{
    char authority[DR_URI_MAX];
    ASSERT(dr_name_id_valid(name->id));
    ASSERT(name->epoch != 0);
    dr_name_authority_uri(name, authority);
    int n = snprintf(ret_uri, DR_URI_MAX, "%s/%llu/%s", authority, (unsigned long long)name->epoch,
                     name->id);
    ASSERT(n > 0 && n < DR_URI_MAX);
}

/* Read a decimal number of 1 and more that a '/' follows. Returns the rest of the text, or NULL. */
static const char *parse_epoch(const char *at, uint64_t *ret_epoch)
{
    uint64_t epoch = 0;
    if (*at < '1' || *at > '9')
        return NULL;
    for (; *at >= '0' && *at <= '9'; at++) {
        unsigned digit = (unsigned)(*at - '0');
        if (epoch > (UINT64_MAX - digit) / 10)
            return NULL;
        epoch = epoch * 10 + digit;
    }
    *ret_epoch = epoch;
    return *at == '/' ? at + 1 : NULL;
}

enum status dr_name_parse(const char *uri, struct dr_name *ret_name)
{
    struct dr_name name = {0};
    const char *at = mesh_cluster_parse(uri, name.cluster);
    if (at == NULL || strncmp(at, DR, sizeof DR - 1) != 0)
        return ST_INVALID;
    at = mesh_id_parse(at + sizeof DR - 1, name.set);
    if (at == NULL || *at != '/')
        return ST_INVALID;
    at = parse_epoch(at + 1, &name.epoch);
    if (at == NULL || !dr_name_id_valid(at))
        return ST_INVALID;
    memcpy(name.id, at, strlen(at));
    *ret_name = name;
    return ST_OK;
}
