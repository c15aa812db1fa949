/* The columns of a row of a route table. Each is read by one phase of the pipeline, which its
 * comment names; 0 is the value of most rows. route_check refuses combinations without a sense. */
#ifndef HOLDFAST_ROUTER_TABLE_ROUTE_COLUMNS_H
#define HOLDFAST_ROUTER_TABLE_ROUTE_COLUMNS_H

/* Where a request runs (pipe_choose). */
enum route_place {
    /* a request that only reads: on any node that answers reads; any other: on the active node */
    PLACE_ANY,
    /* A route about this node: served here and never forwarded. If the route needs no token, there
     * is no transaction, so a sealed node serves the route too. */
    PLACE_NODE,
    /* A read that also tells about this node: confirmed as every read, and never forwarded. */
    PLACE_STAYS,
    PLACE_ACTIVE, /* on the active node, even if it only reads */
    /* on the active node; without a quorum, on the node that the client asked */
    PLACE_ACTIVE_OR_LOCAL,
    /* on the leader of the log, even if the cluster is not initialised or is sealed */
    PLACE_LEADER,
};

/* The token that a request needs (pipe_admit, stage_authorise). */
enum route_who {
    WHO_RIGHT,          /* a token that has `caps` on the path */
    WHO_ANY_TOKEN,      /* any valid token; the handler checks more */
    WHO_OPTIONAL,       /* no token, or any valid token */
    WHO_OPTIONAL_RIGHT, /* no token, or a token that has `caps` on the path */
    WHO_LISTENER,       /* as WHO_RIGHT; no token where the listener says so (open metrics) */
    /* As WHO_RIGHT; on a DR secondary the body's `dr_operation_token` takes the place of the
     * client's token (req_dr.h). Served by a DR secondary, as with WHEN_SECONDARY. */
    WHO_DR_TOKEN,
    /* A wrapping token. In the place of the client's token, the policy of wrapping tokens decides.
     * In the field `token` of the body, the client needs a token of its own that has `caps` on the
     * path. Decided after the body was parsed. */
    WHO_WRAPPING,
    WHO_ANYONE, /* no token: the router reads none */
    /* Part of a ceremony with key shares. The handler sees the token of a request whose token may
     * do this. Other requests are anonymous: a listener may refuse them
     * (authenticated_ceremonies), and their rate is limited. */
    WHO_CEREMONY,
};

/* Conditions of the node or cluster in which the route is served as always (pipe_choose). */
enum route_when {
    WHEN_MAINTENANCE = 1 << 0,   /* during maintenance, as PLACE_NODE is */
    WHEN_SECONDARY = 1 << 1,     /* by a DR secondary too, and by a superseded primary */
    WHEN_UNINITIALIZED = 1 << 2, /* with PLACE_NODE: while initial members are awaited */
};

/* The form of the reply (the dialect, and pipe_reply). */
enum route_form {
    FORM_ENVELOPE,
    FORM_BARE,      /* the reply is the whole body, without an envelope */
    FORM_TOP_LEVEL, /* the envelope repeats the members of data */
    FORM_TOKEN,     /* the reply is a token, in the envelope's `auth` */
};

/* The body of a request (pipe_body). */
enum route_input {
    INPUT_FIELDS, /* the fields of `body` */
    INPUT_FREE,   /* also fields that `body` does not know */
    /* The body is written into a file, after the handler and before `outside`; it has no fields.
     * The route stages nothing, and may take long. */
    INPUT_UPLOAD,
};

/* Whether the reply has an index of the state (pipe_park, pipe_handle). */
enum route_indexed {
    INDEX_NONE,
    INDEX_BLOCKS,  /* a GET whose result has an index: a client may wait for a newer result */
    INDEX_VERSION, /* a write whose reply tells the version of its commit (REPLY_VERSION) */
};

/* Whether the row is an operation of the API (route_match). */
enum route_kind {
    ROW_SERVES,
    /* Serves requests that no other row takes, of any method, with an error that names the right
     * path. */
    ROW_ASTRAY,
    /* A path of the upstream product that is not built. Serves requests of any method that no other
     * row takes. The reply to a token with a right on the path is 404 with the row's help. Not in
     * the OpenAPI document, which clients read as what is served. */
    ROW_ABSENT,
};

enum route_flag {
    ROUTE_SUDO = 1 << 0,  /* needs CAP_SUDO too */
    ROUTE_READS = 1 << 1, /* a POST that stages nothing */
    ROUTE_HEAD = 1 << 2,  /* a GET that also serves HEAD */
    ROUTE_SCANS = 1 << 3, /* a LIST that also serves SCAN: every key below the folder */
    ROUTE_LONG = 1 << 4,  /* the listener's request_ms does not bound it */
    ROUTE_UNRECORDED =
        1 << 5,             /* a probe that shows no stored data: audit devices do not record it */
    ROUTE_CREATES = 1 << 6, /* a POST that CAP_CREATE permits as CAP_UPDATE does */
};

#endif
