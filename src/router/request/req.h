/* A request as its handler sees it.
 *
 * A handler is an ordinary function. It reads and stages through `txn`, makes one reply (or none:
 * 204) and returns ST_OK; or it returns another status, by req_fail if the error needs a text of
 * its own. The router may run a handler several times for one request: the staged writes and the
 * reply of the earlier run are then dropped. A handler frees nothing. */
#ifndef HOLDFAST_ROUTER_REQUEST_REQ_H
#define HOLDFAST_ROUTER_REQUEST_REQ_H

#include "auth/acl_cache.h"
#include "auth/token.h"
#include "mount/mount.h"
#include "router/request/block.h"
#include "router/request/req_steps.h"
#include "router/table/route.h"

struct lease_quotas;
struct router;
struct router_host;
struct shared;
struct wrapping;

enum { REQ_WARNINGS_MAX = 8, REQ_SCAN_MAX = 100000, REQ_DETAILS_MAX = 10000 };

enum reply_kind {
    REPLY_NONE, /* no body: status 204 */
    REPLY_DATA, /* `data` of the envelope */
    REPLY_BARE, /* the handler's JSON is the whole body */
    REPLY_RAW,  /* the whole body has another type than JSON */
};

/* Leases that the request creates, and the quota that decides about all of them (quota_lease.h). */
struct req_leases {
    uint64_t n;
    bool known, noted; /* the other fields are set; the leases below `counted` are a precondition */
    uint64_t limit;    /* of the quota; 0: no quota decides */
    uint64_t stored;   /* leases that the quota counted before the request */
    struct bytes counted; /* the key that they begin with */
};

struct req_reply {
    enum reply_kind kind;
    int http;                 /* HTTP status; 0: 200, or 204 without a body */
    const char *content_type; /* type of the body of REPLY_RAW */
    const char *next_page;    /* where a list goes on, for the dialect's header; NULL: at its end */
    const char *encoding;     /* REPLY_RAW: how the body is compressed; NULL: not compressed */
    struct buf data;
    struct bytes borrowed; /* used instead of `data`: JSON in the arena */
    struct shared *shared; /* REPLY_RAW: used instead of `data`; borrowed from a cache */
    const char *lease_id;  /* NULL: no lease is given; req_lease.h */
    bool renewable;        /* whether the lease may be renewed */
    int64_t lease_duration_s;
    const char **warnings; /* room for REQ_WARNINGS_MAX, or NULL */
    unsigned n_warnings;
    bool insist;        /* a warning that turns a 204 into a 200 */
    struct buf auth;    /* the member `auth` of the envelope; empty: null */
    int64_t wrap_ttl_s; /* set by req_wrap, with `wrap_jwt`; 0: the client decides */
    bool wrap_jwt;
    const struct wrapping *wrapping;     /* the client gets this token instead; NULL: not wrapped */
    const char *accessor, *display_name; /* of the token in `auth`; NULL: there is none */
    int64_t issued_ms;
    struct req_leases leases;
};

