/* Frames of holdfast-dr/1 between a primary and its secondaries. WIRE.md has the bytes. Any thread.
 *
 * 1. The decoder accepts exactly the frames that an encoder of the same protocol makes; a hello of
 *    a later protocol may have more fields at its end.
 * 2. A frame of the wrong side, or longer than its type allows, is refused by its header, before
 *    its payload is read.
 * 3. Records of the WAL and data of a sync are opaque here. */
#ifndef HOLDFAST_CLUSTER_DR_LINK_DR_FRAME_H
#define HOLDFAST_CLUSTER_DR_LINK_DR_FRAME_H

#include "base/buf.h"
#include "cluster/dr/link/dr_addresses.h"
#include "cluster/dr/link/dr_block.h"
#include "cluster/dr/link/dr_name.h"

#define DR_ALPN "holdfast-dr/1"

enum {
    DR_PROTOCOL = 1,     /* newest protocol of this build */
    DR_HEADER_BYTES = 5, /* length of the payload, and type */
    DR_ROOT_BYTES = 32,
    DR_TEXT_MAX = 512,              /* most bytes of the text of a refusal */
    DR_PUBLIC_MAX = 1024,           /* most bytes of a public key as PEM text */
    DR_CERT_MAX = 16 * 1024,        /* most bytes of a certificate as PEM text */
    DR_RUN_MAX = 16 * 1024 * 1024,  /* most bytes of a run of WAL records */
    DR_FRAME_MAX = DR_RAW_MAX + 64, /* most bytes of payload of any frame */
};

enum dr_side { DR_PRIMARY, DR_SECONDARY };

enum dr_type {
    /* from the secondary */
    DR_HELLO = 1,
    DR_CREDIT = 2,
    DR_ACK = 3,
    DR_ROOT = 4,
    DR_PING = 5,
    DR_CERT_REQUEST = 6,
    DR_DIFF_ASK = 7,
    DR_DIFF_WANT = 8,
    /* from the primary */
    DR_WELCOME = 16,
    DR_REFUSE = 17,
    DR_WAL = 18,
    DR_TOO_OLD = 19,
    DR_CHECKPOINT = 20,
    DR_SYNC_BEGIN = 21,
    DR_SYNC_DATA = 22,
    DR_SYNC_END = 23,
    DR_PONG = 24,
    DR_CERT = 25,
    DR_DIFF_BEGIN = 26,
    DR_DIFF_NODES = 27,
    DR_DIFFERS = 28,
};

/* The one purpose of a connection. */
enum dr_purpose {
    DR_STREAM = 1,
    DR_SYNC = 2,
    DR_HEARTBEAT = 3,
    DR_DIFF = 4,
    DR_ANNOUNCE = 5, /* a primary tells its epoch to a cluster that it followed; no more frames */
};

struct dr_hello {
    uint16_t protocol; /* newest protocol that the secondary speaks */
    uint16_t feature;  /* feature level that the secondary understands, 1 or more */
    uint8_t purpose;   /* enum dr_purpose */
    uint8_t set[DR_SET_BYTES];
    uint64_t epoch;    /* 1 or more */
    uint64_t position; /* version of the secondary's state */
    int64_t record_ms; /* time in the record that made this version; 0: not known */
    char id[DR_ID_MAX];
};

struct dr_credit {
    uint64_t bytes; /* bytes of data in WAL and SYNC_DATA that may follow in addition; not 0 */
};

struct dr_ack {
    uint64_t version;   /* version that a majority of the secondary has stored */
    uint64_t commit_us; /* microseconds from the arrival of that version to its commit */
};

struct dr_root {
    uint64_t version;
    uint8_t root[DR_ROOT_BYTES]; /* Merkle root of the replicated state at `version` */
};

struct dr_ping {
    uint64_t stamp;    /* the secondary's own, which PONG repeats */
    uint64_t position; /* version of the secondary's state */
    uint64_t echo;     /* stamp of the newest PONG whose version the state has reached; 0: none */
    uint64_t held_ms;  /* time since it was reached */
    int64_t wall_ms;   /* clock of the secondary's node, since 1970 */
    uint64_t trip_us;  /* from the last PING to its PONG; 0: not measured */
    uint64_t settled;  /* version at which no key of the secondary needs a link; 0: not known */
    struct bytes api, cluster; /* of the secondary's node, for people: its URL; host:port */
};

struct dr_welcome {
    uint16_t protocol; /* protocol that both sides speak from here on */
    uint16_t feature;  /* feature level of the primary cluster */
    uint8_t set[DR_SET_BYTES];
    uint64_t epoch;
    uint64_t version; /* version of the primary's state */
    int64_t time_ms;  /* cluster time of the primary, since 1970 */
    /* of a stream: time in the primary's record of the secondary's version; 0: not known */
    int64_t record_ms;
    struct dr_addresses addresses;
};

