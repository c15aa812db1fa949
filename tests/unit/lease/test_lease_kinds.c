/* Leases whose kind stores no record of its own: the record, one lease, many leases, upkeep. */
#include "lease/lease.h"
#include "state/ns_key.h"
#include "state/state_world.h"

#include <stdio.h>

enum { NOW_MS = 1000000, HOUR_MS = 3600 * 1000 };

static struct state_world world;
static unsigned ended;
static char last_data[32];  /* of the lease that was ended last */
static char kept_token[32]; /* the token that was told last that it has a lease */

/* A lamp without oil refuses; `oil_s` is the longest life of the others. */
static int64_t oil_s;

static enum status lamp_renew(const struct lease_scope *s, struct lease *lease,
                              struct lease_ttl *ttl, struct reason *why)
{
    assert_true(ttl->now_ms == s->now_ms && ttl->issued_ms == lease->issued_ms);
    if (oil_s == 0) {
        reason_set(why, "no oil");
        return ST_INVALID;
    }
    ttl->own_s = 3600;
    ttl->own_max_s = oil_s;
    lease->data = BYTES("renewed");
    return ST_OK;
}

static enum status lamp_end(const struct lease_scope *s, const struct lease *lease)
{
    assert_int_equal(lease->data.len > 0, 1);
    (void)snprintf(last_data, sizeof last_data, "%.*s", (int)lease->data.len,
                   (const char *)lease->data.data);
    ended++;
    return state_put_exempt(s->txn, BYTES("s/ns/root/config/dark"), BYTES("1"));
}

static const struct lease_kind lamp_kind = {.name = "lamp", .renew = lamp_renew, .end = lamp_end};
static const struct lease_kind plain_kind = {.name = "plain"};

/* Tokens whose id begins with "dead" are not valid. */
static enum status check_token(const struct lease_scope *s, const char *token)
{
    (void)s;
    return strncmp(token, "dead", 4) == 0 ? ST_NOT_FOUND : ST_OK;
}

static enum status keep_token(const struct lease_scope *s, const char *token)
{
    (void)s;
    (void)snprintf(kept_token, sizeof kept_token, "%s", token);
    return ST_OK;
}

static const struct lease_kind token_kind = {
    .name = "token", .check_token = check_token, .keep_token = keep_token};
static struct lease_kinds kinds;
static struct expiry_counts counts;
static const struct expiry_kinds expiries = {
    .items = {&lease_expiry}, .n = 1, .leases = &kinds, .counts = &counts};

static int open_world(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    sw_raise(&world);
    kinds = (struct lease_kinds){0};
    lease_kinds_add(&kinds, &plain_kind);
    lease_kinds_add(&kinds, &lamp_kind);
    lease_kinds_add(&kinds, &token_kind);
    ended = 0;
    oil_s = 10 * 3600;
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    return 0;
}

static struct lease_scope scope_at(struct state_txn *txn, int64_t now_ms)
{
    return (struct lease_scope){.txn = txn, .ns = STATE_NS_ROOT, .kinds = &kinds, .now_ms = now_ms};
}

/* Create and commit `n` leases of an hour that `token` has; the id of the last one lies in the
 * world's arena. */
static const char *lent_to(const char *token, const char *path, unsigned n)
{
    struct state_txn txn;
    struct lease lease = {0};
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    for (unsigned i = 0; i < n; i++) {
        lease = (struct lease){.kind = &lamp_kind,
                               .token = token,
                               .expire_ms = NOW_MS + HOUR_MS,
                               .renewable = true,
                               .data = BYTES("first")};
        assert_status(lease_create(&scope, &world.worker.env, path, &lease), ST_OK);
    }
    assert_status(sw_commit(&world, &txn), ST_OK);
    return lease.id;
}

static const char *lent(const char *path, unsigned n)
{
    return lent_to(NULL, path, n);
}

static enum status found(const char *id, int64_t now_ms, struct lease *ret_lease)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, now_ms);
    enum status st = lease_find(&scope, id, ret_lease);
    state_end(&txn);
    return st;
}

/* Rounds of the active node's work until nothing is left. */
static unsigned upkeep_at(int64_t now_ms)
{
    unsigned rounds = 0;
    for (bool more = true; more;) {
        struct state_txn txn;
        sw_begin(&world, &txn);
        assert_status(expiry_upkeep(&expiries, &txn, now_ms, EXPIRY_STEPS), ST_OK);
        more = state_staged(&txn);
        if (more)
            assert_status(sw_commit(&world, &txn), ST_OK);
        else
            state_end(&txn);
        rounds += more;
        assert_true(rounds < 100);
    }
    return rounds;
}

