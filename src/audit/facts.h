/* The content of the records of a request and of its reply, with the names of upstream's audit
 * entries: programs that read upstream's logs can read these records.
 *
 * Both records of a request repeat the members "auth" and "request". They are written once, as a
 * part that the records share. */
#ifndef HOLDFAST_AUDIT_FACTS_H
#define HOLDFAST_AUDIT_FACTS_H

#include "audit/record.h"
#include "text/schema.h"

/* The rule of a policy that decided about a request. */
struct audit_rule {
    const char *path;              /* pattern of the rule; NULL: no rule fits the path */
    struct field_strings policies; /* names of the policies that have the rule */
    struct field_strings caps;     /* capabilities that the rule gives */
};

/* The sender. Members are NULL, empty and 0 where unknown. */
struct audit_auth {
    struct bytes client_token; /* as the client sent it */
    const char *accessor, *display_name, *entity_id, *token_type;
    struct field_strings policies, identity_policies; /* of the token; of its entity */
    struct field_strings all_policies;                /* both; empty: `policies` */
    struct field_map metadata;
    bool no_default_policy;
    int64_t remaining_uses, ttl_s;
    int64_t issued_ms; /* 0: unknown */
    bool judged;       /* policies were asked: `allowed` and `rule` are set */
    bool allowed;
    struct audit_rule rule; /* `path` and `caps` are for a rule that denies */
};

/* The mount that serves the request; NULL where unknown. */
struct audit_mount {
    const char *point, *type, *accessor, *class;
};

/* A header of a request that the configuration names, with the value of each of its lines. */
struct audit_header_fact {
    const char *name;
    const struct bytes *values;
    size_t n_values;
    bool hmac;
};

enum { AUDIT_SHOWN_HEADERS_MAX = 64 };

struct audit_facts {
    const char *request_id, *operation, *ns, *peer;
    struct bytes path;
    struct audit_auth auth;
    struct audit_mount mount;
    const struct text_value *data; /* parameters or parsed body; NULL: not read */
    int64_t wrap_ttl_s;
    const struct audit_header_fact *headers; /* AUDIT_SHOWN_HEADERS_MAX at most */
    unsigned n_headers;
    struct field_strings exempt;   /* keys whose values in `data` stay readable */
    const struct schema *declared; /* the fields of the body; NULL: unknown */
    struct audit_spare *spare;     /* for the records, as audit_writer_begin has it */
};

struct audit_wrapping {
    struct bytes token;
    const char *accessor, *wrapped_accessor, *creation_path; /* "": none */
    int64_t ttl_s, creation_time_ms;
};

struct audit_reply_header {
    struct bytes name, value;
};

struct audit_reply {
    int http;
    const struct text_value *auth; /* the new token, as the reply describes it; NULL: none */
    const char *display_name;      /* of the new token; NULL: there is none */
    int64_t issued_ms;             /* when the new token was made; 0: there is none */
    struct bytes data;             /* JSON; empty: none */
    bool listing;                  /* `data` has the names of a listing */
    struct field_strings exempt;   /* keys whose values in `data` stay readable */
    const char *raw_type;          /* type of a body that is not recorded; NULL: there is none */
    uint64_t raw_bytes;            /* length of that body */
    const char *lease_id;          /* NULL: none */
    const char *const *warnings;
    size_t n_warnings;
    const struct audit_wrapping *wrapping; /* NULL: the reply is not wrapped */
    const struct audit_reply_header *headers;
    size_t n_headers;
    bool forwarded; /* another node received the request */
};

/* Write the members that both records share. ST_NOMEM, ST_TOO_BIG. */
NODISCARD enum status audit_facts_write(const struct audit_facts *facts,
                                        struct audit_record **ret_part);
/* Make the record of a request. `error`: text of the refusal; NULL or "": none. ST_NOMEM. */
NODISCARD enum status audit_facts_request(struct audit_record *part, int64_t time_ms,
                                          const char *error, struct audit_record **ret_record);
/* The data of a reply is the envelope of another reply, which an unwrap gave: describe the members
 * of that reply instead, its token as `auth`. Data of another form stay. `text` keeps the new data;
 * other texts lie in the arena. ST_NOMEM. */
NODISCARD enum status audit_facts_open(struct arena *arena, struct buf *text,
                                       struct audit_reply *reply);
/* Make the record of a reply. ST_NOMEM, ST_TOO_BIG. */
NODISCARD enum status audit_facts_reply(struct audit_record *part, int64_t time_ms,
                                        const struct audit_reply *reply, const char *error,
                                        struct audit_record **ret_record);

#endif
