/* The link to the other cluster, as this node knows it right now: facts in memory, for the status,
 * health, metrics and the checks before a promotion. The threads of the link write them, any thread
 * reads them. Nothing here is stored, and nothing that must be right depends on it. */
#ifndef HOLDFAST_CLUSTER_DR_LIVE_H
#define HOLDFAST_CLUSTER_DR_LIVE_H

#include "cluster/dr/link/dr_frame.h"

#include <pthread.h>

enum { DR_PEERS_MAX = DR_ADDRESSES_MAX };

/* State of the connections to the primary, in the words that clients know from gRPC. */
enum dr_connection {
    DR_LINK_IDLE,
    DR_LINK_CONNECTING,
    DR_LINK_READY,
    DR_LINK_FAILED,
    DR_LINK_ENDED
};
const char *dr_connection_text(enum dr_connection state);

/* A cluster or node at the other end, as this node last heard it. */
struct dr_peer {
    char id[DR_ID_MAX];           /* on a primary: the secondary's id */
    char address[DR_ADDRESS_MAX]; /* on a secondary: host:port of the primary's node; else "" */
    char
        connected_from[DR_ADDRESS_MAX]; /* on a primary: where the secondary's connection is from */
    char api[DR_URL_MAX];               /* URL of the other node's API, as it told it; "" */
    char
        cluster[DR_ADDRESS_MAX]; /* on a primary: the secondary's cluster port, as it told it; "" */
    bool connected;
    int64_t heard_wall_ms;  /* this node's wall clock at the last heartbeat; 0: never */
    uint64_t heard_ms;      /* the same, monotonic */
    int64_t skew_ms;        /* the other node's clock minus ours */
    uint64_t round_trip_us; /* of the last heartbeat; 0: not measured */
    uint64_t position;      /* version of the secondary's state; of the primary's, on a secondary */
    int64_t lag_ms; /* on a primary: age of what the secondary has, by this node's own stamps; -1:
                       not known */
    uint64_t behind_bytes; /* on a primary: bytes of records that the secondary lacks */
    uint64_t settled;      /* on a primary: of the newest PING; 0: not known */
    uint64_t verified;     /* newest version at which both roots were equal; 0: none */
    bool differs;          /* the roots differed at the last comparison */
};

/* How far a sync has come. */
struct dr_progress {
    uint64_t done, total; /* keys */
};

/* Difference syncs since the process began, and the last one. */
struct dr_diff_facts {
    uint64_t syncs, repairs; /* repairs: because the roots differed */
    uint64_t bytes, fetched; /* of the last one: on the wire, keys */
    uint64_t lost;           /* keys that only this cluster had, after a failover */
    char lost_file[48];      /* where they are, in the data directory; "" */
};

/* Checks of the hashes of this node's tree (check.h). */
struct dr_check_facts {
    bool corrupted;                   /* the last check found wrong hashes */
    bool reindexes;                   /* the check that runs replaces wrong hashes */
    uint64_t done, total;             /* keys, while a check runs; `total` 0: none runs */
    int64_t checked_ms, reindexed_ms; /* wall clock of the ends; 0: never */
};
/* Another primary of this set, whose epoch is not below ours: a conflict for operators. */
struct dr_conflict {
    uint64_t epoch;              /* of the other primary; 0: there is no conflict */
    char source[DR_ADDRESS_MAX]; /* id of our secondary, or address: where we heard it */
    uint64_t heard_ms;           /* monotonic: when it was heard last */
};
enum { DR_CONFLICT_MS = 60000 }; /* a conflict that was not heard for so long has ended */

struct dr_facts {
    struct dr_conflict conflict;             /* on a primary */
    char known_ids[DR_PEERS_MAX][DR_ID_MAX]; /* on a primary: secondaries that have a token */
    unsigned n_known;
    struct dr_peer peers[DR_PEERS_MAX]; /* secondaries of a primary, or nodes of the primary */
    unsigned n_peers;

