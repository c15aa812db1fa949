#include "cluster/dr/renewal.h"
#include "cluster/dr/records.h"
#include "cluster/dr/role.h"

#include "base/trace.h"

enum status dr_renewal_init(struct dr_renewal *r)
{
    r->open = pthread_mutex_init(&r->lock, NULL) == 0;
    return r->open ? ST_OK : ST_NOMEM;
}

static void renewal_lock(struct dr_renewal *r)
{
    int failed = pthread_mutex_lock(&r->lock);
    ASSERT(failed == 0);
}

static void renewal_unlock(struct dr_renewal *r)
{
    int failed = pthread_mutex_unlock(&r->lock);
    ASSERT(failed == 0);
}

static void make_free(struct dr_renewal *r)
{
    buf_clear(&r->pem);
    r->step = DR_RENEWAL_FREE;
    r->owner = NULL;
}

void dr_renewal_done(struct dr_renewal *r)
{
    buf_done(&r->pem);
    if (r->open)
        (void)pthread_mutex_destroy(&r->lock); /* no thread holds the lock */
    r->open = false;
}

enum status dr_renewal_ask(struct dr_renewal *r, const void *owner, const struct dr_cert_peer *peer,
                           struct bytes public_pem)
{
    ASSERT(owner != NULL && public_pem.len != 0);
    renewal_lock(r);
    enum status st = r->step == DR_RENEWAL_FREE ? ST_OK : ST_BUSY;
    if (st == ST_OK) {
        buf_add(&r->pem, public_pem);
        st = buf_status(&r->pem);
        r->peer = *peer;
        r->owner = owner;
        r->step = DR_RENEWAL_ASKED;
        if (st != ST_OK)
            make_free(r);
    }
    renewal_unlock(r);
    return st;
}

enum status dr_renewal_take(struct dr_renewal *r, const void *owner, struct buf *ret_cert)
{
    renewal_lock(r);
    enum status st = ST_NOT_FOUND;
    if (r->owner != owner)
        st = ST_CLOSED;
    else if (r->step == DR_RENEWAL_ANSWERED) {
        st = r->answer;
        if (st == ST_OK) {
            buf_add(ret_cert, buf_bytes(&r->pem));
            st = buf_status(ret_cert);
        }
        make_free(r);
    }
    renewal_unlock(r);
    return st;
}

void dr_renewal_drop(struct dr_renewal *r, const void *owner)
{
    renewal_lock(r);
    if (r->owner == owner)
        make_free(r);
    renewal_unlock(r);
}

void dr_renewal_used(struct dr_renewal *r, const struct dr_cert_peer *peer)
{
    renewal_lock(r);
    r->used = true;
    r->user = *peer;
    renewal_unlock(r);
}

bool dr_renewal_begin(struct dr_renewal *r, struct dr_renewal_work *ret_work)
{
    *ret_work = (struct dr_renewal_work){0};
    renewal_lock(r);
    if (r->step == DR_RENEWAL_ASKED) {
        ret_work->sign = true;
        ret_work->peer = r->peer;
        buf_add(&ret_work->public_pem, buf_bytes(&r->pem)); /* the stage looks whether it has it */
    }
    ret_work->use = r->used;
    ret_work->user = r->user;
    renewal_unlock(r);
    return ret_work->sign || ret_work->use;
}

/* The record of a secondary that showed a certificate which counts. */
static enum status record_of(struct state_txn *txn, const struct dr_cert_peer *peer,
                             struct dr_secondary *ret)
{
    enum status st = dr_secondary_get(txn, peer->name.id, ret);
    if (st == ST_OK && !dr_secondary_has_key(ret, peer->key_sha256))
        st = ST_NOT_FOUND;
    return st == ST_NOT_FOUND ? ST_INVALID : st;
}

/* The next key becomes the only one. */
static void settle_keys(struct dr_secondary *s, const struct dr_cert_peer *peer)
{
    if (memcmp(s->key_sha256, peer->key_sha256, sizeof s->key_sha256) == 0)
        return;
    memcpy(s->key_sha256, peer->key_sha256, sizeof s->key_sha256);
    memset(s->next_sha256, 0, sizeof s->next_sha256);
}

static enum status stage_use(struct dr_renewal_work *w, struct state_txn *txn)
{
    struct dr_secondary s;
    enum status st = record_of(txn, &w->user, &s);
    if (st == ST_INVALID || (st == ST_OK && !dr_secondary_renews(&s)))
        return ST_OK; /* revoked, or settled already */
    TRY(st);
    settle_keys(&s, &w->user);
    return dr_secondary_put(txn, &s);
}

static enum status stage_next(struct dr_renewal_work *w, struct state_txn *txn)
{
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    struct reason why = {{0}};
    struct dr_secondary s;
    struct dr_role role;
    struct dr_name name = w->peer.name;
    TRY(buf_status(&w->public_pem));
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_PRIMARY || role.phase != DR_PHASE_RUNNING ||
        memcmp(role.set, name.set, sizeof role.set) != 0)
        return ST_INVALID;
    TRY(record_of(txn, &w->peer, &s));
    settle_keys(&s, &w->peer);
    TRY(cert_public_fingerprint(buf_bytes(&w->public_pem), s.next_sha256));
    TRY(dr_ca_get(txn, &ca));
    memcpy(name.cluster, w->cluster, sizeof name.cluster);
    name.epoch = role.epoch;
    const struct dr_cert_order order = {&name, buf_bytes(&w->public_pem), w->now_s};
    buf_clear(&w->cert);
    TRY(dr_cert_sign(&ca, &order, &w->cert, &why));
    return dr_secondary_put(txn, &s);
}

enum status dr_renewal_stage(struct dr_renewal_work *w, struct state_txn *txn)
{
    if (w->use)
        TRY(stage_use(w, txn));
    return w->sign ? stage_next(w, txn) : ST_OK;
}

void dr_renewal_end(struct dr_renewal *r, struct dr_renewal_work *w, enum status st)
{
    renewal_lock(r);
    bool same = r->step == DR_RENEWAL_ASKED &&
                memcmp(r->peer.key_sha256, w->peer.key_sha256, sizeof w->peer.key_sha256) == 0;
    if (w->sign && same) {
        buf_clear(&r->pem);
        buf_add(&r->pem, buf_bytes(&w->cert));
        r->answer = st != ST_OK ? st : buf_status(&r->pem);
        r->step = DR_RENEWAL_ANSWERED;
    }
    if (w->use && st == ST_OK)
        r->used = false;
    renewal_unlock(r);
    if (w->sign)
        trace(st == ST_OK ? TRACE_INFO : TRACE_WARN, "dr", "a new certificate for secondary %s: %s",
              w->peer.name.id, st == ST_OK ? "made" : status_text(st));
    buf_done(&w->public_pem);
    buf_done(&w->cert);
}
