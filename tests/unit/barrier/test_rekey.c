/* Rekey: which nodes follow to the new root key, which keys no longer open anything, and what an
 * attacker learns from a link. */
#include "state/fake_env.h"
#include "support.h"

#include "barrier/barrier.h"
#include "barrier/ring.h"
#include "base/mem.h"

#include <stdio.h>

enum { LINKS = 8 };

struct stored {
    struct buf seal, keyring, local_keyring, salt;
    struct buf links[LINKS];
    char names[LINKS][40];
    unsigned n_links;
};

struct world {
    struct fake_env env;
    struct seal seal; /* that the cluster was created with */
    struct stored now;
    struct barrier *active, *standby;
};

static void keep(struct buf *to, const struct buf *from)
{
    if (from->len == 0)
        return;
    buf_clear(to);
    buf_add(to, buf_bytes(from));
}

static struct barrier_records records_of(const struct stored *s)
{
    struct barrier_records records = {.seal = buf_bytes(&s->seal),
                                      .keyring = buf_bytes(&s->keyring),
                                      .local_keyring = buf_bytes(&s->local_keyring),
                                      .salt = buf_bytes(&s->salt)};
    for (unsigned i = 0; i < s->n_links; i++)
        records.links[records.n_links++] =
            (struct barrier_link){bytes_str(s->names[i]), buf_bytes(&s->links[i])};
    return records;
}

static void make_seal(uint8_t first, struct seal *ret_seal)
{
    const uint8_t key[SEAL_KEY_BYTES] = {first};
    assert_status(seal_shamir(bytes_of(key, sizeof key), 3, 2, ret_seal), ST_OK);
}

static int setup(void **state)
{
    static struct world w;
    struct barrier_created created;
    w = (struct world){0};
    fake_env_init(&w.env, 1);
    assert_status(crypto_init(NULL), ST_OK);
    make_seal(1, &w.seal);
    assert_status(barrier_create(&w.env.env, &w.seal, 1000, &created), ST_OK);
    keep(&w.now.seal, &created.seal);
    keep(&w.now.keyring, &created.keyring);
    keep(&w.now.local_keyring, &created.local_keyring);
    keep(&w.now.salt, &created.salt);
    barrier_created_done(&created);
    struct barrier_records records = records_of(&w.now);
    assert_status(barrier_new(&w.active), ST_OK);
    assert_status(barrier_new(&w.standby), ST_OK);
    assert_status(barrier_unseal(w.active, &w.seal, &records, NULL), ST_OK);
    assert_status(barrier_unseal(w.standby, &w.seal, &records, NULL), ST_OK);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    struct buf *bufs[] = {&w->now.seal, &w->now.keyring, &w->now.local_keyring, &w->now.salt};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        buf_done(bufs[i]);
    for (unsigned i = 0; i < LINKS; i++)
        buf_done(&w->now.links[i]);
    barrier_free(w->active);
    barrier_free(w->standby);
    seal_done(&w->seal);
    return 0;
}

static void add_link(struct world *w, struct bytes name, const struct buf *record)
{
    unsigned at = w->now.n_links++;
    assert_true(at < LINKS);
    memcpy(w->now.names[at], name.data, name.len);
    w->now.names[at][name.len] = '\0';
    keep(&w->now.links[at], record);
}

static struct barrier_link_head next_head(const struct world *w, char room[40])
{
    (void)snprintf(room, 40, BARRIER_LINKS "%020u", w->now.n_links + 1);
    return (struct barrier_link_head){bytes_str(room), 5000};
}

/* A new root key is stored. `local`: its local ring too, as in the cluster that makes it. */
static void rekey_by(struct world *w, uint8_t first, bool local)
{
    struct barrier_rekeyed made = {0};
    struct seal seal = {0};
    char room[40];
    const struct barrier_link_head head = next_head(w, room);
    make_seal(first, &seal);
    assert_status(barrier_rekey(w->active, &w->env.env, &seal, &head, &made), ST_OK);
    keep(&w->now.keyring, &made.keyring);
    add_link(w, head.name, &made.link);
    if (local) {
        keep(&w->now.seal, &made.seal);
        keep(&w->now.local_keyring, &made.local_keyring);
    }
    barrier_rekeyed_done(&made);
    seal_done(&seal);
    struct barrier_records records = records_of(&w->now);
    assert_status(barrier_follow(w->active, &records), ST_OK);
}

