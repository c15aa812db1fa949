#include "cluster/dr/bundle.h"

#include "base/mem.h"
#include "text/bounded_json.h"
#include "text/encode.h"
#include "text/json.h"

#include <assert.h>

enum { PREFIX_LEN = sizeof DR_BUNDLE_PREFIX - 1 };

static const struct bytes context = {(const uint8_t *)"holdfast dr bundle 1", 20};

void dr_bundle_done(struct dr_bundle *bundle)
{
    buf_done(&bundle->ca);
    mem_wipe(bundle, sizeof *bundle);
}

/* Writing */

static void put(const struct dr_bundle *b, unsigned n_addresses, struct buf *out)
{
    char set[MESH_CLUSTER_ID_TEXT], cluster[MESH_CLUSTER_ID_TEXT];
    struct text_writer w = {.out = out, .plain = true};
    static_assert((int)DR_SET_BYTES == (int)MESH_CLUSTER_ID_BYTES, "both have the same text form");
    ASSERT(dr_name_id_valid(b->name.id) && b->name.epoch > 0);
    ASSERT(n_addresses <= b->addresses.n);
    mesh_cluster_text(b->name.set, set);
    mesh_cluster_text(b->name.cluster, cluster);
    text_open_object(&w);
    text_member_str(&w, "id", b->name.id);
    text_member_str(&w, "set", set);
    text_key(&w, "epoch");
    text_put_uint(&w, b->name.epoch);
    text_member_str(&w, "cluster_id", cluster);
    text_member_str(&w, "primary_cluster_addr", n_addresses != 0 ? b->addresses.at[0] : "");
    text_key(&w, "known_primary_cluster_addrs");
    text_open_list(&w);
    for (unsigned i = 0; i < n_addresses; i++)
        text_put_str(&w, b->addresses.at[i]);
    text_close(&w);
    text_key(&w, "ca");
    text_put_bytes(&w, buf_bytes(&b->ca));
    text_member_str(&w, "secret", b->secret);
    text_close(&w);
}

enum status dr_bundle_put(const struct dr_bundle *bundle, struct buf *out)
{
    size_t before = out->len;
    for (unsigned n = bundle->addresses.n;; n--) {
        put(bundle, n, out);
        TRY(buf_status(out));
        if (out->len - before <= DR_BUNDLE_BYTES_MAX)
            return ST_OK;
        mem_wipe(out->data + before, out->len - before);
        out->len = before;
        if (n <= 1)
            return ST_TOO_BIG;
    }
}

enum status dr_bundle_seal(const struct dr_bundle *bundle, const uint8_t receiver[BOX_PUBLIC_BYTES],
                           struct buf *out)
{
    CLEANUP(buf_done) struct buf object = {0};
    CLEANUP(buf_done) struct buf box = {0};
    TRY(dr_bundle_put(bundle, &object));
    TRY(box_seal(receiver, context, buf_bytes(&object), &box));
    buf_add_str(out, DR_BUNDLE_PREFIX);
    char *to = (char *)buf_extend(out, TEXT_BASE64_LEN(box.len) + 1);
    if (to == NULL)
        return ST_NOMEM;
    size_t n = text_base64_put(buf_bytes(&box), TEXT_BASE64_URL, to);
    out->len -= TEXT_BASE64_LEN(box.len) + 1 - n;
    return buf_status(out);
}

/* Reading */

static enum status refuse(struct reason *reason, const char *what)
{
    reason_set(reason, "the activation data is malformed: %s", what);
    return ST_INVALID;
}

/* A member that is a text without a zero character; NULL: it is none. */
static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* Reads 16 bytes from 32 hexadecimal digits. */
static bool read_id(const json_t *object, const char *name, uint8_t ret[MESH_CLUSTER_ID_BYTES])
{
    const char *text = text_of(object, name);
    const char *end = text != NULL ? mesh_id_parse(text, ret) : NULL;
    return end != NULL && *end == '\0';
}

static bool read_addresses(const json_t *object, struct dr_addresses *ret)
{
    const json_t *list = json_object_get(object, "known_primary_cluster_addrs");
    const char *first = text_of(object, "primary_cluster_addr");
    if (first != NULL && first[0] != '\0' && dr_addresses_add(ret, bytes_str(first)) != ST_OK)
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *next = json_string_value(json_array_get(list, i));
        if (next == NULL ||
            (!dr_addresses_has(ret, next) && dr_addresses_add(ret, bytes_str(next)) != ST_OK))
            return false;
    }
    return ret->n > 0;
}

static enum status bundle_members(const json_t *object, struct dr_bundle *b, struct reason *reason)
{
    const char *id = text_of(object, "id"), *ca = text_of(object, "ca");
    const char *secret = text_of(object, "secret");
    const json_t *epoch = json_object_get(object, "epoch");
    if (id == NULL || strlen(id) >= sizeof b->name.id || !dr_name_id_valid(id))
        return refuse(reason, "id");
    if (!read_id(object, "set", b->name.set))
        return refuse(reason, "set");
    if (!read_id(object, "cluster_id", b->name.cluster))
        return refuse(reason, "cluster_id");
    if (!json_is_integer(epoch) || json_integer_value(epoch) < 1)
        return refuse(reason, "epoch");
    if (!read_addresses(object, &b->addresses))
        return refuse(reason, "primary_cluster_addr, known_primary_cluster_addrs");
    if (ca == NULL || ca[0] == '\0')
        return refuse(reason, "ca");
    if (secret == NULL || strlen(secret) != DR_SECRET_LEN)
        return refuse(reason, "secret");
    memcpy(b->name.id, id, strlen(id) + 1);
    memcpy(b->secret, secret, DR_SECRET_LEN + 1);
    b->name.epoch = (uint64_t)json_integer_value(epoch);
    buf_add_str(&b->ca, ca);
    return buf_status(&b->ca);
}

enum status dr_bundle_read(struct bytes object, struct dr_bundle *ret_bundle, struct reason *reason)
{
    CLEANUP(bounded_json_done) json_t *parsed = NULL;
    *ret_bundle = (struct dr_bundle){0};
    if (object.len > DR_BUNDLE_BYTES_MAX)
        return refuse(reason, "too long");
    enum status st = bounded_json_parse(object, &parsed);
    if (st == ST_NOMEM)
        return st;
    return st == ST_OK ? bundle_members(parsed, ret_bundle, reason)
                       : refuse(reason, "an object of JSON is expected");
}

bool dr_bundle_is_sealed(struct bytes token)
{
    return bytes_has_prefix(token, BYTES(DR_BUNDLE_PREFIX));
}

enum status dr_bundle_open(const struct box_key *key, struct bytes token,
                           struct dr_bundle *ret_bundle, struct reason *reason)
{
    CLEANUP(secret_done) struct secret object = {0};
    uint8_t box[TEXT_BASE64_BYTES(DR_BUNDLE_TEXT_MAX)];
    size_t n = 0;
    ASSERT(dr_bundle_is_sealed(token));
    *ret_bundle = (struct dr_bundle){0};
    if (token.len > DR_BUNDLE_TEXT_MAX ||
        text_base64_url_parse(bytes_from(token, PREFIX_LEN), box, &n) != ST_OK)
        return refuse(reason, "base64url is expected");
    enum status st = box_open(key, context, bytes_of(box, n), &object);
    if (st == ST_CORRUPT) {
        reason_set(reason, "the token was sealed for another public key than the newest one of "
                           "secondary/generate-public-key on this cluster, or it is damaged");
        return ST_INVALID;
    }
    TRY(st);
    return dr_bundle_read(secret_bytes(&object), ret_bundle, reason);
}
