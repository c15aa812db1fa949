/* A cluster becomes a secondary, or follows another primary. Nothing of the cluster is changed
 * before the primary was reached and everything is proved.
 *
 *   prepare   unwrap the token at the primary's API            the wrapping token is used up
 *   handler   store bundle and keys under the token's name     dr/pending.h
 *   outside   ask the primary's cluster port; prove the answer the secret is bound to our key
 *   finish    change the role, store link, addresses, root key
 *
 * If a step fails, or the node ends, the request can be repeated with the same token: `prepare`
 * then fails, the handler finds what the first run stored, and the primary answers the same key
 * again. */
#include "api/replication/replication_fetch.h"
#include "state/state_core.h"

#include <stdio.h>
#include <sys/statvfs.h>

struct replication_enable_in {
    const char *token, *primary_api_addr, *ca_file, *ca_path;
};
struct replication_update_in {
    const char *dr_operation_token;
    struct replication_enable_in from;
    struct field_strings update_primary_addrs;
};

/* The version of the state may rise by this much while the primary is asked. */
enum { VERSION_MARGIN = 1 << 16 };

/* An activation under way, in the arena: what `prepare`, the handler and `outside` found. */
struct activation {
    enum status unwrapped; /* result of unwrapping, with `why` */
    const char *why;
    struct bytes pending; /* dr_pending_encode */
    struct dr_own own;
    struct bytes answer;
    const char *address;           /* where the answer came from */
    bool forgets;                  /* update-primary with a blank token, which needs no primary */
    struct dr_addresses addresses; /* update_primary_addrs, and the authority of these ports */
    struct bytes ca;
};

#define FROM_FIELDS(type, at)                                                                     \
    FIELD_NAMED("primary_api_addr", type, at primary_api_addr, STRING, .preset = "",              \
                .help = "URL of the primary's API; none: the address in the token."),             \
        FIELD_NAMED("ca_file", type, at ca_file, STRING, .preset = "",                            \
                    .help = "File of PEM certificates of the authorities that the primary's API " \
                            "is trusted by; without it and ca_path: those of this system."),      \
        FIELD_NAMED(                                                                              \
            "ca_path", type, at ca_path, STRING, .preset = "",                                    \
            .help = "Folder of such files, whatever their names; one with ca_file is read too.")

static const struct field enable_fields[] = {
    FIELD(struct replication_enable_in, token, STRING, .required = true, .hidden = true,
          .help = "The token of primary/secondary-token."),
    FROM_FIELDS(struct replication_enable_in, ),
};
static const struct schema replication_follow_schema =
    SCHEMA(struct replication_enable_in, enable_fields);

static const struct field update_fields[] = {
    REQ_DR_TOKEN_FIELD(struct replication_update_in),
    FIELD_NAMED("token", struct replication_update_in, from.token, STRING, .hidden = true,
                .help = "The token of primary/secondary-token on the new primary; empty: follow "
                        "no primary. Required, except with update_primary_addrs."),
    FROM_FIELDS(struct replication_update_in, from.),
    FIELD(struct replication_update_in, update_primary_addrs, STRINGS,
          .help = "Instead of a token: new cluster ports of the same primary, tried in order."),
};
static const struct schema replication_update_schema =
    SCHEMA(struct replication_update_in, update_fields);

static bool is_blank(const struct replication_enable_in *in)
{
    return in->token == NULL || in->token[0] == '\0';
}

/* prepare */

static enum status keep_pending(struct req *req, const struct dr_pending *pending,
                                struct bytes *ret_encoded)
{
    CLEANUP(buf_done) struct buf encoded = {0};
    TRY(dr_pending_encode(pending, &encoded));
    const uint8_t *copy = arena_dup(req->arena, buf_bytes(&encoded));
    *ret_encoded = bytes_of(copy, encoded.len);
    return copy != NULL ? ST_OK : ST_NOMEM;
}

static enum status unwrap(struct req *req, const struct replication_enable_in *in,
                          struct bytes *ret_encoded)
{
    CLEANUP(dr_pending_done) struct dr_pending pending = {0};
    const struct replication_wrapped from = {.token = bytes_str(in->token),
                                             .primary_api_addr = in->primary_api_addr,
                                             .ca_file = in->ca_file,
                                             .ca_path = in->ca_path};
    TRY(replication_unwrap(req, &from, &pending.bundle));
    TRY(dr_pending_make_keys(&pending));
    return keep_pending(req, &pending, ret_encoded);
}

