/* Wrong calls that only a mistake in our code can make: an assertion stops each call before it does
 * harm. */
#include "dies.h"
#include "state/state_world.h"

#include "api/kv/kv2_record.h"
#include "api/seal/seal_ceremony.h"
#include "api/sys_modules.h"
#include "audit/audit.h"
#include "auth/acl.h"
#include "auth/token.h"
#include "auth/token_batch.h"
#include "barrier/ring.h"
#include "barrier/shamir.h"
#include "cluster/membership/wait.h"
#include "http/budget.h"
#include "lease/lease.h"
#include "loop/lane.h"
#include "loop/loop.h"
#include "router/request/req.h"
#include "state/ns_key.h"
#include "text/json.h"

#include <semaphore.h>

static struct fake_env fake;

/* Keys and seals */

static void a_barrier_is_freed_under_a_cipher(void *ctx)
{
    struct barrier *barrier;
    struct barrier_cipher *cipher;
    (void)ctx;
    assert_status(barrier_new(&barrier), ST_OK);
    assert_status(barrier_cipher_new(barrier, &fake.env, &cipher), ST_OK);
    barrier_free(barrier);
}

static void a_wiped_ring_is_used(void *ctx)
{
    struct ring ring = {0};
    (void)ctx;
    assert_status(ring_grow(&ring, &fake.env, 1), ST_OK);
    ring_done(&ring);
    (void)ring_active(&ring);
}

static void uses_are_granted_without_a_number(void *ctx)
{
    struct barrier *barrier;
    (void)ctx;
    assert_status(barrier_new(&barrier), ST_OK);
    barrier_upkeep_done(barrier, BARRIER_SHARED, 0);
}

static void a_secret_is_split_above_its_shares(void *ctx)
{
    uint8_t shares[4 * 33];
    (void)ctx;
    shamir_split(&fake.env, BYTES("secret"), 3, 4, shares);
}

/* Transactions */

static struct state_world world;

static void open_txn(struct state_txn *txn)
{
    sw_open(&world);
    sw_init(&world);
    sw_begin(&world, txn);
}

static void an_ended_transaction_is_read(void *ctx)
{
    struct state_txn txn;
    struct state_value value;
    (void)ctx;
    open_txn(&txn);
    state_end(&txn);
    assert_status(state_get(&txn, BYTES("s/a"), &value), ST_OK);
}

static void an_ended_transaction_is_written(void *ctx)
{
    struct state_txn txn;
    (void)ctx;
    open_txn(&txn);
    state_end(&txn);
    assert_status(state_put(&txn, BYTES("s/a"), BYTES("1")), ST_OK);
}

static void an_ended_transaction_is_committed(void *ctx)
{
    struct state_commit commit = {0};
    struct state_txn txn;
    (void)ctx;
    open_txn(&txn);
    state_end(&txn);
    assert_status(state_commit(&txn, &commit), ST_OK);
}

static void a_commit_is_awaited_by_no_function(void *ctx)
{
    struct state_commit commit = {0};
    struct state_txn txn;
    (void)ctx;
    open_txn(&txn);
    assert_status(state_put(&txn, BYTES("s/a"), BYTES("1")), ST_OK);
    assert_status(state_commit(&txn, &commit), ST_OK);
}

static void a_key_expires_before_time_began(void *ctx)
{
    struct arena arena = {0};
    struct bytes key;
    (void)ctx;
    assert_status(state_ns_time_key(&arena, STATE_NS_ROOT, "expire", 0, "a", &key), ST_OK);
}

/* Tokens, leases, policies */

static void a_use_is_taken_from_a_token_that_has_none(void *ctx)
{
    struct auth_token token = {.limited = true};
    struct auth_scope scope = {0};
    (void)ctx;
    assert_status(auth_token_use(&scope, &token), ST_OK);
}

static void a_child_token_is_made_without_a_generation(void *ctx)
{
    struct auth_token token = auth_token_root(1);
    struct state_txn txn;
    const char *bearer = NULL;
    (void)ctx;
    open_txn(&txn);
    const struct auth_scope scope = {.txn = &txn, .ns = STATE_NS_ROOT, .now_ms = 1};
    token.parent = "0123456789abcdef0123456789abcdef";
    assert_status(auth_token_create(&scope, &fake.env, &token, &bearer), ST_OK);
}

