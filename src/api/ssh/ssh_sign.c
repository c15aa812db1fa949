/* sign and issue: certificates for keys of clients, and for keys made here. Neither stores
 * anything, so every node that answers reads does it.
 *
 * The handler checks, and the step outside signs; but a signature of an Ed25519 key costs less than
 * the way to the pool and back. A reply that the client wants wrapped is made in the handler,
 * because the handler's transaction stores it: then a key is made before the checks. */
#include "api/ssh/ssh.h"
#include "router/req_left.h"

#define WISH_FIELDS(type)                                                                         \
    FIELD_NAMED("ttl", type, wish.ttl, STRING, .preset = "", .has = offsetof(type, wish.has_ttl), \
                .help = "Validity, such as 90 or \"1h30m\": at most max_ttl of the role."),       \
        FIELD_NAMED("valid_principals", type, wish.valid_principals, VALUE,                       \
                    .help = "Users or hosts, a list or text with commas; absent: default_user."), \
        FIELD_NAMED("cert_type", type, wish.cert_type, STRING, .preset = "user",                  \
                    .help = "user or host."),                                                     \
        FIELD_NAMED("key_id", type, wish.key_id, STRING, .preset = "",                            \
                    .help = "Key id, if the role allows it."),                                    \
        FIELD_NAMED("critical_options", type, wish.critical_options, MAP,                         \
                    .help = "Critical options, in place of those of the role."),                  \
        FIELD_NAMED("extensions", type, wish.extensions, MAP,                                     \
                    .help = "Extensions, in place of those of the role.")

struct sign_in {
    const char *public_key;
    struct ssh_wish wish;
};
static const struct field sign_in_fields[] = {
    FIELD(struct sign_in, public_key, STRING, .required = true,
          .help = "The key to sign, a line of a .pub file."),
    WISH_FIELDS(struct sign_in),
};
static const struct schema sign_in_schema = SCHEMA(struct sign_in, sign_in_fields);

struct issue_in {
    const char *key_type;
    int64_t key_bits;
    struct ssh_wish wish;
};
static const struct field issue_in_fields[] = {
    FIELD(struct issue_in, key_type, STRING, .preset = "rsa",
          .help = "Type of the new key: rsa, ec or ed25519."),
    FIELD(struct issue_in, key_bits, INT, .preset = "0",
          .help = "Length of the new key. rsa: 2048 (default), 3072 or 4096; ec: 256 (default), "
                  "384 or 521; ed25519: ignored."),
    WISH_FIELDS(struct issue_in),
};
static const struct schema issue_in_schema = SCHEMA(struct issue_in, issue_in_fields);

struct signed_out {
    const char *serial_number;
    struct bytes signed_key;
    struct bytes private_key;
    const char *private_key_type;
};
#define SIGNED_FIELDS                                           \
    FIELD(struct signed_out, serial_number, STRING,             \
          .help = "Serial number of the certificate, in hex."), \
        FIELD(struct signed_out, signed_key, BYTES,             \
              .help = "The certificate, a line with a newline at its end.")
static const struct field signed_fields[] = {SIGNED_FIELDS};
static const struct schema signed_schema = SCHEMA(struct signed_out, signed_fields);
static const struct field issued_fields[] = {
    SIGNED_FIELDS,
    FIELD(struct signed_out, private_key, BYTES, .help = "The new private key, in PEM form."),
    FIELD(struct signed_out, private_key_type, STRING, .help = "Type of the new key."),
};
static const struct schema issued_schema = SCHEMA(struct signed_out, issued_fields);

/* Load the role of a request for a certificate. */
static enum status begin_plan(struct req *req, const struct ssh_wish *wish,
                              struct ssh_plan **ret_plan)
{
    struct ssh_plan *plan = arena_zalloc(req->arena, sizeof *plan);
    struct ssh_role *role = arena_zalloc(req->arena, sizeof *role);
    if (plan == NULL || role == NULL)
        return ST_NOMEM;
    if (ssh_settings()->sign_requires_create &&
        (acl_capabilities(req->acl, req->path) & CAP_CREATE) == 0)
        return ST_DENIED;
    plan->role_name = req_param(req, "role");
    enum status st = ssh_role_load(req, plan->role_name, role);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "unknown role: %.80s", plan->role_name);
    TRY(st);
    if (!ssh_role_is_ca(role))
        return req_fail(req, ST_INVALID, "role key type '%s' not allowed to sign keys",
                        role->key_type);
    plan->role = role;
    plan->wish = wish;
    *ret_plan = plan;
    return ST_OK;
}

/* Sign the certificate of a plan whose key is known, and reply. */
static enum status finish_plan(struct req *req, struct ssh_plan *plan, struct signed_out *out)
{
    CLEANUP(buf_done) struct buf body = {0};
    CLEANUP(buf_done) struct buf line = {0};
    CLEANUP(ssh_private_done) struct ssh_private ca = {0};
    plan->cert.key = &plan->key;
    TRY(ssh_plan_key_id(req, plan));
    TRY(ssh_private_load(plan->ca.private_key, &ca));
    TRY(ssh_cert_body(&plan->cert, plan->ca.public_key, &body));
    TRY(ssh_cert_sign(buf_bytes(&body), &ca, plan->digest, &line));
    buf_add_u8(&line, '\n');
    TRY(buf_status(&line));
    out->signed_key = buf_bytes(&line);
    out->serial_number = arena_format(req->arena, "%llx", (unsigned long long)plan->cert.serial);
    if (out->serial_number == NULL)
        return ST_NOMEM;
    TRY(req_reply(req, out));
    for (size_t i = 0; i < plan->warnings.n; i++)
        req_warn(req, "%s", plan->warnings.items[i]);
    ssh_count(SSH_COUNT_SIGNED);
    return ST_OK;
}