    /* The members below are those of a secondary's active node. */
    enum dr_connection connection;
    char connected_to[DR_ADDRESS_MAX]; /* node of the primary that the WAL comes from; "": none */
    int64_t started_wall_ms;           /* when the connection was begun; 0: never */
    uint64_t primary_version;          /* newest version of the primary that was heard */
    int64_t primary_time_ms;           /* cluster time of the primary when it was heard */
    uint64_t primary_heard_ms;         /* monotonic: when it was heard; 0: never */
    uint64_t settled_ms;   /* monotonic: when the primary told a version that is applied here, the
                              newest such time; 0: never */
    uint64_t behind_bytes; /* bytes of the primary's records that are not applied here */
    /* following ended until people act: the primary lacks versions of this state, has others
     * instead, or has revoked this secondary */
    bool halted;
    int64_t cert_ends_s;   /* expiry of this secondary's certificate, since 1970; 0: not known */
    uint64_t wal_bytes;    /* bytes of WAL that came since the connection began */
    uint64_t received;     /* newest version received */
    uint64_t verified;     /* newest version at which the roots were equal; 0: none */
    bool differs;          /* the roots differed at the last comparison */
    struct dr_progress sync;
    struct dr_diff_facts diff;
    struct dr_check_facts check;
    struct dr_addresses known; /* nodes of the primary, as it told them last */
    char why[DR_TEXT_MAX + 1]; /* why there is no connection; "" */
};

struct dr_live {
    pthread_mutex_t lock;
    bool open;
    struct dr_facts facts; /* guarded by the lock */
};

/* ST_NOMEM. */
NODISCARD enum status dr_live_init(struct dr_live *live);
void dr_live_done(struct dr_live *live);
/* Begin and end a change of the facts. Any thread. */
struct dr_facts *dr_live_begin(struct dr_live *live);
void dr_live_end(struct dr_live *live);
/* Copy the facts. Any thread. */
void dr_live_get(struct dr_live *live, struct dr_facts *ret_facts);
/* Forget everything: the role has changed. */
void dr_live_reset(struct dr_live *live);
/* Forget the nodes of a primary that is followed no more. */
void dr_live_forget_primary(struct dr_live *live);
/* The peer of this id and address, made if there is room; NULL: there is none. Between
 * dr_live_begin and dr_live_end. */
struct dr_peer *dr_live_peer(struct dr_facts *facts, const char *id, const char *address);
/* Keep where the other node says that people find it; both texts of a valid frame. */
void dr_live_set_place(struct dr_peer *peer, struct bytes api, struct bytes cluster);

/* There is another primary of the set, as `source` told, whose epoch is not below ours. True: that
 * is news. */
bool dr_live_conflict(struct dr_live *live, uint64_t epoch, const char *source);
/* There is no conflict any more. */
void dr_live_agree(struct dr_live *live);
/* The conflict that lasts at `now_ms`, monotonic; NULL: none. */
const struct dr_conflict *dr_live_conflict_of(const struct dr_facts *facts, uint64_t now_ms);

/* Age of what a secondary has of its primary's state: of the primary's newest sign of life whose
 * version is applied. -1: not known. `now_ms` monotonic. */
int64_t dr_live_age_ms(const struct dr_facts *facts, uint64_t now_ms);
/* How far a secondary is behind, as it knows it. */
struct dr_lag {
    uint64_t entries; /* versions of the primary that are not applied here */
    int64_t ms;       /* age of what is applied here, while the primary has newer versions */
    uint64_t bytes;   /* of records that are not applied here */
    int64_t heard_ms; /* time since the primary was last heard; -1: never */
};
/* `version` of the own state; `now_ms` monotonic, perhaps of a moment before the newest fact. */
struct dr_lag dr_live_lag(const struct dr_facts *facts, uint64_t version, uint64_t now_ms);

#endif