/* The active node makes a new root key, which is stored. */
static void rekey(struct world *w, uint8_t first)
{
    rekey_by(w, first, true);
}

/* Remove one link. */
static void drop_link(struct world *w, unsigned at)
{
    struct stored *s = &w->now;
    buf_done(&s->links[at]);
    s->n_links--;
    for (; at < s->n_links; at++) {
        s->links[at] = s->links[at + 1];
        memcpy(s->names[at], s->names[at + 1], sizeof s->names[at]);
    }
    s->links[s->n_links] = (struct buf){0};
}

static enum status follow(struct world *w, struct barrier *b)
{
    struct barrier_records records = records_of(&w->now);
    return barrier_follow(b, &records);
}

static enum status unseal(struct world *w, uint8_t first)
{
    struct barrier_records records = records_of(&w->now);
    struct barrier *b = NULL;
    struct seal seal = {0};
    make_seal(first, &seal);
    assert_status(barrier_new(&b), ST_OK);
    enum status st = barrier_unseal(b, &seal, &records, NULL);
    barrier_free(b);
    seal_done(&seal);
    return st;
}

/* What `by` encrypts, `for_` decrypts. */
static void assert_shares(struct world *w, struct barrier *by, struct barrier *for_,
                          struct bytes key)
{
    struct barrier_cipher *one = NULL, *other = NULL;
    uint8_t stored[5 + BARRIER_OVERHEAD], plain[5 + BARRIER_OVERHEAD];
    size_t n = 0;
    assert_status(barrier_cipher_new(by, &w->env.env, &one), ST_OK);
    assert_status(barrier_cipher_new(for_, &w->env.env, &other), ST_OK);
    assert_status(barrier_encrypt(one, key, BYTES("value"), stored), ST_OK);
    assert_status(barrier_decrypt(other, key, bytes_of(stored, sizeof stored), plain, &n), ST_OK);
    assert_bytes(bytes_of(plain, n), BYTES("value"));
    barrier_cipher_free(one);
    barrier_cipher_free(other);
}

static void a_root_key_that_is_handed_over_unseals_its_cluster_alone(void **state)
{
    struct world *w = *state;
    struct barrier_records records = records_of(&w->now);
    struct box_key receiver = {0};
    CLEANUP(buf_done) struct buf boxed = {0};
    CLEANUP(secret_done) struct secret root = {0}, wrong = {0}, part = {0};
    struct reason why = {{0}};
    struct barrier *third;
    assert_status(box_key_new(&receiver), ST_OK);
    assert_status(barrier_hand_over(w->active, receiver.public_key, BYTES("c"), &boxed), ST_OK);
    assert_status(box_open(&receiver, BYTES("c"), buf_bytes(&boxed), &root), ST_OK);
    box_key_done(&receiver);
    assert_status(barrier_new(&third), ST_OK);
    assert_status(secret_dup(secret_bytes(&root), &wrong), ST_OK);
    wrong.data[0] ^= 1;
    assert_status(barrier_unseal_root(third, &wrong, &records, &why), ST_INVALID);
    assert_status(secret_dup(bytes_of(root.data, root.len - 1), &part), ST_OK);
    assert_status(barrier_unseal_root(third, &part, &records, &why), ST_INVALID);
    const struct barrier_records none = {.restored = 0};
    assert_status(barrier_unseal_root(third, &root, &none, &why), ST_NOT_FOUND);
    assert_true(barrier_is_sealed(third));
    uint8_t refused[BOX_PUBLIC_BYTES] = {0};
    assert_status(barrier_hand_over(third, receiver.public_key, BYTES("c"), &boxed), ST_SEALED);
    assert_status(barrier_unseal_root(third, &root, &records, &why), ST_OK);
    assert_status(barrier_unseal_root(third, &root, &records, &why), ST_EXISTS);
    assert_shares(w, w->active, third, BYTES("s/x"));
    assert_shares(w, third, w->active, BYTES("l/x"));
    assert_status(barrier_hand_over(third, refused, BYTES("c"), &boxed), ST_INVALID);
    barrier_free(third);
}

