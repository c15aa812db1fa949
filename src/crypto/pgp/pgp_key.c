/* Judge a transferable public key (RFC 9580 10.1):
 *
 *   primary key
 *     revocations and direct signatures by itself
 *     user id or attribute, each with certifications       0..USER_IDS_MAX
 *     subkey, each with its binding and revocations        0..SUBKEYS_MAX
 *
 * The packets are read in order. A part (user id, subkey) is judged when the next one begins:
 *
 *   part_end ── user id: keep what its newest certification says of the primary key
 *           └── subkey:  keep the subkey if it may encrypt and is newer than the one kept
 *
 * key_judge decides at the end. Signatures by others are skipped; the work on signatures is bounded
 * by VERIFIED_MAX. */
#include "crypto/pgp/pgp.h"
#include "crypto/pgp/pgp_armor.h"
#include "crypto/pgp/pgp_packet.h"
#include "crypto/pgp/pgp_signature.h"
#include "text/time.h"

enum {
    PACKETS_MAX = 2048,
    USER_IDS_MAX = 128,
    USER_ID_BYTES_MAX = 2048, /* as gpg */
    SUBKEYS_MAX = 64,
    VERIFIED_MAX = 128, /* signatures that are checked by public-key arithmetic */
    SKEW_S = 24 * 3600, /* how far the clock where a key was made may be ahead of the cluster's */
};

/* The statements of the newest valid signature about a key. */
struct claim {
    bool found;
    int64_t made_s;
    bool has_lifetime, has_flags;
    int64_t lifetime_s;
    uint8_t flags;
};

enum part { PART_KEY, PART_USER_ID, PART_ATTRIBUTE, PART_SUBKEY, PART_SUBKEY_UNUSABLE };

struct judging {
    int64_t now_s;
    struct reason *reason;
    struct pgp_public primary;
    EVP_PKEY *verifier;
    unsigned packets, user_ids, subkeys, verified;
    struct claim direct, certified; /* about the primary key: by itself, with a user id */
    bool revoked;

    enum part part; /* present part of the key, with: */
    struct bytes user_id;
    struct pgp_public subkey;
    struct claim claim;
    int64_t part_revoked_s; /* -1: not revoked */

    bool has_best;
    struct pgp_public best; /* newest subkey that may encrypt */
    struct reason why_not;  /* why a subkey for encryption cannot be used; "": there is none */
};

static void judging_done(struct judging *j)
{
    EVP_PKEY_free(j->verifier);
}

static enum status refuse(struct judging *j, const char *what)
{
    reason_set(j->reason, "the key %s", what);
    return ST_INVALID;
}

/* Set "the WHAT HAPPENED on DATE". */
static void say_when(struct reason *reason, const char *what, const char *happened, int64_t at_s)
{
    uint8_t text[TEXT_TIME_MAX];
    size_t len = text_time(at_s * 1000, text);
    ASSERT(len > 0 && len <= sizeof text);
    reason_set(reason, "the %s %s %.*s", what, happened, (int)len, (const char *)text);
}

/* Whether a key that was made at `created_s` is valid now, as far as its time goes. */
static bool in_time(const struct judging *j, int64_t created_s, const struct claim *claim,
                    const char *what, struct reason *reason)
{
    int64_t end_s = created_s + claim->lifetime_s;
    if (created_s > j->now_s + SKEW_S) {
        say_when(reason, what, "begins in the future, on", created_s);
        return false;
    }
    if (claim->has_lifetime && claim->lifetime_s != 0 && end_s <= j->now_s) {
        say_when(reason, what, "expired on", end_s);
        return false;
    }
    return true;
}

static bool flags_encrypt(const struct claim *claim, const struct pgp_public *key)
{
    bool flags = !claim->has_flags || (claim->flags & PGP_FLAG_ENCRYPT) != 0;
    return flags && pgp_public_may_encrypt(key);
}

/* Let a subkey with a valid binding compete. */
static void subkey_end(struct judging *j)
{
    const struct pgp_public *key = &j->subkey;
    bool newer = !j->has_best || key->created_s > j->best.created_s;
    ASSERT(j->part == PART_SUBKEY && j->claim.found);
    if (!flags_encrypt(&j->claim, key))
        return;
    if (j->part_revoked_s >= 0)
        reason_set(&j->why_not, "the key's subkey for encryption was revoked");
    else if (in_time(j, key->created_s, &j->claim, "key's subkey for encryption", &j->why_not) &&
             newer) {
        j->best = *key;
        j->has_best = true;
    }
}

static void part_end(struct judging *j)
{
    if (j->part == PART_SUBKEY && j->claim.found)
        subkey_end(j);
    if (j->part == PART_USER_ID && j->claim.found && j->part_revoked_s < j->claim.made_s &&
        (!j->certified.found || j->claim.made_s > j->certified.made_s))
        j->certified = j->claim;
    j->claim = (struct claim){0};
    j->part_revoked_s = -1;
}

