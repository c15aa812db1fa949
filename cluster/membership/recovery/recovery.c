/* Recovery from a lost majority. recovery.h has the steps. */
#include "cluster/membership/recovery/recovery.h"

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "cluster/membership/local.h"
#include "raft/txn/rlog_txn.h"

#include <stdio.h>

enum said { SAID_NOTHING, SAID_LOST, SAID_SURVIVES };

struct recovery {
    struct fs *fs;
    struct step_record step;
    char folder[MEMBER_RAFT_DIR_MAX];
    struct rlog_survivor *survivor;
    struct rlog_survey survey;
    enum said said[RLOG_SURVIVOR_MEMBERS_MAX]; /* for each member of the survey */
    struct rlog_position others[RLOG_SURVIVOR_MEMBERS_MAX];
    unsigned n_others;
    bool gives_up; /* this node itself was named as lost */
};

static enum status read_step(struct recovery *r, struct reason *reason)
{
    struct initial_members none;
    static const uint8_t no_nonce[INITIAL_NONCE_BYTES];
    initial_members_init(&none, NULL, 0, 0, no_nonce);
    enum status st = step_file_load(r->fs, &r->step, &none);
    reason_set(reason,
               st == ST_NOT_FOUND ? "no node has run on this data directory" : STEP_FILE ": %s",
               status_text(st));
    TRY(st);
    step_folder(r->step.folder, r->folder);
    if (r->step.step == STEP_STARTED || r->step.step == STEP_REMOVED)
        return ST_OK;
    reason_set(reason, "this node has not become a member of its cluster yet: it has nothing to "
                       "recover");
    return ST_NOT_FOUND;
}

enum status recovery_open(struct fs *fs, struct recovery **ret, struct reason *reason)
{
    reason_set(reason, "out of memory");
    struct recovery *r = mem_zalloc(sizeof *r);
    if (r == NULL)
        return ST_NOMEM;
    r->fs = fs;
    enum status st = read_step(r, reason);
    if (st == ST_OK)
        st = rlog_survivor_open(fs, r->folder, &r->survivor, &r->survey, reason);
    if (st != ST_OK) {
        recovery_close(r);
        return st;
    }
    *ret = r;
    return ST_OK;
}

void recovery_close(struct recovery *r)
{
    if (r == NULL)
        return;
    rlog_survivor_close(r->survivor);
    mem_free(r);
}

const struct rlog_survey *recovery_survey(const struct recovery *r)
{
    return &r->survey;
}

const char *recovery_folder(const struct recovery *r)
{
    return r->folder;
}

/* Positions as words: NAME:TERM:INDEX:CHECK:SUM, the last two as eight hex digits */

static uint32_t word_sum(const struct recovery *r, const char *name, uint64_t id,
                         const struct rlog_position *p)
{
    uint8_t numbers[28];
    le64_put(numbers, id);
    le64_put(numbers + 8, p->term);
    le64_put(numbers + 16, p->index);
    le32_put(numbers + 24, p->check);
    uint32_t crc =
        crc32c(0, bytes_of(r->survey.identity.cluster, sizeof r->survey.identity.cluster));
    return crc32c(crc32c(crc, bytes_str(name)), bytes_of(numbers, sizeof numbers));
}

void recovery_word(const struct recovery *r, char ret_word[RECOVERY_WORD_MAX])
{
    const struct rlog_position *p = &r->survey.last;
    const char *name = r->survey.identity.name;
    int len = snprintf(ret_word, RECOVERY_WORD_MAX, "%s:%llu:%llu:%08x:%08x", name,
                       (unsigned long long)p->term, (unsigned long long)p->index, p->check,
                       word_sum(r, name, r->survey.identity.id, p));
    ASSERT(len > 0 && len < RECOVERY_WORD_MAX);
}

/* The number up to the next colon, or to the end, in decimal or as eight hex digits. */
static bool take_number(const char **at, bool hex, uint64_t *ret)
{
    size_t len = strcspn(*at, ":");
    uint64_t n = 0;
    if (len == 0 || len > 19 || (hex && len != 8))
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = (*at)[i];
        bool letter = hex && c >= 'a' && c <= 'f';
        if (!letter && (c < '0' || c > '9'))
            return false;
        n = n * (hex ? 16 : 10) + (uint64_t)(letter ? c - 'a' + 10 : c - '0');
    }
    *at += len;
    *ret = n;
    return true;
}

static bool word_parse(const char *word, char name[MESH_NAME_MAX], struct rlog_position *p,
                       uint32_t *ret_sum)
{
    uint64_t check, sum;
    size_t len = strcspn(word, ":");
    const char *at = word + len;
    if (len == 0 || len >= MESH_NAME_MAX)
        return false;
    memcpy(name, word, len);
    name[len] = '\0';
    bool good = *at++ == ':' && take_number(&at, false, &p->term) && *at++ == ':' &&
                take_number(&at, false, &p->index) && *at++ == ':' &&
                take_number(&at, true, &check) && *at++ == ':' && take_number(&at, true, &sum) &&
                *at == '\0';
    if (!good)
        return false;
    p->check = (uint32_t)check;
    *ret_sum = (uint32_t)sum;
    return true;
}