static bool signs_fast(const struct ssh_ca *ca)
{
    return bytes_has_prefix(ca->public_key, BYTES("\0\0\0\x0bssh-ed25519"));
}

static enum status sign_check(struct req *req)
{
    const struct sign_in *in = req_body(req);
    struct signed_out out = {0};
    struct ssh_plan *plan;
    struct reason why;
    TRY(begin_plan(req, &in->wish, &plan));
    enum status st = ssh_public_parse(req->arena, bytes_str(in->public_key), &plan->key, &why);
    if (st == ST_INVALID) {
        ssh_count(SSH_COUNT_REFUSED_KEY);
        return req_fail(req, st, "public_key: failed to parse public_key as SSH key: %s", why.text);
    }
    TRY(st);
    TRY(ssh_plan_make(req, plan));
    req->prepared = plan;
    if (req->wrap_ttl_s == 0 && !signs_fast(&plan->ca))
        return ST_OK;
    req_skip_outside(req);
    return finish_plan(req, plan, &out);
}

static enum status sign_outside(struct req *req)
{
    struct signed_out out = {0};
    return finish_plan(req, req->prepared, &out);
}

/* A key that is made for the client. */
struct issue_work {
    struct ssh_plan *plan;  /* set by the handler */
    struct bytes pem, blob; /* the key and its public half; empty: not made yet */
};

static enum status parse_make(struct req *req, struct ssh_make *ret_make)
{
    const struct issue_in *in = req_body(req);
    bool ed25519 = strcmp(in->key_type, "ed25519") == 0;
    if (strcmp(in->key_type, "rsa") != 0 && strcmp(in->key_type, "ec") != 0 && !ed25519)
        return req_fail(req, ST_INVALID, "key_type: rsa, ec or ed25519 is expected");
    return ssh_make_parse(req, in->key_type, ed25519 ? 0 : in->key_bits, 2048, ret_make);
}

static enum status make_client_key(struct req *req, const struct ssh_make *make,
                                   struct issue_work *work)
{
    CLEANUP(buf_done) struct buf blob = {0};
    CLEANUP(buf_done) struct buf pem = {0};
    CLEANUP(ssh_private_done) struct ssh_private key = {0};
    TRY(ssh_private_make(make->kind, make->bits, &key));
    TRY(ssh_private_public(&key, &blob));
    TRY(ssh_private_export(&key, &pem));
    work->blob = bytes_of(arena_dup(req->arena, buf_bytes(&blob)), blob.len);
    work->pem = bytes_of(arena_dup(req->arena, buf_bytes(&pem)), pem.len);
    return work->blob.data != NULL && work->pem.data != NULL ? ST_OK : ST_NOMEM;
}

/* Sign the key that was made, and reply. */
static enum status finish_issue(struct req *req, struct issue_work *work)
{
    const struct issue_in *in = req_body(req);
    struct signed_out out = {.private_key = work->pem, .private_key_type = in->key_type};
    struct reason why;
    if (ssh_public_read(work->blob, &work->plan->key, &why) != ST_OK)
        return ST_CRYPTO;
    return finish_plan(req, work->plan, &out);
}

static enum status issue_prepare(struct req *req)
{
    struct issue_work *work = arena_zalloc(req->arena, sizeof *work);
    struct ssh_make make;
    if (work == NULL)
        return ST_NOMEM;
    req->prepared = work;
    if (req->wrap_ttl_s == 0)
        return ST_OK;
    TRY(parse_make(req, &make));
    return make_client_key(req, &make, work);
}

static enum status issue_check(struct req *req)
{
    const struct issue_in *in = req_body(req);
    struct issue_work *work = req->prepared;
    ASSERT(work != NULL);
    TRY(begin_plan(req, &in->wish, &work->plan));
    TRY(parse_make(req, &work->plan->make));
    work->plan->issues = true;
    TRY(ssh_plan_make(req, work->plan));
    if (req->wrap_ttl_s == 0)
        return ST_OK;
    req_skip_outside(req);
    return finish_issue(req, work);
}

/* The key is made after all checks, so that a request which the role refuses costs little. */
static enum status issue_outside(struct req *req)
{
    struct issue_work *work = req->prepared;
    if (req_is_left(req)) /* no client would get the key */
        return req_fail(req, ST_TIMEOUT, "the client has gone");
    TRY(make_client_key(req, &work->plan->make, work));
    return finish_issue(req, work);
}

static const struct route sign_routes[] = {
    {.method = METHOD_POST,
     .path = "sign/:role@",
     .handler = sign_check,
     .outside = sign_outside,
     .flags = ROUTE_READS,
     .body = &sign_in_schema,
     .reply = &signed_schema,
     .help = "Sign a public key under a role of key_type ca. The certificate is not stored."},
    {.method = METHOD_POST,
     .path = "issue/:role@",
     .handler = issue_check,
     .prepare = issue_prepare,
     .outside = issue_outside,
     .ends_with_client = true,
     .is_slow = true,
     .flags = ROUTE_READS,
     .body = &issue_in_schema,
     .reply = &issued_schema,
     .help = "Make a key and sign it under a role of key_type ca. Neither is stored."},
};
const struct route_table ssh_sign_table = {sign_routes, ARRAY_LEN(sign_routes)};