/* A failure is kept for the handler: an earlier request may have unwrapped the token. */
static enum status prepare(struct req *req, const struct replication_enable_in *in)
{
    struct activation *a = arena_zalloc(req->arena, sizeof *a);
    ASSERT(req != NULL);
    if (a == NULL)
        return ST_NOMEM;
    req->prepared = a;
    if (is_blank(in) || dr_bundle_is_sealed(bytes_str(in->token)))
        return ST_OK;
    a->unwrapped = unwrap(req, in, &a->pending);
    if (a->unwrapped == ST_OK)
        return ST_OK;
    if (a->unwrapped == ST_NOMEM)
        return ST_NOMEM;
    a->why = arena_str(req->arena, bytes_str(req_error(req)->text));
    req_forget_error(req);
    return a->why != NULL ? ST_OK : ST_NOMEM;
}

/* handler */

static enum status open_sealed(struct req *req, struct bytes token, struct bytes *ret_encoded)
{
    CLEANUP(dr_pending_done) struct dr_pending pending = {0};
    CLEANUP(box_key_done) struct box_key key = {0};
    struct reason why = {{0}};
    enum status st = dr_box_get(req->txn, &key);
    ASSERT(req != NULL);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID,
                        "token: it was sealed for a public key, and this cluster has none: see "
                        "secondary/generate-public-key");
    TRY(st);
    TRY(replication_result(req, dr_bundle_open(&key, token, &pending.bundle, &why), &why));
    TRY(dr_pending_make_keys(&pending));
    return keep_pending(req, &pending, ret_encoded);
}

static enum status read_own(struct req *req, struct dr_own *ret)
{
    struct seal_info seal;
    TRY(state_seal_read(req->txn, &seal));
    *ret = (struct dr_own){.version = state_version(req->txn) + VERSION_MARGIN,
                           .feature = req->feature,
                           .seal = seal.type,
                           .state_bytes_max = req->host->state_bytes_max};
    return ST_OK;
}

/* Go on with the activation that an earlier request with this token has begun, or begin it. */
static enum status begin_activation(struct req *req, struct bytes token)
{
    struct activation *a = req->prepared;
    struct bytes found;
    ASSERT(a != NULL);
    TRY(read_own(req, &a->own));
    enum status st = dr_pending_get(req->txn, token, &found);
    if (st == ST_OK) {
        const uint8_t *copy = arena_dup(req->arena, found);
        a->pending = bytes_of(copy, found.len);
        return copy != NULL ? ST_OK : ST_NOMEM;
    }
    if (st != ST_NOT_FOUND)
        return st;
    if (a->unwrapped != ST_OK)
        return req_fail(req, a->unwrapped, "%s",
                        a->why[0] != '\0' ? a->why : status_text(a->unwrapped));
    if (dr_bundle_is_sealed(token))
        TRY(open_sealed(req, token, &a->pending));
    return dr_pending_put(req->txn, token, a->pending);
}

/* outside */

static uint64_t free_bytes_of(const char *dir)
{
    struct statvfs about;
    if (dir == NULL || statvfs(dir, &about) != 0)
        return 0;
    return (uint64_t)about.f_bavail * about.f_frsize;
}

/* The feature level that every member understands: at least the cluster's. */
static uint16_t common_feature(struct req *req)
{
    struct node_peer *peers = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *peers);
    unsigned n = peers != NULL ? req->host->node_ops->peers(req->host->node, peers) : 0;
    uint16_t common = n != 0 ? RLOG_FEATURE : req->feature;
    for (unsigned i = 0; i < n; i++)
        common = MIN(common, peers[i].feature);
    return MAX(common, req->feature);
}

static enum status read_answer(struct req *req, const struct activation *a,
                               const struct dr_pending *pending, struct dr_answer *ret_answer)
{
    struct reason why = {{0}};
    enum status st = dr_answer_read(pending, a->answer, ret_answer, &why);
    if (st == ST_OK)
        st = dr_answer_check(pending, ret_answer, &a->own, &why);
    return replication_result(req, st, &why);
}

static enum status ask_primary(struct req *req)
{
    CLEANUP(dr_pending_done) struct dr_pending pending = {0};
    CLEANUP(dr_answer_done) struct dr_answer answer = {0};
    CLEANUP(buf_done) struct buf body = {0};
    struct activation *a = req->prepared;
    ASSERT(!req_in_txn(req) && a->pending.len != 0);
    a->own.feature = common_feature(req);
    a->own.free_bytes = free_bytes_of(req->host->data_dir);
    TRY(dr_pending_decode(a->pending, &pending));
    TRY(dr_activation_ask(&pending, &a->own, &body));
    TRY(replication_ask(req, &pending, buf_bytes(&body), &a->answer, &a->address));
    return read_answer(req, a, &pending, &answer);
}

/* finish */

