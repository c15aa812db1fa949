/* Rules for the fields of a role, and lengths of keys. */
#include "api/ssh/ssh.h"

/* Names of the field allowed_user_key_lengths. */
static const struct {
    const char *name;
    enum ssh_kind first, last; /* kinds that the name stands for */
    bool listed;               /* the length of a key must be listed */
} lengths[] = {
    {"rsa", SSH_RSA, SSH_RSA, true},
    {"ssh-rsa", SSH_RSA, SSH_RSA, true},
    {"ec", SSH_ECDSA_256, SSH_ECDSA_521, true},
    {"ecdsa", SSH_ECDSA_256, SSH_ECDSA_521, true},
    {"ecdsa-sha2-nistp256", SSH_ECDSA_256, SSH_ECDSA_256, false},
    {"ecdsa-sha2-nistp384", SSH_ECDSA_384, SSH_ECDSA_384, false},
    {"ecdsa-sha2-nistp521", SSH_ECDSA_521, SSH_ECDSA_521, false},
    {"ed25519", SSH_ED25519, SSH_ED25519, false},
    {"ssh-ed25519", SSH_ED25519, SSH_ED25519, false},
    {"sk-ecdsa-sha2-nistp256@openssh.com", SSH_SK_ECDSA, SSH_SK_ECDSA, false},
    {"sk-ssh-ed25519@openssh.com", SSH_SK_ED25519, SSH_SK_ED25519, false},
};
static const char *const dsa_names[] = {"dsa", "ssh-dss"}; /* allowed, and no key has the type */

static bool is_dsa(struct bytes name)
{
    return text_is(name, dsa_names[0]) || text_is(name, dsa_names[1]);
}

static bool is_known(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        if (text_is(name, lengths[i].name))
            return true;
    return is_dsa(name);
}

static enum status add_length(struct req *req, struct bytes name, struct bytes digits,
                              struct text_value *list)
{
    int64_t n;
    if (text_int_parse(digits, &n) != ST_OK || n < 0 || n > SSH_RSA_BITS_MAX * 2)
        return req_fail(req, ST_INVALID,
                        "allowed_user_key_lengths: %.*s: lengths in bits are expected, as a "
                        "number, a list, or a text with commas",
                        (int)name.len, (const char *)name.data);
    char *text = arena_number(req->arena, (uint64_t)n);
    struct text_value *item = text_value_new(req->arena, list, TEXT_NUMBER, BYTES(""));
    if (text == NULL || item == NULL)
        return ST_NOMEM;
    item->text = bytes_str(text);
    return ST_OK;
}

/* Add the lengths of a number, or of a text "2048,4096". */
static enum status add_lengths(struct req *req, struct bytes name, const struct text_value *given,
                               struct text_value *list)
{
    struct field_strings parts;
    if (given->kind == TEXT_NUMBER)
        return add_length(req, name, given->text, list);
    if (given->kind != TEXT_STRING)
        return add_length(req, name, BYTES(""), list);
    TRY(ssh_list_items(req, "allowed_user_key_lengths", (const char *)given->text.data,
                       SSH_OPTIONS_MAX, &parts));
    if (parts.n == 0)
        return add_length(req, name, BYTES(""), list);
    for (size_t i = 0; i < parts.n; i++)
        TRY(add_length(req, name, bytes_str(parts.items[i]), list));
    return ST_OK;
}

