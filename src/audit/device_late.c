#include "audit/device_internal.h"

#include <stdio.h>

void device_tell(const struct device_news *news)
{
    if (news->text[0] != '\0')
        trace(news->level, "audit", "%s", news->text);
}

void device_no_answer(const struct device *d, struct reason *ret_why)
{
    reason_set(ret_why, "no answer within %lld ms", (long long)d->options.write_timeout_ms);
}

/* Take the newest offers that a late device does not keep. The lock is held; the caller posts
 * `dropped` without the lock. */
static void drop_beyond(struct device *d, struct list *dropped)
{
    while (!list_empty(&d->queue) && d->queued_bytes + d->held_bytes > d->queue_max) {
        struct audit_offer *offer = CONTAINER_OF(d->queue.prev, struct audit_offer, link);
        ASSERT(d->queued_bytes >= offer->bytes);
        d->queued_bytes -= offer->bytes;
        list_remove(&offer->link);
        list_insert_before(dropped->next, &offer->link);
        offer->st = ST_BUSY;
        d->dropped++;
    }
}

void device_be_late(struct device *d, const struct reason *why, struct device_news *news,
                    struct list *dropped)
{
    if (d->late)
        return;
    ASSERT(list_empty(dropped));
    d->late = true;
    bool in_row = d->back_ms != 0 && sink_now_ms() - d->back_ms < AUDIT_REST_MAX_MS;
    d->lates = in_row ? d->lates + 1 : 1;
    d->rest_until_ms = 0;
    atomic_store_explicit(&d->head.rests, false, memory_order_relaxed);
    drop_beyond(d, dropped);
    d->why = *why;
    news->level = TRACE_WARN;
    (void)snprintf(news->text, sizeof news->text, "device %s is left out until it answers: %s",
                   d->path, why->text); /* cut: the reason is long */
}

/* How long a device rests that is late no more. The lock is held. */
static int64_t rest_ms(const struct device *d)
{
    enum { DOUBLINGS_MAX = 16 };
    ASSERT(d->options.write_timeout_ms > 0);
    if (d->lates <= AUDIT_LATES_MAX)
        return 0;
    unsigned doublings = MIN(d->lates - AUDIT_LATES_MAX, (unsigned)DOUBLINGS_MAX);
    return MIN(MIN(d->options.write_timeout_ms, (int64_t)AUDIT_REST_MAX_MS) << doublings,
               (int64_t)AUDIT_REST_MAX_MS);
}

/* The thread has an answer for all that a late device held. The lock is held. */
static void end_lateness(struct device *d, struct device_news *news)
{
    int64_t rest = rest_ms(d);
    ASSERT(d->late && d->rest_until_ms == 0);
    d->late = false;
    d->back_ms = sink_now_ms();
    if (rest == 0 || d->closing)
        return;
    d->rest_until_ms = d->back_ms + rest;
    atomic_store_explicit(&d->head.rests, true, memory_order_relaxed);
    if (news->text[0] != '\0')
        return;
    news->level = TRACE_WARN;
    (void)snprintf(news->text, sizeof news->text,
                   "device %s was late %u times in a row: it takes no records that another device "
                   "takes for %lld ms",
                   d->path, d->lates, (long long)rest); /* cut: the path is long */
}

bool device_refuses(struct device *d, const struct audit_offer *offer)
{
    if (d->rest_until_ms == 0)
        return false;
    ASSERT(!d->late);
    int64_t now_ms = sink_now_ms();
    if (!offer->needed && now_ms < d->rest_until_ms)
        return true;
    d->rest_until_ms = 0;
    d->back_ms = now_ms;
    d->rested = true;
    atomic_store_explicit(&d->head.rests, false, memory_order_relaxed);
    return false;
}

void device_take_result(struct device *d, enum status st, const struct reason *why,
                        struct device_news *news)
{
    bool failed = st != ST_OK && st != ST_CLOSED;
    bool emptied = d->late && list_empty(&d->queue);
    bool back = d->rested || (emptied && rest_ms(d) == 0);
    ASSERT(list_empty(&d->held));
    ASSERT(st != ST_TIMEOUT && st != ST_BUSY);
    if (failed)
        d->why = *why;
    if (failed && why->text[0] == '\0')
        reason_set(&d->why, "%s", status_text(st));
    if (failed && !d->failing) {
        news->level = TRACE_ERROR;
        (void)snprintf(news->text, sizeof news->text, "device %s fails: %s", d->path,
                       d->why.text); /* cut if too long */
    } else if (st == ST_OK && (d->failing || back)) {
        news->level = TRACE_INFO;
        (void)snprintf(news->text, sizeof news->text,
                       "device %s works again; it missed %llu records", d->path,
                       (unsigned long long)(d->failures + d->dropped - d->missed)); /* fits */
    }
    if (st != ST_CLOSED)
        d->failing = failed;
    d->opened |= st == ST_OK;
    if (emptied)
        end_lateness(d, news);
    if (st == ST_OK && !d->late && d->rest_until_ms == 0) {
        d->missed = d->failures + d->dropped;
        d->rested = false;
    }
}
