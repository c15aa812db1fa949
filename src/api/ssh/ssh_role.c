/* Roles: what may be issued, and to whom. Stored at role/NAME as an object of the fields below. */
#include "api/ssh/ssh.h"

/* The fields that a write gives, a record has and a reply shows in the same form. */
#define ROLE_FLAGS(type, at)                                                                      \
    FIELD_NAMED("allow_user_certificates", type, at allow_user_certificates, BOOL,                \
                .help = "Certificates for users are issued."),                                    \
        FIELD_NAMED("allow_host_certificates", type, at allow_host_certificates, BOOL,            \
                    .help = "Certificates for hosts are issued."),                                \
        FIELD_NAMED("allow_bare_domains", type, at allow_bare_domains, BOOL,                      \
                    .help = "A host may be an entry of allowed_domains itself."),                 \
        FIELD_NAMED("allow_subdomains", type, at allow_subdomains, BOOL,                          \
                    .help = "A host may lie below an entry of allowed_domains."),                 \
        FIELD_NAMED("allow_user_key_ids", type, at allow_user_key_ids, BOOL,                      \
                    .help = "Requests may name the key id."),                                     \
        FIELD_NAMED("allow_empty_principals", type, at allow_empty_principals, BOOL,              \
                    .help = "A certificate may have no principals. Such a certificate is valid "  \
                            "for every user or host where the authority is trusted."),            \
        FIELD_NAMED("allowed_users_template", type, at allowed_users_template, BOOL,              \
                    .help = "allowed_users has templates."),                                      \
        FIELD_NAMED("allowed_domains_template", type, at allowed_domains_template, BOOL,          \
                    .help = "allowed_domains has templates."),                                    \
        FIELD_NAMED("default_user_template", type, at default_user_template, BOOL,                \
                    .help = "default_user has templates."),                                       \
        FIELD_NAMED("default_extensions_template", type, at default_extensions_template, BOOL,    \
                    .help = "Values of default_extensions have templates."),                      \
        FIELD_NAMED("default_critical_options", type, at default_critical_options, MAP,           \
                    .help = "Critical options where a request names none."),                      \
        FIELD_NAMED("default_extensions", type, at default_extensions, MAP,                       \
                    .help = "Extensions where a request names none; without permit-pty there is " \
                            "no terminal.")

/* A record, and the fields of a reply about a role of type ca. */
#define CA_FIELDS(type, at)                                                                  \
    ROLE_FLAGS(type, at),                                                                    \
        FIELD_NAMED("default_user", type, at default_user, STRING, .preset = "",             \
                    .help = "Principal where a request names none."),                        \
        FIELD_NAMED("allowed_users", type, at allowed_users, STRING, .preset = "",           \
                    .help = "Users that may be requested; \"*\": every one."),               \
        FIELD_NAMED("allowed_domains", type, at allowed_domains, STRING, .preset = "",       \
                    .help = "Domains of hosts; \"*\": every one."),                          \
        FIELD_NAMED("allowed_critical_options", type, at allowed_critical_options, STRING,   \
                    .preset = "",                                                            \
                    .help = "Critical options that requests may name; \"\": every "          \
                            "one."),                                                         \
        FIELD_NAMED("allowed_extensions", type, at allowed_extensions, STRING, .preset = "", \
                    .help = "Extensions that requests may name; \"*\": every one."),         \
        FIELD_NAMED("key_id_format", type, at key_id_format, STRING, .preset = "",           \
                    .help = "Key id with {{token_display_name}}, {{role_name}} and "         \
                            "{{public_key_hash}}."),                                         \
        FIELD_NAMED("algorithm_signer", type, at algorithm_signer, STRING, .preset = "",     \
                    .help = "Algorithm of RSA signatures."),                                 \
        FIELD_NAMED("ttl", type, at ttl, INT, .help = "Seconds; 0: as the mount."),          \
        FIELD_NAMED("max_ttl", type, at max_ttl, INT, .help = "Seconds; 0: as the mount."),  \
        FIELD_NAMED("not_before_duration", type, at not_before_duration, INT,                \
                    .help = "Seconds that certificates are valid before they are issued."),  \
        FIELD_NAMED("allowed_user_key_lengths", type, at allowed_user_key_lengths, VALUE,    \
                    .help = "Types of keys, each with a list of lengths.")
