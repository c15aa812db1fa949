/* Frames between nodes: the first byte of each names its kind. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_FRAME_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_FRAME_H

enum frame_kind {
    FRAME_RAFT,      /* the raft id that is meant (u64), then a frame of the replica */
    FRAME_BOOTSTRAP, /* a message between initial members */
    FRAME_JOIN,      /* a node asks to become a member */
    FRAME_REPORT,    /* a report of a node on itself: enum frame_report */
    FRAME_RENEW,     /* the public half of a new key, sent to the leader */
    FRAME_RENEWED,   /* a renewed certificate, sent by the leader */
    FRAME_MEMBER,    /* a node asks whether it is a member */
    FRAME_NO_MEMBER, /* the reply "you are no member", with the raft id that asked (u64) */
};

/* First byte of the content of a FRAME_REPORT. A build ignores the reports that it does not know.
 */
enum frame_report {
    REPORT_SEALED = 2,  /* u8 can serve, client address, version; 1 had the first alone */
    REPORT_ADDRESS = 3, /* address of the cluster port, host:port */
    REPORT_FEATURE = 4, /* feature level that the node understands, u16 */
    REPORT_SEAL = 5,    /* mark of the configured static seal, SEAL_MARK_BYTES; all zero: none */
};

#endif
