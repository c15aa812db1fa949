/* The content of a certificate: checks of a request against its role, in their order. */
#include "api/ssh/ssh.h"
#include "crypto/crypto.h"
#include "crypto/digest.h"
#include "text/encode.h"

#include <stdlib.h>

static enum status check_key(struct req *req, struct ssh_plan *plan)
{
    struct reason why;
    enum ssh_kind kind = plan->issues ? plan->make.kind : plan->key.kind;
    unsigned bits = plan->issues ? plan->make.bits : plan->key.bits;
    const char *field = plan->issues ? "key_type" : "public_key";
    if (ssh_settings()->fips && (kind == SSH_ED25519 || kind == SSH_SK_ED25519))
        return req_fail(req, ST_INVALID, "%s: ed25519 is not allowed in FIPS mode", field);
    if (!ssh_lengths_allow(plan->role, kind, bits, &why))
        return req_fail(req, ST_INVALID, "%s: public_key failed to meet the key requirements: %s",
                        field, why.text);
    return ST_OK;
}

static enum status check_key_id(struct req *req, struct ssh_plan *plan)
{
    const char *id = plan->wish->key_id;
    if (id[0] != '\0' && !plan->role->allow_user_key_ids)
        return req_fail(req, ST_INVALID, "key_id: setting key_id is not allowed by role");
    if (strlen(id) > SSH_KEY_ID_MAX || !ssh_is_clean(id))
        return req_fail(req, ST_INVALID, "key_id: up to %d characters, without control characters",
                        SSH_KEY_ID_MAX);
    return ST_OK;
}

static enum status check_cert_type(struct req *req, struct ssh_plan *plan)
{
    const char *type = plan->wish->cert_type;
    bool user = strcmp(type, "user") == 0;
    if (!user && strcmp(type, "host") != 0)
        return req_fail(req, ST_INVALID, "cert_type: \"user\" or \"host\" is expected");
    plan->cert.type = user ? SSH_CERT_USER : SSH_CERT_HOST;
    if (user ? !plan->role->allow_user_certificates : !plan->role->allow_host_certificates)
        return req_fail(req, ST_INVALID, "cert_type '%s' is not allowed by role", type);
    return ST_OK;
}

/* Principals */

/* Fill the templates of a list, item by item: a filled value never becomes two items. */
static enum status fill_items(struct req *req, const char *field, bool is_template,
                              struct field_strings *items)
{
    const char **filled = arena_alloc(req->arena, (items->n + 1) * sizeof *filled);
    if (filled == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < items->n; i++) {
        bool was = false;
        filled[i] = items->items[i];
        if (!is_template)
            continue;
        TRY(ssh_template_fill(req, items->items[i], &filled[i], &was));
        if (was && (strpbrk(filled[i], ", \t\r\n") != NULL || filled[i][0] == '\0' ||
                    !ssh_is_clean(filled[i])))
            return req_fail(req, ST_INVALID, "%s: a template gives a value with commas or blanks",
                            field);
    }
    items->items = filled;
    return ST_OK;
}

/* The principals that the request names, or else the default of the role. */
static enum status take_principals(struct req *req, const struct ssh_plan *plan,
                                   struct field_strings *ret)
{
    const struct text_value *given = plan->wish->valid_principals;
    const struct ssh_role *role = plan->role;
    const char *text = "";
    if (given != NULL && given->kind != TEXT_NULL) {
        TRY(ssh_list_text(req, "valid_principals", given, &text));
        return ssh_list_items(req, "valid_principals", text, SSH_PRINCIPALS_MAX, ret);
    }
    if (plan->cert.type == SSH_CERT_USER)
        text = role->default_user;
    TRY(ssh_list_items(req, "default_user", text, SSH_PRINCIPALS_MAX, ret));
    return fill_items(req, "default_user", role->default_user_template, ret);
}

static enum status check_user(struct req *req, const char *name,
                              const struct field_strings *allowed, bool any)
{
    if (strlen(name) > SSH_USER_MAX || strpbrk(name, " \t") != NULL)
        return req_fail(req, ST_INVALID,
                        "valid_principals: \"%.80s\": 1 to %d characters without blanks are "
                        "expected",
                        name, SSH_USER_MAX);
    bool in_list = strcmp(name, "*") != 0 && ssh_list_has(allowed, name);
    if (!any && !in_list)
        return req_fail(req, ST_INVALID,
                        "valid_principals: \"%.80s\" is not a valid value for valid_principals: "
                        "the role does not allow it",
                        name);
    return ST_OK;
}

