/* Smaller paths of a secondary: a public key to seal a token for, and what tools ask for. */
#include "api/replication/replication_internal.h"
#include "cluster/dr/records.h"
#include "text/encode.h"

struct public_key_out {
    const char *secondary_public_key;
};
static const struct field public_key_fields[] = {
    FIELD(struct public_key_out, secondary_public_key, STRING),
};
static const struct schema replication_public_key_reply =
    SCHEMA(struct public_key_out, public_key_fields);

static enum status replication_public_key(struct req *req)
{
    CLEANUP(box_key_done) struct box_key key = {0};
    char text[TEXT_BASE64_LEN(BOX_PUBLIC_BYTES) + 1];
    struct dr_role role;
    ASSERT(req_in_txn(req));
    TRY(replication_in_root(req));
    TRY(dr_role_read(req->txn, &role));
    if (role.mode == DR_MODE_PRIMARY)
        return req_fail(req, ST_INVALID, "this cluster is a DR primary, which follows no other");
    TRY(box_key_new(&key));
    TRY(dr_box_put(req->txn, &key));
    (void)text_base64_put(bytes_of(key.public_key, sizeof key.public_key), TEXT_BASE64, text);
    return req_reply(req, &(struct public_key_out){text});
}

/* There is no license. Tools read one all the same: it has every feature and does not end. */
struct license_out {
    const char *license_id, *customer_id, *installation_id, *issuer;
    const char *start_time, *expiration_time, *termination_time;
    struct field_strings features;
    bool terminated;
};
static const struct field license_fields[] = {
    FIELD(struct license_out, customer_id, STRING),
    FIELD(struct license_out, expiration_time, STRING),
    FIELD(struct license_out, features, STRINGS),
    FIELD(struct license_out, installation_id, STRING),
    FIELD(struct license_out, issuer, STRING),
    FIELD(struct license_out, license_id, STRING),
    FIELD(struct license_out, start_time, STRING),
    FIELD(struct license_out, terminated, BOOL),
    FIELD(struct license_out, termination_time, STRING),
};
static const struct schema license_schema = SCHEMA(struct license_out, license_fields);
struct license_status_out {
    const void *autoloaded;
    bool autoloading_used;
};
static const struct field license_status_fields[] = {
    FIELD(struct license_status_out, autoloaded, OBJECT, .sub = &license_schema),
    FIELD(struct license_status_out, autoloading_used, BOOL),
};
static const struct schema replication_license_reply =
    SCHEMA(struct license_status_out, license_status_fields);

static enum status replication_license(struct req *req)
{
    static const char *const features[] = {
        "DR Replication",
        "Namespaces",
        "Performance Standby",
        "Transform Secrets Engine",
    };
    const struct license_out license = {
        .license_id = "none",
        .customer_id = "",
        .installation_id = "*",
        .issuer = "",
        .start_time = "1970-01-01T00:00:00Z",
        .expiration_time = "9998-12-31T00:00:00Z",
        .termination_time = "9998-12-31T00:00:00Z",
        .features = {.items = features, .n = ARRAY_LEN(features), .given = true},
    };
    ASSERT(req_in_txn(req));
    TRY(replication_in_root(req));
    return req_reply(req, &(struct license_status_out){&license, true});
}

static const struct route more_routes[] = {
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/generate-public-key",
     .handler = replication_public_key,
     .who = WHO_DR_TOKEN,
     .flags = ROUTE_SUDO,
     .feature = SYS_DR_FEATURE,
     .body = &req_dr_authority_schema,
     .reply = &replication_public_key_reply,
     .help = "Make a key pair and give its public half, for secondary_public_key of "
             "primary/secondary-token. A token that was sealed for an earlier key cannot be used "
             "any more."},
    {.method = METHOD_GET,
     .path = "replication/dr/secondary/license/status",
     .handler = replication_license,
     .who = WHO_DR_TOKEN,
     .reply = &replication_license_reply,
     .help = "For tools that ask for a license: there is none, and every feature is there."},
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/license/status",
     .handler = replication_license,
     .who = WHO_DR_TOKEN,
     .flags = ROUTE_READS,
     .body = &req_dr_authority_schema,
     .reply = &replication_license_reply,
     .help = "The same, with the DR operation token in the body."},
};

const struct route_table replication_more_table = {more_routes, ARRAY_LEN(more_routes)};