enum status ssh_lengths_parse(struct req *req, const struct text_value *given,
                              const struct text_value **ret_lengths)
{
    struct text_value *all = text_value_new(req->arena, NULL, TEXT_OBJECT, BYTES(""));
    if (all == NULL)
        return ST_NOMEM;
    *ret_lengths = all;
    if (given == NULL || given->kind == TEXT_NULL)
        return ST_OK;
    if (given->kind != TEXT_OBJECT)
        return req_fail(req, ST_INVALID, "allowed_user_key_lengths: an object is expected");
    TEXT_FOR (member, given) {
        if (!is_known(member->name))
            return req_fail(req, ST_INVALID,
                            "allowed_user_key_lengths: \"%.*s\" is no type of keys",
                            (int)MIN(member->name.len, 80u), (const char *)member->name.data);
        struct text_value *list = text_value_new(req->arena, all, TEXT_LIST, member->name);
        if (list == NULL)
            return ST_NOMEM;
        if (member->kind == TEXT_LIST && member->n > SSH_OPTIONS_MAX)
            return req_fail(req, ST_INVALID, "allowed_user_key_lengths: more than %d lengths",
                            SSH_OPTIONS_MAX);
        if (member->kind != TEXT_LIST)
            TRY(add_lengths(req, member->name, member, list));
        else
            TEXT_FOR (item, member)
                TRY(add_lengths(req, member->name, item, list));
    }
    return ST_OK;
}

static bool has_length(const struct text_value *list, unsigned bits)
{
    int64_t n;
    TEXT_FOR (item, list)
        if (text_to_int(item, &n) == ST_OK && n == (int64_t)bits)
            return true;
    return false;
}

bool ssh_lengths_allow(const struct ssh_role *role, enum ssh_kind kind, unsigned bits,
                       struct reason *why)
{
    const struct text_value *all = role->allowed_user_key_lengths;
    bool typed = false;
    if (all == NULL || all->n == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        const struct text_value *list = text_get(all, lengths[i].name);
        if (kind < lengths[i].first || kind > lengths[i].last || list == NULL)
            continue;
        if (!lengths[i].listed || has_length(list, bits))
            return true;
        typed = true;
    }
    if (typed)
        reason_set(why, "key is of an invalid size: %u", bits);
    else
        reason_set(why, "key of type %s is not allowed", ssh_kind_name(kind));
    return false;
}

/* Rules */

static enum status check_blocks(struct req *req, const char *field, const char *text)
{
    struct field_strings blocks;
    struct cidr cidr;
    TRY(ssh_list_items(req, field, text, SSH_CIDRS_MAX, &blocks));
    for (size_t i = 0; i < blocks.n; i++)
        if (ssh_cidr_parse(bytes_str(blocks.items[i]), &cidr) != ST_OK)
            return req_fail(req, ST_INVALID, "%s: \"%.80s\" is no block of addresses", field,
                            blocks.items[i]);
    return ST_OK;
}

/* Whether the text has a comma or a blank; a template may have blanks. */
static bool has_blank(const char *text, bool is_template)
{
    bool inside = false;
    for (const char *p = text; *p != '\0'; p++) {
        if (is_template && (strncmp(p, "{{", 2) == 0 || strncmp(p, "}}", 2) == 0))
            inside = *p == '{';
        if (*p == ',' || (!inside && *p == ' '))
            return true;
    }
    return false;
}

static enum status check_otp(struct req *req, const struct ssh_role *role)
{
    if (role->default_user[0] == '\0')
        return req_fail(req, ST_INVALID, "default_user: an otp role needs a user");
    if (has_blank(role->default_user, role->default_user_template))
        return req_fail(req, ST_INVALID,
                        "default_user: one user without commas and blanks is expected");
    if (role->port < 1 || role->port > UINT16_MAX)
        return req_fail(req, ST_INVALID, "port: 1 to %d is expected", UINT16_MAX);
    TRY(check_blocks(req, "cidr_list", role->cidr_list));
    return check_blocks(req, "exclude_cidr_list", role->exclude_cidr_list);
}