static enum status primary_begin(struct judging *j, struct bytes body)
{
    if (j->verifier != NULL)
        return refuse(j, "is not the only one in the input: send one key at a time");
    if (j->packets != 1)
        return refuse(j, "is not a public key: it does not begin with one");
    enum status st = pgp_public_read(body, &j->primary, j->reason);
    if (st != ST_OK)
        return st == ST_UNSUPPORTED ? ST_INVALID : st;
    if (!pgp_public_may_sign(&j->primary))
        return refuse(j, "cannot vouch for itself: its primary key is of an algorithm that makes "
                         "no signatures");
    j->verifier = pgp_public_import(&j->primary);
    return j->verifier != NULL ? ST_OK : refuse(j, "is malformed: its numbers are no key");
}

static enum status user_id_begin(struct judging *j, struct bytes body)
{
    if (++j->user_ids > USER_IDS_MAX)
        return refuse(j, "has too many user ids: 128 are the most");
    if (body.len > USER_ID_BYTES_MAX)
        return refuse(j, "has a user id that is too long: 2048 bytes are the most");
    j->part = PART_USER_ID;
    j->user_id = body;
    return ST_OK;
}

static enum status subkey_begin(struct judging *j, struct bytes body)
{
    struct reason reason = {{0}};
    if (++j->subkeys > SUBKEYS_MAX)
        return refuse(j, "has too many subkeys: 64 are the most");
    enum status st = pgp_public_read(body, &j->subkey, &reason);
    ASSERT(st == ST_OK || st == ST_CRYPTO || reason.text[0] != '\0');
    j->part = st == ST_OK ? PART_SUBKEY : PART_SUBKEY_UNUSABLE;
    if (st == ST_UNSUPPORTED) { /* another subkey may do */
        j->why_not = reason;
        return ST_OK;
    }
    if (st == ST_INVALID && j->reason != NULL)
        *j->reason = reason;
    return st;
}

/* Whether this type of signature may stand at the present part. */
static bool fits_part(const struct judging *j, uint8_t type)
{
    if (type == PGP_SIG_REVOKE_KEY) /* of the whole key, wherever the packet stands */
        return true;
    switch (j->part) {
    case PART_KEY: return type == PGP_SIG_DIRECT;
    case PART_USER_ID:
        return (type >= PGP_SIG_CERTIFY_FIRST && type <= PGP_SIG_CERTIFY_LAST) ||
               type == PGP_SIG_REVOKE_USER_ID;
    case PART_SUBKEY: return type == PGP_SIG_BIND_SUBKEY || type == PGP_SIG_REVOKE_SUBKEY;
    case PART_ATTRIBUTE:
    case PART_SUBKEY_UNUSABLE: return false;
    }
    return false;
}

static bool is_revocation(uint8_t type)
{
    return type == PGP_SIG_REVOKE_KEY || type == PGP_SIG_REVOKE_SUBKEY ||
           type == PGP_SIG_REVOKE_USER_ID;
}

/* Take over what a signature that was verified says, if no newer one has spoken. */
static void heed(struct judging *j, const struct pgp_signature *s)
{
    struct claim *claim = j->part == PART_KEY ? &j->direct : &j->claim;
    ASSERT(fits_part(j, s->type));
    if (s->type == PGP_SIG_REVOKE_KEY) {
        j->revoked = true;
        return;
    }
    if (is_revocation(s->type)) { /* of any time, also without one */
        j->part_revoked_s = MAX(j->part_revoked_s, MAX(s->created_s, 0));
        return;
    }
    bool over = s->lifetime_s != 0 && s->created_s + s->lifetime_s <= j->now_s;
    if (s->created_s < 0 || s->created_s > j->now_s + SKEW_S || over ||
        (claim->found && s->created_s < claim->made_s))
        return;
    *claim = (struct claim){
        .found = true,
        .made_s = s->created_s,
        .has_lifetime = s->has_key_lifetime,
        .lifetime_s = s->key_lifetime_s,
        .has_flags = s->has_flags,
        .flags = s->flags,
    };
}

static enum status signature(struct judging *j, struct bytes body)
{
    struct pgp_signature s;
    enum status st = pgp_signature_read(body, &s);
    if (st == ST_INVALID)
        return refuse(j, "is malformed: a signature is");
    bool believed = st == ST_OK && fits_part(j, s.type) &&
                    (is_revocation(s.type) || (s.hash != PGP_HASH_SHA1 && !s.critical));
    if (!believed)
        return ST_OK;
    bool whole = s.type == PGP_SIG_REVOKE_KEY;
    const struct pgp_signed what = {
        .primary = &j->primary,
        .subkey = j->part == PART_SUBKEY && !whole ? &j->subkey : NULL,
        .user_id = j->part == PART_USER_ID && !whole ? &j->user_id : NULL,
    };
    if (pgp_signature_holds(&s, &what, j->verifier, &j->verified))
        heed(j, &s);
    if (j->verified > VERIFIED_MAX)
        return refuse(j, "has too many signatures by itself: 128 are the most");
    return ST_OK;
}

