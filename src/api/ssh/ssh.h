/* The SSH engine: certificates and one-time passwords for SSH.
 *
 * Below the data of a mount:
 *
 *   role/NAME              a role (ssh_role.c), JSON
 *   cidr/BLOCK/NAME        the role serves the addresses of a block (ssh_lookup.c)
 *   nocidr/BLOCK/NAME      the role refuses the addresses of a block
 *   ca                     both halves of the key that signs (ssh_ca.c)
 *   zeroaddress            names of the roles that serve every address (ssh_lookup.c), JSON
 *   otp/MAC                a one-time password that was not used yet (ssh_otp.c) */
#ifndef HOLDFAST_API_SSH_SSH_H
#define HOLDFAST_API_SSH_SSH_H

#include "crypto/ssh_cert.h"
#include "router/req_lease.h"
#include "router/table/module.h"
#include "text/cidr.h"

extern const struct module ssh_module;

/* Settings of the configuration file; called once, before the node starts. `key_id_prefix` outlives
 * the server. */
struct ssh_settings {
    bool sign_requires_create;
    bool fips; /* no Ed25519 */
    const char *key_id_prefix;
};
void ssh_settings_in(const struct ssh_settings *settings);
const struct ssh_settings *ssh_settings(void);

extern const struct route_table ssh_role_table, ssh_ca_table, ssh_sign_table, ssh_otp_table,
    ssh_lookup_table;
extern const struct lease_kind ssh_otp_kind;

enum {
    SSH_NAMES_MAX = 1024,      /* items of one list of a role */
    SSH_TEXT_MAX = 64 * 1024,  /* bytes of one list */
    SSH_CIDRS_MAX = 1024,      /* blocks of one list */
    SSH_OPTION_MAX = 8 * 1024, /* bytes of the value of one option */
    SSH_OPTIONS_MAX = 64,      /* options of one section */
    SSH_ROLE_MAX = 255,        /* bytes of the name of a role */
    SSH_USER_MAX = 255,        /* bytes of a principal */
    SSH_KEY_ID_MAX = 1024,
    SSH_HOST_MAX = 253, /* RFC 1035 3.1, without the dot at the end */
};

/* A role as it is stored. Lists are texts "a,b", as clients write and read them. */
struct ssh_role {
    const char *key_type;
    const char *default_user, *cidr_list, *exclude_cidr_list, *allowed_users, *allowed_domains;
    const char *allowed_critical_options, *allowed_extensions, *key_id_format, *algorithm_signer;
    bool default_user_template, allowed_users_template, allowed_domains_template;
    bool default_extensions_template, allow_user_certificates, allow_host_certificates;
    bool allow_bare_domains, allow_subdomains, allow_user_key_ids, allow_empty_principals;
    int64_t port, ttl, max_ttl, not_before_duration;
    struct field_map default_critical_options, default_extensions;
    const struct text_value *allowed_user_key_lengths; /* each name with a list of numbers */
};
static inline bool ssh_role_is_ca(const struct ssh_role *role)
{
    return strcmp(role->key_type, "ca") == 0;
}

/* ssh_role.c: the role of a name. ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status ssh_role_load(struct req *req, const char *name, struct ssh_role *ret_role);

/* ssh_role_check.c: whether a role makes sense. ST_INVALID with the request's error. */
NODISCARD enum status ssh_role_check(struct req *req, const struct ssh_role *role);
/* Write what a client gave as key lengths with lists of numbers. ST_INVALID with the request's
 * error; ST_NOMEM. */
NODISCARD enum status ssh_lengths_parse(struct req *req, const struct text_value *given,
                                        const struct text_value **ret_lengths);
/* Whether a role allows a key; the reason names kind and lengths. */
bool ssh_lengths_allow(const struct ssh_role *role, enum ssh_kind kind, unsigned bits,
                       struct reason *why);

/* ssh_text.c: read what clients give. */
/* A list as a text: a string as it is, an array joined with commas. ST_INVALID with an error that
 * names the field: another kind, an item with a comma, control characters, too long. ST_NOMEM. */
NODISCARD enum status ssh_list_text(struct req *req, const char *field,
                                    const struct text_value *given, const char **ret_text);
/* The items of a list: parts between commas, without the spaces around them, each once. ST_INVALID
 * with an error that names the field: an empty part, more than `max`. ST_NOMEM. */
NODISCARD enum status ssh_list_items(struct req *req, const char *field, const char *text,
                                     size_t max, struct field_strings *ret_items);
bool ssh_list_has(const struct field_strings *list, const char *item);
/* A duration in whole seconds whose largest unit is the hour; NULL and "" give 0. ST_INVALID with
 * an error that names the field. */
NODISCARD enum status ssh_seconds(struct req *req, const char *field, const char *text,
                                  int64_t *ret_s);
/* Valid UTF-8 without control characters, and without characters that hide or reorder others. */
bool ssh_is_clean(const char *text);
/* Whether the pairs are options that sshd can read. Adds warnings to `warnings` for those that some
 * software refuses. ST_INVALID with an error that names the field. */
