/* Frames between nodes, and the greeting that opens a link. Numbers are little-endian.
 *
 *     0      4         5      6
 *     | u32  | u8      | u8   | payload
 *     | len  | version | kind | len bytes
 *
 *     HELLO   u16 newest protocol the sender speaks · 16 bytes cluster · u64 sender · u64 wanted
 *             (0: any node of that name; 0 in a reply) · u8 bulk · block name of the sender ·
 *             from protocol 2 on: u16 feature level that the sender understands
 *     REFUSE  u8 enum mesh_refusal; the sender closes
 *     DATA    a message of the layer above */
#ifndef HOLDFAST_MESH_FRAME_H
#define HOLDFAST_MESH_FRAME_H

#include "base/buf.h"
#include "cluster/mesh/mesh_pki.h"

enum {
    MESH_FRAME_VERSION = 1, /* version in the header of every frame */
    MESH_PROTOCOL = 2,      /* newest protocol of this build; 1 had no feature level in its hello */
    MESH_PROTOCOL_OLDEST = 1,
    MESH_HEADER_BYTES = 6,
    MESH_GREETING_MAX = 256, /* most bytes of payload in a frame before the hello is accepted */
    MESH_FRAME_MAX = 9 * 1024 * 1024,
    MESH_FRAMES_KEPT = 1024 * 1024, /* most memory that a link keeps for the next large frame */
};

enum mesh_kind { MESH_HELLO = 1, MESH_REFUSE = 2, MESH_DATA = 3 };

enum mesh_refusal {
    MESH_REFUSE_VERSION = 1, /* the two nodes share no protocol */
    MESH_REFUSE_CLUSTER,     /* the caller belongs to another cluster */
    MESH_REFUSE_NAME,        /* the certificate has another name */
    MESH_REFUSE_ID,          /* the raft id belongs to another name, or is no id */
    MESH_REFUSE_WANTED,      /* this node is not the node that the caller wants */
    MESH_REFUSE_BUSY,        /* this node has too many links */
    MESH_REFUSE_REMOVED,     /* the caller was removed from the cluster */
    MESH_REFUSE_FEATURE,     /* the cluster's feature level is above the caller's */
    MESH_REFUSE_SUPERSEDED,  /* the caller's raft id is from before a recovery of the cluster */
};
/* The refusal as text for the log; never NULL. */
const char *mesh_refusal_text(unsigned refusal);

struct mesh_hello {
    uint16_t protocol;
    struct mesh_identity identity;
    uint64_t id, wanted;
    bool bulk;
    uint16_t feature; /* feature level that the sender understands, 1 or more */
};

/* Append the payload of a hello. */
void mesh_hello_encode(const struct mesh_hello *hello, struct buf *out);
/* Decode a hello. ST_INVALID. Later protocols may add fields at the end. */
NODISCARD enum status mesh_hello_decode(struct bytes payload, struct mesh_hello *ret_hello);

/* Write the header of a frame. */
void mesh_header_encode(enum mesh_kind kind, uint32_t payload_bytes,
                        uint8_t ret_header[MESH_HEADER_BYTES]);

struct mesh_frame {
    uint8_t kind;
    struct bytes payload;
};

/* Cuts a stream of bytes into frames. Zero-initialise and set payload_max. Holds at most one
 * incomplete frame, and MESH_FRAMES_KEPT bytes of memory between whole ones. */
struct mesh_frames {
    uint32_t payload_max;
    struct bytes chunk; /* pushed bytes that are in no frame yet */
    struct buf partial;
    bool whole; /* `partial` is the last frame returned; the next call ends it */
};

/* Push the next bytes of the stream. They are borrowed until mesh_frames_next returns ST_NOT_FOUND;
 * only then may more bytes be pushed. */
void mesh_frames_push(struct mesh_frames *f, struct bytes chunk);
/* ST_OK: a frame, borrowed until the next call. ST_NOT_FOUND: push more. ST_INVALID, ST_TOO_BIG:
 * another protocol, so the rest of the stream cannot be read. ST_NOMEM. */
NODISCARD enum status mesh_frames_next(struct mesh_frames *f, struct mesh_frame *ret_frame);
void mesh_frames_done(struct mesh_frames *f);

#endif