/* Note what was said about every incarnation of the name. */
static enum status mention(struct recovery *r, const char *name, enum said said,
                           struct reason *reason)
{
    bool known = false;
    ASSERT(said != SAID_NOTHING);
    ASSERT(r->survey.n_members <= ARRAY_LEN(r->said));
    for (unsigned i = 0; i < r->survey.n_members; i++) {
        if (strcmp(r->survey.members[i].name, name) != 0)
            continue;
        if (r->said[i] != SAID_NOTHING) {
            reason_set(reason, "%s: named twice", name);
            return ST_INVALID;
        }
        known = true;
        r->said[i] = said;
    }
    if (!known)
        reason_set(reason, "%s: no member of the cluster has this name", name);
    return known ? ST_OK : ST_INVALID;
}

enum status recovery_survivor(struct recovery *r, const char *word, struct reason *reason)
{
    char name[MESH_NAME_MAX];
    struct rlog_position p;
    uint32_t sum;
    bool good = false;
    if (!word_parse(word, name, &p, &sum)) {
        reason_set(reason, "\"%.60s\" is no position: copy the line that \"recover\" prints there",
                   word);
        return ST_INVALID;
    }
    if (strcmp(name, r->survey.identity.name) == 0) {
        reason_set(reason, "%s: this node itself needs no position", name);
        return ST_INVALID;
    }
    TRY(mention(r, name, SAID_SURVIVES, reason));
    for (unsigned i = 0; i < r->survey.n_members; i++)
        good = good || (strcmp(r->survey.members[i].name, name) == 0 &&
                        word_sum(r, name, r->survey.members[i].id, &p) == sum);
    if (!good) {
        reason_set(reason,
                   "%s: the position is mistyped, of another cluster, or of a disk that is no "
                   "member any more",
                   name);
        return ST_INVALID;
    }
    ASSERT(r->n_others < ARRAY_LEN(r->others));
    r->others[r->n_others++] = p;
    return ST_OK;
}

enum status recovery_lost(struct recovery *r, const char *name, struct reason *reason)
{
    bool own = strcmp(name, r->survey.identity.name) == 0;
    TRY(mention(r, name, SAID_LOST, reason));
    r->gives_up = r->gives_up || own;
    return ST_OK;
}

/* Whether a recovery is needed at all: with a majority of the voters the cluster goes on. */
static enum status check_majority(const struct recovery *r, struct reason *reason)
{
    unsigned voters = 0, left = 0;
    ASSERT(r->survey.n_newest > 0);
    for (unsigned i = 0; i < r->survey.n_newest; i++) {
        const struct rlog_member *m = &r->survey.members[i];
        bool here = m->id == r->survey.identity.id || r->said[i] == SAID_SURVIVES;
        voters += m->role == RLOG_VOTER;
        left += m->role == RLOG_VOTER && here;
    }
    if (left <= voters / 2)
        return ST_OK;
    reason_set(reason, "%u of %u voters are left, which is a majority: start them instead", left,
               voters);
    return ST_DENIED;
}

static enum status check_mentioned(const struct recovery *r, struct reason *reason)
{
    for (unsigned i = 0; i < r->survey.n_members; i++) {
        const struct rlog_member *m = &r->survey.members[i];
        bool own = strcmp(m->name, r->survey.identity.name) == 0;
        if (own || r->said[i] != SAID_NOTHING)
            continue;
        reason_set(reason,
                   "%s was not mentioned: give its position with -survivor, or say -lost %s if its "
                   "data is gone for good",
                   m->name, m->name);
        return ST_DENIED;
    }
    return ST_OK;
}

static enum status check_positions(const struct recovery *r, struct reason *reason)
{
    const struct rlog_position *mine = &r->survey.last;
    for (unsigned i = 0; i < r->n_others; i++) {
        enum status st = rlog_position_judge(mine, &r->others[i]);
        if (st != ST_OK)
            reason_set(reason,
                       st == ST_CONFLICT
                           ? "this log ends at entry %llu of term %llu, another survivor's log "
                             "goes on to entry %llu of term %llu: recover there"
                           : "this log ends at entry %llu of term %llu, and another survivor's "
                             "entry %llu of term %llu differs from it: one is damaged",
                       (unsigned long long)mine->index, (unsigned long long)mine->term,
                       (unsigned long long)r->others[i].index,
                       (unsigned long long)r->others[i].term);
        TRY(st);
    }
    return ST_OK;
}

