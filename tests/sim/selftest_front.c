#include "front.h"
#include "selftest.h"

/* Token 1 is made by the root token, 2 by 1; both expire at 10 s of cluster time. Operations take
 * one nanosecond, and each reply carries the cluster time that the operation gives. */
enum { MADE_NS = 10, EXPIRE_MS = 10000 };

static struct front_event event_at(enum front_kind kind, uint64_t by, uint64_t about,
                                   enum front_verdict verdict, uint64_t at_ns, int64_t seen_ms)
{
    return (struct front_event){
        .op = {.kind = kind, .by = by, .about = about},
        .answer = {.verdict = verdict,
                   .found = true,
                   .time_ms = seen_ms,
                   .expire_ms = by == FRONT_ROOT ? 0 : EXPIRE_MS,
                   .new_expire_ms = EXPIRE_MS,
                   .uses_left = -1},
        .call_ns = at_ns,
        .ret_ns = verdict == FRONT_UNKNOWN ? LIN_NEVER : at_ns + 1,
        .seen_call_ms = seen_ms,
        .seen_ret_ms = seen_ms,
    };
}

static void add(struct front_log *log, enum front_kind kind, uint64_t by, uint64_t about,
                enum front_verdict verdict, uint64_t at_ns)
{
    const struct front_event e = event_at(kind, by, about, verdict, at_ns, 1000);
    front_log_add(log, &e);
}

static struct front_log family(int64_t uses)
{
    struct front_log log = {0};
    (void)front_log_token(&log, &(struct front_token){.orphan = true});
    (void)front_log_token(&log, &(struct front_token){.parent = FRONT_ROOT});
    (void)front_log_token(&log, &(struct front_token){.parent = 1, .uses = uses});
    add(&log, FRONT_CREATE, FRONT_ROOT, 1, FRONT_DONE, MADE_NS);
    add(&log, FRONT_CREATE, 1, 2, FRONT_DONE, MADE_NS + 5);
    return log;
}

/* Releases the log. */
static bool good(struct front_log *log)
{
    char text[FRONT_TEXT];
    bool well = front_judge(log, text);
    front_log_done(log);
    return well;
}

/* Whether token 2 may look, or be refused, at 50 ns after replies up to cluster time `seen_ms`. */
static bool look(struct front_log *log, enum front_verdict verdict, int64_t seen_ms)
{
    struct front_event e = event_at(FRONT_LOOK, 2, 2, verdict, 50, seen_ms);
    e.answer.time_ms = MIN(seen_ms, EXPIRE_MS - 1); /* says it */
    front_log_add(log, &e);
    return good(log);
}

static void tokens_are_good_until_they_expire(void)
{
    struct front_log log = family(0);
    CHECK(look(&log, FRONT_DONE, EXPIRE_MS - 1));
    log = family(0);
    CHECK(!look(&log, FRONT_DONE, EXPIRE_MS + FRONT_SLACK_MS));
    log = family(0);
    CHECK(!look(&log, FRONT_REFUSED, EXPIRE_MS - FRONT_SLACK_MS - 1));
    log = family(0);
    CHECK(look(&log, FRONT_REFUSED, EXPIRE_MS));

    struct front_event e = event_at(FRONT_LOOK, 2, 2, FRONT_DONE, 50, EXPIRE_MS);
    log = family(0);
    front_log_add(&log, &e); /* it expired by the node's own words */
    CHECK(!good(&log));
}

static void renewals_count_when_they_may_have_happened(void)
{
    for (unsigned known = 0; known < 2; known++) {
        struct front_event e =
            event_at(FRONT_RENEW, FRONT_ROOT, 2, known != 0 ? FRONT_DONE : FRONT_UNKNOWN, 20, 9000);
        e.op.ttl_s = 11;
        e.answer.new_expire_ms = 20000;
        struct front_log log = family(0);
        log.events[0].answer.new_expire_ms = 90000; /* token 1 lives on */
        front_log_add(&log, &e);
        CHECK(look(&log, FRONT_DONE, 15000));
        log = family(0);
        log.events[0].answer.new_expire_ms = 90000;
        front_log_add(&log, &e);
        CHECK(look(&log, FRONT_REFUSED, 9000) == (known == 0));
    }
}

