/* Frames between nodes: the first byte of each names its kind. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_FRAME_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_FRAME_H

enum frame_kind {
    FRAME_RAFT,      /* u64 the raft id meant, then the replica's own */
    FRAME_BOOTSTRAP, /* bootstrap */
    FRAME_JOIN,      /* a node asks to become a member */
    FRAME_REPORT,    /* a report of a node on itself: enum frame_report */
    FRAME_RENEW,     /* the public half of a new key, to the leader */
    FRAME_RENEWED,   /* a renewed certificate */
    FRAME_MEMBER,    /* am I a member? */
    FRAME_NO_MEMBER, /* you are not: u64 the raft id that asked */
};

/* First byte of the content of a FRAME_REPORT. A build ignores the reports that it does not know.
 */
enum frame_report {
    REPORT_SEALED = 2,  /* u8 unsealed, client address, version; 1 had the first alone */
    REPORT_ADDRESS = 3, /* host:port of the cluster port */
    REPORT_FEATURE = 4, /* u16 feature level that the node understands */
};

#endif