static unsigned keys_below(const char *prefix)
{
    struct state_txn txn;
    struct state_walk *walk = arena_alloc(&world.arena, sizeof *walk);
    unsigned n = 0;
    sw_begin(&world, &txn);
    for (state_walk(&txn, bytes_str(prefix), walk); state_walk_next(walk);)
        n++;
    state_end(&txn);
    return n;
}

#define LEASES "s/ns/root/lease/"
#define ENDS "s/expire/"
#define OF_TOKENS "s/ns/root/token-lease/"

static void a_lease_is_found_until_its_time(void **ctx)
{
    (void)ctx;
    struct lease lease;
    const char *id = lent("lamps/take/", 1);
    assert_int_equal(strncmp(id, "lamps/take/", 11), 0);
    assert_int_equal(strlen(id), 11 + LEASE_ID_LEN);
    assert_status(found(id, NOW_MS + HOUR_MS - 1, &lease), ST_OK);
    assert_ptr_equal(lease.kind, &lamp_kind);
    assert_true(lease.issued_ms == NOW_MS && lease.expire_ms == NOW_MS + HOUR_MS);
    assert_true(lease.renewed_ms == 0 && lease.renewable);
    assert_true(bytes_eq(lease.data, BYTES("first")));
    assert_status(found(id, NOW_MS + HOUR_MS, &lease), ST_NOT_FOUND);
    assert_status(found("lamps/take", NOW_MS, &lease), ST_NOT_FOUND);
    assert_status(found("", NOW_MS, &lease), ST_NOT_FOUND);
}

static const struct lease_limits day = {.default_s = 60, .max_s = 24 * 3600};

static void a_renewal_moves_the_end(void **ctx)
{
    (void)ctx;
    struct reason why = {{0}};
    struct lease_cut cut;
    struct lease lease;
    struct state_txn txn;
    const char *id = lent("lamps/take", 1);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS + 1000);
    assert_status(lease_find(&scope, id, &lease), ST_OK);
    oil_s = 0;
    assert_status(lease_renew(&scope, &lease, 7200, &day, &cut, &why), ST_INVALID);
    assert_string_equal(why.text, "no oil");
    oil_s = 36000;
    assert_status(lease_renew(&scope, &lease, 7200, &day, &cut, &why), ST_OK);
    assert_int_equal(cut.by, LEASE_LIMIT_NONE);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_status(found(id, NOW_MS + 2 * HOUR_MS, &lease), ST_OK);
    assert_true(lease.renewed_ms == NOW_MS + 1000 && bytes_eq(lease.data, BYTES("renewed")));
    assert_int_equal(upkeep_at(NOW_MS + HOUR_MS + 1), 0);
    assert_int_equal(keys_below(ENDS), 1);
    assert_int_equal(upkeep_at(NOW_MS + 2 * HOUR_MS + 1000), 1);
    assert_int_equal(ended, 1);
    assert_string_equal(last_data, "renewed");
}

static void a_kind_without_renewal_refuses(void **ctx)
{
    (void)ctx;
    struct reason why = {{0}};
    struct state_txn txn;
    struct lease_cut cut;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    struct lease plain = {.kind = &plain_kind, .renewable = true};
    assert_status(lease_create(&scope, &world.worker.env, "plain", &plain), ST_OK);
    assert_status(lease_renew(&scope, &plain, 0, &day, &cut, &why), ST_INVALID);
    assert_string_equal(why.text, "lease is not renewable");
    struct lease fixed = {.kind = &lamp_kind, .data = BYTES("x")};
    assert_status(lease_create(&scope, &world.worker.env, "fixed", &fixed), ST_OK);
    assert_status(lease_renew(&scope, &fixed, 0, &day, &cut, &why), ST_INVALID);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(keys_below(ENDS), 0); /* neither ever expires */
    assert_int_equal(keys_below(LEASES), 2);
}

static void an_ended_lease_leaves_no_key(void **ctx)
{
    (void)ctx;
    struct lease lease;
    struct state_txn txn;
    const char *id = lent("lamps/take", 1);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(lease_find(&scope, id, &lease), ST_OK);
    assert_status(lease_end(&scope, &lease), ST_OK);
    assert_status(lease_find(&scope, id, &lease), ST_NOT_FOUND);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(ended, 1);
    assert_int_equal(keys_below(LEASES) + keys_below(ENDS), 0);
    assert_int_equal(keys_below("s/ns/root/config/dark"), 1); /* staged by the kind */
}

