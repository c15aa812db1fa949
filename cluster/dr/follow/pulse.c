/* Heartbeats to every node of the primary, each on a thread and a connection of its own: a stream
 * that is busy never delays them, and each node of the primary knows how far this secondary is. */
#include "cluster/dr/follow/follow_internal.h"

#include "base/mem.h"
#include "base/trace.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    PULSE_EVERY_MS = 1000,
    PULSE_REPLY_MS = 5000,
    PULSE_RETRY_MS = 2000,
    PULSE_STEP_MS = 50, /* longest pause before the thread looks whether it is asked to end */
};

struct pulse {
    struct pulses *all;
    pthread_t thread;
    bool running;
    struct dr_conn *conn;
    const char *address;
    /* Of the newest PONG of this connection: the version that it told, and the primary's stamp in
     * it; 0: none. */
    uint64_t told_version, told_own;
    int64_t told_ms; /* when it came */
    /* The newest stamp whose version the state has reached, and when that was seen; 0: none. */
    uint64_t reached_own;
    int64_t reached_ms;
    uint64_t trip_us;   /* of the last heartbeat; 0: not measured */
    bool confirms;      /* the node of the primary asks for acknowledgements */
    uint64_t confirmed; /* version of the last acknowledgement on this connection; 0: none */
};

struct pulses {
    struct dr *dr;
    struct part_host *host;
    struct dr_role role;
    struct dr_addresses addresses;
    uint64_t link_version; /* of the record of the link that `tls` was made from */
    struct tls_ctx *tls;
    atomic_bool stop;
    atomic_uint confirming; /* threads whose node of the primary asks for acknowledgements */
    atomic_bool renewing;   /* one thread asks for a certificate, or has brought one */
    pthread_mutex_t lock;   /* guards the members up to `renewed` */
    pthread_cond_t news;    /* `stored` has changed, or `stop` */
    uint64_t stored;        /* version up to which the stream has stored everything; 0: no stream */
    struct cert_pair renewed;
    struct pulse items[DR_ADDRESSES_MAX];
};

/* Look whether the state has reached the version that the primary told last. */
static void pulse_settle(struct pulse *p, uint64_t version)
{
    if (p->told_own == 0 || version < p->told_version)
        return;
    p->reached_own = p->told_own;
    p->reached_ms = dr_conn_now_ms();
    p->told_own = 0;
    struct dr_facts *facts = dr_live_begin(&p->all->dr->live);
    facts->settled_ms = MAX(facts->settled_ms, (uint64_t)p->told_ms);
    dr_live_end(&p->all->dr->live);
}

static enum status position_of(struct pulse *p, uint64_t *ret_version)
{
    struct store_pin pin;
    TRY(store_pin(rlog_store(p->all->host->rlog), "dr pulse", 0, &pin));
    *ret_version = pin.version;
    store_unpin(&pin);
    return ST_OK;
}

static uint64_t stored_by(struct pulses *all)
{
    (void)pthread_mutex_lock(&all->lock); /* cannot fail: default mutex, never held twice */
    uint64_t stored = all->stored;
    (void)pthread_mutex_unlock(&all->lock); /* cannot fail: this thread holds the lock */
    return stored;
}

static void set_confirms(struct pulse *p, bool confirms)
{
    if (confirms && !p->confirms)
        atomic_fetch_add(&p->all->confirming, 1U);
    else if (!confirms && p->confirms)
        atomic_fetch_sub(&p->all->confirming, 1U);
    p->confirms = confirms;
}

/* Wait for a step, or until the stream has stored more and this node of the primary wants to know.
 * Returns the version up to which it has. */
static uint64_t pulse_step(struct pulse *p)
{
    struct pulses *all = p->all;
    int64_t until_ms = dr_conn_now_ms() + PULSE_STEP_MS;
    const struct timespec until = {.tv_sec = until_ms / 1000,
                                   .tv_nsec = until_ms % 1000 * 1000000L};
    (void)pthread_mutex_lock(&all->lock); /* cannot fail: default mutex, never held twice */
    bool known = !p->confirms || all->stored <= p->confirmed;
    if (known && !atomic_load(&all->stop))
        (void)pthread_cond_timedwait(&all->news, &all->lock,
                                     &until); /* an early end does no harm */
    uint64_t stored = all->stored;
    (void)pthread_mutex_unlock(&all->lock); /* cannot fail: this thread holds the lock */
    return stored;
}