/* Why a primary refuses a connection. A later build may have more reasons. */
enum dr_refusal {
    DR_REFUSE_REVOKED = 1, /* the secondary was revoked */
    DR_REFUSE_ID,          /* the primary does not know the id, or not this certificate for it */
    DR_REFUSE_SET,         /* the secondary belongs to another set */
    DR_REFUSE_EPOCH,       /* the secondary's epoch is older than the primary's */
    DR_REFUSE_SUPERSEDED,  /* the primary was superseded by a later epoch */
    DR_REFUSE_FEATURE,     /* the secondary's build is older than the primary's feature level */
    DR_REFUSE_BUSY,        /* too many connections */
    DR_REFUSE_NOT_PRIMARY, /* the cluster is not a primary */
    DR_REFUSE_SEALED,      /* the node is sealed */
    DR_REFUSE_CONFLICT,    /* both clusters are primaries of one epoch */
    DR_REFUSE_AHEAD,       /* the secondary has versions that the primary does not have */
    DR_REFUSE_DIVERGED,    /* the secondary has another record of its version than the primary */
};
/* The refusal as text; never NULL. */
const char *dr_refusal_text(unsigned refusal);

struct dr_refuse {
    uint8_t code;      /* enum dr_refusal; not 0 */
    uint64_t epoch;    /* epoch of the refusing cluster; 0: none */
    struct bytes text; /* at most DR_TEXT_MAX printable ASCII bytes; may be empty */
};

struct dr_wal {
    uint64_t first, last;  /* versions of the first and the last record of the run */
    uint32_t run_bytes;    /* bytes of the whole run, at most DR_RUN_MAX */
    uint32_t offset;       /* place of this frame's content in the run */
    struct dr_block block; /* the content */
};

struct dr_too_old {
    uint64_t first; /* version of the oldest record that the primary still has */
};

struct dr_checkpoint {
    uint64_t version; /* the secondary answers with its root at this version */
};

struct dr_sync_begin {
    uint64_t version; /* pinned version that the sync carries */
    uint64_t keys;    /* number of keys in that version */
    int64_t time_ms;  /* cluster time of the version, since 1970 */
};

struct dr_sync_data {
    uint64_t offset; /* place of the content in the whole */
    struct dr_block block;
};

struct dr_sync_end {
    uint64_t bytes;              /* bytes of content that were sent */
    uint32_t crc;                /* CRC-32C of all of them */
    uint8_t root[DR_ROOT_BYTES]; /* of the replicated state at the version */
};

struct dr_pong {
    uint64_t stamp;      /* stamp of the PING */
    uint64_t version;    /* version of the primary's state */
    int64_t time_ms;     /* cluster time of the primary, since 1970 */
    uint64_t own;        /* the primary's own stamp, which the next PING repeats as `echo`; not 0 */
    int64_t wall_ms;     /* clock of the primary's node, since 1970 */
    uint64_t behind;     /* bytes of records that the secondary lacks and this node still has */
    uint64_t verified;   /* newest version at which this node found both roots equal; 0: none */
    bool differs;        /* the roots differed at the last comparison */
    bool renew, confirm; /* the secondary shall request a new certificate; send ACK here too */
    struct bytes api;    /* URL of the API of the primary's node, for people */
    struct dr_addresses addresses;
};

struct dr_cert_request {
    struct bytes public_pem; /* public half of the secondary's new key */
};

struct dr_cert {
    struct bytes pem; /* certificate for the key of the request */
};

/* Lists of a difference sync (cluster/dr/diff). Their number of bytes takes no credit. */
struct dr_diff_list {
    /* DR_DIFF_ASK: the histories differ, so newest versions are not compared. DR_DIFF_WANT: no more
     * places follow. */
    bool flag;
    struct dr_block block;
};

struct dr_diff_begin {
    uint64_t version; /* pinned version that is compared, and that the sync leads to */
    uint64_t floor;   /* version of the last restore, at most `version` */
    uint64_t keys;    /* of that version */
    uint64_t fork;    /* version at which the primary was promoted; 0: never */
    int64_t time_ms;  /* cluster time of the version, since 1970 */
};

struct dr_frame {
    enum dr_type type;
    union {
        struct dr_hello hello;
        struct dr_credit credit;
        struct dr_ack ack;
        struct dr_root root;
        struct dr_ping ping;
        struct dr_cert_request cert_request;
        struct dr_welcome welcome;
        struct dr_refuse refuse;
        struct dr_wal wal;
        struct dr_too_old too_old;
        struct dr_checkpoint checkpoint;
        struct dr_sync_begin sync_begin;
        struct dr_sync_data sync_data;
        struct dr_sync_end sync_end;
        struct dr_pong pong;
        struct dr_cert cert;
        struct dr_diff_list diff_list; /* DR_DIFF_ASK, DR_DIFF_WANT, DR_DIFF_NODES */
        struct dr_diff_begin diff_begin;
    };
};

/* The side that sends frames of this type. */
enum dr_side dr_frame_side(enum dr_type type);

/* Append header and payload, without the data of a block: `ret_data` is that data, borrowed from
 * the frame, and is sent behind what was appended; it is empty for frames without a block. The
 * fields must be within their bounds. Out of memory: buf_status tells. */
void dr_frame_encode(const struct dr_frame *frame, struct buf *out, struct bytes *ret_data);

/* Read the header of a frame that `from` sent. ST_INVALID: `from` sends no such type, or the
 * payload is empty. ST_TOO_BIG: longer than this type may be. */
NODISCARD enum status dr_frame_header(const uint8_t header[DR_HEADER_BYTES], enum dr_side from,
                                      enum dr_type *ret_type, uint32_t *ret_bytes);
/* Decode the payload of a frame whose header was accepted. The frame borrows from `payload`.
 * ST_INVALID. */
NODISCARD enum status dr_frame_decode(enum dr_type type, struct bytes payload,
                                      struct dr_frame *ret_frame);

#endif
