/* Roles and epochs of disaster-recovery clusters, with a crash possible after every step.
 *
 * A step (d_step) is one transaction of one cluster, one request to another cluster, or one frame
 * that arrives. The first expression of each inline says when the step may happen; a refused
 * request changes nothing, so it is no step. What an operation remembers between two steps is lost
 * in a crash. README.md draws the roles, names the code of each step and lists the planted faults:
 * every #ifdef below that is no size is one.
 *
 * Small numbers stand for long values:
 *   history  what one primary writes between two changes of its role; 0 is data that is in no set.
 *            The program knows the set and the epoch of a history, not its number.
 *   record   a state, and the record that made the state from its parent, so two clusters that have
 *            the same number have the same root; 0 is a mixture of two states
 *   token    one activation: its wrapping token, one-time secret and certificate
 */

#ifndef CLUSTERS
#define CLUSTERS 2
#endif
#ifndef HISTORIES
#define HISTORIES 3 /* of all sets together */
#endif
#ifndef RECORDS
#define RECORDS 3 /* of all histories together */
#endif
#ifndef TOKENS
#define TOKENS 2 /* in use at a time */
#endif
/* The way back needs one more history; one token and two records for each other cluster. */
#define HISTORY_END (HISTORIES + 2)
#define RECORD_FIRST (CLUSTERS + 1) /* before it: what each cluster had at first */
#define RECORD_LAST (CLUSTERS + RECORDS)
#define RECORD_END (RECORD_LAST + CLUSTERS + 1)
#define TOKEN_END (TOKENS + CLUSTERS)

mtype = { DISABLED, PRIMARY, SECONDARY }
mtype = { NONE, RUNNING, SUPERSEDED, IDLE, SYNCING, STREAMING }
mtype = { FREE, WRAPPED, UNWRAPPED, ACTIVE, ENDED, REVOKED }

typedef cluster {
    /* The role record: one durable key, so one transaction changes it. */
    mtype mode;
    mtype phase;
    byte set;
    byte epoch;   /* the highest of the set that this cluster has had or believed */
    bit whole;    /* the state is one that a primary of the set had */
    byte token;   /* the activation by which it follows; of a promoted cluster: followed */
    /* Other durable state. */
    bit closed;   /* apply takes nothing from clients; written with the role */
    byte state;
    byte staged;  /* the state that the primary pinned for a sync; 0: none */
    byte bundle;  /* the token that was unwrapped for an activation under way */
    /* Lost in a crash: the primary's answer to the activation. */
    byte answer;  /* its history */
    byte raised;  /* the version that it has at least */
    /* For the checks only. */
    byte history; /* of a primary: what it writes */
}
cluster c[CLUSTERS];
#if defined(TWO_STEP) || defined(SUPERSEDE_FORGOTTEN)
bit half[CLUSTERS]; /* in the middle of what should be one transaction */
#endif

byte heard[CLUSTERS]; /* the highest epoch that a cluster of its set told this one */

byte histories;
byte set_of[HISTORY_END]; /* the number of the set's first history */
byte epoch_of[HISTORY_END];
byte writer[HISTORY_END];
bit fenced[HISTORY_END]; /* a cluster that its primary must believe told it of a higher epoch */
short sound[HISTORY_END]; /* by set; bit r: record r was the state of a primary of the set */

byte records;
byte parent[RECORD_END];
byte version[RECORD_END];
byte made_in[RECORD_END]; /* the history */

mtype token[TOKEN_END];
byte issuer[TOKEN_END];
byte claim[TOKEN_END]; /* the highest epoch that the holder announced; may arrive at any time */

#ifdef RESTORE
cluster copy, nothing;
bit copied, restored;
#endif

/* Used within a step only. */
hidden byte h, i, p;

/* Always 0: spin prints the name with the assertion that fails. */
hidden byte two_writers, fenced_writes, lower_epoch_applied, prefix_broken, epoch_falls;
hidden byte half_promoted, half_swapped, version_falls, revoked_believed, equal_believed;
hidden byte epoch_reused, epochs_equal;
hidden byte no_way_back;

#define BIT(r) (1 << (r))
#define FOLLOWS(x) (c[x].mode == SECONDARY)
#define RUNS(x) (c[x].mode == PRIMARY && c[x].phase == RUNNING)
#define SOURCE(x) issuer[c[x].token]
#if CLUSTERS == 2
#define HELD(t) (HELD_BY(0, t) || HELD_BY(1, t) || HELD_BY_COPY(t))
#else
#define HELD(t) (HELD_BY(0, t) || HELD_BY(1, t) || HELD_BY(2, t) || HELD_BY_COPY(t))
#endif
#ifdef RESTORE
#define HELD_BY_COPY(t) (copy.token == t || copy.bundle == t)
#else
#define HELD_BY_COPY(t) false
#endif
#define HELD_BY(x, t) (c[x].token == t || c[x].bundle == t)