struct req {
    struct arena *arena;           /* memory of the request; wiped when the reply was sent */
    struct env *env;               /* `env` of the worker */
    struct state_txn *txn;         /* NULL for routes about the node that need no token */
    struct barrier_cipher *cipher; /* cipher context; NULL where `txn` is NULL */
    struct router_host *host;
    const struct router *router;   /* has the tables of all modules */
    const struct dialect *dialect; /* dialect of the request */
    enum token_kind token_kind;    /* of the dialect: tokens that the request may use */
    const struct route *route;
    const struct route *likely; /* the row as guessed before `route`; NULL: no guess */
    const struct route_api *api;
    const struct mount *mount;      /* serves it, until the transaction ends; NULL at fixed paths */
    const struct auth_token *token; /* valid until the reply is sent; NULL: no token */
    struct token_ref *token_ref;    /* cache entry with `token`; NULL: `token` is in the arena */
    const struct auth_token *caller; /* `token`, for auth_scope; NULL: `txn` did not read the token,
                                        or this request may be its last use */
    const struct identity *identity; /* entity of the token; NULL: none, or the txn has ended */
    const struct acl *acl;           /* rights of the token; NULL without a token */
    struct acl_cache *acls;          /* ACL cache of the worker, for tokens of token_kind */
    struct bytes bearer;             /* the token as the client sent it */
    const char *peer;                /* address and port of the client */
    const _Atomic bool *left;        /* router_request.left */
    const char *member; /* name of the member that makes this request for itself; NULL: a client */
    struct bytes accept, accept_encoding; /* headers, for WHO_LISTENER, for WHO_OPTIONAL alone */
    struct bytes authority, user_agent;   /* headers Host, User-Agent, if the dialect reads them */
    struct openapi_cache *docs;           /* OpenAPI cache of the worker */
    struct token_cache *tokens;           /* token cache of the worker; NULL: none */
    struct identity_cache *identities;    /* entity cache of the worker */
    struct mount_cache *mounts;           /* mount cache of the worker */
    struct lease_quotas *lease_quotas;    /* quotas of leases as the worker knows them */
    const char *ns;                       /* id of the request's namespace */
    const char *request_id;               /* UUID of the request */
    /* The method that the request means: METHOD_LIST also for GET ?list=true, METHOD_SCAN also for
     * GET ?scan=true, METHOD_OPTIONS for ?help=1. */
    enum http_method method;
    struct bytes path; /* canonical, below the dialect's root; ends in '/' for a listing */
    const struct text_value *data;  /* the body, or the query of a read: an object, never NULL */
    const struct text_value *query; /* the query: an object, never NULL */
    struct route_params params;
    const void *body; /* the body, decoded by the route's schema */
    struct req_steps steps;
    void *prepared;   /* result of `prepare`, in the arena; kept when the handler runs again */
    int64_t now_ms;   /* cluster time of the request */
    uint16_t feature; /* feature level of the cluster */
    struct req_block block;  /* set by the dialect */
    enum req_mode mode;      /* of a read; set by the dialect */
    uint32_t max_stale_ms;   /* with REQ_STALE: an older state is not enough; 0: any is */
    struct bytes ns_unknown; /* a name of a namespace that there is not; empty: `ns` is set */
    /* greatest index of what the handler watches; of an INDEX_VERSION write its version; 0: none */
    uint64_t index;
    int64_t wrap_ttl_s; /* how long the wrapped reply is kept; 0: the reply is not wrapped */
    bool wrap_jwt;      /* if the reply is wrapped: the client asks for a JSON Web Token */
    struct req_reply reply;
    struct req_files files;
    struct reason *error; /* text of the error, in the arena; NULL: req_reason was not needed yet */
    /* the listener requires a token for ceremonies; set for requests that run without a state */
    bool closed_ceremonies;
    bool begins_attempt; /* an attempt with key shares; its client gets a share of requests */
    bool awaits;         /* this node soon knows better (req_await): the router runs it again */
    const char *told;    /* log line to write after the commit; NULL: none */

    /* The members below are for the router alone. */
    const struct policy_rule *rule; /* allows the path; lives as long as `acl`; NULL: not needed */
    struct req_cleanup *cleanups;
    struct bytes rest;          /* the path below the API or mount */
    struct bytes rule_path;     /* another spelling of `path`, by which rules know it; else empty */
    enum status matched;        /* result of matching the tables */
    bool help;                  /* ?help=1: the client asks for help about the path */
    bool help_open;             /* every valid token may ask for help about the path */
    bool creates;               /* a write of an object that was absent, for audit records */
    struct route_others others; /* methods of the path; set if `matched` is ST_UNSUPPORTED */
    struct req_watch *watches;  /* of the handler, the latest first */
};

const char *req_param(const struct req *req, const char *name); /* captured by the pattern */
/* Find a parameter of the query; *ret_text is empty when it is absent. ST_INVALID: it was given
 * several times. */
NODISCARD enum status req_query(struct req *req, const char *name, struct bytes *ret_text);

static inline const void *req_body(const struct req *req)
{
    ASSERT(req->body != NULL);
    return req->body;
}

/* Whether a transaction is open: in a handler and in `finish`, not in `prepare` and `outside`. */
static inline bool req_in_txn(const struct req *req)
{
    return req->txn != NULL && req->txn->open;
}

/* The transaction, the namespace and the time, as functions of `auth` take them. */
struct auth_scope req_scope(const struct req *req);
/* Get the ACL of a token's policies. Valid until the transaction ends. Statuses as
 * acl_cache_get. */
NODISCARD enum status req_acl(struct req *req, const struct auth_token *token,
                              const struct acl **ret_acl);

/* Key under which this request's mount stores `path`. ST_NOMEM. */
NODISCARD enum status req_key(const struct req *req, const char *path, struct bytes *ret_key);

/* Stage the fields of the request at `key`, as compact JSON that keeps every digit of a number.
 * ST_INVALID: there are no fields; ST_TOO_BIG; else as state_put. */
