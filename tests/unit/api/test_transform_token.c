/* Known answers of token_vectors.txt, which a second implementation made, and texts that are no
 * tokens. */
#include "support.h"

#include "api/transform/transform_token.h"
#include "base/mem.h"
#include "crypto/crypto.h"
#include "text/encode.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORDS_MAX = 8, LINE_BYTES_MAX = 4096 };

struct line {
    char text[LINE_BYTES_MAX];
    char *words[WORDS_MAX];
    size_t n;
};

static uint8_t key[TRANSFORM_KEY_BYTES], scope[TRANSFORM_SCOPE];

static struct bytes hex(const char *text, uint8_t *out)
{
    assert_status(text_hex_parse(bytes_str(text), out), ST_OK);
    return bytes_of(out, strlen(text) / 2);
}

static void assert_hex(const uint8_t *data, size_t len, const char *text)
{
    char shown[2 * TEXT_BASE64_LEN(LINE_BYTES_MAX)];
    assert_true(2 * len < sizeof shown);
    text_hex_put(bytes_of(data, len), shown);
    assert_string_equal(shown, text);
}

static void split(struct line *line)
{
    char *rest = NULL;
    line->n = 0;
    for (char *word = strtok_r(line->text, " \n", &rest); word != NULL;
         word = strtok_r(NULL, " \n", &rest)) {
        assert_true(line->n < WORDS_MAX);
        line->words[line->n++] = word;
    }
}

/* Call `check` for each line of a kind; there is one at least. */
static void each(const char *kind, void (*check)(char **words))
{
    FILE *file = fopen(UNIT_DIR "/api/token_vectors.txt", "r");
    struct line line;
    size_t found = 0;
    assert_non_null(file);
    while (fgets(line.text, sizeof line.text, file) != NULL) {
        if (line.text[0] == '#')
            continue;
        split(&line);
        if (line.n == 0 || strcmp(line.words[0], kind) != 0)
            continue;
        check(line.words + 1);
        found++;
    }
    assert_int_equal(fclose(file), 0);
    assert_true(found > 0);
}

static void take_key(char **words)
{
    (void)hex(words[0], key);
    (void)hex(words[1], scope);
}

static int begin(void **ctx)
{
    bool locked;
    (void)ctx;
    assert_status(crypto_init(&locked), ST_OK);
    each("key", take_key);
    return 0;
}

static struct transform_token_key key_of(uint32_t version)
{
    struct transform_token_key made = {.version = version};
    memcpy(made.key, key, sizeof key);
    memcpy(made.scope, scope, sizeof scope);
    assert_status(transform_token_key_init(&made), ST_OK);
    return made;
}

static void check_derive(char **words)
{
    uint8_t derived[HKDF_BYTES];
    assert_status(transform_token_derive(key, scope, words[0], derived), ST_OK);
    assert_hex(derived, sizeof derived, words[1]);
}

static void check_token(char **words)
{
    struct transform_token token = {.key_version = (uint32_t)strtoul(words[1], NULL, 10)}, back;
    struct transform_token_key signer = key_of(token.key_version);
    char text[TRANSFORM_TOKEN_TEXT_MAX + 1];
    int64_t expire_ms = strtoll(words[2], NULL, 10);
    token.id_len = hex(words[0], token.id).len;
    transform_token_set_expiry(&token, expire_ms);
    assert_status(transform_token_sign(&signer, &token), ST_OK);
    assert_int_equal(transform_token_put(&token, text), strlen(words[3]));
    assert_string_equal(text, words[3]);
    assert_status(transform_token_parse(bytes_str(text), &back), ST_OK);
    assert_status(transform_token_verify(&signer, &back), ST_OK);
    assert_int_equal(transform_token_expiry(&back), expire_ms);
    assert_true(back.id_len == token.id_len && back.key_version == token.key_version);
    for (size_t i = 0; i < strlen(text); i++) { /* no other character at any place */
        char kept = text[i];
        text[i] = kept == '2' ? '3' : '2';
        enum status st = transform_token_parse(bytes_str(text), &back);
        if (st == ST_OK && back.key_version == token.key_version)
            st = transform_token_verify(&signer, &back);
        assert_true(st == ST_INVALID || back.key_version != token.key_version);
        text[i] = kept;
    }
    transform_token_key_done(&signer);
}

static void check_lookup(char **words)
{
    struct transform_token token = {.key_version = 1};
    struct transform_token_key signer = key_of(1);
    uint8_t lookup[TRANSFORM_DIGEST];
    token.id_len = hex(words[0], token.id).len;
    assert_status(transform_tokens_lookup(&signer, &token, lookup), ST_OK);
    assert_hex(lookup, sizeof lookup, words[1]);
    transform_token_key_done(&signer);
}

static void check_print(char **words)
{
    uint8_t value[LINE_BYTES_MAX], print[TRANSFORM_DIGEST];
    struct hmac *hmac = NULL;
    assert_status(transform_token_hmac(key, scope, "fingerprint", &hmac), ST_OK);
    assert_status(hmac_run(hmac, hex(words[0], value), print), ST_OK);
    assert_hex(print, sizeof print, words[1]);
    hmac_free(hmac);
}

