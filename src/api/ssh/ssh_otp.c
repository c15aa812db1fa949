/* One-time passwords. A password is a lease: it is good while its record and its lease are there,
 * and ends with the token that asked for it. Verifying it deletes both, in one transaction whose
 * precondition is the record: of two hosts that verify one password, one gets a reply. */
#include "api/ssh/ssh.h"
#include "barrier/barrier.h"
#include "base/record.h"
#include "router/router.h"
#include "text/encode.h"
#include "text/random.h"

enum { OTP_LEN_MAX = 256, FAILURES_BURST = 200, FAILURE_MS = 5 };

/* A record at otp/MAC; the password itself is not stored. */
struct otp {
    const char *role, *ip, *user, *lease;
};
static const struct record_field otp_fields[] = {
    RECORD_FIELD(struct otp, role, TEXT, .min = 1, .max = SSH_USER_MAX),
    RECORD_FIELD(struct otp, ip, TEXT, .min = 1, .max = 64, .help = "address of the host"),
    RECORD_FIELD(struct otp, user, TEXT, .min = 1, .max = SSH_USER_MAX),
    RECORD_FIELD(struct otp, lease, TEXT, .min = 1, .max = 1024, .help = "id of its lease"),
};
static const struct record ssh_otp_record = {
    RECORD(struct otp, otp_fields), .name = "ssh/otp",
    .where = "The keys `otp/MAC` below the data of a mount of the type ssh", .newest = 1};
RECORD_LISTED(ssh_otp_record);

struct creds_in {
    const char *ip, *username;
};
static const struct field creds_in_fields[] = {
    FIELD(struct creds_in, ip, STRING, .required = true, .help = "Address of the host."),
    FIELD(struct creds_in, username, STRING, .preset = "",
          .help = "User on the host; by default default_user of the role."),
};
static const struct schema creds_in_schema = SCHEMA(struct creds_in, creds_in_fields);

struct creds_out {
    const char *ip, *key, *key_type;
    int64_t port;
    const char *username;
};
static const struct field creds_out_fields[] = {
    FIELD(struct creds_out, ip, STRING, .help = "Address of the host."),
    FIELD(struct creds_out, key, STRING, .help = "The one-time password."),
    FIELD(struct creds_out, key_type, STRING, .help = "otp."),
    FIELD(struct creds_out, port, INT, .help = "Port of the host, as the role says."),
    FIELD(struct creds_out, username, STRING, .help = "User on the host."),
};
static const struct schema creds_out_schema = SCHEMA(struct creds_out, creds_out_fields);

static enum status otp_key(struct req *req, const char *password, struct bytes *ret_key)
{
    uint8_t mac[BARRIER_MAC_BYTES];
    char hex[TEXT_HEX_LEN(BARRIER_MAC_BYTES) + 1];
    const char *message = arena_format(req->arena, "ssh-otp:%s:%s", req->mount->uuid, password);
    if (message == NULL)
        return ST_NOMEM;
    TRY(barrier_mac(req->cipher, bytes_str(message), mac));
    text_hex_put(bytes_of(mac, sizeof mac), hex);
    const char *path = arena_format(req->arena, "otp/%s", hex);
    return path != NULL ? req_key(req, path, ret_key) : ST_NOMEM;
}

/* The user of the password, if the role allows it. */
static enum status choose_user(struct req *req, const struct ssh_role *role, const char *wanted,
                               const char **ret_user)
{
    struct field_strings allowed;
    const char *user;
    bool filled;
    *ret_user = role->default_user;
    if (role->default_user_template)
        TRY(ssh_template_fill(req, role->default_user, ret_user, &filled));
    if (wanted[0] == '\0' || strcmp(wanted, *ret_user) == 0)
        return ST_OK;
    *ret_user = wanted;
    if (strlen(wanted) > SSH_USER_MAX || !ssh_is_clean(wanted) || strpbrk(wanted, ", ") != NULL)
        return req_fail(req, ST_INVALID,
                        "username: 1 to %d characters without commas and blanks are expected",
                        SSH_USER_MAX);
    TRY(ssh_list_items(req, "allowed_users", role->allowed_users, SSH_NAMES_MAX, &allowed));
    if (allowed.n == 0 || (allowed.n == 1 && strcmp(allowed.items[0], "*") == 0))
        return ST_OK;
    for (size_t i = 0; i < allowed.n; i++) {
        user = allowed.items[i];
        if (role->allowed_users_template)
            TRY(ssh_template_fill(req, allowed.items[i], &user, &filled));
        if (strcmp(user, wanted) == 0 && strcmp(user, "*") != 0)
            return ST_OK;
    }
    return req_fail(req, ST_INVALID, "username: \"%.80s\" is not in the allowed users list",
                    wanted);
}

/* Lend a new password. */
static enum status lend(struct req *req, const struct ssh_role *role, struct otp *otp,
                        struct creds_out *out)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct lease *lease = arena_zalloc(req->arena, sizeof *lease);
    char *password = arena_alloc(req->arena, TEXT_UUID_LEN + 1);
    struct bytes key;
    if (lease == NULL || password == NULL)
        return ST_NOMEM;
    text_uuid(req->env, password);
    TRY(otp_key(req, password, &key));
    *lease = (struct lease){.kind = &ssh_otp_kind,
                            .expire_ms = req_lease_end_ms(req, 0, role->ttl, role->max_ttl),
                            .data = key};
    TRY(req_lease_create(req, lease));
    otp->lease = lease->id;
    TRY(record_encode(&ssh_otp_record, otp, &record));
    TRY(state_put(req->txn, key, buf_bytes(&record)));
    out->key = password;
    TRY(req_reply(req, out));
    req_reply_lease(req, lease);
    return ST_OK;
}