static enum status check_key_id_format(struct req *req, const char *format)
{
    static const char *const names[] = {"token_display_name", "role_name", "public_key_hash"};
    if (strlen(format) > SSH_KEY_ID_MAX || !ssh_is_clean(format))
        return req_fail(req, ST_INVALID,
                        "key_id_format: up to %d characters, without control "
                        "characters",
                        SSH_KEY_ID_MAX);
    for (const char *at = format; (at = strstr(at, "{{")) != NULL;) {
        size_t i = 0;
        at += 2;
        while (i < ARRAY_LEN(names) && (strncmp(at, names[i], strlen(names[i])) != 0 ||
                                        strncmp(at + strlen(names[i]), "}}", 2) != 0))
            i++;
        if (i == ARRAY_LEN(names))
            return req_fail(req, ST_INVALID,
                            "key_id_format: {{token_display_name}}, {{role_name}} and "
                            "{{public_key_hash}} are the variables");
    }
    return ST_OK;
}

static enum status check_ca(struct req *req, const struct ssh_role *role)
{
    static const char *const signers[] = {"", "default", "ssh-rsa", "rsa-sha2-256", "rsa-sha2-512"};
    size_t i = 0;
    if (!role->allow_user_certificates && !role->allow_host_certificates)
        return req_fail(req, ST_INVALID,
                        "either allow_user_certificates or "
                        "allow_host_certificates must be true");
    while (i < ARRAY_LEN(signers) && strcmp(signers[i], role->algorithm_signer) != 0)
        i++;
    if (i == ARRAY_LEN(signers))
        return req_fail(req, ST_INVALID,
                        "algorithm_signer: default, rsa-sha2-256, rsa-sha2-512 "
                        "or ssh-rsa is expected");
    const struct text_value *all = role->allowed_user_key_lengths;
    if (ssh_settings()->fips && all != NULL && all->n != 0 &&
        (text_get(all, "ed25519") != NULL || text_get(all, "ssh-ed25519") != NULL ||
         text_get(all, "sk-ssh-ed25519@openssh.com") != NULL))
        return req_fail(req, ST_INVALID,
                        "allowed_user_key_lengths: ed25519 is not allowed in FIPS mode");
    return check_key_id_format(req, role->key_id_format);
}

static enum status check_templates(struct req *req, const struct ssh_role *role)
{
    const struct {
        const char *field, *text;
        bool is_template;
    } texts[] = {
        {"default_user", role->default_user, role->default_user_template},
        {"allowed_users", role->allowed_users, role->allowed_users_template},
        {"allowed_domains", role->allowed_domains, role->allowed_domains_template},
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (texts[i].is_template && !ssh_template_is_sound(texts[i].text))
            return req_fail(req, ST_INVALID,
                            "%s: the template is malformed: names such as "
                            "{{identity.entity.name}} are expected",
                            texts[i].field);
    for (size_t i = 0; i < role->default_extensions.n && role->default_extensions_template; i++)
        if (!ssh_template_is_sound(role->default_extensions.pairs[2 * i + 1]))
            return req_fail(req, ST_INVALID, "default_extensions: a template is malformed");
    return ST_OK;
}

static enum status check_lists(struct req *req, const struct ssh_role *role)
{
    const struct {
        const char *field, *text;
    } lists[] = {
        {"allowed_users", role->allowed_users},
        {"allowed_domains", role->allowed_domains},
        {"allowed_critical_options", role->allowed_critical_options},
        {"allowed_extensions", role->allowed_extensions},
    };
    struct field_strings items;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        TRY(ssh_list_items(req, lists[i].field, lists[i].text, SSH_NAMES_MAX, &items));
    return ST_OK;
}

enum status ssh_role_check(struct req *req, const struct ssh_role *role)
{
    ASSERT(role->ttl >= 0 && role->max_ttl >= 0 && role->not_before_duration >= 0);
    if (strlen(role->default_user) > SSH_USER_MAX || !ssh_is_clean(role->default_user))
        return req_fail(req, ST_INVALID,
                        "default_user: up to %d characters, without control "
                        "characters",
                        SSH_USER_MAX);
    if (role->max_ttl != 0 && role->ttl > role->max_ttl)
        return req_fail(req, ST_INVALID, "ttl: longer than max_ttl");
    TRY(check_lists(req, role));
    TRY(check_templates(req, role));
    return ssh_role_is_ca(role) ? check_ca(req, role) : check_otp(req, role);
}