static enum status check_host_name(struct req *req, struct ssh_plan *plan, const char **name,
                                   const struct field_strings *allowed, bool any)
{
    bool star;
    char *folded = arena_alloc(req->arena, SSH_HOST_MAX + 1);
    if (folded == NULL)
        return ST_NOMEM;
    if (!ssh_host_fold(*name, folded, &star))
        return req_fail(req, ST_INVALID,
                        "valid_principals: \"%.80s\" is no name of a host: labels of ASCII "
                        "letters, digits, '-' and '_' with dots between them are expected",
                        *name);
    if (!any && !ssh_host_allowed(plan->role, allowed, folded))
        return req_fail(req, ST_INVALID,
                        "valid_principals: \"%.80s\" is not a valid value for valid_principals: "
                        "the role does not allow it",
                        *name);
    if (star)
        ssh_warn(req, &plan->warnings,
                 "valid_principals: OpenSSH before 10.3 matches no host with \"%.80s\"", folded);
    *name = folded;
    return ST_OK;
}

static enum status check_principals(struct req *req, struct ssh_plan *plan)
{
    const struct ssh_role *role = plan->role;
    bool user = plan->cert.type == SSH_CERT_USER;
    const char *field = user ? "allowed_users" : "allowed_domains";
    const char *list = user ? role->allowed_users : role->allowed_domains;
    struct field_strings wanted, allowed;
    TRY(take_principals(req, plan, &wanted));
    TRY(ssh_list_items(req, field, list, SSH_NAMES_MAX, &allowed));
    bool any = allowed.n == 1 && strcmp(allowed.items[0], "*") == 0;
    if (wanted.n == 0 && !role->allow_empty_principals)
        return req_fail(req, ST_INVALID,
                        "valid_principals: refusing to issue unsafe, globally-valid certificate: "
                        "name a principal, or set allow_empty_principals in the role");
    if (wanted.n != 0 && allowed.n == 0)
        return req_fail(req, ST_INVALID, "%s: role is not configured to allow any principals",
                        field);
    TRY(fill_items(req, field, user ? role->allowed_users_template : role->allowed_domains_template,
                   &allowed));
    const char **names = arena_alloc(req->arena, (wanted.n + 1) * sizeof *names);
    if (names == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < wanted.n; i++) {
        names[i] = wanted.items[i];
        TRY(user ? check_user(req, names[i], &allowed, any)
                 : check_host_name(req, plan, &names[i], &allowed, any));
    }
    plan->cert.principals = names;
    plan->cert.n_principals = wanted.n;
    return ST_OK;
}

static enum status check_ttl(struct req *req, struct ssh_plan *plan)
{
    const struct ssh_role *role = plan->role;
    const struct lease_limits limits = req_lease_limits(req->mount);
    int64_t max_s = role->max_ttl != 0 ? role->max_ttl : limits.max_s;
    int64_t ttl_s, now_s = req->now_ms / 1000;
    TRY(ssh_seconds(req, "ttl", plan->wish->ttl, &ttl_s));
    if (plan->wish->has_ttl && plan->wish->ttl[0] != '\0' && ttl_s == 0)
        return req_fail(req, ST_INVALID, "ttl: a certificate is valid for a second or longer");
    if (ttl_s > max_s)
        return req_fail(req, ST_INVALID, "ttl is larger than maximum allowed %lld",
                        (long long)max_s);
    if (ttl_s == 0)
        ttl_s = MIN(role->ttl != 0 ? role->ttl : limits.default_s, max_s);
    if (ttl_s > SSH_TIME_MAX - now_s)
        return req_fail(req, ST_INVALID, "ttl: ends after the year 9999");
    plan->cert.valid_before_s = now_s + ttl_s;
    plan->cert.valid_after_s = MAX(now_s - MIN(role->not_before_duration, now_s), 0);
    return ST_OK;
}

/* Options */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum status sort_options(struct req *req, const struct field_map *map,
                                struct ssh_options *ret)
{
    const char **pairs = arena_alloc(req->arena, (2 * map->n + 1) * sizeof *pairs);
    if (pairs == NULL)
        return ST_NOMEM;
    if (map->n != 0) {
        memcpy(pairs, map->pairs, 2 * map->n * sizeof *pairs);
        qsort(pairs, map->n, 2 * sizeof *pairs, by_name);
    }
    *ret = (struct ssh_options){.pairs = pairs, .n = map->n};
    return ST_OK;
}

