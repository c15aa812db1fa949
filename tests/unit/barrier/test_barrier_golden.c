/* Golden records: values stored by earlier versions stay readable. */
#define GOLDEN_FOLDER "barrier"
#include "raft/golden.h"

#include "barrier/barrier.h"
#include "barrier/token.h"
#include "state/fake_env.h"

#define KEY BYTES("s/kv/golden")
#define PLAIN BYTES("written by the first release")

static const uint8_t seal_key[32] = {0x60, 0x1D, 0xE2};

/* Kept for the day a format is added: makes the files that are missing. */
static void make_files(struct fake_env *env, const struct seal *seal)
{
    struct barrier_created c = {0};
    struct barrier_cipher *cipher = NULL;
    uint8_t stored[64], mac[BARRIER_MAC_BYTES];
    assert_status(barrier_create(&env->env, seal, 1700000000000, &c), ST_OK);
    assert_status(barrier_cipher_new(c.barrier, &env->env, &cipher), ST_OK);
    assert_status(barrier_encrypt(cipher, KEY, PLAIN, stored), ST_OK);
    assert_status(barrier_mac(cipher, PLAIN, mac), ST_OK);
    golden_make("seal-1.bin", buf_bytes(&c.seal));
    golden_make("keyring-1.bin", buf_bytes(&c.keyring));
    golden_make("local-keyring-1.bin", buf_bytes(&c.local_keyring));
    golden_make("salt-1.bin", buf_bytes(&c.salt));
    golden_make("value-1.bin", bytes_of(stored, PLAIN.len + BARRIER_OVERHEAD));
    golden_make("mac-1.bin", bytes_of(mac, sizeof mac));
    barrier_cipher_free(cipher);
    barrier_created_done(&c);
}

/* Of a new root key in the place of the one that the files have. */
static void make_next(struct fake_env *env, const struct seal *seal, struct barrier *barrier)
{
    struct barrier_rekeyed rekeyed = {0};
    const struct barrier_link_head head = {BYTES(BARRIER_SUPERSEDED), 1700000000000};
    assert_status(barrier_rekey(barrier, &env->env, seal, &head, &rekeyed), ST_OK);
    golden_make("handover-1.bin", buf_bytes(&rekeyed.link));
    golden_make("next-keyring-1.bin", buf_bytes(&rekeyed.keyring));
    golden_make("next-local-keyring-1.bin", buf_bytes(&rekeyed.local_keyring));
    barrier_rekeyed_done(&rekeyed);
}

static void records_of_the_first_format_unseal_and_decrypt(void **state)
{
    (void)state;
    struct fake_env env;
    struct seal seal = {0};
    struct buf files[9] = {0};
    static const char *const names[] = {
        "seal-1.bin",     "keyring-1.bin",      "local-keyring-1.bin",
        "salt-1.bin",     "value-1.bin",        "mac-1.bin",
        "handover-1.bin", "next-keyring-1.bin", "next-local-keyring-1.bin"};
    struct barrier *barrier = NULL;
    struct barrier_cipher *cipher = NULL;
    uint8_t out[64], mac[BARRIER_MAC_BYTES];
    size_t n = 0;
    fake_env_init(&env, 1);
    assert_status(crypto_init(NULL), ST_OK);
    assert_status(seal_static(bytes_of(seal_key, 32), "golden", &seal, NULL), ST_OK);
    make_files(&env, &seal);
    for (size_t i = 0; i < 6; i++)
        golden_read(names[i], &files[i]);
    struct barrier_records records = {.seal = buf_bytes(&files[0]),
                                      .keyring = buf_bytes(&files[1]),
                                      .local_keyring = buf_bytes(&files[2]),
                                      .salt = buf_bytes(&files[3])};
    assert_status(barrier_new(&barrier), ST_OK);
    assert_status(barrier_cipher_new(barrier, &env.env, &cipher), ST_OK);
    assert_status(barrier_unseal(barrier, &seal, &records, NULL), ST_OK);
    assert_status(barrier_decrypt(cipher, KEY, buf_bytes(&files[4]), out, &n), ST_OK);
    assert_bytes(bytes_of(out, n), PLAIN);
    assert_status(barrier_mac(cipher, PLAIN, mac), ST_OK);
    assert_bytes(bytes_of(mac, sizeof mac), buf_bytes(&files[5]));
    /* Nodes of two releases prove the same to each other. */
    assert_status(barrier_prove(barrier, PLAIN, mac), ST_OK);
    assert_golden("proof-1.bin", bytes_of(mac, sizeof mac));
    make_next(&env, &seal, barrier);
    for (size_t i = 6; i < ARRAY_LEN(names); i++)
        golden_read(names[i], &files[i]);
    records.keyring = buf_bytes(&files[7]);
    records.local_keyring = buf_bytes(&files[8]);
    assert_status(barrier_follow(barrier, &records), ST_CORRUPT);
    records.links[records.n_links++] =
        (struct barrier_link){BYTES(BARRIER_SUPERSEDED), buf_bytes(&files[6])};
    assert_status(barrier_follow(barrier, &records), ST_OK);
    assert_status(barrier_decrypt(cipher, KEY, buf_bytes(&files[4]), out, &n), ST_OK);
    barrier_cipher_free(cipher);
    barrier_free(barrier);
    seal_done(&seal);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        buf_done(&files[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_the_first_format_unseal_and_decrypt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