static void the_old_seal_opens_nothing_and_unsealed_nodes_follow(void **state)
{
    struct world *w = *state;
    uint8_t before[BARRIER_MAC_BYTES], after[BARRIER_MAC_BYTES];
    assert_status(barrier_prove(w->active, BYTES("m"), before), ST_OK);
    rekey(w, 2);
    assert_status(barrier_prove(w->active, BYTES("m"), after), ST_OK);
    assert_memory_not_equal(before, after, sizeof before);
    assert_status(unseal(w, 1), ST_INVALID);
    assert_status(unseal(w, 2), ST_OK);
    assert_status(follow(w, w->standby), ST_OK);
    assert_status(barrier_prove(w->standby, BYTES("m"), before), ST_OK);
    assert_memory_equal(before, after, sizeof before);
    assert_shares(w, w->active, w->standby, BYTES("s/x"));
    assert_shares(w, w->standby, w->active, BYTES("l/x"));
    assert_status(follow(w, w->standby), ST_OK); /* again */
}

static void rings_change_after_it_as_before(void **state)
{
    struct world *w = *state;
    struct barrier_ring_info info;
    rekey(w, 2);
    assert_status(follow(w, w->standby), ST_OK);
    struct buf record = {0};
    assert_status(barrier_upkeep(w->active, &w->env.env, BARRIER_SHARED, 0, 6000, &record), ST_OK);
    keep(&w->now.keyring, &record);
    buf_done(&record);
    assert_status(follow(w, w->active), ST_OK); /* beside the link of before */
    assert_status(follow(w, w->standby), ST_OK);
    assert_status(barrier_ring_info(w->standby, BARRIER_SHARED, &info), ST_OK);
    assert_int_equal(info.term, 2);
    assert_shares(w, w->active, w->standby, BYTES("s/x"));
}

static void uses_are_counted_on(void **state)
{
    struct world *w = *state;
    struct barrier_ring_info before, after;
    struct buf record = {0};
    assert_status(barrier_upkeep(w->active, &w->env.env, BARRIER_SHARED, 4096, 6000, &record),
                  ST_OK);
    keep(&w->now.keyring, &record);
    buf_done(&record);
    assert_status(follow(w, w->active), ST_OK);
    barrier_upkeep_done(w->active, BARRIER_SHARED, 4096);
    assert_shares(w, w->active, w->active, BYTES("s/x"));
    assert_status(barrier_ring_info(w->active, BARRIER_SHARED, &before), ST_OK);
    rekey(w, 2);
    assert_status(barrier_ring_info(w->active, BARRIER_SHARED, &after), ST_OK);
    assert_int_equal(after.uses, before.uses);
    assert_int_equal(after.unused, before.unused);
    assert_int_equal(after.unused, 4095);
}

static void who_slept_through_two_follows_the_chain(void **state)
{
    struct world *w = *state;
    rekey(w, 2);
    rekey(w, 3);
    rekey(w, 4);
    assert_int_equal(w->now.n_links, 3);
    assert_status(follow(w, w->standby), ST_OK);
    assert_shares(w, w->active, w->standby, BYTES("s/x"));
    assert_shares(w, w->standby, w->active, BYTES("l/x"));
    assert_status(unseal(w, 3), ST_INVALID);
    assert_status(unseal(w, 4), ST_OK);
}

static void the_order_of_links_does_not_matter(void **state)
{
    struct world *w = *state;
    rekey(w, 2);
    rekey(w, 3);
    rekey(w, 4);
    static const unsigned orders[][3] = {{2, 1, 0}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}, {1, 0, 2}};
    struct stored before = w->now;
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        struct barrier_records records = records_of(&before), now = records;
        struct barrier *b = NULL;
        struct reason why = {{0}};
        for (unsigned k = 0; k < 3; k++)
            records.links[k] = now.links[orders[i][k]];
        assert_status(barrier_new(&b), ST_OK);
        assert_status(barrier_unseal_as(b, w->standby, &records, &why), ST_OK);
        assert_shares(w, w->active, b, BYTES("s/x"));
        barrier_free(b);
    }
}