/* Refuse an option that the list does not have. */
static enum status check_listed(struct req *req, const char *field, const struct field_map *map,
                                const struct field_strings *allowed)
{
    for (size_t i = 0; i < map->n; i++)
        if (!ssh_list_has(allowed, map->pairs[2 * i]))
            return req_fail(req, ST_INVALID, "%s: \"%.80s\" is not on allowed list", field,
                            map->pairs[2 * i]);
    return ST_OK;
}

static enum status check_critical(struct req *req, struct ssh_plan *plan)
{
    const struct field_map *map = &plan->wish->critical_options;
    struct field_strings allowed;
    TRY(ssh_list_items(req, "allowed_critical_options", plan->role->allowed_critical_options,
                       SSH_NAMES_MAX, &allowed));
    if (map->n == 0)
        map = &plan->role->default_critical_options;
    else if (allowed.n != 0)
        TRY(check_listed(req, "critical_options", map, &allowed));
    TRY(ssh_options_check(req, "critical_options", map, &plan->warnings));
    if (map->n != 0 && plan->cert.type == SSH_CERT_HOST)
        return req_fail(req, ST_INVALID,
                        "critical_options: a host certificate has none: OpenSSH "
                        "would refuse it");
    return sort_options(req, map, &plan->cert.critical);
}

/* The default extensions, without those whose template cannot be filled. */
static enum status fill_extensions(struct req *req, struct ssh_plan *plan, struct field_map *ret)
{
    const struct ssh_role *role = plan->role;
    const struct field_map *from = &role->default_extensions;
    const char **pairs = arena_alloc(req->arena, (2 * from->n + 1) * sizeof *pairs);
    size_t n = 0;
    if (pairs == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < from->n; i++) {
        bool filled = true;
        pairs[2 * n] = from->pairs[2 * i];
        pairs[2 * n + 1] = from->pairs[2 * i + 1];
        if (role->default_extensions_template)
            TRY(ssh_template_fill(req, from->pairs[2 * i + 1], &pairs[2 * n + 1], &filled));
        if (filled)
            n++;
        else
            ssh_warn(req, &plan->warnings,
                     "extension \"%.80s\" was left out: its template needs an entity, and the "
                     "token has none",
                     from->pairs[2 * i]);
    }
    *ret = (struct field_map){.pairs = pairs, .n = n, .given = true};
    return ST_OK;
}

static enum status check_extensions(struct req *req, struct ssh_plan *plan)
{
    struct field_map map = plan->wish->extensions;
    const char *list = plan->role->allowed_extensions;
    struct field_strings allowed;
    TRY(ssh_list_items(req, "allowed_extensions", list, SSH_NAMES_MAX, &allowed));
    bool any = allowed.n == 1 && strcmp(allowed.items[0], "*") == 0;
    if (map.n == 0)
        TRY(fill_extensions(req, plan, &map));
    else if (!any)
        TRY(check_listed(req, "extensions", &map, &allowed));
    TRY(ssh_options_check(req, "extensions", &map, &plan->warnings));
    return sort_options(req, &map, &plan->cert.extensions);
}

/* The authority */

static enum status choose_digest(struct req *req, struct ssh_plan *plan)
{
    const char *signer = plan->role->algorithm_signer;
    struct ssh_public ca;
    struct reason why;
    enum status st = ssh_ca_load(req, &plan->ca);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "keys haven't been configured yet: write config/ca");
    TRY(st);
    if (ssh_public_read(plan->ca.public_key, &ca, &why) != ST_OK)
        return ST_CORRUPT;
    if (ca.kind == SSH_ED25519 && ssh_settings()->fips)
        return req_fail(req, ST_INVALID,
                        "the key that signs is of type ed25519, which is not "
                        "allowed in FIPS mode: write config/ca");
    bool preset = signer[0] == '\0' || strcmp(signer, "default") == 0;
    plan->digest = SSH_SHA2_256;
    if (preset)
        return ST_OK;
    if (ca.kind != SSH_RSA)
        return req_fail(req, ST_INVALID,
                        "algorithm_signer: \"%s\" of the role needs an RSA key, and the key that "
                        "signs is of type %s",
                        signer, ssh_kind_name(ca.kind));
    if (strcmp(signer, "rsa-sha2-512") == 0)
        plan->digest = SSH_SHA2_512;
    if (strcmp(signer, "ssh-rsa") == 0) {
        plan->digest = SSH_SHA1;
        ssh_warn(req, &plan->warnings,
                 "algorithm_signer: ssh-rsa signs with SHA-1, which OpenSSH refuses since 8.8");
    }
    return ST_OK;
}