static void check_convergent(char **words)
{
    uint8_t value[LINE_BYTES_MAX], id[TRANSFORM_DIGEST];
    struct hmac *hmac = NULL;
    assert_status(transform_token_hmac(key, scope, "convergent", &hmac), ST_OK);
    assert_status(
        transform_token_converge(hmac, hex(words[0], value), strtoll(words[1], NULL, 10), id),
        ST_OK);
    assert_hex(id, sizeof id, words[2]);
    hmac_free(hmac);
}

static void check_open(char **words)
{
    uint8_t id[TRANSFORM_TOKEN_ID_MAX], lookup[TRANSFORM_DIGEST], sealed[LINE_BYTES_MAX];
    struct buf out = {0};
    enum transform_part part = (enum transform_part)(uint8_t)words[0][0];
    struct transform_sealer sealer = {.key = key,
                                      .scope = scope,
                                      .id = hex(words[1], id),
                                      .lookup = hex(words[2], lookup).data,
                                      .expire_ms = strtoll(words[3], NULL, 10)};
    struct bytes text = hex(words[4], sealed);
    assert_status(transform_open(&sealer, part, text, &out), ST_OK);
    assert_hex(out.data, out.len, words[5]);
    buf_clear(&out);
    sealer.expire_ms++; /* the end is authenticated */
    assert_status(transform_open(&sealer, part, text, &out), ST_CORRUPT);
    sealer.expire_ms--;
    enum transform_part other = part == TRANSFORM_VALUE ? TRANSFORM_METADATA : TRANSFORM_VALUE;
    assert_status(transform_open(&sealer, other, text, &out), ST_CORRUPT);
    lookup[0] ^= 1;
    assert_status(transform_open(&sealer, part, text, &out), ST_CORRUPT);
    lookup[0] ^= 1;
    assert_status(transform_open(&sealer, part, bytes_of(sealed, 27), &out), ST_CORRUPT);
    struct buf again = {0};
    assert_status(transform_seal(&sealer, part, bytes_str("value"), &again), ST_OK);
    buf_clear(&out);
    assert_status(transform_open(&sealer, part, buf_bytes(&again), &out), ST_OK);
    assert_memory_equal(out.data, "value", out.len);
    buf_done(&again);
    buf_done(&out);
}

static void check_sample(char **words)
{
    struct transform_token token;
    char text[TRANSFORM_TOKEN_TEXT_MAX + 1];
    assert_status(transform_token_parse(bytes_str(words[0]), &token), ST_OK);
    assert_hex(token.id, token.id_len, words[1]);
    assert_int_equal(token.key_version, strtoul(words[2], NULL, 10));
    assert_int_equal(token.expire_s, strtoll(words[3], NULL, 10));
    assert_int_equal(token.expire_ns, strtoul(words[4], NULL, 10));
    assert_hex(token.mac, sizeof token.mac, words[5]);
    (void)transform_token_put(&token, text);
    assert_string_equal(text, words[0]);
}

static void keys_are_derived_as_a_second_implementation_does(void **ctx)
{
    (void)ctx;
    each("derive", check_derive);
}

static void tokens_are_those_of_a_second_implementation(void **ctx)
{
    (void)ctx;
    each("token", check_token);
}

static void look_up_keys_prints_and_ids_are_those_of_a_second_implementation(void **ctx)
{
    (void)ctx;
    each("lookup", check_lookup);
    each("fingerprint", check_print);
    each("convergent", check_convergent);
}

static void parts_of_rows_open_where_they_were_sealed_alone(void **ctx)
{
    (void)ctx;
    each("open", check_open);
}

static void tokens_of_upstream_are_read(void **ctx)
{
    (void)ctx;
    each("sample", check_sample);
}

static void texts_in_another_form_are_refused(void **ctx)
{
    static const char *const wrong[] = {"",
                                        "1",
                                        "0",
                                        "Q4tYgFXHxULheDazU3B6edDC55UC1cYtz5xJh3BWp7wApctgkdDev",
                                        "1Q4tYgFXHxULheDazU3B6edDC55UC1cYtz5xJh3BWp7wApctgkdDevj",
                                        "Q4tYgFXHxULheDazU3B6edDC55UC1cYtz5xJh3BWp7wApctgkdDevj ",
                                        "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
                                        "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
                                        "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
                                        "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"};
    struct transform_token token;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_status(transform_token_parse(bytes_str(wrong[i]), &token), ST_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_derived_as_a_second_implementation_does),
        cmocka_unit_test(tokens_are_those_of_a_second_implementation),
        cmocka_unit_test(look_up_keys_prints_and_ids_are_those_of_a_second_implementation),
        cmocka_unit_test(parts_of_rows_open_where_they_were_sealed_alone),
        cmocka_unit_test(tokens_of_upstream_are_read),
        cmocka_unit_test(texts_in_another_form_are_refused),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
