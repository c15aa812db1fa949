/* Frames between nodes, as the files of this folder share them. */
#ifndef HOLDFAST_NODE_FRAME_H
#define HOLDFAST_NODE_FRAME_H

/* First byte of every frame between nodes. */
enum node_frame {
    NODE_FRAME_RAFT,
    NODE_FRAME_FOUNDING,
    NODE_FRAME_JOIN,
    NODE_FRAME_SEAL,
    NODE_FRAME_RENEW,    /* the public half of a new key, to the leader */
    NODE_FRAME_RENEWED,  /* a renewed certificate */
    NODE_FRAME_MEMBER,   /* am I a member? */
    NODE_FRAME_STRANGER, /* you are not: u64 the raft id that asked */
};

/* First byte of a NODE_FRAME_SEAL: what a node says of itself. Builds that do not know one ignore
 * the frame. */
enum {
    NODE_SAYS_SEALED = 2,  /* u8 unsealed, client address, version; 1 had the first alone */
    NODE_SAYS_ADDRESS = 3, /* host:port of its cluster port */
};

#endif
