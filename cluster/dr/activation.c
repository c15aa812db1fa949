#include "cluster/dr/activation.h"

#include "cluster/dr/link/dr_cert.h"
#include "cluster/dr/records.h"
#include "text/bounded_json.h"
#include "text/encode.h"
#include "text/json.h"

#include <inttypes.h>

#define CONTEXT "holdfast dr activation 1"

/* Free space beyond twice the state: log segments and the local state. */
enum { SPARE_BYTES = 64 * 1024 * 1024 };

void dr_activation_context(const struct dr_name *name, struct bytes public_pem, struct buf *out)
{
    buf_add_block(out, BYTES(CONTEXT));
    buf_add(out, bytes_of(name->cluster, sizeof name->cluster));
    buf_add(out, bytes_of(name->set, sizeof name->set));
    buf_add_block(out, bytes_str(name->id));
    buf_add_block(out, public_pem);
}

enum status dr_activation_ask(const struct dr_pending *p, const struct dr_own *own, struct buf *out)
{
    char box[TEXT_BASE64_LEN(BOX_PUBLIC_BYTES) + 1];
    struct text_writer w = {.out = out, .plain = true};
    ASSERT(p->public_pem.len != 0 && own->feature != 0);
    (void)text_base64_put(bytes_of(p->box.public_key, BOX_PUBLIC_BYTES), TEXT_BASE64, box);
    text_open_object(&w);
    text_member_str(&w, "id", p->bundle.name.id);
    text_member_str(&w, "secret", p->bundle.secret);
    text_key(&w, "public_key");
    text_put_bytes(&w, buf_bytes(&p->public_pem));
    text_member_str(&w, "box_key", box);
    text_key(&w, "version");
    text_put_uint(&w, own->version);
    text_key(&w, "feature");
    text_put_uint(&w, own->feature);
    text_key(&w, "protocol");
    text_put_uint(&w, DR_PROTOCOL);
    text_close(&w);
    return buf_status(out);
}

void dr_answer_done(struct dr_answer *answer)
{
    buf_done(&answer->cert);
    secret_done(&answer->root);
    *answer = (struct dr_answer){0};
}

static enum status refuse(struct reason *reason, const char *what)
{
    reason_set(reason, "the primary's answer is malformed: %s", what);
    return ST_INVALID;
}

static bool read_uint(const json_t *object, const char *name, uint64_t *ret)
{
    const json_t *found = json_object_get(object, name);
    if (!json_is_integer(found) || json_integer_value(found) < 0)
        return false;
    *ret = (uint64_t)json_integer_value(found);
    return true;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

static bool read_id(const json_t *object, const char *name, uint8_t ret[MESH_CLUSTER_ID_BYTES])
{
    const char *end = mesh_id_parse(text_of(object, name), ret);
    return end != NULL && *end == '\0';
}

static bool reply_addresses(const json_t *list, struct dr_addresses *ret)
{
    if (!json_is_array(list) || json_array_size(list) == 0)
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *next = json_string_value(json_array_get(list, i));
        if (next == NULL || dr_addresses_add(ret, bytes_str(next)) != ST_OK)
            return false;
    }
    return true;
}

/* The names of seals are those of the configuration and of the seal's status. */
static bool read_seal(const json_t *object, struct dr_answer *ret)
{
    const char *seal = text_of(object, "seal");
    const json_t *recovery = json_object_get(object, "recovery");
    ret->seal = strcmp(seal, "static") == 0 ? SEAL_STATIC : SEAL_SHAMIR;
    ret->recovery = json_is_true(recovery);
    return json_is_boolean(recovery) && (ret->seal == SEAL_STATIC || strcmp(seal, "shamir") == 0);
}

static enum status open_root(const struct dr_pending *p, const char *text, struct dr_answer *ret,
                             struct reason *reason)
{
    CLEANUP(buf_done) struct buf context = {0};
    uint8_t box[TEXT_BASE64_BYTES(TEXT_BASE64_LEN(BOX_OVERHEAD + DR_ROOT_BYTES_MAX))];
    size_t n = 0;
    if (strlen(text) > TEXT_BASE64_LEN(BOX_OVERHEAD + DR_ROOT_BYTES_MAX) ||
        text_base64_parse(bytes_str(text), box, &n) != ST_OK)
        return refuse(reason, "root_key");
    dr_activation_context(&p->bundle.name, buf_bytes(&p->public_pem), &context);
    TRY(buf_status(&context));
    enum status st = box_open(&p->box, buf_bytes(&context), bytes_of(box, n), &ret->root);
    if (st == ST_CORRUPT || (st == ST_OK && ret->root.len != SEAL_KEY_BYTES)) {
        reason_set(reason, "the root key in the primary's answer cannot be opened");
        return ST_INVALID;
    }
    return st;
}