static enum status creds_create(struct req *req)
{
    const struct creds_in *in = req_body(req);
    struct otp otp = {.role = req_param(req, "role"), .ip = in->ip};
    struct ssh_role role;
    struct ip ip;
    bool serves;
    enum status st = ssh_role_load(req, otp.role, &role);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "role \"%.80s\" not found", otp.role);
    TRY(st);
    if (ssh_role_is_ca(&role))
        return req_fail(req, ST_INVALID, "role \"%.80s\" is of key_type ca: use sign or issue",
                        otp.role);
    if (ip_parse(bytes_str(in->ip), &ip) != ST_OK)
        return req_fail(req, ST_INVALID, "ip: \"%.80s\" is no address", in->ip);
    if (strlen(otp.role) > SSH_USER_MAX)
        return req_fail(req, ST_INVALID, "the name of the role is longer than %d bytes",
                        SSH_USER_MAX);
    TRY(choose_user(req, &role, in->username, &otp.user));
    TRY(ssh_role_serves(req, otp.role, &role, &ip, &serves));
    if (!serves)
        return req_fail(req, ST_INVALID, "ip: IP does not belong to role");
    struct creds_out out = {
        .ip = in->ip, .key_type = "otp", .port = role.port, .username = otp.user};
    return lend(req, &role, &otp, &out);
}

static enum status otp_end(const struct lease_scope *s, const struct lease *lease)
{
    return state_delete(s->txn, lease->data);
}

const struct lease_kind ssh_otp_kind = {.name = "ssh-otp", .end = otp_end};

/* verify */

struct verify_in {
    const char *otp;
};
static const struct field verify_in_fields[] = {
    FIELD(struct verify_in, otp, STRING, .required = true, .hidden = true,
          .help = "The password; \"verify-echo-request\" asks for an echo."),
};
static const struct schema verify_in_schema = SCHEMA(struct verify_in, verify_in_fields);

struct verified {
    const char *message, *ip, *username, *role_name;
};
static const struct field verified_fields[] = {
    FIELD(struct verified, message, STRING, .omit = true, .help = "verify-echo-response."),
    FIELD(struct verified, ip, STRING, .omit = true, .help = "Address of the host."),
    FIELD(struct verified, username, STRING, .omit = true, .help = "User on the host."),
    FIELD(struct verified, role_name, STRING, .omit = true, .help = "Role of the password."),
};
static const struct schema verified_schema = SCHEMA(struct verified, verified_fields);

/* Refuse a password. Only failures are limited: a client that fails too often may still succeed. */
static enum status refuse_otp(struct req *req)
{
    static struct throttle failures = {
        .burst = FAILURES_BURST, .every_ms = FAILURE_MS, .lock = PTHREAD_MUTEX_INITIALIZER};
    const struct ip client = ip_port_ip(req->peer);
    ssh_count(SSH_COUNT_NOT_VERIFIED);
    if (!throttle_take(&failures, &client, env_mono_ms(req->env)))
        return req_fail(req, ST_LIMITED, "too many passwords that are not valid");
    return req_fail(req, ST_INVALID, "OTP not found");
}

static enum status otp_verify(struct req *req)
{
    const struct verify_in *in = req_body(req);
    struct state_value stored;
    struct lease_scope scope;
    struct lease lease;
    struct otp otp;
    struct bytes key;
    if (strcmp(in->otp, "verify-echo-request") == 0) {
        const struct verified echo = {.message = "verify-echo-response"};
        return req_reply(req, &echo);
    }
    if (in->otp[0] == '\0' || strlen(in->otp) > OTP_LEN_MAX)
        return refuse_otp(req);
    TRY(otp_key(req, in->otp, &key));
    enum status st = state_get(req->txn, key, &stored);
    if (st == ST_NOT_FOUND) {
        TRY(state_need_keys(req->txn)); /* the salt of another ring gives another name */
        return refuse_otp(req);
    }
    TRY(st);
    TRY(record_decode(&ssh_otp_record, stored.value, req->arena, &otp));
    TRY(req_lease_scope(req, &scope));
    st = lease_find(&scope, otp.lease, &lease);
    if (st == ST_NOT_FOUND)
        return refuse_otp(req);
    TRY(st);
    TRY(lease_end(&scope, &lease));
    ssh_count(SSH_COUNT_VERIFIED);
    const struct verified out = {.ip = otp.ip, .username = otp.user, .role_name = otp.role};
    return req_reply(req, &out);
}

static const struct route otp_routes[] = {
    {.method = METHOD_POST,
     .path = "creds/:role@",
     .handler = creds_create,
     .place = PLACE_ACTIVE,
     .body = &creds_in_schema,
     .reply = &creds_out_schema,
     .help = "Lend a one-time password for a user of a host, under a role of key_type otp."},
    {.method = METHOD_POST,
     .path = "verify",
     .handler = otp_verify,
     .place = PLACE_ACTIVE,
     .who = WHO_ANYONE,
     .body = &verify_in_schema,
     .reply = &verified_schema,
     .help = "Verify a one-time password, which is used up by that. Needs no token: hosts do it."},
};
const struct route_table ssh_otp_table = {otp_routes, ARRAY_LEN(otp_routes)};