/* The role record */

inline role_write(x, new_mode, new_phase, new_set, new_epoch)
{
    /* Within a set the epoch never falls. */
    assert(epoch_falls || !c[x].set || c[x].set != new_set || new_epoch >= c[x].epoch);
    c[x].mode = new_mode;
    c[x].phase = new_phase;
    c[x].set = new_set;
    c[x].epoch = new_epoch;
    c[x].closed = (new_mode == SECONDARY || new_phase == SUPERSEDED);
    c[x].history = (new_mode == PRIMARY -> c[x].history : 0);
#ifndef STAGE_KEPT
    c[x].staged = 0;
#endif
}

inline link_write(x, new_token)
{
    p = c[x].token;
    c[x].token = new_token;
    token_forget(p)
}

/* x is a primary from here on: of a new set, or in the next epoch of its own. */
inline history_begin(x, new_set, new_epoch)
{
#ifdef EPOCHS_EQUAL /* no fault: clusters that have not heard of each other begin equal epochs */
    h = 1;
    do
    :: h <= histories && !(set_of[h] == new_set && epoch_of[h] == new_epoch) -> h++
    :: else -> break
    od;
    assert(epochs_equal || h > histories);
#endif
    histories++;
    set_of[histories] = new_set;
    epoch_of[histories] = new_epoch;
    writer[histories] = x;
    c[x].history = histories;
    sound[new_set] = sound[new_set] | BIT(c[x].state)
}

/* What nobody holds any more is forgotten: fewer states. */
inline token_forget(t)
{
    if
    :: token[t] != WRAPPED && !HELD(t) && (token[t] == REVOKED || !claim[t]) ->
        token[t] = FREE;
        issuer[t] = 0;
        claim[t] = 0
    :: else
    fi
}

/* x serves its secondaries no longer. A demoted cluster still believes them (ENDED), also when it is
 * promoted again, until it follows another cluster. */
inline tokens_end(x, last_state)
{
    i = 1;
    do
    :: i == TOKEN_END -> break
    :: i < TOKEN_END && token[i] != FREE && issuer[i] == x ->
        token[i] = (token[i] == ACTIVE || token[i] == ENDED -> last_state : REVOKED);
        token_forget(i);
        i++
    :: else -> i++
    od;
    i = 0 /* a d_step may not end with a loop */
}

/* Records */

/* x changes its state and gives the state version v. */
inline record_write(x, v)
{
    /* Each history has one writer, and none once it is fenced. */
    assert(two_writers || c[x].mode == DISABLED || writer[c[x].history] == x);
    assert(fenced_writes || c[x].mode == DISABLED || !fenced[c[x].history]);
    records++;
    parent[records] = c[x].state;
    version[records] = v;
    made_in[records] = c[x].history;
    c[x].state = records;
    sound[c[x].set] = sound[c[x].set] | BIT(records)
}

/* A write of a client is applied. It may have been proposed before the role changed, so what its
 * request saw of the role does not count. */
inline client_write(x, last)
{
#ifdef REQUEST_GATE /* a superseded primary refuses requests only */
    c[x].mode != SECONDARY && records < last ->
#else
    !c[x].closed && records < last ->
#endif
    record_write(x, version[c[x].state] + 1)
}

/* Record r of the primary arrives: on any connection, late, twice or too early. */
inline record_apply(x, r)
{
    FOLLOWS(x) && c[x].phase == STREAMING && c[x].token && made_in[r] &&
    writer[made_in[r]] == SOURCE(x) && set_of[made_in[r]] == c[x].set &&
#ifndef DR_EPOCH
    epoch_of[made_in[r]] == c[x].epoch &&
#endif
#if defined(JUMP_BLIND) /* a jump names only the version that it leads to */
    (version[r] == version[parent[r]] + 1 -> version[r] == version[c[x].state] + 1
                                           : version[r] > version[c[x].state]) ->
#elif defined(BASE_VERSION) /* the secondary's newest record is known by its version alone */
    version[parent[r]] == version[c[x].state] ->
#else /* by version and time */
    parent[r] == c[x].state ->
#endif
    /* Nothing of an epoch below the highest that is known. */
    assert(lower_epoch_applied || epoch_of[made_in[r]] >= c[x].epoch);
    /* The secondary has what the primary had, record by record. */
    assert(prefix_broken || parent[r] == c[x].state);
    c[x].state = r
}

