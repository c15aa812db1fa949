/* Entities below the API: what a request reads of them, when a kept one is current, templates. */
#include "state/state_world.h"
#include "support.h"

#include "auth/acl.h"
#include "auth/identity/identity.h"
#include "base/mem.h"
#include "state/ns_key.h"

#define NS STATE_NS_ROOT

static struct state_world world;

static int open_world(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    return 0;
}

static const char *const one_policy[] = {"of-group"}, *const own_policy[] = {"own"};
static const char *const team[] = {"team", "red", "bad", "a/b", "open", "{{identity.entity.id}}"};

static void put_group(struct state_txn *txn, const char *id, const char *parent)
{
    const char *const parents[] = {parent};
    const struct identity_group group = {.id = id,
                                         .name = id,
                                         .alias = "",
                                         .policies = {one_policy, 1, true},
                                         .metadata = {team, 1, true},
                                         .parents = {parents, parent != NULL, true}};
    assert_status(identity_record_save(txn, NS, IDENTITY_GROUP, &group), ST_OK);
}

/* An entity with an alias, in the group "leaf" of the group "top". */
static const char *found_entity(void)
{
    struct state_txn txn;
    struct identity_entity entity = {
        .name = "Ada", .policies = {own_policy, 1, true}, .metadata = {team, 3, true}};
    sw_begin(&world, &txn);
    assert_status(identity_entity_create(&txn, state_env(world.state), NS, 1, &entity), ST_OK);
    struct identity_alias alias = {
        .owner = entity.id, .accessor = "acc.1", .name = "ada@x", .metadata = {team, 1, true}};
    assert_status(identity_add_alias(&txn, state_env(world.state), NS, 1, &alias), ST_OK);
    put_group(&txn, "leaf", "top");
    put_group(&txn, "top", NULL);
    put_group(&txn, "other", NULL);
    assert_status(identity_join(&txn, NS, entity.id, "leaf", true), ST_OK);
    assert_status(identity_join(&txn, NS, entity.id, "gone", true), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    return entity.id;
}

static void entity_has_the_policies_of_its_groups_once_and_in_order(void **ctx)
{
    const char *id = found_entity();
    struct identity identity;
    struct state_txn txn;
    (void)ctx;
    sw_begin(&world, &txn);
    assert_status(identity_read(&txn, NS, id, &identity), ST_OK);
    assert_int_equal(identity.n_groups, 2); /* one that does not exist counts for nothing */
    assert_int_equal(identity.n_direct, 1);
    assert_int_equal(identity.policies.n, 2);
    assert_string_equal(identity.policies.items[0], "of-group");
    assert_string_equal(identity.policies.items[1], "own");
    assert_int_equal(identity.n_aliases, 1);
    assert_status(identity_read(&txn, NS, "unknown", &identity), ST_NOT_FOUND);
    assert_status(identity_read(&txn, NS, "", &identity), ST_NOT_FOUND);
    state_end(&txn);
}

static struct identity_cache *cache;

/* The serial number of the entity as the cache gives it now. */
static uint64_t held_serial(const char *id)
{
    struct identity_ref *ref;
    struct state_txn txn;
    sw_begin(&world, &txn);
    assert_status(identity_hold(cache, &txn, NS, id, &ref), ST_OK);
    uint64_t serial = identity_ref_get(ref)->serial;
    identity_ref_drop(ref);
    state_end(&txn);
    return serial;
}

static void kept_entity_is_read_again_only_when_something_of_it_changed(void **ctx)
{
    const char *id = found_entity();
    struct identity_entity entity;
    struct identity_alias alias;
    struct state_txn txn;
    const char *alias_id;
    (void)ctx;
    assert_status(identity_cache_new(&cache), ST_OK);
    uint64_t first = held_serial(id);
    assert_int_equal(held_serial(id), first);

    sw_begin(&world, &txn); /* a group of others */
    put_group(&txn, "other", "top");
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(held_serial(id), first);

    sw_begin(&world, &txn); /* a group above its group */
    put_group(&txn, "top", "other");
    assert_status(sw_commit(&world, &txn), ST_OK);
    uint64_t second = held_serial(id);
    assert_true(second > first);

    sw_begin(&world, &txn); /* an alias */
    assert_status(identity_find_id(&txn, NS, "alias-of", "acc.1", "ada@x", &alias_id), ST_OK);
    assert_status(identity_record_load(&txn, NS, IDENTITY_ALIAS, alias_id, &alias), ST_OK);
    assert_status(identity_change_alias(&txn, NS, &alias), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    uint64_t third = held_serial(id);
    assert_true(third > second);

    sw_begin(&world, &txn); /* a membership */
    assert_status(identity_join(&txn, NS, id, "leaf", false), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    uint64_t fourth = held_serial(id);
    assert_true(fourth > third);

    sw_begin(&world, &txn); /* the entity itself */
    assert_status(identity_record_load(&txn, NS, IDENTITY_ENTITY, id, &entity), ST_OK);
    entity.disabled = true;
    assert_status(identity_record_save(&txn, NS, IDENTITY_ENTITY, &entity), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_true(held_serial(id) > fourth);
    identity_cache_free(cache);
}

static void login_that_changes_nothing_stages_nothing(void **ctx)
{
    const struct identity_login login = {
        .accessor = "acc.2", .name = "bob", .metadata = {team, 1, true}};
    struct state_txn txn;
    const char *first, *second;
    (void)ctx;
    sw_begin(&world, &txn);
    assert_status(identity_log_in(&txn, state_env(world.state), NS, &login, 5, &first), ST_OK);
    assert_true(state_staged(&txn));
    assert_status(sw_commit(&world, &txn), ST_OK);
    sw_begin(&world, &txn);
    assert_status(identity_log_in(&txn, state_env(world.state), NS, &login, 9, &second), ST_OK);
    assert_string_equal(first, second);
    assert_false(state_staged(&txn));
    state_end(&txn);
}

static void put_external(struct state_txn *txn, const char *id, const char *accessor)
{
    const struct identity_group group = {.id = id, .name = id, .alias = id, .external = true};
    const struct identity_alias alias = {
        .id = id, .owner = id, .accessor = accessor, .name = id, .metadata = {.given = true}};
    assert_status(identity_record_save(txn, NS, IDENTITY_GROUP, &group), ST_OK);
    assert_status(identity_record_save(txn, NS, IDENTITY_GROUP_ALIAS, &alias), ST_OK);
    assert_status(identity_put_id(txn, NS, "group-alias-of", accessor, id, id), ST_OK);
}

static void memberships_of_external_groups_follow_the_login(void **ctx)
{
    static const char *const before[] = {"ext-a", "ext-b", "unknown"}, *const after[] = {"ext-b"};
    struct identity_login login = {.accessor = "acc.3", .name = "eve", .groups = {before, 3, true}};
    struct identity identity;
    struct state_txn txn;
    const char *id;
    (void)ctx;
    sw_begin(&world, &txn);
    put_external(&txn, "ext-a", "acc.3");
    put_external(&txn, "ext-b", "acc.3");
    put_external(&txn, "ext-c", "acc.4"); /* of another mount */
    assert_status(identity_log_in(&txn, state_env(world.state), NS, &login, 5, &id), ST_OK);
    assert_status(identity_join(&txn, NS, id, "ext-c", true), ST_OK);
    assert_status(identity_join(&txn, NS, id, "leaf", true), ST_OK);
    assert_status(identity_read(&txn, NS, id, &identity), ST_OK);
    size_t all = identity.n_direct;
    login.groups = (struct field_strings){after, 1, true};
    assert_status(identity_log_in(&txn, state_env(world.state), NS, &login, 6, &id), ST_OK);
    assert_status(identity_read(&txn, NS, id, &identity), ST_OK);
    assert_int_equal(identity.n_direct, all - 1);
    for (size_t i = 0; i < identity.n_direct; i++)
        assert_string_not_equal(identity.groups[i].id, "ext-a");
    state_end(&txn);
}

static const struct {
    const char *text, *filled; /* NULL: the rule is left out */
} templates[] = {
    {"plain", "plain"},
    {"a/{{identity.entity.name}}/b", "a/Ada/b"},
    {"{{ identity.entity.metadata.team }}", "red"},
    {"{{identity.entity.metadata.team}}-{{identity.entity.metadata.team}}", "red-red"},
    {"{{identity.entity.metadata.open}}", "{{identity.entity.id}}"},
    {"{{identity.entity.aliases.acc.1.name}}", "ada@x"},
    {"{{identity.entity.aliases.acc.1.metadata.team}}", "red"},
    {"{{identity.groups.ids.leaf.name}}", "leaf"},
    {"{{identity.groups.names.top.id}}", "top"},
    {"{{identity.groups.names.top.metadata.team}}", "red"},
    {"{{identity.entity.metadata.bad}}", NULL},
    {"{{identity.entity.metadata.none}}", NULL},
    {"{{identity.entity.aliases.acc.name}}", NULL},
    {"{{identity.groups.names.other.id}}", NULL},
    {"{{identity.entity}}", NULL},
    {"{{}}", NULL},
    {"a/{{open", "a/{{open"},
};

static void template_is_filled_or_left_out(void **ctx)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const char *id = found_entity();
    struct identity identity;
    struct state_txn txn;
    struct bytes filled;
    (void)ctx;
    sw_begin(&world, &txn);
    assert_status(identity_read(&txn, NS, id, &identity), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
        print_message("%s\n", templates[i].text);
        enum status st = identity_fill(&identity, &arena, bytes_str(templates[i].text), &filled);
        assert_status(st, templates[i].filled != NULL ? ST_OK : ST_NOT_FOUND);
        if (st == ST_OK)
            assert_bytes(filled, bytes_str(templates[i].filled));
    }
    state_end(&txn);
}

static void filled_rule_merges_with_an_equal_pattern_and_names_its_policy(void **ctx)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct policy *both[2];
    struct acl *acl;
    const struct policy_rule *rule;
    const struct identity identity = {.entity = {.id = "id", .name = "ada"}};
    const char *const *names;
    size_t n;
    (void)ctx;
    assert_status(policy_compile(BYTES("path \"kv/{{identity.entity.name}}\" "
                                       "{ capabilities = [\"read\"] }"),
                                 &both[0], NULL),
                  ST_OK);
    assert_status(
        policy_compile(BYTES("path \"kv/ada\" { capabilities = [\"delete\"] }"), &both[1], NULL),
        ST_OK);
    both[0]->name = "templated";
    both[1]->name = "plain";
    assert_status(acl_new_for((const struct policy *const *)both, 2, &identity, &acl), ST_OK);
    assert_int_equal(acl_capabilities(acl, BYTES("kv/ada")), CAP_READ | CAP_DELETE);
    const struct acl_question question = {.path = BYTES("kv/ada"), .caps = CAP_READ};
    assert_status(acl_check(acl, &question, &rule), ST_OK);
    assert_status(acl_rule_policies(acl, rule, &arena, &names, &n), ST_OK);
    assert_int_equal(n, 2);
    acl_free(acl);
    assert_status(acl_new((const struct policy *const *)both, 2, &acl), ST_OK);
    assert_int_equal(acl_capabilities(acl, BYTES("kv/ada")), CAP_DELETE);
    acl_free(acl);
    policy_free(both[0]);
    policy_free(both[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(entity_has_the_policies_of_its_groups_once_and_in_order,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(kept_entity_is_read_again_only_when_something_of_it_changed,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(login_that_changes_nothing_stages_nothing, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(memberships_of_external_groups_follow_the_login, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(template_is_filled_or_left_out, open_world, close_world),
        cmocka_unit_test(filled_rule_merges_with_an_equal_pattern_and_names_its_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
