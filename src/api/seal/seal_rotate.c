/* New keys that encrypt values, on request or by sys/rotate/config; a new root key. */
#include "api/seal/seal.h"
#include "api/seal/seal_keys.h"
#include "api/seal/seal_shares.h"
#include "base/trace.h"
#include "router/setting.h"
#include "state/ns_key.h"
#include "state/state_core.h"
#include "text/duration.h"

#define SETTING "rotate"

/* Bounds as upstream's: more frequent keys make nothing safer. */
enum { OPERATIONS_MIN = 1000000, INTERVAL_MIN_S = 24 * 60 * 60 };
#define INTERVAL_MAX_S (INT64_C(36500) * 24 * 60 * 60)
/* Automatic rotation by the setting fills at most half of the ring. The other half is for rotation
 * by requests, and for new keys after a key has encrypted as many values as it may. */
enum { TERMS_MAX = BARRIER_TERMS_MAX / 2 };

static const struct field config_fields[] = {
    FIELD(struct seal_rotate_config, enabled, BOOL, .preset = "true",
          .has = offsetof(struct seal_rotate_config, has_enabled),
          .help = "Whether max_operations and interval are applied."),
    FIELD(struct seal_rotate_config, max_operations, INT, .preset = "2147483648",
          .has = offsetof(struct seal_rotate_config, has_max_operations),
          .help = "How many values a key encrypts before the next one, 1000000 to 2147483648."),
    FIELD(struct seal_rotate_config, interval, DURATION, .preset = "0",
          .has = offsetof(struct seal_rotate_config, has_interval),
          .help = "How long a key is used before the next one: 24h or more; 0: no limit."),
};
const struct schema seal_rotate_config_schema = SCHEMA(struct seal_rotate_config, config_fields);

static enum status load(struct state_txn *txn, struct seal_rotate_config *ret)
{
    enum status st = setting_load(txn, STATE_NS_ROOT, SETTING, &seal_rotate_config_schema, ret);
    if (st == ST_NOT_FOUND) {
        *ret = (struct seal_rotate_config){.enabled = true, .max_operations = BARRIER_USES_MAX};
        st = ST_OK;
    }
    return st;
}

static enum status seal_rotate_config_read(struct req *req)
{
    CLEANUP(buf_done) struct buf interval = {0};
    struct seal_rotate_config c;
    TRY(load(req->txn, &c));
    ASSERT(c.interval >= 0);
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_int(&w, "max_operations", c.max_operations);
    text_member_bool(&w, "enabled", c.enabled);
    text_key(&w, "interval");
    if (c.interval != 0) {
        text_duration_put(&interval, c.interval * 1000000000);
        TRY(buf_status(&interval));
        text_put_bytes(&w, buf_bytes(&interval));
    } else {
        text_put_int(&w, 0);
    }
    text_close(&w);
    return req_reply_end(req);
}

static enum status seal_rotate_config_write(struct req *req)
{
    const struct seal_rotate_config *in = req_body(req);
    struct seal_rotate_config c;
    ASSERT(in->interval >= 0);
    TRY(load(req->txn, &c));
    if (in->has_enabled)
        c.enabled = in->enabled;
    if (in->has_max_operations)
        c.max_operations = in->max_operations;
    if (in->has_interval)
        c.interval = in->interval;
    if (c.max_operations < OPERATIONS_MIN || c.max_operations > (int64_t)BARRIER_USES_MAX)
        return req_fail(req, ST_INVALID, "max_operations must be in the range [%d,%lld]",
                        OPERATIONS_MIN, (long long)BARRIER_USES_MAX);
    if (c.interval != 0 && (c.interval < INTERVAL_MIN_S || c.interval > INTERVAL_MAX_S))
        return req_fail(req, ST_INVALID,
                        "interval must be greater or equal to 24h0m0s and at most 876000h0m0s");
    return setting_save(req->txn, STATE_NS_ROOT, SETTING, &seal_rotate_config_schema, &c);
}

