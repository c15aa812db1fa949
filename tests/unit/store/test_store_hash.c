/* Merkle hashes, compared with their definition in hash.c, computed from a sorted array. */
#include "store/model.h"

#include "crypto/sha256.h"

struct hash {
    uint8_t bytes[STORE_HASH_BYTES];
};

static struct crypto_sha256 *sha;

static int open_sha(void **ctx)
{
    (void)ctx;
    return crypto_sha256_new(&sha) == ST_OK ? 0 : -1;
}

static int close_sha(void **ctx)
{
    (void)ctx;
    crypto_sha256_free(sha);
    return 0;
}

/* Of items [from, to), each key without its first `cut` bytes. */
static struct hash model_hash(const struct model *m, size_t from, size_t to, size_t cut)
{
    struct hash h = {{0}};
    uint8_t head[5] = {to - from > 1};
    if (from == to)
        return h;
    struct bytes first = bytes_from(m->items[from].key, cut);
    struct bytes last = bytes_from(m->items[to - 1].key, cut);
    size_t common = 0;
    while (common < MIN(first.len, last.len) && first.data[common] == last.data[common])
        common++;
    le32_put(head + 1, (uint32_t)common);
    if (to - from == 1) {
        struct bytes parts[] = {bytes_of(head, 5), first, m->items[from].value};
        crypto_sha256(sha, parts, 3, h.bytes);
        return h;
    }
    uint8_t *entries = mem_must_alloc(1 + 32 + 256 * 33);
    size_t len = 0, i = from;
    entries[len++] = first.len == common;
    if (first.len == common) {
        struct hash own = model_hash(m, from, from + 1, cut + common);
        memcpy(entries + len, own.bytes, 32);
        len += 32;
        i++;
    }
    while (i < to) {
        size_t end = i, at = cut + common;
        uint8_t byte = m->items[i].key.data[at];
        while (end < to && m->items[end].key.data[at] == byte)
            end++;
        struct hash below = model_hash(m, i, end, at + 1);
        entries[len] = byte;
        memcpy(entries + len + 1, below.bytes, 32);
        len += 33;
        i = end;
    }
    struct bytes parts[] = {bytes_of(head, 5), bytes_of(first.data, common),
                            bytes_of(entries, len)};
    crypto_sha256(sha, parts, 3, h.bytes);
    mem_free(entries);
    return h;
}

static struct hash published_hash(struct store *store, struct bytes prefix)
{
    struct store_pin pin;
    struct hash h;
    assert_status(store_pin(store, "hash", 0, &pin), ST_OK);
    store_hash(&pin, prefix, h.bytes);
    store_unpin(&pin);
    return h;
}

static void assert_hash(struct store *store, const struct model *m, struct bytes prefix)
{
    size_t from, to;
    model_range(m, prefix, &from, &to);
    struct hash want = model_hash(m, from, to, prefix.len);
    struct hash have = published_hash(store, prefix);
    assert_memory_equal(have.bytes, want.bytes, sizeof want.bytes);
}

static void random_changes(struct rng *rng, enum keys kind, struct store *store, struct model *m)
{
    for (size_t i = 0; i < 40; i++) {
        struct model_key key;
        uint8_t value = (uint8_t)rng_below(rng, 3);
        key_random(rng, kind, &key);
        struct bytes k = key_bytes(&key);
        if (rng_below(rng, 3) == 0) {
            assert_int_equal(store_delete(store, k, 1), model_delete(m, k));
            continue;
        }
        store_put(store, k, bytes_of(&value, 1), 1);
        model_put(m, k, bytes_of(&value, 1), 0, 1);
    }
    store_publish(store, 1);
}

static void run(enum keys kind, uint64_t seed, size_t steps)
{
    struct hand_env env;
    struct store *store;
    struct model m = {0};
    struct rng rng = {seed};
    hand_env_init(&env);
    assert_status(store_new(&env.env, &store), ST_OK);
    for (size_t step = 0; step < steps; step++) {
        struct model_key key;
        random_changes(&rng, kind, store, &m);
        assert_hash(store, &m, BYTES(""));
        for (size_t i = 0; i < 10; i++) {
            key_random(&rng, kind, &key);
            key.len = rng_below(&rng, key.len + 1);
            assert_hash(store, &m, key_bytes(&key));
        }
    }
    model_done(&m);
    store_close(store, &env);
}

static void hashes_follow_their_definition(void **ctx)
{
    (void)ctx;
    for (unsigned kind = 0; kind < KEYS_KINDS; kind++)
        run((enum keys)kind, 7 + kind, rounds(40, 500));
}

