/* Clients that show tokens: they make, use, renew and revoke them, and write under check-and-set,
 * through src/auth and src/state on every node. The replies that they get are a log, judged at the
 * end.
 *
 *   late        nothing succeeds for a token that began after it, or an ancestor, had expired;
 *   early       nothing is refused before that, unless something was revoked or its uses are spent;
 *   revoked     nothing succeeds that began after the end of the token, or of an ancestor, was
 *               acknowledged;
 *   uses        never more successes than uses, and no two that leave the same number;
 *   cas         versions of a register are linearizable, and each has one writer;
 *   policy      what begins after an edit of a token's policy was acknowledged goes by that edit,
 *               or by a later one;
 *   keys        under new keys, everything can still be read;
 *   leases      a lease is good as a child of the token that took it would be, but ends with this
 *               token in every case. The log has it as such a child;
 *   batch       a batch token is good as a child of its parent would be, but ends with the
 *               parent in every case; it is never renewed nor revoked;
 *   wrapping    a wrapped reply is taken once, by an unwrap or a rewrap, and is the reply that
 *               was wrapped; after that, and after its time, its token is good for nothing;
 *   registry    a token of the registry is as good as any other, and goes by edits of its ACL
 *               policy as other tokens by those of theirs;
 *   below       no lease is good, or left at the end of the run, that was given before the
 *               acknowledged end of all leases below its folder and after the work of this end;
 *               such an end does not touch leases of other folders, nor later ones. */
#ifndef HOLDFAST_SIM_FRONT_H
#define HOLDFAST_SIM_FRONT_H

#include "cluster.h"

enum {
    FRONT_ROOT = 0,             /* number of the token from which all others come */
    FRONT_KEYS = 3,             /* registers */
    FRONT_FOLDERS = FRONT_KEYS, /* of leases: lease n lies in folder n % FRONT_FOLDERS */
    FRONT_POLICIES = 2, /* of the secrets service; the registry has as many, numbered behind them */
    FRONT_TEXT = 300,   /* of a finding */
    FRONT_BEARER = 512, /* with its end: what a node makes, for a batch token or a wrapping token */
    /* From one leader to the next cluster time may step back, by as long as the last question
     * took, or since the last entry when no voter heard a later time and lives (PROTOCOL R16). */
    FRONT_SLACK_MS = 2000,
};

enum front_kind {
    FRONT_BOOTSTRAP, /* make the root token */
    FRONT_LOOK,      /* read a register: on any node */
    FRONT_CAS,       /* write one, if its version is `expect` */
    FRONT_CREATE,    /* token `about` */
    FRONT_RENEW,
    FRONT_REVOKE,
    FRONT_POLICY, /* edit one */
    FRONT_REKEY,  /* new keys */
    FRONT_TAKE,   /* lease `about` for token `by` */
    FRONT_USE,    /* ask for lease `by`: on any node */
    FRONT_BELOW,  /* end all leases of folder `key` */
    FRONT_WRAP,   /* wrap a reply with the value `number`: wrapping token `about` */
    FRONT_PEEK,   /* look up wrapping token `by`: on any node */
    FRONT_UNWRAP, /* take what wrapping token `by` keeps */
    FRONT_ASK,    /* read a register with a token of the registry: on any node */
    FRONT_REWRAP, /* the same, into wrapping token `about` */
};

struct front_op {
    enum front_kind kind;
    unsigned client, attempt;
    uint64_t number; /* unique; the value that is written */
    uint64_t by;     /* the token that is shown */
    uint64_t about;  /* the token it is about */
    uint64_t key, expect;
    int64_t ttl_s, explicit_max_s, uses; /* 0: not given */
    bool orphan;                         /* create: without parent */
    bool spare;                          /* revoke: its children become orphans */
    uint64_t policy;                     /* that is edited, or that the new token has */
    bool allow;                          /* what it shall say; below: by force */
    bool root;                           /* rekey: the root key, else a key of the ring */
    bool migrate;                        /* rekey of the root: to seal `policy` instead */
    bool lease;                          /* renew, revoke: `about` is a lease */
    bool batch;                          /* create: a batch token */
    bool registry;                       /* create, revoke, policy, ask: of the registry */
    /* Of `by` and `about`, if a node made them; NULL: the client chose them. Of the log. */
    const char *by_bearer, *about_bearer;
    struct rlog_request_id id;
};