static void ends_are_seen_by_all_that_begins_later(void)
{
    for (uint64_t ended = 1; ended <= 2; ended++) {
        struct front_log log = family(0);
        add(&log, FRONT_REVOKE, FRONT_ROOT, ended, FRONT_DONE, 30);
        CHECK(!look(&log, FRONT_DONE, 1000));
        log = family(0);
        add(&log, FRONT_REVOKE, FRONT_ROOT, ended, FRONT_DONE, 50); /* at the same time */
        CHECK(look(&log, FRONT_DONE, 1000));
        log = family(0);
        add(&log, FRONT_REVOKE, FRONT_ROOT, ended, FRONT_UNKNOWN, 30);
        CHECK(look(&log, FRONT_DONE, 1000));
        log = family(0);
        add(&log, FRONT_REVOKE, FRONT_ROOT, ended, FRONT_UNKNOWN, 30);
        CHECK(look(&log, FRONT_REFUSED, 1000));
    }
    struct front_log log = family(0);
    add(&log, FRONT_REVOKE, FRONT_ROOT, 1, FRONT_DONE, 30);
    log.events[log.n_events - 1].op.spare = true; /* the child is an orphan now */
    CHECK(look(&log, FRONT_DONE, 1000));
}

/* Lease 3 of token 2. */
static bool use(struct front_log *log, enum front_verdict verdict)
{
    const struct front_event e = event_at(FRONT_USE, 3, 3, verdict, 50, 1000);
    front_log_add(log, &e);
    return good(log);
}

static struct front_log lent(void)
{
    struct front_log log = family(0);
    (void)front_log_token(&log, &(struct front_token){.parent = 2, .lease = true});
    add(&log, FRONT_TAKE, 2, 3, FRONT_DONE, 20);
    return log;
}

static void a_lease_ends_with_its_token_in_every_case(void)
{
    struct front_log log = lent();
    CHECK(use(&log, FRONT_DONE));
    log = lent();
    CHECK(!use(&log, FRONT_REFUSED));
    for (unsigned spare = 0; spare < 2; spare++) {
        for (uint64_t ended = 1; ended <= 3; ended++) {
            log = lent();
            add(&log, FRONT_REVOKE, FRONT_ROOT, ended, FRONT_DONE, 30);
            log.events[log.n_events - 1].op.spare = spare != 0;
            CHECK(use(&log, FRONT_DONE) == (spare != 0 && ended == 1));
        }
        log = lent();
        add(&log, FRONT_REVOKE, FRONT_ROOT, 2, FRONT_DONE, 30);
        log.events[log.n_events - 1].op.spare = spare != 0;
        CHECK(use(&log, FRONT_REFUSED));
    }
}

/* The end of the folder of lease 3, or of another one. */
static void end_below(struct front_log *log, uint64_t folder, bool all, uint64_t at_ns)
{
    struct front_event e = event_at(FRONT_BELOW, FRONT_ROOT, FRONT_ROOT, FRONT_DONE, at_ns, 1000);
    e.op.key = folder;
    e.answer.found = all;
    front_log_add(log, &e);
}

static void a_lease_ends_with_its_folder(void)
{
    for (unsigned all = 0; all < 2; all++) {
        struct front_log log = lent();
        end_below(&log, 3 % FRONT_FOLDERS, all != 0, 30);
        CHECK(!front_judge_left(&log, 3));
        CHECK(use(&log, FRONT_DONE) == (all == 0)); /* the active node may still be at work */
        log = lent();
        end_below(&log, 3 % FRONT_FOLDERS, all != 0, 30);
        CHECK(use(&log, FRONT_REFUSED));
        log = lent();
        end_below(&log, 3 % FRONT_FOLDERS, all != 0, 20); /* at the same time as the take */
        CHECK(front_judge_left(&log, 3));
        CHECK(use(&log, FRONT_REFUSED));
        log = lent();
        end_below(&log, 3 % FRONT_FOLDERS, all != 0, 18); /* the lease is a later one */
        CHECK(front_judge_left(&log, 3));
        CHECK(!use(&log, FRONT_REFUSED));
        log = lent();
        end_below(&log, 4 % FRONT_FOLDERS, all != 0, 30); /* another folder */
        CHECK(front_judge_left(&log, 3));
        CHECK(!use(&log, FRONT_REFUSED));
    }
}

static void uses_are_counted(void)
{
    enum { USES = 2 };
    for (int64_t n = 1; n <= 3; n++) {
        struct front_log log = family(USES);
        for (int64_t i = 0; i < n; i++) {
            struct front_event e = event_at(FRONT_LOOK, 2, 2, FRONT_DONE, 30 + (uint64_t)i, 1000);
            e.answer.uses_left = USES - 1 - i;
            front_log_add(&log, &e);
        }
        CHECK(good(&log) == (n <= USES));
    }
    struct front_log log = family(USES);
    for (unsigned i = 0; i < USES; i++) { /* both say that one is left */
        struct front_event e = event_at(FRONT_LOOK, 2, 2, FRONT_DONE, 30 + i, 1000);
        e.answer.uses_left = 1;
        front_log_add(&log, &e);
    }
    CHECK(!good(&log));
    log = family(USES);
    add(&log, FRONT_CAS, 2, 2, FRONT_UNKNOWN, 30);
    CHECK(!look(&log, FRONT_REFUSED, 1000));
    log = family(USES);
    add(&log, FRONT_CAS, 2, 2, FRONT_UNKNOWN, 30);
    add(&log, FRONT_CAS, 2, 2, FRONT_UNKNOWN, 31);
    CHECK(look(&log, FRONT_REFUSED, 1000));
}

