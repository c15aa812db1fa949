/* What must hold in a pair, judged from outside the program.
 *
 *   1. a secondary that streams has the primary's content at an equal version: a prefix of it;
 *   2. the epoch of a set never falls, and has one primary: one writer of the replicated keys;
 *   3. a site that is idle, superseded or syncing has no new version;
 *   4. a promoted site has what it confirmed as a secondary, and what the first primary began with;
 *   5. at the end both have the same content, versions of keys and newest versions. */
#include "pair.h"

#include "ops.h"

#include <inttypes.h>
#include <stdlib.h>

static uint64_t modified_of(const struct store_pin *pin, struct bytes key)
{
    struct store_item item;
    return store_get(pin, key, &item) == ST_OK ? item.modified : 0;
}

static bool writes_nothing(const struct dr_role *role)
{
    return dr_stands_still(role) && role->phase != DR_PHASE_STREAMING;
}

static void check_epoch(struct node *n, const struct dr_role *role)
{
    if (role->mode != DR_MODE_DISABLED && role->epoch < n->seen.epoch)
        core_fail(n->cluster->core, "%s: the epoch falls from %" PRIu64 " to %" PRIu64, n->name,
                  n->seen.epoch, role->epoch);
    n->seen.epoch = role->epoch;
}

/* The role is judged where it is the same record before and after a batch. */
static void check_still(struct node *n, const struct store_pin *pin, const struct dr_role *role)
{
    uint64_t at = modified_of(pin, BYTES(DR_ROLE));
    bool same = n->seen.role_at == at && at != 0;
    if (same && writes_nothing(role) && pin->version != n->seen.role_version)
        core_fail(n->cluster->core,
                  "%s writes version %" PRIu64 " after %" PRIu64 " though its site is a %s, %s",
                  n->name, pin->version, n->seen.role_version, dr_mode_text(role->mode),
                  dr_phase_text(role->phase));
    n->seen.role_at = at;
    n->seen.role_version = pin->version;
}

static void check_prefix(struct node *n, const struct store_pin *pin)
{
    const struct cluster *c = n->cluster, *other = pair_other(c);
    const struct check *theirs = &other->check;
    if (pin->version >= theirs->versions_n || !theirs->versions[pin->version].known)
        return; /* the primary published no such version by itself */
    const struct seen_version *v = &theirs->versions[pin->version];
    if (memcmp(v->root, c->check.versions[pin->version].root, sizeof v->root) != 0)
        core_fail(c->core, "the secondary's %s and the primary's %s differ at version %" PRIu64,
                  n->name, other->nodes[v->slot].name, pin->version);
}

static uint64_t number_at(const struct store_pin *pin, struct bytes key)
{
    struct store_item item;
    char text[24] = "";
    if (store_get(pin, key, &item) != ST_OK || item.value.len >= sizeof text)
        return 0;
    memcpy(text, item.value.data, item.value.len);
    return strtoull(text, NULL, 10);
}

static void check_promoted(struct node *n, const struct store_pin *pin, uint64_t epoch)
{
    struct pair *p = n->cluster->pair;
    unsigned site = n->cluster->site;
    if (epoch >= PAIR_EPOCHS_MAX)
        core_fail(p->core, "%s reached epoch %" PRIu64, n->name, epoch);
    if (p->primary_of[epoch] != 0 && p->primary_of[epoch] != site + 1)
        core_fail(p->core, "epoch %" PRIu64 " has a second primary, the site of %s", epoch,
                  n->name);
    if (p->primary_of[epoch] != 0)
        return;
    p->primary_of[epoch] = site + 1;
    p->began_at[epoch] = epoch > DR_EPOCH_FIRST ? number_at(pin, BYTES(DR_PROMOTED)) : 0;
    core_say(p->core, "the site of %s is the primary of epoch %" PRIu64 " from version %" PRIu64,
             n->name, epoch, p->began_at[epoch]);
    if (epoch > p->epoch) {
        p->epoch = epoch;
        p->newest = site;
    }
    if (epoch == DR_EPOCH_FIRST)
        return;
    if (p->began_at[epoch] < p->confirmed[site])
        core_fail(p->core, "%s is promoted at version %" PRIu64 " and had confirmed %" PRIu64,
                  n->name, p->began_at[epoch], p->confirmed[site]);
    if (number_at(pin, BYTES(PAIR_GENESIS)) != p->genesis)
        core_fail(p->core, "%s is promoted without what the first primary began with", n->name);
}

