/* What an operator or a primary gives to a secondary that is being activated: the bundle, its
 * sealed form (the activation token), the stored record of an activation, and the primary's answer.
 * The first byte chooses; the rest is the text, or says how a good one is changed.
 *
 * Nothing fails badly. A bundle that is taken is written and read as the same, also sealed; a
 * sealed form that was changed opens nothing. */
#include "dice.h"

#include "cluster/dr/activation.h"
#include "cluster/dr/link/dr_cert.h"
#include "crypto/cert.h"
#include "crypto/crypto.h"
#include "text/encode.h"
#include "text/json.h"

#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { AS_BUNDLE, AS_SEALED, AS_RECORD, AS_ANSWER, KINDS };

static struct {
    struct dr_pending pending;
    struct cert_pair ca;
    struct buf bundle, sealed, record, answer; /* good ones */
} good;

static const struct dr_name name = {.set = {0x5e, 1}, .cluster = {0xc1}, .id = "east", .epoch = 3};

/* The answer of a primary. */
static void make_answer(void)
{
    CLEANUP(buf_done) struct buf context = {0};
    CLEANUP(buf_done) struct buf box = {0};
    CLEANUP(buf_done) struct buf cert = {0};
    uint8_t root[SEAL_KEY_BYTES] = {1, 2, 3};
    char text[512], set[33], cluster[33];
    struct text_writer w = {.out = &good.answer, .plain = true};
    struct reason why;
    const struct dr_cert_order order = {&name, buf_bytes(&good.pending.public_pem), time(NULL)};
    dr_activation_context(&name, buf_bytes(&good.pending.public_pem), &context);
    ASSERT(box_seal(good.pending.box.public_key, buf_bytes(&context), bytes_of(root, sizeof root),
                    &box) == ST_OK);
    ASSERT(TEXT_BASE64_LEN(box.len) < sizeof text);
    (void)text_base64_put(buf_bytes(&box), TEXT_BASE64, text); /* the length is not needed */
    ASSERT(dr_cert_sign(&good.ca, &order, &cert, &why) == ST_OK);
    buf_add_u8(&cert, 0);
    text_hex_put(bytes_of(name.set, sizeof name.set), set);
    text_hex_put(bytes_of(name.cluster, sizeof name.cluster), cluster);
    text_open_object(&w);
    text_member_str(&w, "certificate", (const char *)cert.data);
    text_member_str(&w, "root_key", text);
    text_member_str(&w, "set", set);
    text_member_str(&w, "cluster_id", cluster);
    text_member_int(&w, "epoch", 3);
    text_member_int(&w, "version", 10);
    text_member_int(&w, "keys", 3);
    text_member_int(&w, "bytes", 1000);
    text_member_int(&w, "feature", 4);
    text_member_int(&w, "protocol", 1);
    text_key(&w, "addresses");
    text_put_raw(&w, BYTES("[\"n1:8201\",\"n2:8201\"]"));
    text_member_str(&w, "seal", "static");
    text_member_bool(&w, "recovery", true);
    text_close(&w);
}

static void set_up(void)
{
    struct dr_bundle *bundle = &good.pending.bundle;
    struct reason why;
    struct dr_answer answer;
    ASSERT(crypto_init(NULL) == ST_OK);
    ASSERT(dr_cert_ca_make(&name, time(NULL), &good.ca, NULL) == ST_OK);
    bundle->name = name;
    memcpy(bundle->secret, "0123456789abcdefghijklmnopqrstuv", sizeof bundle->secret);
    ASSERT(dr_addresses_add(&bundle->addresses, BYTES("lb.example:8201")) == ST_OK);
    ASSERT(dr_addresses_add(&bundle->addresses, BYTES("[::1]:8201")) == ST_OK);
    buf_add(&bundle->ca, buf_bytes(&good.ca.cert));
    ASSERT(dr_pending_make_keys(&good.pending) == ST_OK);
    ASSERT(dr_bundle_put(bundle, &good.bundle) == ST_OK);
    ASSERT(dr_bundle_seal(bundle, good.pending.box.public_key, &good.sealed) == ST_OK);
    ASSERT(dr_pending_encode(&good.pending, &good.record) == ST_OK);
    make_answer();
    ASSERT(dr_answer_read(&good.pending, buf_bytes(&good.answer), &answer, &why) == ST_OK);
    dr_answer_done(&answer);
}