/* Tell the primary how far the stream has come. `again`: also if it was told already, as a sign
 * that the stream goes on. */
static enum status confirm(struct pulse *p, uint64_t stored, bool again)
{
    struct dr_frame ack = {.type = DR_ACK, .ack = {.version = stored}};
    if (!p->confirms || stored == 0 || (stored <= p->confirmed && !again))
        return ST_OK;
    p->confirmed = stored;
    return dr_conn_send(p->conn, &ack, dr_conn_now_ms() + FOLLOW_SEND_MS);
}

/* ST_CLOSED: asked to end. Else as dr_conn_send. */
static enum status pause_for(struct pulse *p, unsigned ms)
{
    uint64_t version;
    for (int64_t until = dr_conn_now_ms() + ms; dr_conn_now_ms() < until;) {
        if (atomic_load(&p->all->stop))
            return ST_CLOSED;
        if (p->told_own != 0 && position_of(p, &version) == ST_OK)
            pulse_settle(p, version);
        TRY(confirm(p, pulse_step(p), false));
    }
    return atomic_load(&p->all->stop) ? ST_CLOSED : ST_OK;
}

void pulses_confirm(struct pulses *all, uint64_t version)
{
    if (all == NULL)
        return;
    (void)pthread_mutex_lock(&all->lock); /* cannot fail: default mutex, never held twice */
    all->stored = version;
    if (atomic_load(&all->confirming) != 0)
        (void)pthread_cond_broadcast(&all->news); /* cannot fail */
    (void)pthread_mutex_unlock(&all->lock);       /* cannot fail: this thread holds the lock */
}

static void note_peer(struct pulse *p, bool connected)
{
    struct dr_facts *facts = dr_live_begin(&p->all->dr->live);
    struct dr_peer *peer = dr_live_peer(facts, "", p->address);
    if (peer != NULL)
        peer->connected = connected;
    dr_live_end(&p->all->dr->live);
}

static void note_pong(struct pulse *p, const struct dr_pong *pong, int64_t sent_ms)
{
    int64_t now_ms = dr_conn_now_ms();
    p->trip_us = (uint64_t)MAX(now_ms - sent_ms, 1) * 1000;
    struct dr_facts *facts = dr_live_begin(&p->all->dr->live);
    struct dr_peer *peer = dr_live_peer(facts, "", p->address);
    facts->primary_heard_ms = (uint64_t)now_ms;
    facts->primary_version = MAX(facts->primary_version, pong->version);
    facts->primary_time_ms = pong->time_ms;
    facts->behind_bytes = pong->behind;
    if (pong->verified > facts->verified || pong->differs) {
        facts->verified = MAX(facts->verified, pong->verified);
        facts->differs = pong->differs; /* only the node that sends the stream compares */
    }
    facts->known = pong->addresses;
    if (peer != NULL) {
        peer->connected = true;
        peer->heard_ms = (uint64_t)now_ms;
        peer->heard_wall_ms = env_wall_ms(p->all->host->env);
        peer->round_trip_us = p->trip_us;
        dr_live_set_place(peer, pong->api, (struct bytes){0});
        peer->position = pong->version;
        peer->skew_ms = pong->wall_ms + (int64_t)(p->trip_us / 2000) - peer->heard_wall_ms;
    }
    dr_live_end(&p->all->dr->live);
    p->told_version = pong->version;
    p->told_own = pong->own;
    p->told_ms = now_ms;
    set_confirms(p, pong->confirm);
}