/* Records of the WAL are of use where a secondary may ask for them, as src in cluster/dr/dr.c. */
static void switch_ring(struct node *n, const struct dr_role *role)
{
    rlog_wal_switch(rlog_wal(n->rlog), role->mode == DR_MODE_PRIMARY || dr_was_demoted(role));
}

void pair_check(struct node *n, const struct store_pin *pin)
{
    struct dr_role role;
    if (dr_role_at(pin, &role) != ST_OK)
        core_fail(n->cluster->core, "%s: the record of the role is malformed", n->name);
    switch_ring(n, &role);
    check_epoch(n, &role);
    check_still(n, pin, &role);
    if (role.mode == DR_MODE_SECONDARY && role.phase == DR_PHASE_STREAMING)
        check_prefix(n, pin);
    if (role.mode == DR_MODE_PRIMARY && role.phase == DR_PHASE_RUNNING)
        check_promoted(n, pin, role.epoch);
}

bool pair_keeps(const struct pair *p, uint64_t epoch, uint64_t version)
{
    for (uint64_t e = epoch + 1; e <= p->epoch; e++)
        if (p->primary_of[e] != 0 && p->primary_of[e] != p->primary_of[epoch])
            return version <= p->began_at[e];
    return true;
}

/* No newest version of the secondary is below the primary's: a watcher would miss a change. */
static bool newest_cover(const struct store_pin *primary, const struct store_pin *secondary)
{
    struct store_iter *iter = sim_alloc(sizeof *iter);
    bool well = true;
    store_iter_init(iter, primary, BYTES(RLOG_REPLICATED), (struct bytes){0});
    while (well && store_iter_next(iter))
        for (size_t len = 2; len <= iter->item.key.len; len++) {
            struct bytes prefix = bytes_of(iter->item.key.data, len);
            well = well && store_newest(secondary, prefix) >= store_newest(primary, prefix);
        }
    free(iter);
    return well;
}

static void check_equal(const struct pair *p, const struct store_pin *primary,
                        const struct store_pin *secondary)
{
    struct bytes shared = BYTES(RLOG_REPLICATED);
    uint8_t theirs[32], ours[32];
    store_hash(primary, shared, theirs);
    store_hash(secondary, shared, ours);
    if (memcmp(theirs, ours, sizeof ours) != 0)
        core_fail(p->core, "the sites differ at version %" PRIu64, primary->version);
    if (!p->blurred &&
        check_versions_hash(primary, shared) != check_versions_hash(secondary, shared))
        core_fail(p->core, "the sites differ in the versions of keys at version %" PRIu64,
                  primary->version);
    if (!newest_cover(primary, secondary))
        core_fail(p->core,
                  "a newest version of the secondary is below the primary's at version %" PRIu64,
                  primary->version);
}

bool pair_equal(struct pair *p, const char **ret_why)
{
    struct pair_view views[SITES];
    struct store_pin pins[SITES];
    unsigned n = 0;
    for (; n < SITES; n++)
        if (!pair_look(&p->sites[n], &views[n]) ||
            store_pin(rlog_store(views[n].leader->rlog), "check", 0, &pins[n]) != ST_OK)
            break;
    bool equal = n == SITES && pins[0].version == pins[1].version;
    *ret_why = n == SITES ? "the versions of the sites differ" : "a site has no leader";
    if (equal)
        check_equal(p, &pins[p->newest], &pins[1 - p->newest]);
    while (n > 0)
        store_unpin(&pins[--n]);
    return equal;
}