/* Operations on a primary */

inline primary_enable(x, last)
{
    c[x].mode == DISABLED && histories < last && (histories || x == 0) ->
    p = histories + 1;
    history_begin(x, p, 1);
    role_write(x, PRIMARY, RUNNING, p, 1);
    c[x].whole = 1
}

/* The link of a cluster that was promoted stays: promoted again, it announces its epoch by it. */
inline primary_demote(x)
{
    c[x].mode == PRIMARY ->
    role_write(x, SECONDARY, IDLE, c[x].set, c[x].epoch);
    tokens_end(x, ENDED)
}

/* primary/disable, secondary/disable: the state stays and belongs to no set. */
inline disable(x)
{
    c[x].mode == PRIMARY || c[x].mode == SECONDARY ->
    role_write(x, DISABLED, NONE, 0, 0);
    c[x].whole = 0;
    heard[x] = 0;
    link_write(x, 0);
    tokens_end(x, REVOKED)
}

inline secondary_token(x, t)
{
    RUNS(x) && token[t] == FREE && (t == 1 || t > TOKENS || token[t - 1] != FREE) ->
    token[t] = WRAPPED;
    issuer[t] = x;
    claim[t] = 0
}

inline revoke_secondary(t)
{
    token[t] != FREE && token[t] != REVOKED ->
    token[t] = REVOKED;
    token_forget(t)
}

/* Activation of cluster x: secondary/enable, update-primary. A lost answer is a crash of x here. */

inline activation_unwrap(x, t)
{
    c[x].mode != PRIMARY && !c[x].bundle && token[t] == WRAPPED && issuer[t] != x ->
    token[t] = UNWRAPPED;
    c[x].bundle = t
}

/* The primary raises its version, so that the version of x will not fall. Repeated by the same
 * cluster with the same key, the request gets the same answer. */
inline activation_bootstrap(x, last)
{
    c[x].bundle && !c[x].answer && (token[c[x].bundle] == UNWRAPPED || token[c[x].bundle] == ACTIVE) &&
    RUNS(issuer[c[x].bundle]) && records < last ->
    p = issuer[c[x].bundle];
    token[c[x].bundle] = ACTIVE;
    if
    :: version[c[p].state] < version[c[x].state] -> record_write(p, version[c[x].state])
    :: else
    fi;
    c[x].answer = c[p].history;
    c[x].raised = version[c[p].state]
}

/* The first transaction that changes x. Role and version may have changed meanwhile. */
inline activation_commit(x)
{
    c[x].answer &&
    (c[x].mode == DISABLED ||
     (FOLLOWS(x) && set_of[c[x].answer] == c[x].set
#ifndef EPOCH_FALLS
      && epoch_of[c[x].answer] >= c[x].epoch
#endif
      )) &&
#ifndef RAISE_EARLY /* x may have been written to since it named its version */
    version[c[x].state] <= c[x].raised &&
#endif
    true ->
    if
    :: c[x].phase == IDLE -> tokens_end(x, REVOKED)
    :: else
    fi;
    role_write(x, SECONDARY, SYNCING, set_of[c[x].answer], epoch_of[c[x].answer]);
    link_write(x, c[x].bundle);
    activation_forget(x)
}

inline activation_forget(x)
{
    p = c[x].bundle;
    c[x].bundle = 0;
    c[x].answer = 0;
    c[x].raised = 0;
    token_forget(p)
}

/* Operations on a secondary */

/* update-primary with a blank token: forget the primary. The link stays, for update_addresses. During
 * a first sync there is no state that the cluster could go on with. */
inline update_blank(x)
{
    FOLLOWS(x) &&
#ifdef SYNC_STUCK /* no way out of a sync whose primary is lost */
    c[x].phase != SYNCING &&
#endif
#ifndef FORGET_HALF
    c[x].whole &&
#endif
    true ->
    role_write(x, SECONDARY, IDLE, c[x].set, c[x].epoch)
}

/* update-primary with addresses: follow the same primary again. */
inline update_addresses(x)
{
    FOLLOWS(x) && c[x].phase == IDLE && c[x].token ->
    role_write(x, SECONDARY, SYNCING, c[x].set, c[x].epoch)
}