static void without_a_link_of_the_chain_no_node_follows(void **state)
{
    struct world *w = *state;
    rekey(w, 2);
    rekey(w, 3);
    drop_link(w, 1);
    assert_status(follow(w, w->standby), ST_CORRUPT);
    assert_shares(w, w->standby, w->standby, BYTES("s/x")); /* nothing changed */
    assert_status(unseal(w, 3), ST_OK); /* links are for those who have a superseded root key */
}

static void a_damaged_link_is_none(void **state)
{
    struct world *w = *state;
    struct buf *h = &w->now.links[0];
    rekey(w, 2);
    for (size_t bit = 0; bit < h->len * 8; bit++) {
        h->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_status(follow(w, w->standby), ST_CORRUPT);
        h->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    size_t len = h->len;
    for (h->len = 0; h->len < len; h->len++)
        assert_status(follow(w, w->standby), ST_CORRUPT);
    w->now.names[0][sizeof BARRIER_LINKS]++; /* stored at another place */
    assert_status(follow(w, w->standby), ST_CORRUPT);
    w->now.names[0][sizeof BARRIER_LINKS]--;
    assert_status(follow(w, w->standby), ST_OK);
}

static void links_that_do_not_open_are_passed_over(void **state)
{
    struct world *w = *state;
    struct buf junk = {0};
    buf_add(&junk, BYTES("no link"));
    add_link(w, BYTES(BARRIER_LINKS "00000000000000000000"), &junk);
    rekey(w, 2);
    add_link(w, BYTES(BARRIER_LOCAL_LINKS "9"), &w->now.links[1]); /* not of this place */
    add_link(w, BYTES("l/core/superseded/of no number"), &junk);
    rekey(w, 3);
    buf_done(&junk);
    assert_status(follow(w, w->standby), ST_OK);
    assert_shares(w, w->active, w->standby, BYTES("s/x"));
}

/* Links in a circle, which no cluster makes, end the walk all the same. */
static void a_circle_of_links_ends(void **state)
{
    struct world *w = *state;
    struct buf back = {0};
    rekey(w, 2);
    const struct barrier_link_head head = {BYTES(BARRIER_LOCAL_LINKS "1"), 1};
    assert_status(barrier_link(w->active, w->standby, &w->env.env, &head, &back), ST_OK);
    add_link(w, head.name, &back);
    buf_done(&back);
    buf_clear(&w->now.keyring);
    buf_add(&w->now.keyring, BYTES("of another root key"));
    assert_status(follow(w, w->standby), ST_CORRUPT);
}

/* On a DR secondary: the primary's records arrive, the local ring and the own seal stay. */
static void a_local_ring_may_be_behind(void **state)
{
    struct world *w = *state;
    struct buf ring = {0}, link = {0};
    char room[40];
    assert_false(barrier_is_behind(w->standby));
    rekey_by(w, 2, false);
    assert_true(barrier_is_behind(w->active));
    rekey_by(w, 3, false);
    assert_status(follow(w, w->standby), ST_OK);
    assert_true(barrier_is_behind(w->standby));
    assert_shares(w, w->active, w->standby, BYTES("s/x"));
    assert_shares(w, w->active, w->standby, BYTES("l/x"));
    assert_status(unseal(w, 1), ST_OK); /* by the seal of the superseded root key */

    /* The local ring stays under its root key when it grows. */
    assert_status(barrier_upkeep(w->standby, &w->env.env, BARRIER_LOCAL, 0, 6000, &ring), ST_OK);
    keep(&w->now.local_keyring, &ring);
    buf_done(&ring);
    assert_status(follow(w, w->active), ST_OK);
    assert_status(follow(w, w->standby), ST_OK);
    assert_true(barrier_is_behind(w->active));
    assert_status(unseal(w, 1), ST_OK);

    const struct barrier_link_head head = next_head(w, room);
    assert_status(barrier_rewrap(w->active, w->active, &w->env.env, &ring), ST_OK);
    assert_status(barrier_link(w->active, w->active, &w->env.env, &head, &link), ST_OK);
    keep(&w->now.local_keyring, &ring);
    assert_status(follow(w, w->active), ST_OK);
    assert_false(barrier_is_behind(w->active));
    assert_status(barrier_link(w->active, w->active, &w->env.env, &head, &link), ST_NOT_FOUND);

    /* A node that slept through it all follows by the one link of this cluster. */
    drop_link(w, 1);
    drop_link(w, 0);
    add_link(w, head.name, &link);
    assert_status(follow(w, w->standby), ST_OK);
    assert_false(barrier_is_behind(w->standby));
    assert_shares(w, w->active, w->standby, BYTES("l/x"));
    buf_done(&ring);
    buf_done(&link);
}

/* A worker may still look at a state of before: it does not bring the superseded root key back. */
static void an_older_state_does_not_bring_a_root_key_back(void **state)
{
    struct world *w = *state;
    struct buf old = {0};
    uint8_t before[BARRIER_MAC_BYTES], after[BARRIER_MAC_BYTES];
    buf_add(&old, buf_bytes(&w->now.keyring));
    rekey_by(w, 2, false);
    assert_status(barrier_prove(w->active, BYTES("m"), before), ST_OK);
    struct barrier_records records = records_of(&w->now);
    records.keyring = buf_bytes(&old);
    assert_status(barrier_follow(w->active, &records), ST_CORRUPT);
    assert_status(barrier_prove(w->active, BYTES("m"), after), ST_OK);
    assert_memory_equal(before, after, sizeof before);
    buf_done(&old);
}

static void a_link_leads_to_the_keys_of_another_cluster(void **state)
{
    struct world *w = *state;
    struct barrier_created other = {0};
    struct buf ring = {0}, link = {0};
    const struct barrier_link_head head = {BYTES(BARRIER_LOCAL_LINKS "1"), 1};
    assert_status(barrier_create(&w->env.env, &w->seal, 5, &other), ST_OK);
    assert_status(barrier_rewrap(w->active, other.barrier, &w->env.env, &ring), ST_OK);
    assert_status(barrier_link(w->active, other.barrier, &w->env.env, &head, &link), ST_OK);
    keep(&w->now.keyring, &other.keyring);
    keep(&w->now.salt, &other.salt);
    keep(&w->now.local_keyring, &ring);
    struct barrier_records records = records_of(&w->now);
    records.restored = 7;
    assert_status(barrier_follow(w->standby, &records), ST_CORRUPT);
    add_link(w, head.name, &link);
    records = records_of(&w->now);
    assert_status(barrier_follow(w->standby, &records), ST_CORRUPT); /* rings of no restore */
    records.restored = 7;
    assert_status(barrier_follow(w->standby, &records), ST_OK);
    assert_false(barrier_is_behind(w->standby));
    assert_shares(w, other.barrier, w->standby, BYTES("s/x"));
    assert_shares(w, w->active, w->standby, BYTES("l/x"));
    barrier_created_done(&other);
    buf_done(&ring);
    buf_done(&link);
}

static void a_seal_is_checked_against_the_present_root_key(void **state)
{
    struct world *w = *state;
    struct buf old = {0};
    struct reason why = {{0}};
    assert_status(barrier_check_seal(w->active, &w->seal, buf_bytes(&w->now.seal), &why), ST_OK);
    buf_add(&old, buf_bytes(&w->now.seal));
    rekey(w, 2);
    assert_status(barrier_check_seal(w->active, &w->seal, buf_bytes(&old), &why), ST_INVALID);
    assert_string_equal(why.text, "the stored seal wraps another root key");
    assert_status(barrier_check_seal(w->active, &w->seal, buf_bytes(&w->now.seal), &why),
                  ST_INVALID);
    assert_status(barrier_check_seal(w->active, &w->seal, BYTES("x"), &why), ST_CORRUPT);
    barrier_seal(w->active);
    assert_status(barrier_check_seal(w->active, &w->seal, buf_bytes(&old), &why), ST_SEALED);
    buf_done(&old);
}

static void rings_that_lost_a_key_are_not_followed(void **state)
{
    struct world *w = *state;
    struct buf record = {0};
    assert_status(barrier_upkeep(w->active, &w->env.env, BARRIER_SHARED, 0, 6000, &record), ST_OK);
    struct stored fork = w->now;
    struct barrier_records records = records_of(&fork);
    records.keyring = buf_bytes(&record);
    assert_status(barrier_follow(w->standby, &records), ST_OK); /* it knows a term more */
    buf_done(&record);
    rekey(w, 2);
    assert_status(follow(w, w->standby), ST_CORRUPT);
}

static void a_link_tells_its_time(void **state)
{
    struct world *w = *state;
    int64_t time_ms = 0;
    rekey(w, 2);
    assert_status(barrier_link_time(buf_bytes(&w->now.links[0]), &time_ms), ST_OK);
    assert_int_equal(time_ms, 5000);
    assert_status(barrier_link_time(BYTES("short"), &time_ms), ST_CORRUPT);
}

static void the_same_root_key_may_be_wrapped_anew(void **state)
{
    struct world *w = *state;
    struct seal seal = {0};
    struct buf record = {0};
    make_seal(9, &seal);
    assert_status(barrier_reseal(w->active, &w->env.env, &seal, &record), ST_OK);
    keep(&w->now.seal, &record);
    buf_done(&record);
    seal_done(&seal);
    assert_status(follow(w, w->standby), ST_OK);
    assert_status(unseal(w, 1), ST_INVALID);
    assert_status(unseal(w, 9), ST_OK);
}

static void a_sealed_node_makes_none(void **state)
{
    struct world *w = *state;
    struct barrier_rekeyed made = {0};
    struct buf record = {0};
    const struct barrier_link_head head = {BYTES(BARRIER_LINKS "1"), 1};
    barrier_seal(w->active);
    assert_status(barrier_rekey(w->active, &w->env.env, &w->seal, &head, &made), ST_SEALED);
    assert_status(barrier_reseal(w->active, &w->env.env, &w->seal, &record), ST_SEALED);
    assert_status(barrier_link(w->active, w->standby, &w->env.env, &head, &record), ST_SEALED);
    assert_status(barrier_link(w->standby, w->active, &w->env.env, &head, &record), ST_SEALED);
    assert_status(barrier_link(w->active, w->active, &w->env.env, &head, &record), ST_SEALED);
    assert_false(barrier_is_behind(w->active));
    buf_done(&record);
}

static void running_out_of_memory_is_told_and_harmless(void **state)
{
    struct world *w = *state;
    bool failed = true;
    const struct barrier_link_head head = {BYTES(BARRIER_LINKS "1"), 1};
    for (unsigned n = 1; failed; n++) {
        struct barrier_rekeyed made = {0};
        (void)mem_fail_nth(n);
        enum status st = barrier_rekey(w->active, &w->env.env, &w->seal, &head, &made);
        failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        barrier_rekeyed_done(&made);
        assert_true(n < 100);
    }
    rekey(w, 2);
    rekey(w, 3);
    failed = true;
    for (unsigned n = 1; failed; n++) {
        (void)mem_fail_nth(n);
        enum status st = follow(w, w->standby);
        failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        assert_true(n < 100);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_root_key_that_is_handed_over_unseals_its_cluster_alone),
        T(the_old_seal_opens_nothing_and_unsealed_nodes_follow),
        T(rings_change_after_it_as_before),
        T(uses_are_counted_on),
        T(who_slept_through_two_follows_the_chain),
        T(the_order_of_links_does_not_matter),
        T(without_a_link_of_the_chain_no_node_follows),
        T(a_damaged_link_is_none),
        T(links_that_do_not_open_are_passed_over),
        T(a_circle_of_links_ends),
        T(a_local_ring_may_be_behind),
        T(an_older_state_does_not_bring_a_root_key_back),
        T(a_link_leads_to_the_keys_of_another_cluster),
        T(a_seal_is_checked_against_the_present_root_key),
        T(rings_that_lost_a_key_are_not_followed),
        T(a_link_tells_its_time),
        T(the_same_root_key_may_be_wrapped_anew),
        T(a_sealed_node_makes_none),
        T(running_out_of_memory_is_told_and_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