enum status recovery_check(const struct recovery *r, struct reason *reason)
{
    if (r->survey.n_members == 1) {
        reason_set(reason,
                   r->step.folder != 0
                       ? "%s was recovered already: start it, and let the other nodes join it"
                       : "%s is the only member of its cluster: start it",
                   r->survey.identity.name);
        return ST_EXISTS;
    }
    if (r->step.superseded) {
        reason_set(reason,
                   "the cluster was recovered without %s: it may only join that cluster, with "
                   "-join and, to give up what its log has, -lost=%s",
                   r->survey.identity.name, r->survey.identity.name);
        return ST_DENIED;
    }
    if (r->step.step == STEP_REMOVED) {
        reason_set(reason, "%s was removed from its cluster: it may only join again",
                   r->survey.identity.name);
        return ST_DENIED;
    }
    if (r->gives_up) {
        reason_set(reason, "%s is this node: it cannot be lost", r->survey.identity.name);
        return ST_DENIED;
    }
    TRY(check_mentioned(r, reason));
    TRY(check_majority(r, reason));
    return check_positions(r, reason);
}

/* The transaction behind the old log: the raft ids of the former cluster are refused from now on,
 * and this node, the only one left, votes whatever was wished before. */
static enum status make_txn(const struct recovery *r, struct buf *out)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    char key[sizeof MEMBER_RECOVERED_KEY + RECOVERED_NAME_MAX], name[RECOVERED_NAME_MAX];
    char vote[MEMBER_KEY_MAX];
    for (unsigned i = 0; i < r->survey.n_members; i++) {
        local_recovered_name(r->survey.members[i].id, name);
        int len = snprintf(key, sizeof key, MEMBER_RECOVERED_KEY "%s", name);
        ASSERT(len > 0 && (size_t)len < sizeof key);
        rlog_txn_put(&txn, bytes_str(key), bytes_str(r->survey.members[i].name));
    }
    int len = snprintf(vote, sizeof vote, MEMBER_NONVOTER_KEY "%s", r->survey.identity.name);
    ASSERT(len > 0 && (size_t)len < sizeof vote);
    rlog_txn_delete(&txn, bytes_str(vote));
    return rlog_txn_encode(&txn, out);
}

/* An id that no initial member and no member of the former cluster has. */
static uint64_t usable_id(const struct recovery *r, uint64_t id)
{
    id &= INT64_MAX;
    id |= (uint64_t)1 << 62; /* far above the ids of initial members */
    for (unsigned i = 0; i < r->survey.n_members; i++)
        if (r->survey.members[i].id == id)
            return usable_id(r, id + 1);
    return id;
}

/* The number behind that of the former folder, so that another attempt finds what an interrupted
 * one has left there, and removes it. */
static uint64_t next_folder(const struct recovery *r)
{
    ASSERT(r->step.folder < UINT64_MAX);
    return r->step.folder + 1;
}

static enum status recovery_decide(struct recovery *r, enum step step, uint64_t id,
                                   struct reason *reason)
{
    struct initial_members none;
    static const uint8_t no_nonce[INITIAL_NONCE_BYTES];
    struct step_record record = {.step = step, .id = id, .folder = next_folder(r)};
    ASSERT(id > INITIAL_MEMBERS_MAX);
    initial_members_init(&none, NULL, 0, 0, no_nonce); /* an initial member must join (R13) */
    enum status st = step_file_save(r->fs, &record, &none);
    if (st != ST_OK)
        reason_set(reason, STEP_FILE ": it cannot be written: %s", status_text(st));
    return st;
}

enum status recovery_run(struct recovery *r, uint64_t id, struct reason *reason)
{
    CLEANUP(buf_done) struct buf txn = {0};
    char folder[MEMBER_RAFT_DIR_MAX];
    struct rlog_position last;
    TRY(recovery_check(r, reason));
    id = usable_id(r, id);
    step_folder(next_folder(r), folder);
    TRY(make_txn(r, &txn));
    struct rlog_recover_plan plan = {.dir = folder,
                                     .id = id,
                                     .others = r->others,
                                     .n_others = r->n_others,
                                     .txn = buf_bytes(&txn)};
    TRY(rlog_survivor_recover(r->survivor, &plan, &last, reason));
    ASSERT(last.index == r->survey.last.index + 2);
    return recovery_decide(r, STEP_STARTED, id, reason);
}

enum status recovery_join_check(const struct recovery *r, struct reason *reason)
{
    if (r->gives_up)
        return ST_OK;
    if (r->n_others != 1) {
        reason_set(reason, "give the position of the survivor that was recovered, with -survivor; "
                           "or name this node itself with -lost, to give up what its log has");
        return ST_DENIED;
    }
    enum status st = rlog_position_judge(&r->others[0], &r->survey.last);
    if (st != ST_OK)
        reason_set(reason,
                   "this log goes on to entry %llu of term %llu, behind the log of that survivor, "
                   "or differs from it: recover here; or say -lost %s to give up what it has",
                   (unsigned long long)r->survey.last.index,
                   (unsigned long long)r->survey.last.term, r->survey.identity.name);
    return st;
}

enum status recovery_join(struct recovery *r, uint64_t id, struct reason *reason)
{
    TRY(recovery_join_check(r, reason));
    return recovery_decide(r, STEP_JOINING, usable_id(r, id), reason);
}