/* The link stays: x announces its epoch to the primary that it followed. */
inline promote(x, last)
{
    FOLLOWS(x) && histories < last &&
#ifndef DR_PROMOTE_HALF
    c[x].phase != SYNCING &&
#endif
    true ->
    /* Neither a mixture nor a state that was never the set's. */
    assert(half_promoted || sound[c[x].set] & BIT(c[x].state));
#ifdef TWO_STEP /* the mode first, the epoch in a second transaction */
    c[x].mode = PRIMARY;
    c[x].phase = RUNNING;
    c[x].closed = 0;
    c[x].history = made_in[c[x].state];
    half[x] = 1
#else
    promote_commit(x)
#endif
}

inline promote_commit(x)
{
    /* Not under an epoch that x has heard of. */
    assert(epoch_reused || c[x].epoch >= heard[x]);
    history_begin(x, c[x].set, c[x].epoch + 1);
    role_write(x, PRIMARY, RUNNING, c[x].set, c[x].epoch + 1)
}

/* Between a secondary and its primary */

/* The primary accepts x: x was not revoked, and both have the same set and epoch. */
#define SERVED(x) (FOLLOWS(x) && c[x].token && token[c[x].token] == ACTIVE && RUNS(SOURCE(x)) && \
    c[SOURCE(x)].set == c[x].set && c[SOURCE(x)].epoch == c[x].epoch)

/* The primary pins its state. A state that is older than x's is refused. */
inline sync_begin(x)
{
    SERVED(x) && c[x].phase == SYNCING && !c[x].staged &&
#ifndef RAISE_EARLY
    version[c[SOURCE(x)].state] >= version[c[x].state] &&
#endif
    true ->
    c[x].staged = c[SOURCE(x)].state;
#ifdef SYNC_IN_PLACE /* differing keys are repaired in the state itself, in many transactions */
    c[x].state = 0
#endif
}

/* The sync broke off: it begins anew. */
inline sync_drop(x)
{
    c[x].staged ->
    c[x].staged = 0
}

inline sync_swap(x)
{
    FOLLOWS(x) && c[x].phase == SYNCING && c[x].staged ->
    /* A state that a primary of the set had; and the version does not fall. */
    assert(half_swapped || sound[c[x].set] & BIT(c[x].staged));
    assert(version_falls || version[c[x].staged] >= version[c[x].state]);
    c[x].state = c[x].staged;
    c[x].whole = 1;
    role_write(x, SECONDARY, STREAMING, c[x].set, c[x].epoch);
    c[x].staged = 0
}

/* The primary no longer has the records that x needs, or replaced its state. */
inline sync_again(x)
{
    SERVED(x) && c[x].phase == STREAMING ->
    role_write(x, SECONDARY, SYNCING, c[x].set, c[x].epoch)
}

/* In each HELLO: of a secondary to its primary, of a promoted cluster to its former primary. */
inline epoch_announce(x)
{
    c[x].token && c[x].epoch > claim[c[x].token] &&
#ifndef BELIEVE_REVOKED /* what is revoked changes nothing, so is left out */
    token[c[x].token] != REVOKED &&
#endif
#ifndef BELIEVE_EQUAL /* nor does a lower or equal epoch */
    c[x].epoch > c[SOURCE(x)].epoch &&
#endif
    true ->
    claim[c[x].token] = c[x].epoch
}

/* The HELLO arrives at the cluster that issued certificate t: a primary, or a demoted one. */
inline epoch_hear(t)
{
    claim[t] && (c[issuer[t]].mode == PRIMARY || c[issuer[t]].phase == IDLE) &&
#ifdef BELIEVE_REVOKED
    token[t] != FREE &&
#else
    (token[t] == ACTIVE || token[t] == ENDED) &&
#endif
#ifdef BELIEVE_EQUAL
    claim[t] >= c[issuer[t]].epoch ->
#else
    claim[t] > c[issuer[t]].epoch ->
#endif
    p = issuer[t];
    assert(revoked_believed || token[t] != REVOKED);
    /* Equal epochs are a conflict for operators: no cluster stops by itself. */
    assert(equal_believed || claim[t] > c[p].epoch);
    heard[p] = claim[t];
    fenced[c[p].history] = c[p].history != 0;
#if defined(NO_SUPERSEDE)
    skip
#elif defined(SUPERSEDE_FORGOTTEN) /* in memory only */
    half[p] = 1;
    c[p].closed = 1
#elif defined(SUPERSEDE_OWN_EPOCH) /* the record keeps the epoch that was superseded */
    role_write(p, c[p].mode, (FOLLOWS(p) -> IDLE : SUPERSEDED), c[p].set, c[p].epoch)
#else
    role_write(p, c[p].mode, (FOLLOWS(p) -> IDLE : SUPERSEDED), c[p].set, claim[t]);
    claim[t] = 0;
    token_forget(t)
#endif
}