enum status ssh_plan_make(struct req *req, struct ssh_plan *plan)
{
    static const struct {
        enum status (*check)(struct req *req, struct ssh_plan *plan);
        enum ssh_count refused;
    } checks[] = {
        {check_key, SSH_COUNT_REFUSED_KEY},
        {check_key_id, SSH_COUNT_REFUSED_KEY_ID},
        {check_cert_type, SSH_COUNT_REFUSED_TYPE},
        {check_principals, SSH_COUNT_REFUSED_PRINCIPALS},
        {check_ttl, SSH_COUNT_REFUSED_TTL},
        {check_critical, SSH_COUNT_REFUSED_OPTIONS},
        {check_extensions, SSH_COUNT_REFUSED_EXTENSIONS},
    };
    ASSERT(plan->role != NULL && plan->wish != NULL);
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        enum status st = checks[i].check(req, plan);
        if (st == ST_INVALID)
            ssh_count(checks[i].refused);
        TRY(st);
    }
    TRY(choose_digest(req, plan));
    TRY(crypto_random(plan->cert.nonce, sizeof plan->cert.nonce));
    while (plan->cert.serial == 0)
        TRY(crypto_random(&plan->cert.serial, sizeof plan->cert.serial));
    return ST_OK;
}

/* Key id */

static enum status hash_key(struct req *req, struct bytes blob, const char **ret_hex)
{
    uint8_t digest[CRYPTO_DIGEST_MAX];
    size_t len;
    char *hex = arena_alloc(req->arena, TEXT_HEX_LEN(CRYPTO_DIGEST_MAX) + 1);
    if (hex == NULL)
        return ST_NOMEM;
    TRY(crypto_digest("sha2-256", blob, digest, &len));
    text_hex_put(bytes_of(digest, len), hex);
    *ret_hex = hex;
    return ST_OK;
}

static enum status format_key_id(const struct ssh_plan *plan, const char *const values[3],
                                 struct buf *out)
{
    static const char *const names[] = {"{{token_display_name}}", "{{role_name}}",
                                        "{{public_key_hash}}"};
    for (const char *at = plan->role->key_id_format; *at != '\0';) {
        size_t i = 0;
        while (i < ARRAY_LEN(names) && strncmp(at, names[i], strlen(names[i])) != 0)
            i++;
        if (i == ARRAY_LEN(names)) {
            buf_add_u8(out, (uint8_t)*at++);
            continue;
        }
        buf_add_str(out, values[i]);
        at += strlen(names[i]);
    }
    return buf_status(out);
}

/* The key id where the request names none. */
static enum status default_key_id(const struct ssh_plan *plan, const char *const values[3],
                                  struct buf *out)
{
    const char *prefix = ssh_settings()->key_id_prefix;
    const char *display_name = values[0], *hash = values[2];
    if (plan->role->key_id_format[0] != '\0')
        return format_key_id(plan, values, out);
    if (prefix[0] != '\0')
        buf_add_format(out, "%s-%s%s%s", prefix, display_name, display_name[0] != '\0' ? "-" : "",
                       hash);
    else
        buf_add_str(out, display_name[0] != '\0' ? display_name : hash);
    return buf_status(out);
}

enum status ssh_plan_key_id(struct req *req, struct ssh_plan *plan)
{
    CLEANUP(buf_done) struct buf id = {0};
    const char *values[3] = {"", plan->role_name, ""};
    if (plan->wish->key_id[0] != '\0') {
        plan->cert.key_id = plan->wish->key_id;
        return ST_OK;
    }
    if (req->token->display_name != NULL)
        values[0] = req->token->display_name;
    TRY(hash_key(req, plan->key.blob, &values[2]));
    TRY(default_key_id(plan, values, &id));
    plan->cert.key_id = arena_str(req->arena, buf_bytes(&id));
    if (plan->cert.key_id == NULL)
        return ST_NOMEM;
    if (id.len > 2 * SSH_KEY_ID_MAX || !ssh_is_clean(plan->cert.key_id))
        return req_fail(req, ST_INVALID,
                        "key_id: the key id of the role is too long, or the "
                        "display name of the token has control characters");
    return ST_OK;
}