static enum status store_link(struct req *req, const struct dr_pending *pending,
                              const struct dr_answer *answer)
{
    CLEANUP(dr_link_record_done) struct dr_link_record link = {0};
    ASSERT(req != NULL);
    memcpy(link.cluster, answer->name.cluster, sizeof link.cluster);
    buf_add(&link.ca, buf_bytes(&pending->bundle.ca));
    buf_add(&link.own.cert, buf_bytes(&answer->cert));
    buf_add(&link.own.key, buf_bytes(&pending->key));
    TRY(buf_status(&link.ca));
    TRY(buf_status(&link.own.cert));
    TRY(buf_status(&link.own.key));
    TRY(dr_link_put(req->txn, &link));
    TRY(dr_addresses_put(req->txn, &answer->addresses));
    return dr_root_put(req->txn, secret_bytes(&answer->root));
}

/* The state of the primary must be newer than the own one, which it replaces. A secondary that
 * streams from this very primary has that primary's records, also those of after the answer. */
static enum status check_version(struct req *req, const struct dr_answer *answer, bool resync)
{
    CLEANUP(dr_link_record_done) struct dr_link_record link = {0};
    if (state_version(req->txn) <= answer->version)
        return ST_OK;
    enum status st = resync ? dr_link_get(req->txn, &link) : ST_NOT_FOUND;
    if (st == ST_OK && memcmp(link.cluster, answer->name.cluster, sizeof link.cluster) == 0)
        return ST_OK;
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    return req_fail(req, ST_BUSY,
                    "this cluster was written to while the primary was asked: repeat the request "
                    "with the same token");
}

static enum status begin_following(struct req *req, bool resync)
{
    CLEANUP(dr_pending_done) struct dr_pending pending = {0};
    CLEANUP(dr_answer_done) struct dr_answer answer = {0};
    const struct activation *a = req->prepared;
    struct reason why = {{0}};
    ASSERT(req != NULL);
    TRY(dr_pending_decode(a->pending, &pending));
    TRY(read_answer(req, a, &pending, &answer));
    TRY(check_version(req, &answer, resync));
    struct dr_primary primary = {
        .epoch = answer.name.epoch, .id = pending.bundle.name.id, .address = a->address};
    memcpy(primary.set, answer.name.set, sizeof primary.set);
    TRY(replication_result(req,
                           resync ? dr_role_resync(req->txn, &primary, &why)
                                  : dr_role_follow(req->txn, &primary, req->now_ms, &why),
                           &why));
    TRY(store_link(req, &pending, &answer));
    if (!resync)
        return ST_OK; /* the change of the mode has deleted the rest */
    TRY(dr_pending_delete(req->txn));
    return state_delete(req->txn, BYTES(DR_BOX));
}

/* secondary/enable */

static enum status replication_enable_prepare(struct req *req)
{
    return prepare(req, req_body(req));
}

static enum status replication_enable(struct req *req)
{
    const struct replication_enable_in *in = req_body(req);
    struct dr_role role;
    ASSERT(req_in_txn(req));
    ASSERT(in != NULL && req->route != NULL);
    TRY(replication_in_root(req));
    TRY(dr_role_read(req->txn, &role));
    if (role.mode != DR_MODE_DISABLED)
        return req_fail(req, ST_INVALID, "this cluster is a DR %s already; disable that first",
                        dr_mode_text(role.mode));
    if (is_blank(in))
        return req_fail(req, ST_INVALID, "token: the token of primary/secondary-token is needed");
    TRY(begin_activation(req, bytes_str(in->token)));
    req_warn(req,
             "This cluster has found the information about its primary. It may take a while to set "
             "this cluster up as a secondary. The service will be unavailable until setup and the "
             "initial sync have ended.");
    return ST_OK;
}

static enum status replication_enable_finish(struct req *req)
{
    return begin_following(req, false);
}

/* secondary/update-primary */

static enum status replication_update_prepare(struct req *req)
{
    const struct replication_update_in *in = req_body(req);
    return prepare(req, &in->from);
}

static enum status forget(struct req *req)
{
    struct activation *a = req->prepared;
    struct reason why = {{0}};
    a->forgets = true;
    TRY(replication_result(
        req, dr_role_forget(req->txn, "the primary was forgotten by an operator", &why), &why));
    req->told = "this DR secondary forgot its primary";
    return replication_warn(req, "updated to follow no primary");
}

/* Check the addresses; `outside` finds out whether they lead to the primary. A demoted cluster has
 * no primary, though it may have the link to one that it followed before it was promoted. */