static void check_bundle(const struct dr_bundle *bundle)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(buf_done) struct buf again = {0};
    CLEANUP(buf_done) struct buf sealed = {0};
    CLEANUP(dr_bundle_done) struct dr_bundle read = {0};
    CLEANUP(dr_bundle_done) struct dr_bundle opened = {0};
    struct reason why;
    ASSERT(strlen(bundle->secret) == DR_SECRET_LEN && bundle->ca.len > 0);
    ASSERT(dr_name_id_valid(bundle->name.id) && bundle->name.epoch > 0 && bundle->addresses.n > 0);
    for (unsigned i = 0; i < bundle->addresses.n; i++)
        ASSERT(bundle->addresses.at[i][0] != '\0');
    enum status st = dr_bundle_put(bundle, &text);
    if (st == ST_TOO_BIG)
        return;
    ASSERT(st == ST_OK && dr_bundle_read(buf_bytes(&text), &read, &why) == ST_OK);
    ASSERT(dr_bundle_put(&read, &again) == ST_OK);
    ASSERT(bytes_eq(buf_bytes(&text), buf_bytes(&again)));
    ASSERT(dr_bundle_seal(&read, good.pending.box.public_key, &sealed) == ST_OK);
    ASSERT(dr_bundle_is_sealed(buf_bytes(&sealed)));
    ASSERT(dr_bundle_open(&good.pending.box, buf_bytes(&sealed), &opened, &why) == ST_OK);
    buf_clear(&again);
    ASSERT(dr_bundle_put(&opened, &again) == ST_OK);
    ASSERT(bytes_eq(buf_bytes(&text), buf_bytes(&again)));
}

static void as_bundle(struct bytes text)
{
    CLEANUP(dr_bundle_done) struct dr_bundle bundle = {0};
    struct reason why = {{0}};
    enum status st = dr_bundle_read(text, &bundle, &why);
    ASSERT(st == ST_OK || (st == ST_INVALID && why.text[0] != '\0'));
    if (st == ST_OK)
        check_bundle(&bundle);
}

static void as_sealed(struct bytes text)
{
    CLEANUP(dr_bundle_done) struct dr_bundle bundle = {0};
    struct reason why = {{0}};
    if (!dr_bundle_is_sealed(text))
        return;
    enum status st = dr_bundle_open(&good.pending.box, text, &bundle, &why);
    ASSERT(st == ST_OK || (st == ST_INVALID && why.text[0] != '\0'));
    ASSERT((st == ST_OK) == bytes_eq(text, buf_bytes(&good.sealed)));
}

static void as_record(struct bytes record)
{
    CLEANUP(dr_pending_done) struct dr_pending pending = {0};
    CLEANUP(dr_pending_done) struct dr_pending read = {0};
    CLEANUP(buf_done) struct buf again = {0};
    CLEANUP(buf_done) struct buf more = {0};
    enum status st = dr_pending_decode(record, &pending);
    ASSERT(st == ST_OK || st == ST_CORRUPT || st == ST_CRYPTO);
    if (st != ST_OK || dr_pending_encode(&pending, &again) != ST_OK)
        return;
    ASSERT(dr_pending_decode(buf_bytes(&again), &read) == ST_OK);
    ASSERT(dr_pending_encode(&read, &more) == ST_OK);
    ASSERT(bytes_eq(buf_bytes(&again), buf_bytes(&more)));
}

static void as_answer(struct bytes text)
{
    struct dr_answer answer = {0};
    struct reason why = {{0}};
    const struct dr_own own = {.version = 10, .feature = 4, .seal = SEAL_SHAMIR};
    enum status st = dr_answer_read(&good.pending, text, &answer, &why);
    ASSERT(st == ST_OK || (st == ST_INVALID && why.text[0] != '\0'));
    if (st == ST_OK) {
        ASSERT(answer.root.len > 0 && answer.addresses.n > 0);
        st = dr_answer_check(&good.pending, &answer, &own, &why);
        ASSERT(st == ST_OK || (st == ST_INVALID && why.text[0] != '\0'));
    }
    dr_answer_done(&answer);
}

/* A good text with up to four changes: a byte changed, put in or taken out, or the end cut off. */
static void change(struct dice *d, const struct buf *from, struct buf *out)
{
    buf_add(out, buf_bytes(from));
    for (unsigned n = dice_below(d, 5); n > 0 && out->len > 0; n--) {
        size_t at = (dice_below(d, 256) * 256u + dice_below(d, 256)) % out->len;
        uint8_t byte = (uint8_t)dice_below(d, 256);
        switch (dice_below(d, 4)) {
        case 0: out->data[at] = byte; break;
        case 1: out->data[at] = (uint8_t) "0129\"{}[],:-e\\Aa="[byte % 17]; break;
        case 2:
            memmove(out->data + at, out->data + at + 1, out->len - at - 1);
            out->len--;
            break;
        default:
            if (dice_once(d, 4))
                out->len = at;
            else
                out->data[at] ^= (uint8_t)(1u << byte % 8);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const as[KINDS])(struct bytes) = {as_bundle, as_sealed, as_record, as_answer};
    const struct buf *const from[KINDS] = {&good.bundle, &good.sealed, &good.record, &good.answer};
    CLEANUP(buf_done) struct buf text = {0};
    if (good.bundle.len == 0)
        set_up();
    if (size == 0)
        return 0;
    unsigned kind = data[0] % KINDS;
    struct dice d = dice_of(data + 1, size - 1);
    if (data[0] < 128)
        buf_add(&text, d.rest);
    else
        change(&d, from[kind], &text);
    as[kind](buf_bytes(&text));
    return 0;
}
