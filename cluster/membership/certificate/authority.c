#include "cluster/membership/certificate/authority.h"
#include "text/time.h"

static const struct record authority_record = {RECORD(struct cert_pair, cert_pair_fields),
                                               .name = "member/authority", .key = AUTHORITY_KEY,
                                               .newest = 1};
RECORD_LISTED(authority_record);

enum status authority_encode(const struct cert_pair *pair, struct buf *out)
{
    return record_encode(&authority_record, pair, out);
}

enum status authority_decode(struct bytes record, struct cert_pair *ret_pair)
{
    ASSERT(ret_pair->cert.len == 0);
    ASSERT(ret_pair->key.len == 0);
    return record_decode(&authority_record, record, NULL, ret_pair);
}

static const struct record_field join_fields[] = {
    RECORD_FIELD(struct join_record, expires_ms, U64, .max = TEXT_EXPIRY_END - 1,
                 .help = "cluster time"),
    RECORD_FIELD(struct join_record, node, TEXT,
                 .help = "the only node that may use the token; empty: any new node"),
    RECORD_FIELD(struct join_record, used, U8),
    RECORD_FIELD(struct join_record, used_by, TEXT),
    RECORD_FIELD(struct join_record, key_mac, FIXED,
                 .help = "HMAC of the public key that the node sent"),
};
static const struct record join_token_record = {RECORD(struct join_record, join_fields),
                                                .name = "member/join-token",
                                                .key = AUTHORITY_JOIN_KEY, .newest = 1};
RECORD_LISTED(join_token_record);

enum status join_record_encode(const struct join_record *record, struct buf *out)
{
    return record_encode(&join_token_record, record, out);
}

enum status join_record_decode(struct bytes stored, struct join_record *ret_record)
{
    return record_decode(&join_token_record, stored, NULL, ret_record);
}

static const struct record_field rotate_fields[] = {
    RECORD_ITSELF("since_s", int64_t, U64, .max = TEXT_CLOCK_END / 1000 - 1,
                  .help = "nodes replace certificates issued before this second of cluster time"),
};
static const struct record rotate_record = {RECORD(int64_t, rotate_fields), .name = "member/rotate",
                                            .key = AUTHORITY_ROTATE_KEY, .newest = 1};
RECORD_LISTED(rotate_record);

enum status authority_rotate_encode(int64_t since_s, struct buf *out)
{
    return record_encode(&rotate_record, &since_s, out);
}

enum status authority_rotate_decode(struct bytes stored, int64_t *ret_since_s)
{
    return record_decode(&rotate_record, stored, NULL, ret_since_s);
}
