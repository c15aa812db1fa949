/* A request as its handler sees it.
 *
 * A handler is an ordinary function. It reads and stages through `txn`, makes one reply (or none:
 * 204) and returns ST_OK; or it returns another status, with req_fail if there is more to say than
 * the status does. It may be run several times for one request: everything it did before is then
 * forgotten, staged writes and reply included. It frees nothing. */
#ifndef HOLDFAST_ROUTER_REQUEST_REQ_H
#define HOLDFAST_ROUTER_REQUEST_REQ_H

#include "auth/acl_cache.h"
#include "auth/token.h"
#include "mount/mount.h"
#include "router/table/route.h"

struct fs_file;
struct router;
struct router_host;

enum { REQ_WARNINGS_MAX = 8, REQ_SCAN_MAX = 100000, REQ_DETAILS_MAX = 10000 };

enum reply_kind {
    REPLY_NONE, /* 204 */
    REPLY_DATA, /* `data` of the envelope */
    REPLY_BARE, /* the whole body, JSON */
    REPLY_RAW,  /* the whole body, of another type */
};

struct req_reply {
    enum reply_kind kind;
    int http;                 /* 0: 200, or 204 */
    const char *content_type; /* REPLY_RAW */
    const char *encoding;     /* REPLY_RAW: how the body is compressed; NULL: not */
    struct buf data;
    struct bytes borrowed; /* instead of `data`: JSON in the arena */
    const char *lease_id;  /* NULL: no lease is given; req_lease.h */
    bool renewable;        /* the lease */
    int64_t lease_duration_s;
    const char **warnings; /* room for REQ_WARNINGS_MAX, or NULL */
    unsigned n_warnings;
    bool insist;          /* a warning that turns a 204 into a 200 */
    struct buf auth;      /* the member `auth` of the envelope; empty: null */
    const char *accessor; /* of the token in `auth` */
};

/* Files that a route's `outside` takes and gives: it runs when there is no transaction any more. */
struct req_files {
    struct fs_file *upload; /* of ROUTE_UPLOAD; the router closes it */
    uint64_t upload_bytes;
    struct fs_file *reply; /* becomes the body of the reply, and the router's */
    uint64_t reply_bytes;
    const char *reply_type;
};

struct req {
    struct arena *arena;           /* the request's; wiped when the reply was sent */
    struct env *env;               /* of the worker that runs it */
    struct state_txn *txn;         /* NULL for routes about the node without a token */
    struct barrier_cipher *cipher; /* as txn */
    struct router_host *host;
    const struct router *router;   /* all tables */
    const struct dialect *dialect; /* of the request */
    const struct route *route;
    const struct route_api *api;
    const struct mount *mount;      /* until the transaction ends; NULL for APIs at fixed paths */
    const struct auth_token *token; /* NULL where none was asked for; until the reply is sent */
    struct token_ref *token_ref;    /* the cache entry that `token` lies in; NULL: the arena */
    const struct acl *acl;          /* rights of the token; NULL without a token */
    struct acl_cache *acls;         /* the worker's */
    struct bytes bearer;            /* the token as sent */
    const char *peer;               /* address and port of the client */
    struct bytes accept;          /* the header, for ROUTE_OPEN_METRICS alone; data NULL: absent */
    struct bytes accept_encoding; /* the header, for ROUTE_TOKEN_OPTIONAL alone */
    struct openapi_cache *docs;   /* the worker's */
    struct token_cache *tokens;   /* the worker's; NULL: none */
    struct mount_cache *mounts;   /* the worker's */
    const char *ns;               /* id of the namespace */
    const char *request_id;       /* UUID */
    /* METHOD_LIST, METHOD_SCAN also for GET ?list=true, ?scan=true; METHOD_OPTIONS for ?help=1. */
    enum http_method method;
    struct bytes path; /* below the dialect's root, canonical (path.h); a listed one ends in '/' */
    const struct text_value *data;  /* body, or query of a read; an object, never NULL */
    const struct text_value *query; /* an object, never NULL */
    struct route_params params;
    const void *body;   /* decoded by the route's schema */
    void *prepared;     /* made by `prepare`, in the arena; kept over all runs */
    int64_t now_ms;     /* cluster time */
    int64_t wrap_ttl_s; /* the reply is to be wrapped for so long; 0: not */
    struct req_reply reply;
    struct req_files files;
    struct reason error;
    bool closed_ceremonies; /* the listener's; of requests that need no state */
    bool begins_attempt; /* with key shares: its client is to have a share of requests of its own */
    const char *told;    /* log line to write after the commit; NULL: none */