static void swap(struct front_log *log, enum front_verdict verdict, uint64_t expect,
                 uint64_t version, uint64_t value, uint64_t at_ns)
{
    struct front_event e = event_at(FRONT_CAS, 1, 1, verdict, at_ns, 1000);
    e.op.expect = expect;
    e.answer.version = version;
    e.answer.value = value;
    front_log_add(log, &e);
}

/* Releases the log. */
static bool register_good(struct front_log *log, uint64_t end)
{
    char text[FRONT_TEXT];
    bool too_hard, well = front_judge_register(log, 0, end, &too_hard, text);
    front_log_done(log);
    return well;
}

static void versions_have_one_writer_each(void)
{
    struct front_log log = family(0);
    swap(&log, FRONT_DONE, 0, 1, 71, 30);
    swap(&log, FRONT_DIFFER, 0, 1, 71, 32);
    swap(&log, FRONT_DONE, 1, 2, 72, 34);
    CHECK(register_good(&log, 2));

    log = family(0);
    swap(&log, FRONT_DONE, 0, 1, 71, 30);
    swap(&log, FRONT_DONE, 0, 1, 72, 30); /* at the same time */
    CHECK(!register_good(&log, 1));

    log = family(0);
    swap(&log, FRONT_DONE, 0, 1, 71, 30);
    CHECK(!register_good(&log, 0)); /* it is gone */

    log = family(0);
    swap(&log, FRONT_DONE, 0, 1, 71, 30);
    swap(&log, FRONT_DIFFER, 1, 0, 0, 32); /* it was wrong at every moment */
    CHECK(!register_good(&log, 1));

    log = family(0);
    swap(&log, FRONT_DONE, 0, 1, 71, 30);
    swap(&log, FRONT_DIFFER, 0, 1, 72, 32); /* another writer of the same version */
    CHECK(!register_good(&log, 1));
}

static void edit(struct front_log *log, bool allow, enum front_verdict verdict, uint64_t at_ns)
{
    struct front_event e = event_at(FRONT_POLICY, FRONT_ROOT, FRONT_ROOT, verdict, at_ns, 1000);
    e.op.allow = allow;
    front_log_add(log, &e);
}

static void edits_of_policies_are_seen_by_all_that_begins_later(void)
{
    for (unsigned allow = 0; allow < 2; allow++) {
        enum front_verdict right = allow != 0 ? FRONT_DONE : FRONT_FORBIDDEN,
                           wrong = allow != 0 ? FRONT_FORBIDDEN : FRONT_DONE;
        struct front_log log = family(0);
        CHECK(look(&log, FRONT_DONE, 1000)); /* nobody edited it */
        log = family(0);
        CHECK(!look(&log, FRONT_FORBIDDEN, 1000));
        log = family(0);
        edit(&log, allow == 0, FRONT_DONE, 20);
        edit(&log, allow != 0, FRONT_DONE, 30);
        CHECK(look(&log, right, 1000));
        log = family(0);
        edit(&log, allow == 0, FRONT_DONE, 20);
        edit(&log, allow != 0, FRONT_DONE, 30);
        CHECK(!look(&log, wrong, 1000));
        log = family(0);
        edit(&log, allow == 0, FRONT_DONE, 20);
        edit(&log, allow != 0, FRONT_DONE, 50); /* at the same time */
        CHECK(look(&log, wrong, 1000));
        log = family(0);
        edit(&log, allow == 0, FRONT_UNKNOWN, 20); /* whenever it likes */
        edit(&log, allow != 0, FRONT_DONE, 30);
        CHECK(look(&log, wrong, 1000));
    }
    struct front_log log = family(0);
    edit(&log, false, FRONT_DONE, 30);
    struct front_event e = event_at(FRONT_LOOK, FRONT_ROOT, FRONT_ROOT, FRONT_DONE, 50, 1000);
    front_log_add(&log, &e);
    log.tokens[2].policy = 1; /* another one */
    CHECK(look(&log, FRONT_DONE, 1000));
    for (unsigned forbidden = 0; forbidden < 2; forbidden++) { /* the registry has none at first */
        log = family(0);
        log.tokens[2].policy = FRONT_POLICIES;
        CHECK(look(&log, forbidden != 0 ? FRONT_FORBIDDEN : FRONT_DONE, 1000) == (forbidden != 0));
    }
}