static void expired_leases_end_by_themselves(void **ctx)
{
    (void)ctx;
    (void)lent("lamps/take", EXPIRY_STEPS + 1);
    assert_int_equal(upkeep_at(NOW_MS + HOUR_MS - 1), 0);
    assert_int_equal(upkeep_at(NOW_MS + HOUR_MS), 2);
    assert_int_equal(ended, EXPIRY_STEPS + 1);
    assert_int_equal(keys_below(LEASES) + keys_below(ENDS), 0);
}

/* The duty deletes the entry of a lease once: the transaction is as large as that of a client. */
static void the_end_by_time_deletes_each_key_once(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    struct lease_ended done = {0};
    const char *id = lent("lamps/take", 1);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(lease_end_one(&scope, id, false, &done), ST_OK);
    size_t size = state_size(&txn);
    state_end(&txn);
    sw_begin(&world, &txn);
    assert_status(expiry_upkeep(&expiries, &txn, NOW_MS + HOUR_MS, EXPIRY_STEPS), ST_OK);
    assert_int_equal(state_size(&txn), size);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(keys_below(LEASES) + keys_below(ENDS), 0);
}

static void all_leases_below_a_path_end_but_no_later_one(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    struct lease_ended done;
    (void)lent("lamps/take", LEASE_STEPS_MAX + EXPIRY_STEPS + 1);
    (void)lent("lamps2/take", 1);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(lease_end_below(&scope, "lamps/", false, &done), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_false(done.all);
    assert_int_equal(ended, 0);
    sw_begin(&world, &txn);
    /* Another leader's time may be earlier: only the order of the changes counts. */
    const struct lease_scope later = scope_at(&txn, NOW_MS - 1000);
    struct lease lease = {.kind = &lamp_kind, .data = BYTES("late")};
    assert_status(lease_create(&later, &world.worker.env, "lamps/take", &lease), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(upkeep_at(NOW_MS + 2), 7);
    assert_int_equal(keys_below(LEASES), 2); /* the late one, and that of lamps2 */
    assert_int_equal(ended, LEASE_STEPS_MAX + EXPIRY_STEPS + 1);
}

static void end_below_a(bool force, struct lease_ended *ret)
{
    struct state_txn txn;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(lease_end_below(&scope, "a/", force, ret), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static unsigned marks(void)
{
    return keys_below("s/unfinished/root/lease/");
}

/* A transaction of the active node that ends leases below the path, begun before the others and
 * committed after them, conflicts with none of them. */
static void the_end_of_many_leases_reads_none_of_them(void **ctx)
{
    (void)ctx;
    struct state_txn txn, duty;
    struct lease_ended done;
    (void)lent("lamps/take", LEASE_STEPS_MAX + 1);
    sw_begin(&world, &txn);
    struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(lease_end_below(&scope, "lamps/", false, &done), ST_OK);
    assert_false(done.all);
    sw_begin(&world, &duty); /* ends a hundred leases that are due */
    assert_status(expiry_upkeep(&expiries, &duty, NOW_MS + HOUR_MS, EXPIRY_STEPS), ST_OK);
    assert_status(sw_commit(&world, &duty), ST_OK);
    assert_int_equal(ended, EXPIRY_STEPS);
    (void)lent("lamps/take", 1); /* the mark means this lease too */
    assert_status(sw_commit(&world, &txn), ST_OK);
    (void)lent("lamps/take", 1); /* but not this one */
    (void)upkeep_at(NOW_MS + 1);
    assert_int_equal(ended, LEASE_STEPS_MAX + 2);
    assert_int_equal(keys_below(LEASES), 1);
    assert_int_equal(marks(), 0);
}

/* In both orders: a plain end of many leases does not take the place of a forced one. */
static void a_forced_end_stays_forced(void **ctx)
{
    (void)ctx;
    for (unsigned order = 0; order < 2; order++) {
        struct lease_ended done;
        struct state_txn txn;
        (void)lent("a/lamps", LEASE_STEPS_MAX);
        sw_begin(&world, &txn);
        assert_status(state_put(&txn, BYTES(LEASES "a/bad"), BYTES("damage")), ST_OK);
        assert_status(sw_commit(&world, &txn), ST_OK);
        end_below_a(order == 0, &done);
        assert_false(done.all);
        end_below_a(order == 1, &done);
        assert_int_equal(marks(), 2);
        (void)upkeep_at(NOW_MS);
        assert_int_equal(marks(), 0);
        assert_int_equal(keys_below(LEASES), 0);
    }
}

/* More leases than one transaction ends, none of which can be ended. */
static void put_unreadable(unsigned n)
{
    struct state_txn txn;
    char key[64];
    sw_begin(&world, &txn);
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(key, sizeof key, LEASES "a/bad%u", i);
        assert_status(state_put(&txn, bytes_str(key), BYTES("damage")), ST_OK);
    }
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static void ask_and_work(struct lease_ended *ret)
{
    end_below_a(false, ret);
    (void)upkeep_at(NOW_MS);
    assert_int_equal(marks(), 0);
}

static void a_client_that_waits_hears_of_many_leases_that_cannot_be_ended(void **ctx)
{
    (void)ctx;
    enum { BAD = LEASE_STEPS_MAX + 3 };
    struct lease_ended done;
    put_unreadable(BAD);
    (void)lent("a/lamps", LEASE_STEPS_MAX);
    ask_and_work(&done); /* ends what can be ended */
    assert_false(done.all);
    assert_int_equal(ended, LEASE_STEPS_MAX);
    ask_and_work(&done); /* finds the rest */
    assert_false(done.all);
    end_below_a(false, &done);
    assert_true(done.all);
    assert_int_equal(done.skipped, BAD);
    assert_int_equal(keys_below("s/ns/root/lease-skipped/"), 0);
    ask_and_work(&done); /* each note serves one request */
    assert_false(done.all);
    (void)lent("a/lamps", 1); /* no note serves a request about a newer lease */
    ask_and_work(&done);
    assert_false(done.all);
    assert_int_equal(ended, LEASE_STEPS_MAX + 1);
    assert_int_equal(keys_below(LEASES), BAD);
}

/* The build that runs later may read the leases. */
static void an_old_note_of_skipped_leases_is_not_used(void **ctx)
{
    (void)ctx;
    struct lease_ended done;
    put_unreadable(LEASE_STEPS_MAX + 1);
    ask_and_work(&done);
    assert_int_equal(keys_below("s/ns/root/lease-skipped/"), 1);
    struct state_txn txn;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS + 60 * 1000 + 1);
    assert_status(lease_end_below(&scope, "a/", false, &done), ST_OK);
    assert_false(done.all);
    assert_true(state_staged(&txn));
    state_end(&txn);
}

/* A client that asks again and again does not hold up the walk. */
static void a_repeated_request_does_not_begin_the_work_again(void **ctx)
{
    (void)ctx;
    struct lease_ended done;
    put_unreadable(LEASE_STEPS_MAX + 1);
    end_below_a(false, &done);
    for (unsigned i = 0; !done.all; i++) {
        struct state_txn txn;
        assert_true(i < 8);
        sw_begin(&world, &txn);
        assert_status(expiry_upkeep(&expiries, &txn, NOW_MS, EXPIRY_STEPS), ST_OK);
        assert_status(sw_commit(&world, &txn), ST_OK);
        sw_begin(&world, &txn);
        const struct lease_scope scope = scope_at(&txn, NOW_MS);
        assert_status(lease_end_below(&scope, "a/", false, &done), ST_OK);
        assert_true(done.all == state_staged(&txn));
        state_end(&txn);
    }
    assert_int_equal(done.skipped, LEASE_STEPS_MAX + 1);
}

static void a_mark_without_its_form_is_put_off(void **ctx)
{
    (void)ctx;
    static const char *const names[] = {"lamps", "force", "lamps/forced"};
    (void)lent("lamps/take", 1);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct state_txn txn;
        struct bytes key;
        uint64_t before = atomic_load(&counts.put_off);
        sw_begin(&world, &txn);
        assert_status(expiry_mark_key(&txn, &lease_expiry, STATE_NS_ROOT, names[i], &key), ST_OK);
        assert_status(state_put_exempt(&txn, key, BYTES("1 1 ")), ST_OK);
        assert_status(sw_commit(&world, &txn), ST_OK);
        assert_int_equal(upkeep_at(NOW_MS), 0);
        assert_int_equal(atomic_load(&counts.put_off) - before, 1);
        sw_begin(&world, &txn);
        assert_status(state_delete(&txn, key), ST_OK);
        assert_status(sw_commit(&world, &txn), ST_OK);
    }
    assert_int_equal(ended, 0);
}

/* A mark of a build of the first feature level: "TIME KEY". */
static void the_mark_of_an_older_build_is_followed(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    (void)lent("lamps/take", 2);
    sw_begin(&world, &txn);
    const struct lease_scope later = scope_at(&txn, NOW_MS + 1);
    struct lease lease = {.kind = &lamp_kind, .data = BYTES("late")};
    assert_status(lease_create(&later, &world.worker.env, "lamps/take", &lease), ST_OK);
    assert_status(state_put(&txn, BYTES("s/ns/root/unlease/lamps/"), BYTES("1000000 " LEASES "la")),
                  ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(upkeep_at(NOW_MS + 2), 1);
    assert_int_equal(keys_below("s/ns/root/unlease/"), 0);
    assert_int_equal(keys_below(LEASES), 1);
    assert_int_equal(ended, 2);
}

/* Tokens */

static void a_lease_is_good_only_with_its_token(void **ctx)
{
    (void)ctx;
    struct lease lease;
    const char *id = lent_to("ann", "lamps/take", 1), *other = lent_to("dead1", "lamps/take", 1);
    assert_status(found(id, NOW_MS, &lease), ST_OK);
    assert_string_equal(lease.token, "ann");
    assert_status(found(other, NOW_MS, &lease), ST_NOT_FOUND);
    assert_int_equal(keys_below(OF_TOKENS "ann/lamps/take/"), 1);
    assert_int_equal(keys_below(LEASES), 2);
    assert_int_equal(upkeep_at(NOW_MS + HOUR_MS), 1);
    assert_int_equal(keys_below(LEASES) + keys_below(OF_TOKENS) + keys_below(ENDS), 0);
    assert_int_equal(ended, 2);
}

static void a_renewal_keeps_token_and_limit(void **ctx)
{
    (void)ctx;
    struct reason why = {{0}};
    struct state_txn txn;
    struct lease_cut cut;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    struct lease lease = {.kind = &lamp_kind,
                          .token = "ann",
                          .expire_ms = NOW_MS + 1000,
                          .limit_ms = NOW_MS + 5000,
                          .renewable = true,
                          .data = BYTES("x")};
    assert_status(lease_create(&scope, &world.worker.env, "a", &lease), ST_OK);
    assert_status(lease_renew(&scope, &lease, 3, &day, &cut, &why), ST_OK);
    assert_true(lease.expire_ms == NOW_MS + 3000);
    assert_status(lease_renew(&scope, &lease, 6, &day, &cut, &why), ST_OK);
    assert_true(lease.expire_ms == NOW_MS + 5000);
    assert_int_equal(cut.by, LEASE_LIMIT_TOKEN);
    assert_status(sw_commit(&world, &txn), ST_OK);
    const char *id = lease.id;
    assert_status(found(id, NOW_MS + 4999, &lease), ST_OK);
    assert_string_equal(lease.token, "ann");
    assert_true(lease.limit_ms == NOW_MS + 5000);
    assert_status(found(id, NOW_MS + 5000, &lease), ST_NOT_FOUND);
    assert_int_equal(keys_below(ENDS), 1);
}

static void check_ttl(struct lease_ttl ttl, int64_t granted_s, enum lease_limit by,
                      const char *text)
{
    struct lease_cut cut;
    struct reason why = {{0}};
    ttl.issued_ms = NOW_MS;
    ttl.limits.default_s = 100;
    if (ttl.limits.max_s == 0)
        ttl.limits.max_s = 1000;
    assert_true(lease_ttl_end_ms(&ttl, &cut) == MAX(ttl.now_ms, ttl.issued_ms) + granted_s * 1000);
    assert_int_equal(cut.by, by);
    assert_int_equal(cut.granted_s, granted_s);
    if (by != LEASE_LIMIT_NONE)
        lease_cut_say(&cut, &why);
    assert_non_null(strstr(why.text, text));
}

static void each_limit_cuts_a_lease(void **ctx)
{
    (void)ctx;
    enum { LATER = NOW_MS + 500 * 1000 };
    check_ttl((struct lease_ttl){.now_ms = NOW_MS}, 100, LEASE_LIMIT_NONE, "");
    check_ttl((struct lease_ttl){.now_ms = NOW_MS - 9000}, 100, LEASE_LIMIT_NONE, "");
    check_ttl((struct lease_ttl){.now_ms = NOW_MS, .own_s = 200}, 200, LEASE_LIMIT_NONE, "");
    check_ttl((struct lease_ttl){.now_ms = NOW_MS, .own_s = 200, .wanted_s = 300}, 300,
              LEASE_LIMIT_NONE, "");
    check_ttl((struct lease_ttl){.now_ms = LATER, .wanted_s = 501}, 500, LEASE_LIMIT_SYSTEM,
              "of the system is \"16m40s\"");
    check_ttl((struct lease_ttl){.now_ms = LATER, .wanted_s = 501, .limits.of_mount = true}, 500,
              LEASE_LIMIT_MOUNT, "TTL of \"8m21s\" exceeded the effective max_ttl of \"8m20s\"");
    check_ttl((struct lease_ttl){.now_ms = LATER, .own_max_s = 550}, 50, LEASE_LIMIT_KIND,
              "that the engine gives is \"9m10s\"");
    check_ttl((struct lease_ttl){.now_ms = LATER, .own_max_s = 2000, .wanted_s = 501}, 500,
              LEASE_LIMIT_SYSTEM, "of the system");
    check_ttl((struct lease_ttl){.now_ms = LATER, .limit_ms = LATER + 7000}, 7, LEASE_LIMIT_TOKEN,
              "batch token");
    check_ttl(
        (struct lease_ttl){.now_ms = NOW_MS, .limits.max_s = INT64_MAX, .wanted_s = INT64_MAX},
        TEXT_DURATION_MAX_S, LEASE_LIMIT_NONE, "");
}

/* One step of the sweep of a token; the leases that are left. */
static unsigned swept(const char *token, unsigned steps)
{
    struct state_txn txn;
    char prefix[100];
    bool all;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    (void)snprintf(prefix, sizeof prefix, OF_TOKENS "%s/", token);
    unsigned left = keys_below(prefix);
    unsigned before = steps;
    assert_status(lease_end_of_token(&scope, token, &steps, &all), ST_OK);
    assert_int_equal(before - steps, left < before ? left : before);
    assert_int_equal(all, left <= before);
    assert_status(sw_commit(&world, &txn), ST_OK);
    return keys_below(prefix);
}

static void the_leases_of_a_token_end_in_bounded_steps(void **ctx)
{
    (void)ctx;
    (void)lent_to("ann", "lamps/take", 5);
    (void)lent_to("ann2", "lamps/take", 1);
    assert_int_equal(swept("ann", 3), 2);
    assert_int_equal(swept("ann", 3), 0);
    assert_int_equal(ended, 5);
    assert_int_equal(keys_below(LEASES), 1);
    assert_int_equal(keys_below(ENDS), 1);
    assert_int_equal(keys_below(OF_TOKENS), 1);
}

/* Leases that cannot be ended */

/* Forget the kind of all lamps, as a build without it. */
static void forget_lamps(void)
{
    kinds = (struct lease_kinds){0};
    lease_kinds_add(&kinds, &plain_kind);
    lease_kinds_add(&kinds, &token_kind);
}

/* Three lamps, then a plain lease behind them: all end at the same time. */
static void lend_three_lamps_and_a_plain_one(void)
{
    struct state_txn txn;
    (void)lent_to("ann", "a/lamps", 3);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    struct lease plain = {.kind = &plain_kind, .token = "ann", .expire_ms = NOW_MS + HOUR_MS};
    assert_status(lease_create(&scope, &world.worker.env, "a/plain", &plain), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static void leases_without_their_kind_do_not_hold_up_expiry(void **ctx)
{
    (void)ctx;
    uint64_t before = atomic_load(&counts.put_off);
    lend_three_lamps_and_a_plain_one();
    forget_lamps();
    assert_int_equal(upkeep_at(NOW_MS + HOUR_MS), 1);
    assert_int_equal(keys_below(LEASES), 3);
    assert_int_equal(keys_below(ENDS), 3);
    assert_int_equal(atomic_load(&counts.put_off) - before, 3);
    assert_int_equal(upkeep_at(NOW_MS + HOUR_MS + EXPIRY_AGAIN_MS - 1), 0);
    lease_kinds_add(&kinds, &lamp_kind); /* a build that knows the kind */
    assert_int_equal(upkeep_at(NOW_MS + HOUR_MS + EXPIRY_AGAIN_MS), 1);
    assert_int_equal(ended, 3);
    assert_int_equal(keys_below(LEASES) + keys_below(ENDS) + keys_below(OF_TOKENS), 0);
}

static void leases_without_their_kind_stay_until_they_are_dropped(void **ctx)
{
    (void)ctx;
    struct lease_ended done;
    struct lease lease;
    lend_three_lamps_and_a_plain_one();
    forget_lamps();
    uint64_t before = lease_skipped_total();
    end_below_a(false, &done);
    assert_true(done.all && done.skipped == 3);
    assert_int_equal(lease_skipped_total() - before, 3);
    assert_int_equal(keys_below(LEASES), 3);
    end_below_a(true, &done);
    assert_true(done.all && done.skipped == 3);
    assert_int_equal(keys_below(LEASES) + keys_below(ENDS) + keys_below(OF_TOKENS), 0);
    assert_int_equal(ended, 0);
    assert_status(found("a/lamps", NOW_MS, &lease), ST_NOT_FOUND);
}

static void a_damaged_record_does_not_hold_up_others(void **ctx)
{
    (void)ctx;
    struct lease_ended done;
    struct state_txn txn;
    lend_three_lamps_and_a_plain_one();
    sw_begin(&world, &txn);
    assert_status(state_put(&txn, BYTES(LEASES "a/a"), BYTES("damage")), ST_OK);
    assert_status(state_put(&txn, BYTES(OF_TOKENS "ann/a/a"), (struct bytes){0}), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(swept("ann", 3), 2);
    assert_int_equal(swept("ann", 3), 0);
    assert_int_equal(keys_below(LEASES), 1);
    end_below_a(false, &done);
    assert_true(done.all && done.skipped == 1);
    end_below_a(true, &done);
    assert_int_equal(keys_below(LEASES), 0);
}

static enum status stubborn_end(const struct lease_scope *s, const struct lease *lease)
{
    (void)lease;
    TRY(state_put_exempt(s->txn, BYTES("s/ns/root/config/half"), BYTES("1")));
    return ST_CORRUPT;
}

/* What `end` staged before it failed is not committed. */
static void an_end_that_fails_leaves_nothing_half_done(void **ctx)
{
    (void)ctx;
    static const struct lease_kind stubborn = {.name = "stubborn", .end = stubborn_end};
    struct lease_ended done;
    struct state_txn txn;
    lease_kinds_add(&kinds, &stubborn);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    struct lease lease = {.kind = &stubborn};
    assert_status(lease_create(&scope, &world.worker.env, "a/b", &lease), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    (void)lent("a/lamps", 1);
    end_below_a(false, &done);
    assert_true(done.skipped == 1 && ended == 1);
    assert_int_equal(keys_below(LEASES), 1);
    assert_int_equal(keys_below("s/ns/root/config/half"), 0);
}

static void the_data_of_a_lease_is_bounded(void **ctx)
{
    (void)ctx;
    static const uint8_t data[LEASE_DATA_MAX + 1];
    struct state_txn txn;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    struct lease lease = {.kind = &lamp_kind, .data = bytes_of(data, LEASE_DATA_MAX)};
    assert_status(lease_create(&scope, &world.worker.env, "a", &lease), ST_OK);
    lease.data.len++;
    assert_status(lease_create(&scope, &world.worker.env, "a", &lease), ST_TOO_BIG);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static void a_record_without_its_kind_is_corrupt(void **ctx)
{
    (void)ctx;
    struct lease lease;
    const char *id = lent("lamps/take", 1);
    kinds = (struct lease_kinds){0};
    lease_kinds_add(&kinds, &plain_kind);
    assert_status(found(id, NOW_MS, &lease), ST_CORRUPT);
}

static enum status read_stored(const uint8_t *record, size_t len)
{
    struct state_txn txn;
    struct lease lease;
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(state_put(&txn, BYTES(LEASES "a/b"), bytes_of(record, len)), ST_OK);
    enum status st = lease_find(&scope, "a/b", &lease);
    state_end(&txn);
    return st;
}

/* The bytes of the format (lease.h) as this build writes them. */
static void the_record_has_its_format(void **ctx)
{
    (void)ctx;
    const uint8_t plain[] = {1, 1, 1, 0, 2, 4, 'l', 'a', 'm', 'p', 'd'};
    const uint8_t whole[] = {1,    7,   1,   0xc1, 0x84, 0x3d, 2,   0xc1, 0x84,
                             0x3d, /* until 1000001 */
                             4,    'l', 'a', 'm',  'p',  2,    't', 0,    'd'};
    uint8_t bad[sizeof whole];
    assert_status(read_stored(plain, sizeof plain), ST_OK);
    assert_status(read_stored(whole, sizeof whole), ST_OK);
    for (size_t len = 0; len < sizeof plain - 1; len++) /* the data may be empty, nothing else */
        assert_status(read_stored(plain, len), ST_CORRUPT);
    for (size_t len = 0; len < sizeof whole - 1; len++)
        assert_status(read_stored(whole, len), ST_CORRUPT);
    const struct {
        size_t at;
        uint8_t value;
    } damages[] = {{0, 2}, {1, 8}, {5, 0x3e} /* beyond the limit */, {16, '/'}, {16, 0}, {17, 'x'}};
    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        memcpy(bad, whole, sizeof bad);
        bad[damages[i].at] = damages[i].value;
        assert_status(read_stored(bad, sizeof bad), ST_CORRUPT);
    }
}

static enum status make_renew_end(struct state_txn *txn)
{
    const struct lease_scope scope = scope_at(txn, NOW_MS);
    struct lease lease = {
        .kind = &lamp_kind, .expire_ms = NOW_MS + 1, .renewable = true, .data = BYTES("x")};
    struct reason why;
    struct lease_ended done;
    struct lease_cut cut;
    TRY(lease_create(&scope, &world.worker.env, "a", &lease));
    TRY(lease_find(&scope, lease.id, &lease));
    TRY(lease_renew(&scope, &lease, 0, &day, &cut, &why));
    TRY(lease_end(&scope, &lease));
    TRY(lease_end_below(&scope, "lamps/", false, &done));
    return expiry_upkeep(&expiries, txn, NOW_MS + 2 * HOUR_MS, EXPIRY_STEPS);
}

static void every_lack_of_memory_is_told(void **ctx)
{
    (void)ctx;
    enum status st = ST_NOMEM;
    (void)lent("lamps/take", 2);
    (void)lent("other", 2);
    for (uint64_t n = 1; st != ST_OK; n++) {
        struct state_txn txn;
        struct arena arena = {.block_bytes = 64};
        assert_true(n < 1000);
        assert_status(state_begin(world.state, &arena, NULL, &txn), ST_OK);
        (void)mem_fail_nth(n);
        st = make_renew_end(&txn);
        (void)mem_fail_nth(0);
        assert_true(st == ST_OK || st == ST_NOMEM);
        state_end(&txn);
        arena_done(&arena);
    }
    assert_true(ended > 5);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

/* The walk of what is to end must not miss a lease that is issued at the same time. */
static void a_lease_issued_meanwhile_makes_the_end_of_all_run_again(void **ctx)
{
    struct state_txn txn;
    struct lease_ended done;
    (void)ctx;
    (void)lent("lamps/take", 1);
    sw_begin(&world, &txn);
    const struct lease_scope scope = scope_at(&txn, NOW_MS);
    assert_status(lease_end_below(&scope, "lamps/", false, &done), ST_OK);
    assert_true(done.all);
    (void)lent("lamps/take", 1);
    assert_status(sw_commit(&world, &txn), ST_CONFLICT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lease_is_found_until_its_time),
        TEST(a_renewal_moves_the_end),
        TEST(a_kind_without_renewal_refuses),
        TEST(an_ended_lease_leaves_no_key),
        TEST(expired_leases_end_by_themselves),
        TEST(the_end_by_time_deletes_each_key_once),
        TEST(all_leases_below_a_path_end_but_no_later_one),
        TEST(a_lease_issued_meanwhile_makes_the_end_of_all_run_again),
        TEST(the_end_of_many_leases_reads_none_of_them),
        TEST(a_forced_end_stays_forced),
        TEST(a_client_that_waits_hears_of_many_leases_that_cannot_be_ended),
        TEST(an_old_note_of_skipped_leases_is_not_used),
        TEST(a_repeated_request_does_not_begin_the_work_again),
        TEST(a_mark_without_its_form_is_put_off),
        TEST(the_mark_of_an_older_build_is_followed),
        TEST(a_lease_is_good_only_with_its_token),
        TEST(a_renewal_keeps_token_and_limit),
        TEST(each_limit_cuts_a_lease),
        TEST(the_leases_of_a_token_end_in_bounded_steps),
        TEST(leases_without_their_kind_do_not_hold_up_expiry),
        TEST(leases_without_their_kind_stay_until_they_are_dropped),
        TEST(a_damaged_record_does_not_hold_up_others),
        TEST(an_end_that_fails_leaves_nothing_half_done),
        TEST(the_data_of_a_lease_is_bounded),
        TEST(a_record_without_its_kind_is_corrupt),
        TEST(the_record_has_its_format),
        TEST(every_lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