/* A primary that was demoted or superseded is heard no more: a promotion need not wait for it. */
static void note_refusal(struct pulse *p, const struct dr_refuse *refuse)
{
    if (refuse->code != DR_REFUSE_NOT_PRIMARY && refuse->code != DR_REFUSE_SUPERSEDED)
        return;
    struct dr_facts *facts = dr_live_begin(&p->all->dr->live);
    facts->primary_heard_ms = 0;
    dr_live_end(&p->all->dr->live);
}

static enum status refused(struct pulse *p, const struct dr_frame *frame)
{
    if (frame->type != DR_REFUSE)
        return ST_INVALID;
    note_refusal(p, &frame->refuse);
    return ST_DENIED;
}

static enum status pulse_greet(struct pulse *p)
{
    struct dr_frame frame = {.type = DR_HELLO};
    p->told_own = p->reached_own = p->trip_us = 0; /* stamps of another node, perhaps */
    p->confirmed = 0;
    TRY(dr_conn_dial(p->conn, p->address, p->all->tls, dr_conn_now_ms() + FOLLOW_DIAL_MS));
    frame.hello = (struct dr_hello){.protocol = DR_PROTOCOL,
                                    .feature = RLOG_FEATURE,
                                    .purpose = DR_HEARTBEAT,
                                    .epoch = p->all->role.epoch};
    memcpy(frame.hello.set, p->all->role.set, sizeof frame.hello.set);
    memcpy(frame.hello.id, p->all->role.id, sizeof frame.hello.id);
    TRY(dr_conn_send(p->conn, &frame, dr_conn_now_ms() + FOLLOW_SEND_MS));
    TRY(dr_conn_receive(p->conn, dr_conn_now_ms() + PULSE_REPLY_MS, &frame));
    if (frame.type == DR_REFUSE)
        note_refusal(p, &frame.refuse);
    return frame.type == DR_WELCOME ? ST_OK : ST_DENIED;
}

/* Bring a new certificate. After a failure the next heartbeat that asks for it tries again. */
static enum status pulse_renew(struct pulse *p)
{
    struct cert_pair pair = {0};
    enum status st = renew_ask(p->conn, &pair);
    if (st != ST_OK) {
        trace(TRACE_WARN, "dr", "%s gives no new certificate: %s", p->address, status_text(st));
        atomic_store(&p->all->renewing, false);
        return st;
    }
    (void)pthread_mutex_lock(&p->all->lock); /* cannot fail: default mutex, never held twice */
    ASSERT(p->all->renewed.cert.len == 0);
    p->all->renewed = pair;
    (void)pthread_mutex_unlock(&p->all->lock); /* cannot fail: this thread holds the lock */
    return ST_OK;
}

bool pulses_renewed(struct pulses *all, struct cert_pair *ret_pair)
{
    if (all == NULL || !atomic_load(&all->renewing))
        return false;
    (void)pthread_mutex_lock(&all->lock); /* cannot fail: default mutex, never held twice */
    bool has = all->renewed.cert.len != 0;
    if (has) {
        *ret_pair = all->renewed;
        all->renewed = (struct cert_pair){0};
    }
    (void)pthread_mutex_unlock(&all->lock); /* cannot fail: this thread holds the lock */
    return has;
}

static enum status ping(struct pulse *p)
{
    struct dr_frame frame = {.type = DR_PING};
    int64_t sent_ms = dr_conn_now_ms();
    TRY(position_of(p, &frame.ping.position));
    pulse_settle(p, frame.ping.position);
    frame.ping.stamp = (uint64_t)sent_ms;
    frame.ping.echo = p->reached_own;
    frame.ping.held_ms = p->reached_own != 0 ? (uint64_t)(sent_ms - p->reached_ms) : 0;
    frame.ping.wall_ms = env_wall_ms(p->all->host->env);
    frame.ping.trip_us = p->trip_us;
    frame.ping.settled = atomic_load(&p->all->host->own_settled);
    frame.ping.api = dr_url(p->all->host->options->api_addr);
    frame.ping.cluster = bytes_str(p->all->host->options->cluster_addr);
    TRY(dr_conn_send(p->conn, &frame, sent_ms + FOLLOW_SEND_MS));
    TRY(dr_conn_receive(p->conn, sent_ms + PULSE_REPLY_MS, &frame));
    if (frame.type != DR_PONG || frame.pong.stamp != (uint64_t)sent_ms)
        return refused(p, &frame);
    note_pong(p, &frame.pong, sent_ms);
    TRY(confirm(p, stored_by(p->all), true));
    return frame.pong.renew && !atomic_exchange(&p->all->renewing, true) ? pulse_renew(p) : ST_OK;
}

