/* The seals between which an operator moves the cluster, to and fro: two static ones and key
 * shares. The program's own code carries out the move. */
#include "cluster.h"

#include <assert.h>

const uint8_t sim_shares_key[SEAL_KEY_BYTES] = "the key that shares combine to.";

enum { SHARES = 3, THRESHOLD = 2 };

void seals_init(struct cluster *c)
{
    static_assert(SIM_SEALS == 3, "two static seals, and key shares");
    bool far = c->site != 0;
    struct bytes key =
        far ? BYTES("the key of the other site ......") : BYTES("an unsealing key of 32 bytes ...");
    struct bytes second =
        far ? BYTES("another key of the other site ..") : BYTES("another key of 32 bytes ........");
    enum status st = seal_static(key, far ? "far" : "sim", &c->seals[0], NULL);
    if (st == ST_OK)
        st = seal_static(second, far ? "far-2" : "sim-2", &c->seals[1], NULL);
    if (st == ST_OK)
        st = seal_shamir(bytes_of(sim_shares_key, sizeof sim_shares_key), SHARES, THRESHOLD,
                         &c->seals[2]);
    if (st != ST_OK)
        core_fail(c->core, "the seals cannot be made");
    for (unsigned i = 0; i < SIM_SEALS; i++) {
        c->seals[i].shares = SHARES;
        c->seals[i].threshold = THRESHOLD;
    }
}

static unsigned index_of(const struct cluster *c, const struct seal_info *info)
{
    for (unsigned i = 0; i < SIM_SEALS; i++)
        if (c->seals[i].type == info->type && strcmp(c->seals[i].id, info->id) == 0)
            return i;
    core_fail(c->core, "no seal is named %s", info->id);
}

const struct seal *seals_of(const struct cluster *c, const struct seal_info *info)
{
    return &c->seals[index_of(c, info)];
}

enum status seals_migrate(struct cluster *c, struct state_txn *txn, uint64_t to)
{
    struct seal_info info;
    TRY(state_seal_read(txn, &info));
    unsigned from = index_of(c, &info), at = (unsigned)(to % SIM_SEALS);
    if (at == from)
        at = (from + 1) % SIM_SEALS;
    const struct seal *target = c->seals[at].type == SEAL_STATIC ? &c->seals[at] : NULL;
    enum status st = state_migrate(txn, target, bytes_of(sim_shares_key, sizeof sim_shares_key));
    if (st == ST_DENIED || st == ST_NOT_FOUND)
        core_fail(c->core, "the shares do not move the seal from %s to %s: %s", c->seals[from].id,
                  c->seals[at].id, status_name(st));
    return st;
}

/* A static seal has a recovery key, which is the key that the shares combine to. */
static void check_recovery(struct node *n, const struct seal *seal)
{
    struct reason reason = {0};
    enum status st = state_check_recovery(rlog_store(n->rlog), &n->env.env, seal,
                                          bytes_of(sim_shares_key, sizeof sim_shares_key), &reason);
    if (st != ST_OK)
        core_fail(n->cluster->core, "%s: the recovery key does not fit the seal %s: %s %s", n->name,
                  seal->id, status_name(st), reason.text);
}

/* Whether a seal opens the stored root key. */
static enum status try_seal(struct node *n, const struct seal *seal, struct reason *reason)
{
    return state_unseal(rlog_store(n->rlog), n->barrier, seal, reason);
}

void seals_unseal(struct node *n)
{
    struct cluster *c = n->cluster;
    struct reason reason = {0};
    struct seal_info info;
    enum status st = state_seal_info(rlog_store(n->rlog), &info);
    if (st == ST_NOT_FOUND)
        return; /* the cluster is not initialised */
    if (st != ST_OK)
        core_fail(c->core, "%s: the stored seal cannot be read: %s", n->name, status_name(st));
    const struct seal *seal = seals_of(c, &info);
    for (unsigned i = 0; i < SIM_SEALS; i++)
        if (&c->seals[i] != seal && try_seal(n, &c->seals[i], &reason) != ST_INVALID)
            core_fail(c->core, "%s: the seal %s is not refused", n->name, c->seals[i].id);
    if (seal->type == SEAL_STATIC)
        check_recovery(n, seal);
    st = try_seal(n, seal, &reason);
    if (st != ST_OK)
        core_fail(c->core, "%s cannot be unsealed: %s: %s", n->name, status_name(st), reason.text);
}

void seals_check(struct node *n, struct state_txn *txn)
{
    struct cluster *c = n->cluster;
    struct seal_info info;
    enum status st = state_seal_read(txn, &info);
    if (st == ST_OK)
        st = state_check_key(txn, bytes_of(sim_shares_key, sizeof sim_shares_key));
    if (st != ST_OK)
        core_fail(c->core, "%s: the shares do not fit the seal at the end: %s", n->name,
                  status_name(st));
    enum status has = state_exists(txn, BYTES(STATE_RECOVERY_KEY));
    if (has != (info.type == SEAL_STATIC ? ST_OK : ST_NOT_FOUND))
        core_fail(c->core, "%s: the seal is %s, the recovery key at the end is %s", n->name,
                  info.id, status_name(has));
}