static enum status reply_members(const struct dr_pending *p, const json_t *object,
                                 struct dr_answer *a, struct reason *reason)
{
    if (!read_uint(object, "version", &a->version) || !read_uint(object, "keys", &a->keys) ||
        !read_uint(object, "bytes", &a->bytes) || !read_uint(object, "feature", &a->feature) ||
        !read_uint(object, "protocol", &a->protocol) ||
        !read_uint(object, "epoch", &a->name.epoch) || a->protocol < 1)
        return refuse(reason, "a number is missing");
    if (!read_id(object, "set", a->name.set) || !read_id(object, "cluster_id", a->name.cluster))
        return refuse(reason, "set, cluster_id");
    if (!reply_addresses(json_object_get(object, "addresses"), &a->addresses))
        return refuse(reason, "addresses");
    if (!read_seal(object, a))
        return refuse(reason, "seal, recovery");
    buf_add_str(&a->cert, text_of(object, "certificate"));
    TRY(buf_status(&a->cert));
    return open_root(p, text_of(object, "root_key"), a, reason);
}

enum status dr_answer_read(const struct dr_pending *pending, struct bytes text,
                           struct dr_answer *ret_answer, struct reason *reason)
{
    CLEANUP(bounded_json_done) json_t *object = NULL;
    *ret_answer = (struct dr_answer){0};
    enum status st = bounded_json_parse(text, &object);
    if (st == ST_NOMEM)
        return st;
    return st == ST_OK ? reply_members(pending, object, ret_answer, reason)
                       : refuse(reason, "an object of JSON is expected");
}

static enum status check_certificate_names(const struct dr_pending *p, const struct dr_answer *a,
                                           struct reason *reason)
{
    const struct dr_name *wanted = &p->bundle.name;
    const struct dr_cert_own own = {
        .ca = buf_bytes(&p->bundle.ca), .cert = buf_bytes(&a->cert), .key = buf_bytes(&p->key)};
    struct tls_ctx *tls = NULL;
    struct dr_name name;
    if (memcmp(a->name.set, wanted->set, sizeof wanted->set) != 0 ||
        memcmp(a->name.cluster, wanted->cluster, sizeof wanted->cluster) != 0 ||
        a->name.epoch != wanted->epoch) {
        reason_set(reason, "the primary that answered is not the one that made the token");
        return ST_INVALID;
    }
    if (dr_cert_name(own.cert, &name) != ST_OK || name.epoch != wanted->epoch ||
        strcmp(name.id, wanted->id) != 0 || memcmp(name.set, wanted->set, sizeof name.set) != 0) {
        reason_set(reason, "the primary sent a certificate for another secondary");
        return ST_INVALID;
    }
    enum status st = dr_cert_tls(&own, &tls, reason); /* checks that key and certificate match */
    tls_ctx_unref(tls);
    return st;
}

static enum status check_room(const struct dr_answer *a, const struct dr_own *own,
                              struct reason *reason)
{
    if (own->state_bytes_max != 0 && a->bytes > own->state_bytes_max) {
        reason_set(reason,
                   "the primary's state has %" PRIu64 " bytes, and state_bytes_max allows %" PRIu64
                   " here",
                   a->bytes, own->state_bytes_max);
        return ST_INVALID;
    }
    if (own->free_bytes != 0 &&
        (own->free_bytes < SPARE_BYTES || (own->free_bytes - SPARE_BYTES) / 2 < a->bytes)) {
        reason_set(reason,
                   "the primary's state has %" PRIu64 " bytes; the disk of the active node has "
                   "%" PRIu64 " bytes free, and needs twice the state and %d MiB",
                   a->bytes, own->free_bytes, SPARE_BYTES / (1024 * 1024));
        return ST_INVALID;
    }
    return ST_OK;
}

enum status dr_answer_check(const struct dr_pending *pending, const struct dr_answer *answer,
                            const struct dr_own *own, struct reason *reason)
{
    TRY(check_certificate_names(pending, answer, reason));
    if (answer->feature > own->feature) {
        reason_set(reason,
                   "the primary is at feature level %" PRIu64 ", and the members here understand "
                   "%u: upgrade this cluster first",
                   answer->feature, (unsigned)own->feature);
        return ST_INVALID;
    }
    if (answer->version < own->version) {
        reason_set(reason, "the primary did not raise the version of its state");
        return ST_INVALID;
    }
    if (own->seal == SEAL_SHAMIR && !answer->recovery) {
        reason_set(reason, "this cluster is unsealed by key shares, which must become the "
                           "primary's, and the primary has none: make recovery keys there first "
                           "(sys/rotate/recovery), or give this cluster a static seal");
        return ST_INVALID;
    }
    return check_room(answer, own, reason);
}