/* Every answer to a HELLO, also a refusal, names the highest epoch that its sender knows. A
 * secondary believes its primary. A primary does not believe its former primary, and reports it. */
inline epoch_answered(x)
{
    FOLLOWS(x) && c[x].token && (token[c[x].token] == ACTIVE || token[c[x].token] == ENDED) &&
    c[SOURCE(x)].set == c[x].set && c[SOURCE(x)].epoch > c[x].epoch ->
    role_write(x, SECONDARY, c[x].phase, c[x].set, c[SOURCE(x)].epoch)
}

/* Faults */

inline crash(x)
{
#ifdef SUPERSEDE_FORGOTTEN
    c[x].closed = (half[x] -> FOLLOWS(x) : c[x].closed);
    half[x] = 0;
#endif
    c[x].answer = 0;
    c[x].raised = 0
}

/* A majority is lost for good, and the survivor (R21) lacks the last record of the primary, which
 * other clusters may have. */
inline lose_majority(x)
{
    made_in[c[x].state] && set_of[made_in[c[x].state]] == c[x].set && c[x].phase != SYNCING &&
    (FOLLOWS(x) || made_in[c[x].state] == c[x].history) ->
    c[x].state = parent[c[x].state];
    crash(x)
}

/* Every disk of cluster 0 goes back to an older copy, and no operator says so. */
#ifdef RESTORE
inline disks_copy()
{
    !copied ->
    copied = 1;
    cluster_assign(copy, c[0])
}

inline disks_restore()
{
    copied && !restored ->
    restored = 1;
    cluster_assign(c[0], copy);
    crash(0);
    heard[0] = c[0].epoch;
    fenced[c[0].history] = 0
}

inline cluster_assign(to, from)
{
    to.mode = from.mode;
    to.phase = from.phase;
    to.set = from.set;
    to.epoch = from.epoch;
    to.whole = from.whole;
    to.token = from.token;
    to.closed = from.closed;
    to.state = from.state;
    to.staged = from.staged;
    to.bundle = from.bundle;
    to.history = from.history
}
#endif

/* The way back. In every state of the model an operator can make any cluster x the primary, and
 * each other cluster y a secondary that streams. A step that may not happen fails the check. */

inline become_primary(x)
{
    if
    :: c[x].mode == PRIMARY && c[x].phase == SUPERSEDED -> primary_demote(x)
    :: FOLLOWS(x) && c[x].phase == SYNCING && c[x].whole -> update_blank(x)
    :: else
    fi;
    if
    :: FOLLOWS(x) && c[x].whole -> promote(x, HISTORY_END - 1)
    :: FOLLOWS(x) && !c[x].whole -> disable(x)
    :: else
    fi;
    if
    :: c[x].mode == DISABLED -> primary_enable(x, HISTORY_END - 1)
    :: else
    fi;
    assert(no_way_back || RUNS(x))
}

inline become_secondary(y, x, t)
{
    if
    :: c[y].mode == PRIMARY -> primary_demote(y)
    :: else
    fi;
    if
    :: FOLLOWS(y) && (c[y].set != c[x].set || c[y].epoch > c[x].epoch) -> disable(y)
    :: else
    fi;
    activation_forget(y);
    secondary_token(x, t);
    activation_unwrap(y, t);
    activation_bootstrap(y, RECORD_END - 1);
    activation_commit(y);
    sync_begin(y);
    sync_swap(y);
    assert(no_way_back || c[y].phase == STREAMING)
}

inline stream_last(y, x)
{
    if
    :: c[y].state != c[x].state -> record_apply(y, c[x].state)
    :: else
    fi;
    assert(no_way_back || c[y].state == c[x].state)
}

#if CLUSTERS == 2
#define THIRD(step)
#else
#define THIRD(step) step;
#endif
#define LEAD_BACK(x, y, z) \
    d_step { \
        histories -> \
        activation_forget(x); \
        become_primary(x); \
        become_secondary(y, x, TOKENS + 1); \
        THIRD(become_secondary(z, x, TOKENS + 2)) \
        THIRD(stream_last(y, x)) \
        client_write(x, RECORD_END - 1); \
        stream_last(y, x); \
        THIRD(stream_last(z, x)) \
        forget() \
    }