static enum status begin_addresses(struct req *req, const struct dr_role *role,
                                   const struct field_strings *given)
{
    CLEANUP(dr_link_record_done) struct dr_link_record link = {0};
    struct activation *a = req->prepared;
    ASSERT(req != NULL);
    a->addresses = (struct dr_addresses){0};
    if (role->id[0] == '\0' || dr_link_get(req->txn, &link) == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID,
                        "update_primary_addrs: this secondary has no primary whose address could "
                        "change: give the token of its new primary");
    for (size_t i = 0; i < given->n; i++) {
        char plain[DR_ROLE_ADDRESS_MAX];
        if (replication_address(given->items[i], plain) != ST_OK || plain[0] == '\0')
            return req_fail(req, ST_INVALID, "update_primary_addrs: \"%.100s\" is not host:port",
                            given->items[i]);
        if (!dr_addresses_has(&a->addresses, plain) &&
            dr_addresses_add(&a->addresses, bytes_str(plain)) != ST_OK)
            return req_fail(req, ST_INVALID, "update_primary_addrs: at most %d are possible",
                            DR_ADDRESSES_MAX);
    }
    const uint8_t *copy = arena_dup(req->arena, buf_bytes(&link.ca));
    a->ca = bytes_of(copy, link.ca.len);
    if (copy == NULL)
        return ST_NOMEM;
    return replication_warn(req, "updated to reach its primary at another address");
}

static enum status replication_update(struct req *req)
{
    const struct replication_update_in *in = req_body(req);
    struct dr_role role;
    ASSERT(req_in_txn(req));
    ASSERT(in != NULL && req->route != NULL);
    TRY(replication_need_secondary(req, &role));
    bool addresses = in->update_primary_addrs.n != 0;
    if (addresses && !is_blank(&in->from))
        return req_fail(req, ST_INVALID, "give either token or update_primary_addrs");
    if (addresses)
        return begin_addresses(req, &role, &in->update_primary_addrs);
    if (in->from.token == NULL)
        return req_fail(req, ST_INVALID,
                        "token: is required; an empty one lets this secondary forget its primary");
    if (is_blank(&in->from))
        return forget(req);
    TRY(begin_activation(req, bytes_str(in->from.token)));
    return replication_warn(req, "updated to follow another primary");
}

static enum status replication_update_outside(struct req *req)
{
    struct activation *a = req->prepared;
    unsigned at;
    ASSERT(!req_in_txn(req));
    if (a->forgets)
        return ST_OK;
    if (a->addresses.n == 0)
        return ask_primary(req);
    TRY(replication_find(req, a->ca, &a->addresses, &at));
    a->address = a->addresses.at[at];
    return ST_OK;
}

/* Store the addresses, the one that answered in front. An idle secondary follows again. */
static enum status store_addresses(struct req *req)
{
    const struct activation *a = req->prepared;
    struct dr_addresses stored = {0};
    struct reason why = {{0}};
    struct dr_role role;
    ASSERT(req != NULL);
    TRY(replication_need_secondary(req, &role));
    if (role.id[0] == '\0')
        return req_fail(req, ST_BUSY, "the role of this cluster is changing; try again");
    TRY(dr_addresses_add(&stored, bytes_str(a->address)));
    for (unsigned i = 0; i < a->addresses.n; i++)
        if (!dr_addresses_has(&stored, a->addresses.at[i]))
            TRY(dr_addresses_add(&stored, bytes_str(a->addresses.at[i])));
    TRY(dr_addresses_put(req->txn, &stored));
    if (role.phase != DR_PHASE_IDLE)
        return ST_OK;
    struct dr_primary primary = {.epoch = role.epoch, .id = role.id, .address = a->address};
    memcpy(primary.set, role.set, sizeof primary.set);
    return replication_result(req, dr_role_resync(req->txn, &primary, &why), &why);
}

static enum status replication_update_finish(struct req *req)
{
    const struct activation *a = req->prepared;
    if (a->forgets)
        return ST_OK;
    return a->addresses.n != 0 ? store_addresses(req) : begin_following(req, true);
}

static const struct route enable_routes[] = {
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/enable",
     .handler = replication_enable,
     .prepare = replication_enable_prepare,
     .outside = ask_primary,
     .finish = replication_enable_finish,
     .place = PLACE_ACTIVE,
     .flags = ROUTE_SUDO | ROUTE_LONG,
     .feature = SYS_DR_FEATURE,
     .body = &replication_follow_schema,
     .help = "Make this cluster a secondary of the primary that made the token. The primary's data "
             "replaces the data of this cluster. If the request fails, repeat it with the same "
             "token."},
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/update-primary",
     .handler = replication_update,
     .prepare = replication_update_prepare,
     .outside = replication_update_outside,
     .finish = replication_update_finish,
     .place = PLACE_ACTIVE,
     .who = WHO_DR_TOKEN,
     .flags = ROUTE_LONG,
     .feature = SYS_DR_FEATURE,
     .body = &replication_update_schema,
     .help = "Follow another primary of the set, or none, or reach the same primary at other "
             "addresses. What differs from the primary is fetched."},
};

const struct route_table replication_enable_table = {enable_routes, ARRAY_LEN(enable_routes)};