NODISCARD enum status req_put_object(struct req *req, struct bytes key);

/* Replies. Functions that return a status return ST_OK or ST_NOMEM, unless the comment says
 * otherwise, so a handler can end with one of them. */

/* Reply with a struct of the route's reply schema, in an envelope unless the route has
 * FORM_BARE. */
NODISCARD enum status req_reply(struct req *req, const void *out);
/* Begin to write the data, or the body without an envelope, by hand: one JSON object. End with
 * req_reply_end. */
struct text_writer req_reply_begin(struct req *req);
NODISCARD enum status req_reply_end(struct req *req);
/* Begin to write the envelope's `auth` by hand: one JSON object, with or without data in the same
 * reply. End with req_reply_auth_end. */
struct text_writer req_reply_auth_begin(struct req *req);
NODISCARD enum status req_reply_auth_end(struct req *req);
/* Reply with the data of a listing, {"keys": […]}. ST_NOT_FOUND: `n` is 0. */
NODISCARD enum status req_reply_keys(struct req *req, const char *const *keys, size_t n);
/* Reply with the names below the whole key `prefix`, which ends in '/'. A folder is listed once, as
 * "folder/". `after` in the query skips the names up to that name; `limit` bounds their number. A
 * SCAN lists every key below the prefix, REQ_SCAN_MAX at most; if there are more, a warning says
 * how to go on. ST_NOT_FOUND: there are no names. ST_INVALID: limit is no number. Else as
 * state_scan. */
NODISCARD enum status req_reply_listing(struct req *req, struct bytes prefix);
/* Names of any source, for req_reply_names. `next` gives the next name, which lives until the next
 * call. ST_NOT_FOUND: there are no more. Any other status ends the listing. */
struct req_names {
    enum status (*next)(struct req *req, struct req_names *names, struct bytes *ret_name);
};
/* As req_reply_listing, with the names behind `after` that the caller gives, in their order. */
NODISCARD enum status req_reply_names(struct req *req, struct req_names *names);
/* Begin to walk over the keys of `prefix` behind the parameter `after`. As state_scan; ST_INVALID:
 * `after` is given more than once, or too long. */
NODISCARD enum status req_scan_after(struct req *req, struct bytes prefix, struct state_iter *iter);
/* As req_reply_listing, with a second member `key_info`: one JSON value for each name, which `put`
 * writes for the whole key. REQ_DETAILS_MAX names at most, fewer where they take much memory; if
 * there are more, a warning says how to go on. Also any status that `put` returns. */
NODISCARD enum status req_reply_details(struct req *req, struct bytes prefix,
                                        enum status (*put)(struct req *req, struct bytes key,
                                                           struct text_writer *w));
/* Reply with one JSON object as the data. It lies in the arena and is not copied. */
void req_reply_json(struct req *req, struct bytes object);
/* Reply with a whole body that is not JSON. `body` is copied. */
NODISCARD enum status req_reply_raw(struct req *req, const char *content_type, struct bytes body);
/* Add a warning to the reply. A reply without a body gets a body for the warning. Warnings above
 * REQ_WARNINGS_MAX are dropped. */
__attribute__((format(printf, 2, 3))) void req_warn(struct req *req, const char *format, ...);
/* Add a warning, unless the reply otherwise has no body. */
__attribute__((format(printf, 2, 3))) void req_note(struct req *req, const char *format, ...);
/* Check that the cluster has the feature level that the handler needs. ST_BUSY, with an error that
 * names the members whose build is older. */
NODISCARD enum status req_need_feature(struct req *req, uint16_t level);
/* This node has just started, or the cluster is about to rise to a feature level: what the handler
 * does now may be wrong in a moment. The router runs the request again for up to two seconds, and
 * then sends what the handler said last. */
static inline void req_await(struct req *req)
{
    req->awaits = true;
}
/* Set the text of an error and return `st`, which is not ST_OK. */
__attribute__((format(printf, 3, 4))) enum status req_fail(struct req *req, enum status st,
                                                           const char *format, ...);

/* Where to write the text of the request's error. Without memory the text is lost. */
struct reason *req_reason(struct req *req);
const struct reason *req_error(const struct req *req); /* the text; empty: there is none */
void req_forget_error(struct req *req);

/* A cleanup, embedded in memory of the arena. */
struct req_cleanup {
    void (*run)(struct req_cleanup *cleanup);
    struct req_cleanup *next;
};
/* Call cleanup->run when the transaction has ended. */
void req_defer(struct req *req, struct req_cleanup *cleanup);

#endif
