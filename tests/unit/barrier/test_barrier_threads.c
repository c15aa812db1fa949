/* Threads encrypt and decrypt while the barrier is sealed, unsealed and given new terms. */
#include "state/fake_env.h"
#include "support.h"

#include "barrier/barrier.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 3, ROUNDS = 60 };

static struct barrier *barrier;
static atomic_bool stopping;

struct user {
    pthread_t thread;
    struct fake_env env;
    struct barrier_cipher *cipher;
    uint64_t done, refused;
    const char *failed;
};

/* One value there and back; a mistake ends the thread with its name. */
static const char *use_once(struct user *u, uint64_t i)
{
    static const struct bytes keys[] = {BYTES("s/a/key"), BYTES("l/a/key")};
    uint8_t plain[32], stored[32 + BARRIER_OVERHEAD], out[32 + BARRIER_OVERHEAD], mac[32];
    struct bytes key = keys[i % 2];
    size_t n = 0;

    memset(plain, (int)(i & 0xFF), sizeof plain);
    enum status st = barrier_encrypt(u->cipher, key, bytes_of(plain, sizeof plain), stored);
    if (st == ST_OK)
        st = barrier_decrypt(u->cipher, key, bytes_of(stored, sizeof stored), out, &n);
    if (st == ST_OK && (n != sizeof plain || memcmp(plain, out, n) != 0))
        return "another value came back";
    if (st == ST_OK)
        st = barrier_mac(u->cipher, key, mac);
    if (st != ST_OK && st != ST_SEALED && st != ST_BUSY)
        return status_name(st);
    *(st == ST_OK ? &u->done : &u->refused) += 1;
    return NULL;
}

static void *use(void *arg)
{
    struct user *u = arg;
    for (uint64_t i = 0; u->failed == NULL && !atomic_load(&stopping); i++)
        u->failed = use_once(u, i);
    return NULL;
}

static void rotate(struct env *env, enum barrier_ring ring, struct barrier_created *c)
{
    struct buf record = {0};
    struct buf *stored = ring == BARRIER_SHARED ? &c->keyring : &c->local_keyring;
    assert_status(barrier_upkeep(barrier, env, ring, 0, 1, &record), ST_OK);
    buf_clear(stored);
    buf_add(stored, buf_bytes(&record));
    buf_done(&record);
}

static void no_thread_ever_gets_a_wrong_value(void **state)
{
    (void)state;
    static struct user users[THREADS];
    static const uint8_t key[32] = {3};
    struct fake_env env;
    struct seal seal = {0};
    struct barrier_created c = {0};
    fake_env_init(&env, 1);
    assert_status(crypto_init(NULL), ST_OK);
    assert_status(seal_static(bytes_of(key, 32), "k", &seal, NULL), ST_OK);
    assert_status(barrier_create(&env.env, &seal, 1, &c), ST_OK);
    assert_status(barrier_new(&barrier), ST_OK);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (struct user){0};
        fake_env_init(&users[i].env, (uint64_t)i + 2);
        assert_status(barrier_cipher_new(barrier, &users[i].env.env, &users[i].cipher), ST_OK);
        assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct barrier_records records = {.seal = buf_bytes(&c.seal),
                                          .keyring = buf_bytes(&c.keyring),
                                          .local_keyring = buf_bytes(&c.local_keyring),
                                          .salt = buf_bytes(&c.salt)};
        struct barrier_cipher *passing = NULL;
        assert_status(barrier_unseal(barrier, &seal, &records, NULL), ST_OK);
        assert_status(barrier_cipher_new(barrier, &env.env, &passing), ST_OK);
        rotate(&env.env, round % 2 == 0 ? BARRIER_SHARED : BARRIER_LOCAL, &c);
        records = (struct barrier_records){.seal = buf_bytes(&c.seal),
                                           .keyring = buf_bytes(&c.keyring),
                                           .local_keyring = buf_bytes(&c.local_keyring),
                                           .salt = buf_bytes(&c.salt)};
        assert_status(barrier_follow(barrier, &records), ST_OK);
        barrier_cipher_free(passing);
        barrier_seal(barrier);
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(users[i].thread, NULL), 0);
        if (users[i].failed != NULL)
            fail_msg("%s", users[i].failed);
        barrier_cipher_free(users[i].cipher);
    }
    barrier_free(barrier);
    barrier_created_done(&c);
    seal_done(&seal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_thread_ever_gets_a_wrong_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