static struct store *store_of(struct hand_env *env, struct rng *rng, const struct model *m)
{
    struct store *store;
    struct model left = {0};
    hand_env_init(env);
    assert_status(store_new(&env->env, &store), ST_OK);
    for (size_t i = 0; i < 300; i++) { /* a past of its own */
        struct model_key key;
        key_random(rng, KEYS_PATHS, &key);
        store_put(store, key_bytes(&key), BYTES("old"), i);
        if (i % 16 == 0)
            store_publish(store, i);
    }
    if (rng_below(rng, 2) == 0)
        store_delete_prefix(store, BYTES(""), 400);
    for (size_t i = 0; i < 300; i++) {
        struct model_key key;
        key_random(rng, KEYS_PATHS, &key);
        store_delete(store, key_bytes(&key), i);
    }
    struct store_pin pin;
    static struct store_iter iter;
    store_publish(store, 400);
    assert_status(store_pin(store, "past", 0, &pin), ST_OK);
    store_iter_init(&iter, &pin, BYTES(""), BYTES(""));
    while (store_iter_next(&iter))
        store_delete(store, iter.item.key, 401);
    store_unpin(&pin);
    model_copy(&left, m);
    while (left.n > 0) {
        size_t i = rng_below(rng, left.n);
        store_put(store, left.items[i].key, left.items[i].value, 402);
        if (rng_below(rng, 9) == 0)
            store_publish(store, 402);
        model_remove(&left, i, i + 1);
    }
    store_publish(store, 403);
    model_done(&left);
    return store;
}

static void equal_content_has_an_equal_hash_whatever_the_history(void **ctx)
{
    (void)ctx;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct rng rng = {seed};
        struct model m = {0};
        struct hand_env envs[2];
        for (size_t i = 0; i < 200; i++) {
            struct model_key key;
            key_random(&rng, KEYS_PATHS, &key);
            model_put(&m, key_bytes(&key), BYTES("new"), 0, 1);
        }
        struct store *a = store_of(&envs[0], &rng, &m), *b = store_of(&envs[1], &rng, &m);
        struct hash x = published_hash(a, BYTES("")), y = published_hash(b, BYTES(""));
        assert_memory_equal(x.bytes, y.bytes, sizeof x.bytes);
        store_close(a, &envs[0]);
        store_close(b, &envs[1]);
        model_done(&m);
    }
}

/* Sets that a careless encoding would confuse. */
static void different_content_has_different_hashes(void **ctx)
{
    static const struct {
        const char *key[3], *value[3];
    } sets[] = {
        {{"a"}, {"bc"}},
        {{"ab"}, {"c"}},
        {{"abc"}, {""}},
        {{""}, {"abc"}},
        {{"", "a"}, {"", ""}},
        {{"a", "b"}, {"", ""}},
        {{"a", "b"}, {"", "x"}},
        {{"a", "b"}, {"x", ""}},
        {{"a", "ab"}, {"", ""}},
        {{"a", "b", "c"}, {"", "", ""}},
        {{"a", "ab", "b"}, {"", "", ""}},
        {{"aa", "ab", "b"}, {"", "", ""}},
        {{"ca", "cb"}, {"", ""}},
    };
    struct hash hashes[ARRAY_LEN(sets)];
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        struct hand_env env;
        struct store *store;
        hand_env_init(&env);
        assert_status(store_new(&env.env, &store), ST_OK);
        for (size_t j = 0; j < 3 && sets[i].key[j] != NULL; j++)
            store_put(store, bytes_str(sets[i].key[j]), bytes_str(sets[i].value[j]), 1);
        store_publish(store, 1);
        hashes[i] = published_hash(store, BYTES(""));
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(hashes[i].bytes, hashes[j].bytes, 32);
        store_close(store, &env);
    }
}

static void the_empty_set_hashes_to_zero(void **ctx)
{
    struct hand_env env;
    struct store *store;
    static const struct hash zero;
    (void)ctx;
    hand_env_init(&env);
    assert_status(store_new(&env.env, &store), ST_OK);
    struct hash h = published_hash(store, BYTES(""));
    assert_memory_equal(h.bytes, zero.bytes, 32);
    store_put(store, BYTES("k"), BYTES("v"), 1);
    store_publish(store, 1);
    h = published_hash(store, BYTES("l"));
    assert_memory_equal(h.bytes, zero.bytes, 32);
    store_close(store, &env);
}

/* The format is compared between clusters of different releases. */
static void the_hash_of_a_known_set_is_known(void **ctx)
{
    static const uint8_t golden[32] = {0x84, 0x77, 0x9c, 0x62, 0x46, 0xef, 0xc2, 0x5f,
                                       0x82, 0x4a, 0xe0, 0xfd, 0x38, 0x01, 0x16, 0xa8,
                                       0x9a, 0x56, 0x2a, 0x69, 0x35, 0xc3, 0x54, 0x0a,
                                       0x66, 0x95, 0xb3, 0x98, 0x89, 0x17, 0xd3, 0x67};
    struct hand_env env;
    struct store *store;
    (void)ctx;
    hand_env_init(&env);
    assert_status(store_new(&env.env, &store), ST_OK);
    store_put(store, BYTES("s/"), BYTES(""), 1);
    store_put(store, BYTES("s/kv/one"), BYTES("1"), 2);
    store_put(store, BYTES("s/kv/two"), BYTES("22"), 3);
    store_put(store, BYTES("l/node"), BYTES("333"), 1);
    store_publish(store, 3);
    struct hash h = published_hash(store, BYTES("s/"));
    assert_memory_equal(h.bytes, golden, 32);
    store_close(store, &env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_follow_their_definition),
        cmocka_unit_test(equal_content_has_an_equal_hash_whatever_the_history),
        cmocka_unit_test(different_content_has_different_hashes),
        cmocka_unit_test(the_empty_set_hashes_to_zero),
        cmocka_unit_test(the_hash_of_a_known_set_is_known),
    };
    return cmocka_run_group_tests(tests, open_sha, close_sha);
}