static void *pulse_main(void *arg)
{
    struct pulse *p = arg;
    while (!atomic_load(&p->all->stop)) {
        enum status st = pulse_greet(p);
        if (st == ST_OK)
            st = ping(p);
        while (st == ST_OK && (st = pause_for(p, PULSE_EVERY_MS)) == ST_OK)
            st = ping(p);
        note_peer(p, false);
        dr_conn_close(p->conn);
        set_confirms(p, false);
        if (pause_for(p, PULSE_RETRY_MS) != ST_OK)
            break;
    }
    return NULL;
}

/* Threads wait for times of dr_conn_now_ms. */
static bool init_locks(struct pulses *all)
{
    pthread_condattr_t clock;
    if (pthread_mutex_init(&all->lock, NULL) != 0)
        return false;
    bool made = pthread_condattr_init(&clock) == 0;
    if (made) {
        made = pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) == 0 &&
               pthread_cond_init(&all->news, &clock) == 0;
        (void)pthread_condattr_destroy(&clock); /* cannot fail */
    }
    if (!made)
        (void)pthread_mutex_destroy(&all->lock); /* no thread holds the lock */
    return made;
}

enum status pulses_start(struct dr_follow *f, struct pulses **ret_pulses)
{
    struct pulses *all = mem_zalloc(sizeof *all);
    if (all == NULL)
        return ST_NOMEM;
    if (!init_locks(all)) {
        mem_free(all);
        return ST_NOMEM;
    }
    all->dr = f->dr;
    all->host = f->thread->host;
    all->role = f->role;
    all->addresses = f->addresses;
    all->link_version = f->link_version;
    all->tls = tls_ctx_ref(f->tls);
    for (unsigned i = 0; i < all->addresses.n; i++) {
        struct pulse *p = &all->items[i];
        *p = (struct pulse){.all = all, .address = all->addresses.at[i]};
        if (dr_conn_new(DR_SECONDARY, 0, &p->conn) != ST_OK ||
            pthread_create(&p->thread, NULL, pulse_main, p) != 0) {
            pulses_stop(all);
            return ST_NOMEM;
        }
        p->running = true;
    }
    *ret_pulses = all;
    return ST_OK;
}

bool pulses_fit(const struct pulses *all, const struct dr_follow *f)
{
    if (all->role.epoch != f->role.epoch || all->link_version != f->link_version ||
        memcmp(all->role.set, f->role.set, sizeof f->role.set) != 0 ||
        all->addresses.n != f->addresses.n)
        return false;
    for (unsigned i = 0; i < f->addresses.n; i++)
        if (strcmp(all->addresses.at[i], f->addresses.at[i]) != 0)
            return false;
    return true;
}

void pulses_stop(struct pulses *all)
{
    if (all == NULL)
        return;
    atomic_store(&all->stop, true);
    for (unsigned i = 0; i < ARRAY_LEN(all->items); i++)
        if (all->items[i].running)
            dr_conn_cancel(all->items[i].conn);
    for (unsigned i = 0; i < ARRAY_LEN(all->items); i++) {
        if (all->items[i].running && pthread_join(all->items[i].thread, NULL) != 0)
            abort(); /* the thread was started and is joined once */
        dr_conn_free(all->items[i].conn);
    }
    tls_ctx_unref(all->tls);
    cert_pair_done(&all->renewed);
    (void)pthread_cond_destroy(&all->news);  /* every thread was joined */
    (void)pthread_mutex_destroy(&all->lock); /* every thread was joined */
    mem_free(all);
}
