#include "support.h"

#include "base/buf.h"
#include "cluster/membership/bootstrap/initial_members.h"

static const char *const names[] = {"a", "b", "c"};

static void init(struct initial_members *f, unsigned self, uint8_t nonce)
{
    uint8_t bytes[INITIAL_NONCE_BYTES];
    memset(bytes, nonce, sizeof bytes);
    initial_members_init(f, names, 3, self, bytes);
}

/* Whether an answer is due. */
static bool tell(const struct initial_members *from, struct initial_members *to)
{
    struct buf said = {0};
    bool asks = false;
    initial_members_say(from, &said);
    assert_status(initial_members_hear(to, names[from->self], buf_bytes(&said), &asks), ST_OK);
    buf_done(&said);
    return asks;
}

static void three_fresh_initial_members_form_one_cluster(void **ctx)
{
    (void)ctx;
    struct initial_members f[3];
    for (unsigned i = 0; i < 3; i++)
        init(&f[i], i, (uint8_t)(i + 1));
    assert_int_equal(initial_members_verdict(&f[0]), INITIAL_WAIT);
    tell(&f[1], &f[0]);
    assert_int_equal(initial_members_verdict(&f[0]), INITIAL_WAIT);
    tell(&f[2], &f[0]);
    assert_int_equal(initial_members_verdict(&f[0]), INITIAL_FORM);
    f[0].done = true;
    tell(&f[0], &f[1]); /* it has formed the cluster with the nonce of node 1 */
    tell(&f[2], &f[1]);
    assert_int_equal(initial_members_verdict(&f[1]), INITIAL_FORM);
}

static void only_a_fresh_node_is_answered_and_only_by_one_that_is_not(void **ctx)
{
    (void)ctx;
    struct initial_members a, b;
    init(&a, 0, 1);
    init(&b, 1, 2);
    assert_false(tell(&a, &b)); /* both ask by themselves */
    b.done = true;
    assert_true(tell(&a, &b));
    a.done = true; /* before the answer came */
    assert_false(tell(&b, &a));
    assert_false(tell(&a, &b));
}

static void an_initial_member_that_lost_its_disk_must_join(void **ctx)
{
    (void)ctx;
    struct initial_members a, b;
    init(&a, 0, 1);
    init(&b, 1, 2);
    tell(&b, &a);
    a.done = true;
    init(&b, 1, 9);            /* a new directory draws a new nonce */
    assert_true(tell(&b, &a)); /* node 0 recorded the old nonce */
    tell(&a, &b);
    assert_int_equal(initial_members_verdict(&b), INITIAL_JOIN);
}

static void a_node_that_joined_knows_no_nonce_and_sends_others_to_join(void **ctx)
{
    (void)ctx;
    static const uint8_t none[INITIAL_NONCE_BYTES];
    struct initial_members joined, b;
    initial_members_init(&joined, names, 3, 0, none);
    joined.done = true;
    init(&b, 1, 2);
    tell(&joined, &b);
    assert_int_equal(initial_members_verdict(&b), INITIAL_JOIN);
}

static void a_node_that_is_no_initial_member_joins(void **ctx)
{
    (void)ctx;
    static const uint8_t none[INITIAL_NONCE_BYTES];
    struct initial_members f;
    initial_members_init(&f, names, 3, 3, none);
    assert_int_equal(initial_members_verdict(&f), INITIAL_JOIN);
}

static void one_initial_member_forms_its_cluster_alone(void **ctx)
{
    (void)ctx;
    struct initial_members f;
    uint8_t nonce[INITIAL_NONCE_BYTES] = {1};
    initial_members_init(&f, names, 1, 0, nonce);
    assert_int_equal(initial_members_verdict(&f), INITIAL_FORM);
}

static void strangers_and_garbage_change_nothing(void **ctx)
{
    (void)ctx;
    struct initial_members f, before;
    struct buf said = {0};
    bool asks = false;
    init(&f, 0, 1);
    initial_members_say(&f, &said);
    before = f;
    assert_status(initial_members_hear(&f, "stranger", buf_bytes(&said), &asks), ST_OK);
    assert_status(initial_members_hear(&f, "a", buf_bytes(&said), &asks), ST_OK); /* an echo */
    for (size_t n = 0; n < said.len; n++)
        assert_status(initial_members_hear(&f, "b", bytes_of(said.data, n), &asks), ST_INVALID);
    assert_memory_equal(&f, &before, sizeof f);
    buf_done(&said);
}

static void the_record_survives_and_damage_is_seen(void **ctx)
{
    (void)ctx;
    struct initial_members f, loaded;
    struct buf saved = {0};
    static const uint8_t none[INITIAL_NONCE_BYTES];
    init(&f, 0, 1);
    memset(f.members[1].nonce, 2, INITIAL_NONCE_BYTES);
    initial_members_save(&f, &saved);
    initial_members_init(&loaded, names, 3, 0, none);
    assert_status(initial_members_load(&loaded, buf_bytes(&saved)), ST_OK);
    assert_memory_equal(loaded.members, f.members, sizeof f.members);
    for (size_t i = 0; i < saved.len; i++) {
        saved.data[i] ^= 1;
        initial_members_init(&loaded, names, 3, 0, none);
        assert_status(initial_members_load(&loaded, buf_bytes(&saved)), ST_CORRUPT);
        saved.data[i] ^= 1;
    }
    buf_done(&saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_fresh_initial_members_form_one_cluster),
        cmocka_unit_test(only_a_fresh_node_is_answered_and_only_by_one_that_is_not),
        cmocka_unit_test(an_initial_member_that_lost_its_disk_must_join),
        cmocka_unit_test(a_node_that_joined_knows_no_nonce_and_sends_others_to_join),
        cmocka_unit_test(a_node_that_is_no_initial_member_joins),
        cmocka_unit_test(one_initial_member_forms_its_cluster_alone),
        cmocka_unit_test(strangers_and_garbage_change_nothing),
        cmocka_unit_test(the_record_survives_and_damage_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