static enum status part_begin(struct judging *j, const struct pgp_packet *packet)
{
    switch (packet->tag) {
    case PGP_TAG_PUBLIC_KEY: return primary_begin(j, packet->body);
    case PGP_TAG_USER_ID: part_end(j); return user_id_begin(j, packet->body);
    case PGP_TAG_PUBLIC_SUBKEY: part_end(j); return subkey_begin(j, packet->body);
    default:
        ASSERT(packet->tag == PGP_TAG_USER_ATTRIBUTE);
        part_end(j);
        j->part = PART_ATTRIBUTE;
        return ST_OK;
    }
}

static enum status packet_heed(struct judging *j, const struct pgp_packet *packet)
{
    switch (packet->tag) {
    case PGP_TAG_SECRET_KEY:
    case PGP_TAG_SECRET_SUBKEY:
        return refuse(j, "is a private key: send the public key only, and treat the private key "
                         "as disclosed");
    case PGP_TAG_MARKER:
    case PGP_TAG_TRUST:
    case PGP_TAG_PADDING: return ST_OK;
    case PGP_TAG_PUBLIC_KEY: return part_begin(j, packet);
    case PGP_TAG_SIGNATURE:
    case PGP_TAG_USER_ID:
    case PGP_TAG_PUBLIC_SUBKEY:
    case PGP_TAG_USER_ATTRIBUTE: break;
    default:
        if (packet->tag < PGP_TAG_OPTIONAL)
            return refuse(j, "is not a public key: it holds other packets");
        return ST_OK;
    }
    if (j->verifier == NULL)
        return refuse(j, "is not a public key: it does not begin with one");
    return packet->tag == PGP_TAG_SIGNATURE ? signature(j, packet->body) : part_begin(j, packet);
}

/* Statements about the primary key: of direct signatures, else of those with its user ids. */
static struct claim primary_claim(const struct judging *j)
{
    struct claim claim = j->certified;
    if (!j->direct.found)
        return claim;
    if (j->direct.has_flags) {
        claim.has_flags = true;
        claim.flags = j->direct.flags;
    }
    if (j->direct.has_lifetime) {
        claim.has_lifetime = true;
        claim.lifetime_s = j->direct.lifetime_s;
    }
    claim.found = true;
    return claim;
}

static enum status key_judge(struct judging *j, struct pgp_recipient *ret)
{
    struct claim claim = primary_claim(j);
    ASSERT(j->verifier != NULL);
    if (j->revoked)
        return refuse(j, "was revoked");
    if (!claim.found && j->primary.created_s <= j->now_s + SKEW_S)
        return refuse(j, "does not vouch for itself: it has no user id, that was not revoked, with "
                         "a valid signature of SHA-2 by its primary key");
    if (!in_time(j, j->primary.created_s, &claim, "key", j->reason))
        return ST_INVALID;
    if (!j->has_best && j->why_not.text[0] == '\0' && flags_encrypt(&claim, &j->primary)) {
        j->best = j->primary;
        j->has_best = true;
    }
    if (!j->has_best && j->why_not.text[0] == '\0')
        return refuse(j, "is for signatures only: it has no key that may encrypt");
    if (!j->has_best) {
        reason_set(j->reason, "%s", j->why_not.text);
        return ST_INVALID;
    }
    *ret = (struct pgp_recipient){.body_len = j->best.body.len};
    memcpy(ret->fingerprint, j->primary.fingerprint, sizeof ret->fingerprint);
    memcpy(ret->body, j->best.body.data, j->best.body.len);
    return ST_OK;
}

static enum status read_packets(struct judging *j, struct bytes binary)
{
    struct reader r = reader_of(binary);
    struct pgp_packet packet;
    while (reader_left(&r) != 0) {
        if (++j->packets > PACKETS_MAX)
            return refuse(j, "has too many packets: export it without the signatures of others");
        if (pgp_packet_read(&r, &packet) != ST_OK)
            return refuse(j, "is not a public key, or is cut off: a packet is malformed");
        TRY(packet_heed(j, &packet));
    }
    if (j->verifier == NULL)
        return refuse(j, "is not a public key: it holds none");
    part_end(j);
    return ST_OK;
}

enum status pgp_key_parse(struct bytes text, int64_t now_ms, struct pgp_recipient *ret_recipient,
                          struct reason *reason)
{
    CLEANUP(buf_drop) struct buf binary = {0}, trial = {0};
    CLEANUP(judging_done)
    struct judging j = {.now_s = now_ms / 1000, .reason = reason, .part_revoked_s = -1};
    struct pgp_recipient found;

    ASSERT(now_ms >= 0);
    TRY(pgp_armor_decode(text, &binary, reason));
    TRY(read_packets(&j, buf_bytes(&binary)));
    TRY(key_judge(&j, &found));
    /* A ceremony must not find out at its end that a key cannot be used. */
    enum status st = pgp_encrypt(&found, BYTES("trial"), &trial);
    if (st == ST_CRYPTO || st == ST_CORRUPT)
        return refuse(&j, "cannot be used: its numbers are no key");
    TRY(st);
    *ret_recipient = found;
    return ST_OK;
}