static void a_batch_token_counts_its_uses(void *ctx)
{
    struct auth_token token = auth_token_root(1);
    struct state_txn txn;
    const char *bearer;
    (void)ctx;
    open_txn(&txn);
    token.type = AUTH_TYPE_BATCH;
    token.num_uses = 1;
    assert_status(token_batch_seal(&txn, txn.cipher, STATE_NS_ROOT, &token, &bearer), ST_OK);
}

static void a_token_changes_its_accessor(void *ctx)
{
    struct auth_token before = auth_token_root(1), after = before;
    const struct auth_scope scope = {0};
    (void)ctx;
    before.id = after.id = "0123456789abcdef0123456789abcdef";
    after.accessor = "another";
    assert_status(token_store_update(&scope, &before, &after), ST_OK);
}

static void a_builtin_policy_is_deleted(void *ctx)
{
    struct state_txn txn;
    (void)ctx;
    open_txn(&txn);
    assert_status(policy_delete(&txn, STATE_NS_ROOT, BYTES(AUTH_POLICY_ROOT)), ST_OK);
}

static void a_policy_is_asked_whether_it_denies(void *ctx)
{
    struct acl_question question = {.path = BYTES("kv/a"), .caps = CAP_DENY};
    (void)ctx;
    assert_status(acl_check(acl_of_root(), &question, &(const struct policy_rule *){NULL}), ST_OK);
}

static void a_folder_is_asked_for_without_its_slash(void *ctx)
{
    (void)ctx;
    (void)acl_reaches(acl_of_root(), BYTES("kv"));
}

static enum status no_end(const struct lease_scope *s, const struct lease *lease)
{
    (void)s;
    (void)lease;
    return ST_OK;
}
static const struct lease_kind lamp_kind = {.name = "lamp", .end = no_end};

static void a_lease_is_ended_twice(void *ctx)
{
    struct lease_kinds kinds = {0};
    struct lease lease = {.kind = &lamp_kind};
    struct state_txn txn;
    (void)ctx;
    open_txn(&txn);
    lease_kinds_add(&kinds, &lamp_kind);
    const struct lease_scope scope = {.txn = &txn, .ns = STATE_NS_ROOT, .kinds = &kinds};
    assert_status(lease_create(&scope, &fake.env, "a", &lease), ST_OK);
    assert_status(lease_end(&scope, &lease), ST_OK);
    assert_status(lease_end(&scope, &lease), ST_OK);
}

static enum status end_with_put(const struct expiry_task *task)
{
    return state_put(task->txn, BYTES("s/ns/root/a"), BYTES("1"));
}