    /* The router's. */
    const struct policy_rule *rule; /* allows the path, as long as `acl`; NULL: none is needed */
    struct req_cleanup *cleanups;
    struct bytes rest; /* the path below the API or mount */
    /* The path that policies and quotas know, if `path` is another spelling of it; else empty. */
    struct bytes rule_path;
    enum status matched;        /* of the tables */
    bool help;                  /* ?help=1: what the path is about, not what is there … */
    bool help_open;             /* … and every valid token may ask it */
    struct route_others others; /* after ST_UNSUPPORTED */
};

/* The text a pattern captured; the name stands in the route's pattern. */
const char *req_param(const struct req *req, const char *name);
/* A parameter of the query: empty when absent. ST_INVALID: given several times. */
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

/* Where and when this request looks for tokens. */
struct auth_scope req_scope(const struct req *req);
/* The ACL of a loaded token's policies, until the transaction ends. As acl_cache_get. */
NODISCARD enum status req_acl(struct req *req, const struct auth_token *token,
                              const struct acl **ret_acl);

/* Key under which this request's mount stores `path`. ST_NOMEM. */
NODISCARD enum status req_key(const struct req *req, const char *path, struct bytes *ret_key);

/* Stage the fields of the request at `key`, as they are read back: compact JSON with every digit.
 * ST_INVALID without any, ST_TOO_BIG; else as state_put. */
NODISCARD enum status req_put_object(struct req *req, struct bytes key);

/* Replies. All but the last are ST_OK or ST_NOMEM, so that a handler may end with them. */

/* A struct of the route's reply schema, enveloped or bare as the route says. */
NODISCARD enum status req_reply(struct req *req, const void *out);
/* Write `data` (or the bare body) by hand: one JSON object. End with req_reply_end. */
struct text_writer req_reply_begin(struct req *req);
NODISCARD enum status req_reply_end(struct req *req);
/* Write the envelope's `auth` by hand, beside data or instead of it: one JSON object. End with
 * req_reply_auth_end. */
struct text_writer req_reply_auth_begin(struct req *req);
NODISCARD enum status req_reply_auth_end(struct req *req);
/* {"keys": […]} is the data of every listing; an empty one is ST_NOT_FOUND. */
NODISCARD enum status req_reply_keys(struct req *req, const char *const *keys, size_t n);
/* The names below the whole key `prefix`, which ends in '/', folders once as "folder/". The query
 * may say to start behind the name `after`, and to give no more than `limit`. To SCAN: instead
 * every key below the prefix, REQ_SCAN_MAX at most; if there are more, a warning says how to go on.
 * ST_NOT_FOUND: there are none. ST_INVALID: a limit that is no number. Else as state_scan. */
NODISCARD enum status req_reply_listing(struct req *req, struct bytes prefix);
/* The same with a second member, `key_info`: for each name the one JSON value that `put` writes of
 * the whole key. REQ_DETAILS_MAX names at most, fewer where they take much memory; if there are
 * more, a warning says how to go on. Also what `put` returns. */
NODISCARD enum status req_reply_details(struct req *req, struct bytes prefix,
                                        enum status (*put)(struct req *req, struct bytes key,
                                                           struct text_writer *w));
/* One JSON object as the data, borrowed from the arena. */
void req_reply_json(struct req *req, struct bytes object);
NODISCARD enum status req_reply_raw(struct req *req, const char *content_type, struct bytes body);
/* A sentence that travels beside the data, even where there was no body. More than REQ_WARNINGS_MAX
 * are dropped. */
__attribute__((format(printf, 2, 3))) void req_warn(struct req *req, const char *format, ...);
/* The same, but only where there is a body anyway. */
__attribute__((format(printf, 2, 3))) void req_note(struct req *req, const char *format, ...);
/* Set the text of an error and return `st`, which is not ST_OK. */
__attribute__((format(printf, 3, 4))) enum status req_fail(struct req *req, enum status st,
                                                           const char *format, ...);

/* Embedded in something of the arena: `run` is called once the transaction has ended. */
struct req_cleanup {
    void (*run)(struct req_cleanup *cleanup);
    struct req_cleanup *next;
};
void req_defer(struct req *req, struct req_cleanup *cleanup);

#endif