#define OTP_FIELDS(type, at)                                                               \
    FIELD_NAMED("cidr_list", type, at cidr_list, STRING, .preset = "",                     \
                .help = "Blocks of addresses that the role serves."),                      \
        FIELD_NAMED("exclude_cidr_list", type, at exclude_cidr_list, STRING, .preset = "", \
                    .help = "Blocks of addresses that the role refuses."),                 \
        FIELD_NAMED("port", type, at port, INT, .preset = "22", .help = "Port of the hosts.")
#define KEY_TYPE_FIELD(type, at) \
    FIELD_NAMED("key_type", type, at key_type, STRING, .help = "otp or ca.")

static const struct field record_fields[] = {
    KEY_TYPE_FIELD(struct ssh_role, ),
    CA_FIELDS(struct ssh_role, ),
    OTP_FIELDS(struct ssh_role, ),
};
static const struct schema ssh_role_record = SCHEMA(struct ssh_role, record_fields);

static const struct field ca_out_fields[] = {
    KEY_TYPE_FIELD(struct ssh_role, ),
    CA_FIELDS(struct ssh_role, ),
};
static const struct schema ca_out_schema = SCHEMA(struct ssh_role, ca_out_fields);

static const struct field otp_out_fields[] = {
    KEY_TYPE_FIELD(struct ssh_role, ),
    FIELD(struct ssh_role, default_user, STRING, .help = "User where a request names none."),
    FIELD(struct ssh_role, default_user_template, BOOL, .help = "default_user has templates."),
    FIELD(struct ssh_role, allowed_users, STRING, .help = "Users that may be requested."),
    FIELD(struct ssh_role, allowed_users_template, BOOL, .help = "allowed_users has templates."),
    OTP_FIELDS(struct ssh_role, ),
};
static const struct schema otp_out_schema = SCHEMA(struct ssh_role, otp_out_fields);

/* The fields of a write: lists as text or array, durations as text or number. */
struct role_in {
    struct ssh_role role;
    const struct text_value *cidr_list, *exclude_cidr_list, *allowed_users, *allowed_domains;
    const struct text_value *allowed_critical_options, *allowed_extensions;
    const char *ttl, *max_ttl, *not_before_duration;
};
static const struct field role_in_fields[] = {
    FIELD_NAMED("key_type", struct role_in, role.key_type, STRING, .required = true,
                .help = "otp: one-time passwords; ca: certificates."),
    ROLE_FLAGS(struct role_in, role.),
    FIELD_NAMED("default_user", struct role_in, role.default_user, STRING, .preset = "",
                .help = "User where a request names none. An otp role needs it; a certificate has "
                        "it only if allowed_users has it too."),
    FIELD(struct role_in, cidr_list, VALUE,
          .help = "otp: blocks of addresses that the role serves, a list or text with commas."),
    FIELD(struct role_in, exclude_cidr_list, VALUE,
          .help = "otp: blocks of addresses that the role refuses."),
    FIELD_NAMED("port", struct role_in, role.port, INT, .preset = "22",
                .help = "otp: port of the hosts, for clients."),
    FIELD(struct role_in, allowed_users, VALUE,
          .help = "Users that may be requested, a list or text with commas; \"*\": every one. "
                  "Empty: for otp every one, for ca no one."),
    FIELD(struct role_in, allowed_domains, VALUE,
          .help = "ca: domains of hosts, a list or text with commas; \"*\": every one."),
    FIELD(struct role_in, ttl, STRING, .preset = "",
          .help = "Validity, such as 90 or \"1h30m\"; by default that of the mount."),
    FIELD(struct role_in, max_ttl, STRING, .preset = "",
          .help = "Longest validity; by default that of the mount."),
    FIELD(struct role_in, allowed_critical_options, VALUE,
          .help = "ca: critical options that requests may name; empty: every one."),
    FIELD(struct role_in, allowed_extensions, VALUE,
          .help = "ca: extensions that requests may name; \"*\": every one; empty: no one."),
    FIELD_NAMED("key_id_format", struct role_in, role.key_id_format, STRING, .preset = "",
                .help = "ca: key id with {{token_display_name}}, {{role_name}} and "
                        "{{public_key_hash}}."),
    FIELD_NAMED("allowed_user_key_lengths", struct role_in, role.allowed_user_key_lengths, VALUE,
                .help = "ca: types of keys that are signed, each with its lengths: a number, a "
                        "list, or a text with commas. 0: every length of a type that has one."),
    FIELD_NAMED("algorithm_signer", struct role_in, role.algorithm_signer, STRING,
                .preset = "default",
                .help = "ca: default (rsa-sha2-256), rsa-sha2-512 or ssh-rsa, for RSA keys."),
    FIELD(struct role_in, not_before_duration, STRING, .preset = "30s",
          .help = "ca: how long certificates are valid before they are issued."),
};
static const struct schema role_in_schema = SCHEMA(struct role_in, role_in_fields);