struct ssh_warnings {
    const char *items[REQ_WARNINGS_MAX];
    size_t n;
};
NODISCARD enum status ssh_options_check(struct req *req, const char *field,
                                        const struct field_map *options,
                                        struct ssh_warnings *warnings);
__attribute__((format(printf, 3, 4))) void ssh_warn(struct req *req, struct ssh_warnings *warnings,
                                                    const char *format, ...);

/* ssh_template.c: fill "{{identity.…}}" in a text with the data of the entity of the request's
 * token. Without an entity, and where a value is missing, the text stays as it is, and *ret_filled
 * is false. ST_NOMEM. */
NODISCARD enum status ssh_template_fill(struct req *req, const char *text, const char **ret_text,
                                        bool *ret_filled);
/* Whether every "{{" has its "}}", and what stands between them is a name below "identity.". */
bool ssh_template_is_sound(const char *text);

/* ssh_lookup.c */
/* Read a block; host bits may be set. ST_INVALID, also for "/0" behind an address that is not 0. */
NODISCARD enum status ssh_cidr_parse(struct bytes text, struct cidr *ret_cidr);
/* Stage the change of the index of blocks from one role to another; NULL: there is none. ST_INVALID
 * with the request's error. */
NODISCARD enum status ssh_blocks_change(struct req *req, const char *name,
                                        const struct ssh_role *from, const struct ssh_role *to);
/* Whether a role serves an address. */
NODISCARD enum status ssh_role_serves(struct req *req, const char *name,
                                      const struct ssh_role *role, const struct ip *ip,
                                      bool *ret_serves);
/* Stage that a role is no zero-address role any more. */
NODISCARD enum status ssh_zero_drop(struct req *req, const char *name);

/* ssh_ca.c: both halves of the key that signs, as stored. */
struct ssh_ca {
    struct bytes public_key;  /* on the wire */
    struct bytes private_key; /* ssh_private_save */
};
/* ST_NOT_FOUND: there is none. ST_CORRUPT; else as state_get. */
NODISCARD enum status ssh_ca_load(struct req *req, struct ssh_ca *ret_ca);
/* The kind and the bits that a client names. ST_INVALID with the request's error: they are unknown
 * or do not fit together. `rsa_bits` are those of RSA where `bits` is 0. */
struct ssh_make {
    enum ssh_kind kind;
    unsigned bits;
};
NODISCARD enum status ssh_make_parse(struct req *req, const char *type, int64_t bits,
                                     unsigned rsa_bits, struct ssh_make *ret_make);

/* ssh_domain.c: a name of a host, in lower case: labels of ASCII letters, digits, '-' and '_', or
 * an address. `*ret_star`: the first label is "*". False: another form. */
bool ssh_host_fold(const char *text, char *ret_folded, bool *ret_star);
/* Whether a role allows a folded name. `domains` are the items of allowed_domains. */
bool ssh_host_allowed(const struct ssh_role *role, const struct field_strings *domains,
                      const char *folded);

/* Warn where no host can match allowed_domains of a role. */
void ssh_domains_judge(struct req *req, const struct ssh_role *role, struct ssh_warnings *warnings);

/* ssh_plan.c: the eight checks, and what follows from them. */
struct ssh_wish {
    const char *ttl, *cert_type, *key_id;
    const struct text_value *valid_principals; /* NULL: the field is absent */
    bool has_ttl;
    struct field_map critical_options, extensions;
};
struct ssh_plan {
    struct ssh_public key;
    struct ssh_cert cert;
    const char *role_name;
    enum ssh_digest digest;
    struct ssh_ca ca;
    bool issues;          /* the key is made first */
    struct ssh_make make; /* of `issues` */
    const struct ssh_role *role;
    const struct ssh_wish *wish;
    struct ssh_warnings warnings;
};
/* Check a request and set the certificate of `plan`, whose key, issues and make are set. ST_INVALID
 * with the request's error. */
NODISCARD enum status ssh_plan_make(struct req *req, struct ssh_plan *plan);
/* Set the key id by request and role, once the key is known. ST_INVALID with the request's error;
 * ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status ssh_plan_key_id(struct req *req, struct ssh_plan *plan);

/* ssh.c: counts of the process, for metrics. */
enum ssh_count {
    SSH_COUNT_SIGNED,
    SSH_COUNT_REFUSED_KEY,
    SSH_COUNT_REFUSED_KEY_ID,
    SSH_COUNT_REFUSED_TYPE,
    SSH_COUNT_REFUSED_PRINCIPALS,
    SSH_COUNT_REFUSED_TTL,
    SSH_COUNT_REFUSED_OPTIONS,
    SSH_COUNT_REFUSED_EXTENSIONS,
    SSH_COUNT_VERIFIED,
    SSH_COUNT_NOT_VERIFIED,
    SSH_COUNTS,
};
void ssh_count(enum ssh_count which);

#endif
