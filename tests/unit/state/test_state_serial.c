/* Serializability: many transactions at once, run in random slices. One that commits must have
 * seen, in every read and every walk, exactly what the state held just before its commit. */
#include "state_world.h"

#include <stdio.h>
#include <stdlib.h>

enum { CLIENTS = 6, SEEN_MAX = 12, KEYS = 24 };

static struct state_world world;
static char key_names[KEYS][24];
static char model[KEYS][16]; /* value by key, "" when absent */

struct seen {
    bool is_walk;
    int key; /* or the folder */
    char result[KEYS * 16];
};

struct staged {
    bool drop; /* of the key's folder */
    int key;
    char value[16]; /* "" to delete */
};

struct client {
    bool running;
    struct arena arena;
    struct state_txn txn;
    struct seen seen[SEEN_MAX];
    struct staged staged[SEEN_MAX];
    unsigned n_seen, n_staged;
};

static struct client clients[CLIENTS];
static uint64_t seed;

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < KEYS; i++) /* three folders, one of local keys */
        (void)snprintf(key_names[i], sizeof key_names[i], "%s%d/%d", i / 8 == 2 ? "l/f" : "s/f",
                       i / 8, i % 8);
    memset(model, 0, sizeof model);
    sw_open(&world);
    sw_init(&world);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        state_end(&clients[i].txn);
        arena_done(&clients[i].arena);
        clients[i] = (struct client){0};
    }
    sw_close(&world);
    return 0;
}

static void folder_of(int key, char out[8])
{
    (void)snprintf(out, 8, "%.5s", key_names[key]);
}

/* What a transaction over the model, with these writes staged, would read. */
static void model_with(const struct client *c, unsigned n_staged, char out[KEYS][16])
{
    memcpy(out, model, sizeof model);
    for (unsigned i = 0; i < n_staged; i++)
        for (int k = 0; k < KEYS; k++)
            if (c->staged[i].drop ? k / 8 == c->staged[i].key / 8 : k == c->staged[i].key)
                (void)snprintf(out[k], 16, "%s", c->staged[i].value);
}

static void join(const char state_of[KEYS][16], int folder, char *out)
{
    out[0] = '\0';
    for (int k = folder / 8 * 8; k < folder / 8 * 8 + 8; k++)
        if (state_of[k][0] != '\0') {
            (void)strcat(strcat(strcat(out, key_names[k]), "="), state_of[k]);
            (void)strcat(out, " ");
        }
}

static void read_key(struct client *c, struct seen *s)
{
    struct state_value value;
    enum status st = state_get(&c->txn, bytes_str(key_names[s->key]), &value);
    assert_true(st == ST_OK || st == ST_NOT_FOUND);
    if (st == ST_OK)
        memcpy(s->result, value.value.data, value.value.len);
}

static void read_folder(struct client *c, struct seen *s)
{
    struct state_iter iter;
    struct bytes value;
    char folder[8];
    folder_of(s->key, folder);
    assert_status(state_scan(&c->txn, bytes_str(folder), BYTES(""), &iter), ST_OK);
    while (state_iter_next(&iter)) {
        assert_status(state_iter_value(&iter, &value), ST_OK);
        size_t n = strlen(s->result);
        (void)snprintf(s->result + n, sizeof s->result - n, "%.*s=%.*s ", (int)iter.key.len,
                       (const char *)iter.key.data, (int)value.len, (const char *)value.data);
    }
}

/* The reads are compared with the model when the commit is known: each with what was staged then.
 */
static unsigned staged_at[CLIENTS][SEEN_MAX];

static void slice(int i)
{
    struct client *c = &clients[i];
    int key = (int)(fake_next(&seed) % KEYS);
    char folder[8];
    switch (fake_next(&seed) % 8) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (c->n_seen < SEEN_MAX) {
            struct seen *s = &c->seen[c->n_seen];
            *s = (struct seen){.key = key, .is_walk = fake_next(&seed) % 3 == 0};
            staged_at[i][c->n_seen++] = c->n_staged;
            (s->is_walk ? read_folder : read_key)(c, s);
        }
        break;
    case 4:
    case 5:
    case 6:
        if (c->n_staged < SEEN_MAX) {
            struct staged *s = &c->staged[c->n_staged++];
            *s = (struct staged){.key = key};
            bool put = fake_next(&seed) % 3 != 0;
            if (put)
                (void)snprintf(s->value, sizeof s->value, "%u",
                               (unsigned)(fake_next(&seed) % 100000));
            assert_status(put ? state_put(&c->txn, bytes_str(key_names[key]), bytes_str(s->value))
                              : state_delete(&c->txn, bytes_str(key_names[key])),
                          ST_OK);
        }
        break;
    default:
        if (c->n_staged < SEEN_MAX && fake_next(&seed) % 3 == 0) {
            c->staged[c->n_staged++] = (struct staged){.key = key, .drop = true};
            folder_of(key, folder);
            assert_status(state_delete_prefix(&c->txn, bytes_str(folder)), ST_OK);
        }
    }
}

static void check_reads(int i)
{
    const struct client *c = &clients[i];
    static char at[KEYS][16], want[KEYS * 32];
    for (unsigned n = 0; n < c->n_seen; n++) {
        model_with(c, staged_at[i][n], at);
        if (c->seen[n].is_walk)
            join((const char(*)[16])at, c->seen[n].key, want);
        else
            memcpy(want, at[c->seen[n].key], 16);
        assert_string_equal(c->seen[n].result, want);
    }
}

struct tally {
    unsigned committed, conflicts, confirmed, unconfirmed;
};

static void on_confirm(struct state_confirm *confirm, enum status st)
{
    confirm->status = st;
}

static void finish(int i, struct tally *t)
{
    struct client *c = &clients[i];
    if (c->n_staged == 0) {
        struct state_confirm confirm = {.done = on_confirm};
        state_confirm(&c->txn, &confirm);
        sw_run(&world);
        state_end(&c->txn);
        if (confirm.status == ST_OK)
            check_reads(i);
        *(confirm.status == ST_OK ? &t->confirmed : &t->unconfirmed) += 1;
    } else {
        enum status st = sw_commit(&world, &c->txn);
        assert_true(st == ST_OK || st == ST_CONFLICT);
        if (st == ST_OK) {
            check_reads(i);
            static char after[KEYS][16];
            model_with(c, c->n_staged, after);
            memcpy(model, after, sizeof model);
        }
        *(st == ST_OK ? &t->committed : &t->conflicts) += 1;
    }
    arena_done(&c->arena);
    *c = (struct client){0};
}

static void what_commits_saw_the_state_before_it(void **state)
{
    struct tally t = {0};
    (void)state;
    for (seed = 1; seed < 4; seed++) {
        uint64_t start = seed;
        for (int step = 0; step < 12000; step++) {
            int i = (int)(fake_next(&seed) % CLIENTS);
            if (!clients[i].running) {
                clients[i].running = true;
                assert_status(state_begin(world.state, &clients[i].arena, NULL, &clients[i].txn),
                              ST_OK);
            } else if (fake_next(&seed) % 6 == 0) {
                finish(i, &t);
            } else {
                slice(i);
            }
        }
        seed = start;
    }
    print_message("%u committed, %u conflicts; %u confirmed, %u not\n", t.committed, t.conflicts,
                  t.confirmed, t.unconfirmed);
    assert_true(t.committed > 1000 && t.conflicts > 1000);
    assert_true(t.confirmed > 100 && t.unconfirmed > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_commits_saw_the_state_before_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