/* The reply of a listing. */
struct role_info {
    const char *name, *key_type;
};
static const struct field role_info_fields[] = {
    FIELD(struct role_info, key_type, STRING, .help = "otp or ca."),
};
static const struct schema role_info_schema =
    SCHEMA_NAMED(struct role_info, name, role_info_fields);
struct roles_out {
    struct field_strings keys;
    struct field_list key_info;
};
static const struct field roles_out_fields[] = {
    FIELD(struct roles_out, keys, STRINGS, .help = "Names of the roles."),
    FIELD(struct roles_out, key_info, TABLE, .sub = &role_info_schema,
          .help = "For each role its key_type."),
};
static const struct schema roles_out_schema = SCHEMA(struct roles_out, roles_out_fields);

static enum status role_key(struct req *req, const char *name, struct bytes *ret_key)
{
    const char *path = arena_format(req->arena, "role/%s", name);
    return path != NULL ? req_key(req, path, ret_key) : ST_NOMEM;
}

static enum status decode_role(struct req *req, struct bytes stored, struct ssh_role *ret_role)
{
    struct schema_fault fault;
    const struct text_value *tree;
    enum status st = text_json_parse(req->arena, stored, &tree, NULL);
    if (st == ST_OK)
        st = schema_decode(&ssh_role_record, tree, req->arena, ret_role, &fault);
    if (st == ST_OK && ret_role->key_type == NULL)
        return ST_CORRUPT;
    if (st == ST_OK && ret_role->algorithm_signer[0] == '\0') /* written blank, or not at all */
        ret_role->algorithm_signer = "default";
    return st == ST_OK || st == ST_NOMEM ? st : ST_CORRUPT;
}

enum status ssh_role_load(struct req *req, const char *name, struct ssh_role *ret_role)
{
    struct bytes key;
    struct state_value stored;
    TRY(role_key(req, name, &key));
    TRY(state_get(req->txn, key, &stored));
    return decode_role(req, stored.value, ret_role);
}

static enum status role_exists(struct req *req)
{
    struct bytes key;
    TRY(role_key(req, req_param(req, "role"), &key));
    return state_exists(req->txn, key);
}

static enum status role_read(struct req *req)
{
    struct ssh_role role;
    TRY(ssh_role_load(req, req_param(req, "role"), &role));
    struct text_writer w = req_reply_begin(req);
    schema_encode(ssh_role_is_ca(&role) ? &ca_out_schema : &otp_out_schema, &role, &w);
    return req_reply_end(req);
}

static enum status read_lists(struct req *req, const struct role_in *in, struct ssh_role *role)
{
    const struct {
        const char *field;
        const struct text_value *given;
        const char **ret;
    } lists[] = {
        {"cidr_list", in->cidr_list, &role->cidr_list},
        {"exclude_cidr_list", in->exclude_cidr_list, &role->exclude_cidr_list},
        {"allowed_users", in->allowed_users, &role->allowed_users},
        {"allowed_domains", in->allowed_domains, &role->allowed_domains},
        {"allowed_critical_options", in->allowed_critical_options, &role->allowed_critical_options},
        {"allowed_extensions", in->allowed_extensions, &role->allowed_extensions},
    };
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        TRY(ssh_list_text(req, lists[i].field, lists[i].given, lists[i].ret));
    TRY(ssh_seconds(req, "ttl", in->ttl, &role->ttl));
    TRY(ssh_seconds(req, "max_ttl", in->max_ttl, &role->max_ttl));
    TRY(ssh_seconds(req, "not_before_duration", in->not_before_duration,
                    &role->not_before_duration));
    return ssh_lengths_parse(req, in->role.allowed_user_key_lengths,
                             &role->allowed_user_key_lengths);
}

