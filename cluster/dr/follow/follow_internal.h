/* Shared by the files of this folder, and private to it. */
#ifndef HOLDFAST_CLUSTER_DR_FOLLOW_FOLLOW_INTERNAL_H
#define HOLDFAST_CLUSTER_DR_FOLLOW_FOLLOW_INTERNAL_H

#include "cluster/dr/follow/follow.h"
#include "cluster/dr/link/dr_conn.h"
#include "cluster/dr/reader.h"
#include "cluster/dr/records.h"

enum {
    FOLLOW_DIAL_MS = 3000,
    FOLLOW_SEND_MS = 10000,
    FOLLOW_LOOK_MS = 200,  /* longest wait before the thread looks whether it is asked to end */
    FOLLOW_PAUSE_MS = 250, /* first pause after a failure */
    FOLLOW_PAUSE_MAX_MS = 5000,
    FOLLOW_CREDIT_BYTES = 8 * 1024 * 1024,
    FOLLOW_DIFFS = 3, /* difference syncs that may fail before the whole state is fetched */
};

struct pulses;

/* Why a stream cannot begin, or go on. Only the first is mended by a sync under the present role:
 * a sync to an older version is refused. */
enum follow_verdict {
    FOLLOW_FITS,     /* or the primary was not asked */
    FOLLOW_TOO_OLD,  /* the primary no longer has the records behind our version */
    FOLLOW_AHEAD,    /* the primary does not have our version: it went back to an older state */
    FOLLOW_DIVERGED, /* the primary wrote something else under our version */
};

/* Why this term's last stream ended with a sync. */
enum follow_cause {
    FOLLOW_APART,   /* not known: the histories may differ */
    FOLLOW_BEHIND,  /* the primary has no records for this version any more */
    FOLLOW_DIFFERS, /* the roots differed at a checkpoint */
};

struct dr_follow {
    const struct dr_thread *thread;
    struct dr *dr;
    struct dr_reader reader;
    struct dr_role role; /* as it was read last */
    int64_t record_ms;   /* time in the record of our version, read with the role; 0: not known */
    int64_t told_record_ms; /* time in the primary's record of it, by the WELCOME; 0: not known */
    enum follow_verdict verdict; /* of the last connection for a stream */
    struct dr_link_record link;
    uint64_t link_version;   /* local version of the record of the link */
    int64_t cert_ends_s;     /* expiry of this secondary's certificate */
    char link_id[DR_ID_MAX]; /* id of this secondary in its certificate */
    struct dr_addresses addresses;
    unsigned next; /* number of the address to dial next */
    struct tls_ctx *tls;
    struct dr_conn *conn;
    struct pulses *pulses;
    uint64_t pause_ms;
    enum follow_cause because;
    uint64_t wire_before;  /* bytes of ciphertext before a difference sync */
    unsigned diffs_failed; /* difference syncs that failed in a row */
};

/* The version of the state, and the role, as they are now. ST_BUSY: no pin is free. */
NODISCARD enum status follow_look(struct dr_follow *f, uint64_t *ret_version);
/* Whether the role, the set and the epoch are still those in f->role. */
NODISCARD bool follow_unchanged(const struct dr_follow *f, const struct dr_role *now);
/* Dial the next address, say HELLO for a purpose and take the WELCOME. ST_DENIED: the primary
 * refuses; the facts say why. */
NODISCARD enum status follow_greet(struct dr_follow *f, enum dr_purpose purpose, uint64_t position);
/* Receive the next frame, waiting in pieces. ST_CLOSED: asked to end, or the peer closed. */
NODISCARD enum status follow_receive(struct dr_follow *f, struct dr_frame *ret_frame);
/* Read the link and the addresses, and make the TLS context. ST_NOT_FOUND: there is no link. */
NODISCARD enum status follow_open_link(struct dr_follow *f);
/* Release what `f` holds. */
void follow_done(struct dr_follow *f);
/* Set the text that the status shows for a missing connection; NULL: none. */
void follow_tell(struct dr_follow *f, enum dr_connection state, const char *why);

/* Sync until the state is the primary's. ST_OK: the role is streaming. */
NODISCARD enum status follow_sync(struct dr_follow *f, uint64_t version);
/* As follow_sync, for a state that is whole: fetch only what differs. ST_TOO_BIG: too much. */
NODISCARD enum status follow_diff(struct dr_follow *f, uint64_t version);
/* Keep keys of the own state that the new primary never got (lost.c). The file is made with the
 * first one. Statuses of files; ST_SEALED, ST_BUSY, ST_NOMEM. */
struct follow_lost;
struct store_item;
NODISCARD enum status follow_lost_new(struct dr_follow *f, struct follow_lost **ret_lost);
NODISCARD enum status follow_lost_add(struct follow_lost *lost, const struct store_item *item);
/* The file is complete, with `n` keys: make it durable, and say so. */
NODISCARD enum status follow_lost_end(struct follow_lost *lost, uint64_t n);
void follow_lost_free(struct follow_lost *lost); /* NULL is allowed */
/* Apply the primary's writes until something ends it. ST_CONFLICT: f->verdict is FOLLOW_TOO_OLD,
 * and a sync is needed. */
NODISCARD enum status follow_stream(struct dr_follow *f, uint64_t version);

/* One thread for each address, until pulses_stop. */
NODISCARD enum status pulses_start(struct dr_follow *f, struct pulses **ret_pulses);
/* Take the key and certificate that a heartbeat brought. False: there is none. NULL is allowed. */
NODISCARD bool pulses_renewed(struct pulses *pulses, struct cert_pair *ret_pair);
/* Ask the primary for a certificate with a new key, on a heartbeat's connection. Statuses as
 * dr_conn_receive; ST_DENIED: refused. */
NODISCARD enum status renew_ask(struct dr_conn *conn, struct cert_pair *ret_pair);
/* Store a certificate that a heartbeat brought; then the connections must be made anew.
 * ST_NOT_FOUND: there is none. */
NODISCARD enum status follow_renew(struct dr_follow *f);
/* Whether they serve the present role, link and addresses. */
bool pulses_fit(const struct pulses *pulses, const struct dr_follow *f);
void pulses_stop(struct pulses *pulses); /* NULL is allowed */
/* The stream has stored everything up to `version`: tell the nodes of the primary that ask for it.
 * 0: there is no stream. NULL is allowed. */
void pulses_confirm(struct pulses *pulses, uint64_t version);

#endif
