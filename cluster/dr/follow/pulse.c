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
};

struct pulses {
    struct dr *dr;
    struct part_host *host;
    struct dr_role role;
    struct dr_addresses addresses;
    struct tls_ctx *tls;
    atomic_bool stop;
    struct pulse items[DR_ADDRESSES_MAX];
};

static bool pause_for(struct pulse *p, unsigned ms)
{
    for (int64_t until = dr_conn_now_ms() + ms; dr_conn_now_ms() < until;) {
        if (atomic_load(&p->all->stop))
            return false;
        const struct timespec step = {.tv_nsec = PULSE_STEP_MS * 1000000L};
        (void)nanosleep(&step, NULL); /* a signal ends one step early */
    }
    return !atomic_load(&p->all->stop);
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
    struct dr_facts *facts = dr_live_begin(&p->all->dr->live);
    struct dr_peer *peer = dr_live_peer(facts, "", p->address);
    facts->primary_heard_ms = (uint64_t)now_ms;
    facts->primary_version = MAX(facts->primary_version, pong->version);
    facts->primary_time_ms = pong->time_ms;
    facts->known = pong->addresses;
    if (peer != NULL) {
        peer->connected = true;
        peer->heard_ms = (uint64_t)now_ms;
        peer->heard_wall_ms = env_wall_ms(p->all->host->env);
        peer->round_trip_us = (uint64_t)(now_ms - sent_ms) * 1000;
        peer->position = pong->version;
        peer->skew_ms = pong->time_ms != 0 ? pong->time_ms - peer->heard_wall_ms : 0;
    }
    dr_live_end(&p->all->dr->live);
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

static enum status ping(struct pulse *p)
{
    struct store_pin pin;
    struct dr_frame frame = {.type = DR_PING};
    int64_t sent_ms = dr_conn_now_ms();
    TRY(store_pin(rlog_store(p->all->host->rlog), "dr pulse", 0, &pin));
    frame.ping.position = pin.version;
    store_unpin(&pin);
    frame.ping.stamp = (uint64_t)sent_ms;
    TRY(dr_conn_send(p->conn, &frame, sent_ms + FOLLOW_SEND_MS));
    TRY(dr_conn_receive(p->conn, sent_ms + PULSE_REPLY_MS, &frame));
    if (frame.type != DR_PONG || frame.pong.stamp != (uint64_t)sent_ms)
        return refused(p, &frame);
    note_pong(p, &frame.pong, sent_ms);
    return ST_OK;
}

static void *pulse_main(void *arg)
{
    struct pulse *p = arg;
    while (!atomic_load(&p->all->stop)) {
        enum status st = pulse_greet(p);
        while (st == ST_OK && pause_for(p, PULSE_EVERY_MS))
            st = ping(p);
        note_peer(p, false);
        dr_conn_close(p->conn);
        if (!pause_for(p, PULSE_RETRY_MS))
            break;
    }
    return NULL;
}

enum status pulses_start(struct dr_follow *f, struct pulses **ret_pulses)
{
    struct pulses *all = mem_zalloc(sizeof *all);
    if (all == NULL)
        return ST_NOMEM;
    all->dr = f->dr;
    all->host = f->thread->host;
    all->role = f->role;
    all->addresses = f->addresses;
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
    mem_free(all);
}