/* Store a role and its blocks. */
static enum status store_role(struct req *req, const char *name, const struct ssh_role *role)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record, .plain = true};
    struct ssh_role former;
    struct bytes key;
    TRY(role_key(req, name, &key));
    enum status st = ssh_role_load(req, name, &former);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    TRY(ssh_blocks_change(req, name, st == ST_OK ? &former : NULL, role));
    if (ssh_role_is_ca(role))
        TRY(ssh_zero_drop(req, name));
    schema_encode(&ssh_role_record, role, &w);
    TRY(buf_status(&record));
    if (record.len > STATE_VALUE_MAX)
        return req_fail(req, ST_TOO_BIG, "the role is longer than %d bytes", STATE_VALUE_MAX);
    return state_put(req->txn, key, buf_bytes(&record));
}

/* A write replaces the whole role. */
static enum status ssh_role_write(struct req *req)
{
    const struct role_in *in = req_body(req);
    const char *name = req_param(req, "role");
    struct ssh_role role = in->role;
    struct ssh_warnings warnings = {0};
    if (strcmp(role.key_type, "otp") != 0 && strcmp(role.key_type, "ca") != 0)
        return req_fail(req, ST_INVALID, "key_type: \"otp\" or \"ca\" is expected");
    if (strlen(name) > SSH_ROLE_MAX)
        return req_fail(req, ST_INVALID, "role: a name has up to %d bytes", SSH_ROLE_MAX);
    TRY(read_lists(req, in, &role));
    TRY(ssh_role_check(req, &role));
    ssh_domains_judge(req, &role, &warnings);
    TRY(ssh_options_check(req, "default_critical_options", &role.default_critical_options,
                          &warnings));
    TRY(ssh_options_check(req, "default_extensions", &role.default_extensions, &warnings));
    if (ssh_role_is_ca(&role) && (role.cidr_list[0] != '\0' || role.exclude_cidr_list[0] != '\0')) {
        ssh_warn(req, &warnings, "cidr_list and exclude_cidr_list do not apply to a ca role");
        role.cidr_list = role.exclude_cidr_list = "";
    }
    TRY(store_role(req, name, &role));
    for (size_t i = 0; i < warnings.n; i++)
        req_warn(req, "%s", warnings.items[i]);
    return ST_OK;
}

static enum status ssh_role_delete(struct req *req)
{
    const char *name = req_param(req, "role");
    struct ssh_role former;
    struct bytes key;
    TRY(role_key(req, name, &key));
    enum status st = ssh_role_load(req, name, &former);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    TRY(ssh_blocks_change(req, name, &former, NULL));
    TRY(ssh_zero_drop(req, name));
    return state_delete(req->txn, key);
}

static enum status put_info(struct req *req, struct bytes key, struct text_writer *w)
{
    struct state_value stored;
    struct ssh_role role;
    TRY(state_get(req->txn, key, &stored));
    TRY(decode_role(req, stored.value, &role));
    text_open_object(w);
    text_member_str(w, "key_type", role.key_type);
    text_close(w);
    return buf_status(w->out);
}

static enum status role_list(struct req *req)
{
    struct bytes prefix;
    TRY(req_key(req, "role/", &prefix));
    return req_reply_details(req, prefix, put_info);
}

static const struct route role_routes[] = {
    {.method = METHOD_POST,
     .path = "roles/:role@",
     .handler = ssh_role_write,
     .exists = role_exists,
     .body = &role_in_schema,
     .help = "Write a role. The new role replaces the old one as a whole: a field that is not "
             "given has its default."},
    {.method = METHOD_GET,
     .path = "roles/:role@",
     .handler = role_read,
     .shape = "obj", /* the fields of its key_type */
     .help = "A role: the fields that apply to its key_type."},
    {.method = METHOD_LIST,
     .path = "roles",
     .handler = role_list,
     .reply = &roles_out_schema,
     .help = "List the roles, with the key_type of each."},
    {.method = METHOD_DELETE,
     .path = "roles/:role@",
     .handler = ssh_role_delete,
     .help = "Delete a role, also from the zero-address roles."},
};
const struct route_table ssh_role_table = {role_routes, ARRAY_LEN(role_routes)};