/* All ways back end in one state, in which nothing can happen. */
inline forget()
{
    histories = 0;
    records = 0;
#ifdef RESTORE
    cluster_assign(copy, nothing);
    copied = 1;
    restored = 1;
#endif
    i = 0;
    do
    :: i == CLUSTERS -> break
    :: else ->
        c[i].mode = NONE; c[i].phase = NONE; c[i].set = 0; c[i].epoch = 0; c[i].whole = 0;
        c[i].token = 0; c[i].closed = 1; c[i].state = 0; c[i].staged = 0; c[i].bundle = 0;
        c[i].answer = 0; c[i].raised = 0; c[i].history = 0; heard[i] = 0;
        i++
    od;
    i = 0;
    do
    :: i == HISTORY_END -> break
    :: else ->
        epoch_of[i] = 0; set_of[i] = 0; writer[i] = 0; fenced[i] = 0; sound[i] = 0;
        i++
    od;
    i = 0;
    do
    :: i == RECORD_END -> break
    :: else ->
        parent[i] = 0; version[i] = 0; made_in[i] = 0;
        i++
    od;
    i = 0;
    do
    :: i == TOKEN_END -> break
    :: else ->
        token[i] = FREE; issuer[i] = 0; claim[i] = 0;
        i++
    od;
    i = 0
}

/* Operators, clients, links and faults act in any order, as often as they like. */

proctype site(byte x)
{
end:
    do
    :: d_step { primary_enable(x, HISTORIES) }
    :: d_step { primary_demote(x) }
    :: d_step { disable(x) }
    :: d_step { activation_bootstrap(x, RECORD_LAST) }
    :: d_step { activation_commit(x) }
    :: d_step { update_blank(x) }
    :: d_step { update_addresses(x) }
    :: d_step { promote(x, HISTORIES) }
    :: d_step { sync_begin(x) }
    :: d_step { sync_drop(x) }
    :: d_step { sync_swap(x) }
    :: d_step { sync_again(x) }
    :: d_step { epoch_announce(x) }
    :: d_step { epoch_answered(x) }
    :: d_step { client_write(x, RECORD_LAST) }
    :: d_step { lose_majority(x) }
    :: d_step { c[x].bundle -> activation_forget(x) }
    :: d_step { c[x].mode != NONE -> crash(x) }
#ifdef TWO_STEP
    :: d_step { half[x] && c[x].mode == PRIMARY && histories < HISTORIES -> half[x] = 0; promote_commit(x) }
#endif
    od
}

proctype activation(byte t)
{
end:
    do
    :: d_step { secondary_token(0, t) }
    :: d_step { secondary_token(1, t) }
    :: d_step { activation_unwrap(0, t) }
    :: d_step { activation_unwrap(1, t) }
#if CLUSTERS > 2
    :: d_step { secondary_token(2, t) }
    :: d_step { activation_unwrap(2, t) }
#endif
    :: d_step { revoke_secondary(t) }
    :: d_step { epoch_hear(t) }
    od
}

proctype link(byte r)
{
end:
    do
    :: d_step { record_apply(0, r) }
    :: d_step { record_apply(1, r) }
#if CLUSTERS > 2
    :: d_step { record_apply(2, r) }
#endif
    od
}

#ifdef RESTORE
proctype disks()
{
end:
    do
    :: d_step { disks_copy() }
    :: d_step { disks_restore() }
    od
}
#endif

#ifdef WAY_BACK
proctype way_back()
{
end:
    do
    :: LEAD_BACK(0, 1, 2)
    :: LEAD_BACK(1, 0, 2)
#if CLUSTERS > 2
    :: LEAD_BACK(2, 0, 1)
#endif
    od
}
#endif

init
{
    atomic {
        for (i : 0 .. CLUSTERS - 1) {
            c[i].mode = DISABLED;
            c[i].phase = NONE;
            c[i].state = i + 1;
            version[i + 1] = 1;
            run site(i)
        }
#if CLUSTERS > 2
        version[CLUSTERS] = 4; /* one served alone for longer */
#endif
        records = CLUSTERS;
        for (i : 0 .. TOKEN_END - 1) {
            token[i] = FREE
        }
        for (i : 1 .. TOKENS) {
            run activation(i)
        }
        for (i : RECORD_FIRST .. RECORD_LAST) {
            run link(i)
        }
#ifdef RESTORE
        run disks();
#endif
#ifdef WAY_BACK
        run way_back();
#endif
        i = 0
    }
}
