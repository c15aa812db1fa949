/* The addresses of the member that is asked. A name may have several: a round asks each of them in
 * turn, and each round looks the name up anew.
 *
 *   enroll_round ─▶ looks up ─▶ asks ─no success─▶ enroll_round_next ─▶ asks …
 *                      │                                   └─ no address is left: the round ends
 *                      └─ no address: the round ends
 *
 * The name in the certificate is checked at each address as if it were the only one. */
#include "cluster/membership/join/enroll_internal.h"

void enroll_round_send(struct enroll_try *e)
{
    ASSERT(e->at_address < e->addresses.n);
    struct http_target target = {
        .address = e->addresses.text[e->at_address], .tls = e->tls, .host = e->host};
    enroll_send(e, &target);
}

static void on_addresses(void *ctx, struct http_lookup *lookup, enum status st,
                         const struct http_addresses *addresses, const struct reason *reason)
{
    struct enroll *all = ctx;
    struct enroll_try *e = all->try;
    ASSERT(all->n_lookups > 0);
    all->n_lookups--;
    if (e == NULL || e->lookup != lookup)
        return; /* another request has begun, or the try has ended */
    e->lookup = NULL;
    if (all->host->stopping)
        return;
    ASSERT(!e->calling && !e->closing);
    if (st != ST_OK) {
        enroll_tried(e, ENROLL_AGAIN, reason);
        return;
    }
    e->addresses = *addresses;
    enroll_round_send(e);
}

void enroll_round(struct enroll_try *e, const char *address, const char *host)
{
    struct reason reason = {{0}};
    struct http_lookup *lookup = NULL;
    ASSERT(!e->calling && e->lookup == NULL);
    e->addresses.n = e->at_address = 0;
    e->refused.text[0] = '\0';
    e->host = host;
    enum status st = http_lookup_start(e->all->host->env, address, on_addresses, e->all, &lookup);
    if (st != ST_OK) {
        reason_set(&reason, "%s", status_text(st));
        enroll_tried(e, ENROLL_AGAIN, &reason);
        return;
    }
    e->lookup = lookup;
    e->all->n_lookups++;
}

bool enroll_round_next(struct enroll_try *e)
{
    if (e->at_address + 1 >= e->addresses.n)
        return false;
    e->at_address++;
    return true;
}

void enroll_round_drop(struct enroll_try *e)
{
    if (e->lookup != NULL)
        http_lookup_hurry(e->lookup);
    e->lookup = NULL;
}

const char *enroll_round_at(const struct enroll_try *e)
{
    return e->at_address < e->addresses.n ? e->addresses.text[e->at_address] : NULL;
}