/* Whether token `by` may have that answer at 50 ns. */
static bool shows(struct front_log *log, enum front_kind kind, uint64_t by,
                  enum front_verdict verdict)
{
    struct front_event e = event_at(kind, by, by, verdict, 50, 1000);
    e.answer.value = 7;
    e.answer.uses_left = kind == FRONT_UNWRAP ? 0 : -1;
    front_log_add(log, &e);
    return good(log);
}

static struct front_log with_batch(void)
{
    struct front_log log = family(0);
    (void)front_log_token(&log, &(struct front_token){.parent = 2, .batch = true});
    add(&log, FRONT_CREATE, 2, 3, FRONT_DONE, 20);
    return log;
}

static void a_batch_token_ends_with_its_parent_in_every_case(void)
{
    struct front_log log = with_batch();
    CHECK(!front_token_is_known(&log.tokens[3]) && front_token_is_known(&log.tokens[2]));
    CHECK(shows(&log, FRONT_LOOK, 3, FRONT_DONE));
    log = with_batch();
    CHECK(!shows(&log, FRONT_LOOK, 3, FRONT_REFUSED));
    for (unsigned spare = 0; spare < 2; spare++)
        for (uint64_t ended = 1; ended <= 2; ended++) {
            log = with_batch();
            add(&log, FRONT_REVOKE, FRONT_ROOT, ended, FRONT_DONE, 30);
            log.events[log.n_events - 1].op.spare = spare != 0;
            CHECK(shows(&log, FRONT_LOOK, 3, FRONT_DONE) == (spare != 0 && ended == 1));
        }
    static const enum front_kind never[] = {FRONT_RENEW, FRONT_REVOKE};
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        log = with_batch();
        add(&log, never[i], FRONT_ROOT, 3, FRONT_DIFFER, 30);
        CHECK(good(&log));
        log = with_batch();
        add(&log, never[i], FRONT_ROOT, 3, FRONT_DONE, 30);
        CHECK(!good(&log));
    }
}

static struct front_log wrapped(void)
{
    struct front_log log = family(0);
    (void)front_log_token(
        &log, &(struct front_token){.orphan = true, .wrapping = true, .uses = 1, .value = 7});
    add(&log, FRONT_WRAP, 2, 3, FRONT_DONE, 20);
    return log;
}

static void take(struct front_log *log, enum front_verdict verdict, uint64_t at_ns, uint64_t value)
{
    struct front_event e = event_at(FRONT_UNWRAP, 3, 3, verdict, at_ns, 1000);
    e.answer.value = value;
    e.answer.uses_left = 0;
    front_log_add(log, &e);
}

static void a_wrapped_reply_is_taken_once(void)
{
    static const enum front_kind kinds[] = {FRONT_PEEK, FRONT_UNWRAP};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct front_log log = wrapped();
        CHECK(shows(&log, kinds[i], 3, FRONT_DONE));
        log = wrapped();
        CHECK(!shows(&log, kinds[i], 3, FRONT_REFUSED));
        log = wrapped();
        take(&log, FRONT_DONE, 30, 7);
        CHECK(!shows(&log, kinds[i], 3, FRONT_DONE));
        log = wrapped();
        take(&log, FRONT_DONE, 30, 7);
        CHECK(shows(&log, kinds[i], 3, FRONT_REFUSED));
        log = wrapped();
        take(&log, FRONT_DONE, 50, 7); /* at the same time: once all the same */
        CHECK(shows(&log, kinds[i], 3, FRONT_DONE) == (kinds[i] == FRONT_PEEK));
        for (unsigned refused = 0; refused < 2; refused++) {
            log = wrapped();
            take(&log, FRONT_UNKNOWN, 30, 0);
            CHECK(shows(&log, kinds[i], 3, refused != 0 ? FRONT_REFUSED : FRONT_DONE));
        }
    }
    struct front_log log = wrapped();
    take(&log, FRONT_DONE, 30, 8); /* the reply of another one */
    CHECK(!good(&log));
}

unsigned selftest_front(void)
{
    tokens_are_good_until_they_expire();
    renewals_count_when_they_may_have_happened();
    ends_are_seen_by_all_that_begins_later();
    a_lease_ends_with_its_token_in_every_case();
    a_lease_ends_with_its_folder();
    uses_are_counted();
    versions_have_one_writer_each();
    edits_of_policies_are_seen_by_all_that_begins_later();
    a_batch_token_ends_with_its_parent_in_every_case();
    a_wrapped_reply_is_taken_once();
    return 10;
}