static void a_thing_ends_with_a_put_that_a_full_state_refuses(void *ctx)
{
    static const struct expiry_kind kind = {.name = "a", .former_end = "aend", .end = end_with_put};
    static struct expiry_counts counts;
    static const struct expiry_kinds kinds = {.items = {&kind}, .n = 1, .counts = &counts};
    struct state_txn txn;
    (void)ctx;
    open_txn(&txn);
    assert_status(expiry_put(&txn, &kind, STATE_NS_ROOT, 1, "x"), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    sw_begin(&world, &txn);
    assert_status(expiry_upkeep(&kinds, &txn, 2, EXPIRY_STEPS), ST_OK);
}

static void two_kinds_of_leases_have_one_name(void *ctx)
{
    static const struct lease_kind other = {.name = "lamp"};
    struct lease_kinds kinds = {0};
    (void)ctx;
    lease_kinds_add(&kinds, &lamp_kind);
    lease_kinds_add(&kinds, &other);
}

/* Requests */

static void a_handler_replies_twice(void *ctx)
{
    static const struct route route = {0};
    struct req req = {.route = &route};
    (void)ctx;
    assert_status(req_reply_raw(&req, "text/plain", BYTES("a")), ST_OK);
    assert_status(req_reply_raw(&req, "text/plain", BYTES("b")), ST_OK);
}

static void a_handler_asks_for_a_name_that_its_path_lacks(void *ctx)
{
    struct req req = {0};
    (void)ctx;
    (void)req_param(&req, "name");
}

static void a_handler_without_a_mount_asks_for_its_key(void *ctx)
{
    struct req req = {0};
    struct bytes key;
    (void)ctx;
    assert_status(req_key(&req, "a", &key), ST_OK);
}

/* The row of a table with this path. */
static const struct route *row_of(const struct route_table *table, const char *path)
{
    for (size_t i = 0; i < table->n; i++)
        if (strcmp(table->rows[i].path, path) == 0)
            return &table->rows[i];
    fail_msg("no row %s", path);
    return NULL;
}

static void a_step_outside_runs_in_a_transaction(void *ctx)
{
    const struct route *route = row_of(&members_raft_table, "step-down");
    struct state_txn txn;
    struct req req = {.route = route, .txn = &txn};
    (void)ctx;
    open_txn(&txn);
    assert_status(route->outside(&req), ST_OK);
}

static void a_handler_runs_after_its_transaction(void *ctx)
{
    const struct route *route = row_of(&members_raft_table, "storage/raft/readmit");
    const char *const body[] = {"a"};
    struct state_txn txn;
    struct req req = {.route = route, .txn = &txn, .body = body};
    (void)ctx;
    open_txn(&txn);
    state_end(&txn);
    assert_status(route->handler(&req), ST_OK);
}

static void a_share_is_given_to_no_attempt(void *ctx)
{
    struct ceremony ceremony = {.phase = CEREMONY_DONE};
    struct req req = {0};
    (void)ctx;
    assert_status(ceremony_give(&req, &ceremony, "00"), ST_OK);
}

static void a_verified_attempt_is_stored_without_its_key(void *ctx)
{
    static const char nonce[] = "00000000-0000-0000-0000-000000000000";
    struct ceremony ceremony = {
        .kind = CEREMONY_REKEY, .phase = CEREMONY_VERIFYING, .key = BYTES("l/attempt")};
    struct arena arena = {0};
    struct req req = {.arena = &arena};
    (void)ctx;
    memcpy(ceremony.nonce, nonce, sizeof nonce);
    assert_status(ceremony_save(&req, &ceremony), ST_OK);
}

static void on_recorded(struct audit_op *op, enum status st)
{
    (void)op;
    (void)st;
}

static void a_record_goes_to_no_audit_device(void *ctx)
{
    struct audit audit;
    struct audit_set set = {.refs = 1};
    struct audit_record *record = NULL;
    struct audit_op op = {.done = on_recorded};
    (void)ctx;
    audit_init(&audit, NULL);
    assert_status(audit_offer(&audit, &set, &record, 1, &op), ST_OK);
}

static void a_list_gets_a_member(void *ctx)
{
    struct buf out = {0};
    struct text_writer w = {.out = &out};
    (void)ctx;
    text_open_list(&w);
    text_key(&w, "name");
}

static void more_is_closed_than_was_opened(void *ctx)
{
    struct buf out = {0};
    struct text_writer w = {.out = &out};
    (void)ctx;
    text_open_object(&w);
    text_close(&w);
    text_close(&w);
}

static void a_secret_has_more_versions_than_were_written(void *ctx)
{
    static struct kv2_version version;
    struct kv2_record record = {.versions = &version, .n = 1, .created_ms = 1, .updated_ms = 1};
    struct buf out = {0};
    (void)ctx;
    assert_status(kv2_record_encode(&record, &out), ST_OK);
}

/* Memory that clients share */

static void open_budget(struct http_budget *budget)
{
    struct http_budget_options options = {.total = 10, .share = 5, .clients_max = 2};
    assert_status(http_budget_init(budget, &fake.env, &options), ST_OK);
    assert_true(http_budget_take(budget, &(struct ip){0}, 3));
}

static void a_client_gives_back_more_than_it_took(void *ctx)
{
    struct http_budget budget;
    (void)ctx;
    open_budget(&budget);
    http_budget_give(&budget, &(struct ip){0}, 4);
}

static void a_budget_ends_while_a_client_holds_some(void *ctx)
{
    struct http_budget budget;
    (void)ctx;
    open_budget(&budget);
    http_budget_done(&budget);
}

/* Threads */

static sem_t running;

static void say_running(struct env_task *task)
{
    (void)task;
    (void)sem_post(&running);
}

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void fire_never(struct env_timer *timer)
{
    (void)timer;
}

static void a_timer_is_set_on_the_wrong_thread(void *ctx)
{
    static struct env_task task = {.run = say_running};
    static struct env_timer timer = {.fire = fire_never};
    struct env *env;
    pthread_t thread;
    (void)ctx;
    assert_status(loop_new(NULL, &env), ST_OK);
    assert_int_equal(sem_init(&running, 0, 0), 0);
    env_post(env, &task);
    assert_int_equal(pthread_create(&thread, NULL, run_loop, env), 0);
    assert_int_equal(sem_wait(&running), 0);
    env_timer_set(env, &timer, 1);
}

static void a_loop_runs_inside_itself(struct env_task *task);
static struct env *nested_env;
static struct env_task nested_task = {.run = a_loop_runs_inside_itself};

static void a_loop_runs_inside_itself(struct env_task *task)
{
    (void)task;
    loop_run(nested_env);
}

static void a_loop_is_run_twice(void *ctx)
{
    (void)ctx;
    assert_status(loop_new(NULL, &nested_env), ST_OK);
    env_post(nested_env, &nested_task);
    loop_run(nested_env);
}

static void a_work_has_no_end(void *ctx)
{
    static struct env_work work;
    struct env *env;
    (void)ctx;
    assert_status(loop_new(NULL, &env), ST_OK);
    env_work(env, &work);
}

static void a_wait_ends_twice(void *ctx)
{
    static struct wait wait = {.lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER};
    (void)ctx;
    wait_end(&wait, ST_OK);
    wait_end(&wait, ST_OK);
}

static void an_assertion_stops_each(void **state)
{
    static const struct {
        const char *name;
        void (*act)(void *ctx);
        const char *asserted;
    } calls[] = {
#define CALL(act, asserted) {#act, act, asserted}
        CALL(a_barrier_is_freed_under_a_cipher, "list_empty(&b->ciphers)"),
        CALL(a_wiped_ring_is_used, "ring->n > 0"),
        CALL(uses_are_granted_without_a_number, "grant > 0"),
        CALL(a_secret_is_split_above_its_shares, "threshold <= n"),
        CALL(an_ended_transaction_is_read, "txn->open"),
        CALL(an_ended_transaction_is_written, "txn->open"),
        CALL(an_ended_transaction_is_committed, "txn->open"),
        CALL(a_commit_is_awaited_by_no_function, "c->done != NULL"),
        CALL(a_key_expires_before_time_began, "time_ms > 0"),
        CALL(a_use_is_taken_from_a_token_that_has_none, "token->num_uses > 0"),
        CALL(a_child_token_is_made_without_a_generation, "(token->depth == 0)"),
        CALL(a_batch_token_counts_its_uses, "token->num_uses == 0"),
        CALL(a_token_changes_its_accessor, "strcmp(before->accessor, after->accessor)"),
        CALL(a_builtin_policy_is_deleted, "!is_fixed(name)"),
        CALL(a_policy_is_asked_whether_it_denies, "question->caps"),
        CALL(a_folder_is_asked_for_without_its_slash, "folder.len > 0"),
        CALL(a_lease_is_ended_twice, "!state_is_deleted(s->txn, key)"),
        CALL(a_thing_ends_with_a_put_that_a_full_state_refuses, "state_is_exempt(txn)"),
        CALL(two_kinds_of_leases_have_one_name, "strcmp(kinds->items[i]->name, kind->name)"),
        CALL(a_handler_replies_twice, "req->reply.kind == REPLY_NONE"),
        CALL(a_handler_asks_for_a_name_that_its_path_lacks, "req->params.n"),
        CALL(a_handler_without_a_mount_asks_for_its_key, "req->mount != NULL"),
        CALL(a_step_outside_runs_in_a_transaction, "!req_in_txn(req)"),
        CALL(a_handler_runs_after_its_transaction, "req_in_txn(req)"),
        CALL(a_share_is_given_to_no_attempt, "ceremony_is_under_way(c)"),
        CALL(a_verified_attempt_is_stored_without_its_key, "c->rekey.key.len != 0"),
        CALL(a_record_goes_to_no_audit_device, "set->n_uses != 0"),
        CALL(a_list_gets_a_member, "w->depth > 0 && (w->lists & 1) == 0"),
        CALL(more_is_closed_than_was_opened, "w->depth > 0"),
        CALL(a_secret_has_more_versions_than_were_written, "r->n <= r->newest"),
        CALL(a_client_gives_back_more_than_it_took, "held >= n"),
        CALL(a_budget_ends_while_a_client_holds_some, "budget->used == 0"),
        CALL(a_timer_is_set_on_the_wrong_thread, "pthread_equal(l->owner, pthread_self())"),
        CALL(a_loop_is_run_twice, "!l->running"),
        CALL(a_work_has_no_end, "work->run != NULL && work->done != NULL"),
        CALL(a_wait_ends_twice, "!wait->finished"),
#undef CALL
    };
    char said[DIES_SAID];
    (void)state;
    fake_env_init(&fake, 1);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        if (!dies(calls[i].act, NULL, said))
            fail_msg("%s: not stopped; said: %s", calls[i].name, said);
        if (strstr(said, "Assertion failed: ") == NULL || strstr(said, calls[i].asserted) == NULL)
            fail_msg("%s: stopped by another assertion: %s", calls[i].name, said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_assertion_stops_each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