enum front_verdict {
    FRONT_DONE,
    FRONT_DIFFER,    /* the token is good; the version, or the token it is about, is not */
    FRONT_FORBIDDEN, /* the token is good, its policy forbids it */
    FRONT_REFUSED,   /* the token is not good */
    FRONT_FAILED,    /* nothing happened, by this attempt */
    FRONT_UNKNOWN,   /* it may have happened, or may yet */
};

/* What a node says; kept by the program for repeated requests. */
struct front_answer {
    uint64_t number; /* of the operation */
    enum front_verdict verdict;
    bool found;            /* revoke: there was something to end; below: all have ended */
    int64_t time_ms;       /* cluster time by which it was judged */
    int64_t expire_ms;     /* of the token that was shown */
    int64_t uses_left;     /* of that, -1: not limited */
    int64_t new_expire_ms; /* of the token that was made or renewed */
    uint64_t version, value;
};

struct front_reply {
    struct event event;
    struct cluster *cluster;
    struct front_op op;
    struct front_answer answer;
    char bearer[FRONT_BEARER]; /* that was made; "": none */
    uint64_t state_version;
    unsigned slot; /* who answered */
};

/* front_ops.c: a node's side. */

/* Send `op` to a node; a reply comes to front_replied, or never. */
void front_send(struct cluster *c, const struct front_op *op, unsigned slot);
/* Background work on the leader, again and again, until the end of the run. */
void front_sweep_start(struct cluster *c);
/* What the register holds on that node. */
uint64_t front_version(struct node *n, uint64_t key);

/* front_index.c: run until the expiry index is settled, and fail unless it fits the tokens. */
void front_index_check(struct cluster *c);

/* front.c: the clients. */
void front_replied(const struct front_reply *reply);

/* front_judge.c: the log. */

/* An operation that may have happened. */
struct front_event {
    struct front_op op;
    struct front_answer answer;        /* the verdict is UNKNOWN where none came */
    uint64_t call_ns, ret_ns;          /* LIN_NEVER: unknown */
    int64_t seen_call_ms, seen_ret_ms; /* the latest cluster time in answers until then */
};

struct front_list {
    size_t *all, n;
};

struct front_token {
    uint64_t parent;
    bool orphan;
    int64_t uses;    /* 0: any number */
    uint64_t policy; /* that it has; not the root token */
    bool lease;      /* no token, but a lease of `parent` */
    bool batch;      /* not stored */
    bool registry;   /* of the registry */
    bool wrapping;   /* keeps `value`, for one use */
    uint64_t value;
    char *bearer;            /* batch, wrapping: as a reply gave it; NULL: no reply did */
    struct front_list by;    /* events in which it was shown … */
    struct front_list about; /* … or which were about it */
};

struct front_log {
    struct front_event *events;
    size_t n_events;
    struct front_token *tokens; /* by number */
    size_t n_tokens;
    /* To begin with, those of the secrets service allow, and the registry has none. */
    struct front_list edits[2 * FRONT_POLICIES];
    struct front_list below[FRONT_FOLDERS];
};

uint64_t front_log_token(struct front_log *log, const struct front_token *token); /* its number */
void front_log_add(struct front_log *log, const struct front_event *event);
void front_log_done(struct front_log *log);
/* Whether operations can show the token. A token that a node makes has no bearer until a reply
 * gives it. */
bool front_token_is_known(const struct front_token *token);
/* Whether tokens did what they must; `text` says what not. */
bool front_judge(const struct front_log *log, char text[FRONT_TEXT]);
/* Whether the lease may be stored after all marks were followed. */
bool front_judge_left(const struct front_log *log, uint64_t lease);
/* The same of a register. `end`: its version at the end, UINT64_MAX: unknown. */
bool front_judge_register(const struct front_log *log, uint64_t key, uint64_t end,
                          bool *ret_too_hard, char text[FRONT_TEXT]);

#endif