static bool is_time(const struct seal_rotate_config *c, const struct barrier_ring_info *ring,
                    int64_t now_ms)
{
    int64_t used = (int64_t)ring->uses - ring->unused;
    bool old = c->interval != 0 && (now_ms - ring->installed_ms) / 1000 >= c->interval;
    return c->enabled && ring->n_terms < TERMS_MAX && (old || used >= c->max_operations);
}

enum status seal_rotate_upkeep(struct state_txn *txn, int64_t now_ms)
{
    struct seal_rotate_config c;
    struct barrier_ring_info ring;
    TRY(load(txn, &c));
    TRY(state_ring_info(txn, &ring));
    if (!is_time(&c, &ring, now_ms))
        return ST_OK;
    ASSERT(ring.n_terms < TERMS_MAX);
    if (ring.n_terms + 1 == TERMS_MAX)
        trace(TRACE_WARN, "sys",
              "the key ring holds %d keys: sys/rotate/config no longer adds to it", TERMS_MAX);
    return state_rotate(txn, now_ms);
}

static enum status seal_rotate(struct req *req)
{
    enum status st = state_rotate(req->txn, req->now_ms);
    if (st == ST_NO_SPACE)
        return req_fail(req, st, "the key ring holds as many keys as it can (%d)",
                        BARRIER_TERMS_MAX);
    return st;
}

enum status seal_root_key_new(struct req *req, const struct seal *seal)
{
    enum status st = state_rekey(req->txn, seal, req->now_ms);
    if (st == ST_NO_SPACE)
        return req_fail(req, ST_INVALID,
                        "too many root keys were superseded within the last hour, or while a DR "
                        "secondary was away; try again later, or revoke that secondary");
    if (st == ST_DENIED)
        return req_fail(req, ST_INVALID,
                        "since the promotion of this cluster no shares of its recovery key were "
                        "given: give them once, as for rotate/recovery, then make a new root key");
    return st;
}

/* With key shares no node has the seal's key: only the holders can wrap another root key. */
static enum status seal_rotate_root(struct req *req)
{
    struct seal_info info;
    TRY(state_seal_read(req->txn, &info));
    if (info.type == SEAL_SHAMIR)
        return req_fail(req, ST_INVALID,
                        "a new root key takes new key shares here: see sys/rotate/root/init");
    ASSERT(req_in_txn(req));
    struct seal seal;
    TRY(seal_own(req, &info, info.shares, info.threshold, &seal));
    req->told = "a new root key took the place of the one before";
    return seal_root_key_new(req, &seal);
}

#define ROTATE_CONFIG_ROWS(at)                                                             \
    {.method = METHOD_GET,                                                                 \
     .path = at,                                                                           \
     .handler = seal_rotate_config_read,                                                   \
     .shape = "{max_operations:int enabled:bool interval:(str|int)}", /* 0 is a number */  \
     .help = "When the key that encrypts values is changed without a request."},           \
    {                                                                                      \
        .method = METHOD_POST, .path = at, .handler = seal_rotate_config_write,            \
        .body = &seal_rotate_config_schema,                                                \
        .help = "Change when the key that encrypts values is changed. Fields that the "    \
                "request does not give keep their values. A key never encrypts more than " \
                "2147483648 values."                                                       \
    }

static const struct route rotate_routes[] = {
    {.method = METHOD_POST,
     .path = "rotate",
     .handler = seal_rotate,
     .when = WHEN_MAINTENANCE,
     .flags = ROUTE_SUDO,
     .help = "Encrypt values that are written from now on with a new key."},
    {.method = METHOD_POST,
     .path = "rotate/keyring",
     .handler = seal_rotate,
     .when = WHEN_MAINTENANCE,
     .flags = ROUTE_SUDO,
     .help = "The same as rotate."},
    ROTATE_CONFIG_ROWS("rotate/config"),
    ROTATE_CONFIG_ROWS("rotate/keyring/config"),
    {.method = METHOD_POST,
     .path = "rotate/root",
     .handler = seal_rotate_root,
     .when = WHEN_MAINTENANCE,
     .flags = ROUTE_SUDO,
     .help = "Make a new root key, with a seal that opens by itself. With key shares, new shares "
             "are needed: see rotate/root/init."},
};

const struct route_table seal_rotate_table = {rotate_routes, ARRAY_LEN(rotate_routes)};
