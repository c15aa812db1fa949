/* Shared by the files of this folder, and private to it. */
#ifndef HOLDFAST_CLUSTER_DR_SERVE_SERVE_INTERNAL_H
#define HOLDFAST_CLUSTER_DR_SERVE_SERVE_INTERNAL_H

#include "cluster/dr/former.h"
#include "cluster/dr/link/dr_conn.h"
#include "cluster/dr/reader.h"
#include "cluster/dr/records.h"
#include "cluster/dr/serve/serve.h"
#include "cluster/dr/site.h"
#include "cluster/membership/wait.h"
#include "raft/txn/rlog_txn.h"

/* A bound of the bytes that a session sends in a second (serve_rate.c). */
struct dr_rate {
    int64_t bytes; /* bytes that may be sent; negative: too many were sent */
    int64_t at_ms; /* time of the last look; 0: not begun */
    uint64_t sent; /* bytes of ciphertext that the connection had sent then */
};

struct dr_session {
    struct list link; /* in dr->sessions, of the raft thread */
    struct dr *dr;
    pthread_t thread;
    atomic_bool stop, ended;
    struct dr_conn *conn;
    struct mesh_http http; /* until the thread has begun */

    /* The members below belong to the session's thread. */
    struct dr_cert_peer peer;
    struct dr_hello hello;
    struct dr_reader reader;
    struct dr_role role; /* as it was judged last */
    bool renewed;        /* the certificate is the next one of its record */
    int64_t judged_ms;   /* when, by dr_conn_now_ms */
    uint64_t position;   /* version that the secondary has confirmed */
    struct dr_rate rate;
    uint64_t counted;  /* bytes of ciphertext that were counted */
    int64_t record_ms; /* time in our record of the version in its HELLO; 0: not known */
};

/* Whether the secondary may be served now; else *ret_refuse says why, with a code that is not 0. */
NODISCARD bool dr_session_judge(struct dr_session *s, struct dr_refuse *ret_refuse);
/* The same by the state at a pin. */
NODISCARD bool dr_session_judge_at(struct dr_session *s, const struct store_pin *pin,
                                   struct dr_refuse *ret_refuse);
/* Whether a stream may begin at the secondary's version, with the same answer. The state of this
 * node may be behind that of the node that the secondary followed before: then it is asked for
 * first. */
NODISCARD bool dr_session_place(struct dr_session *s, struct dr_refuse *ret_refuse);
/* Judge again if that is due. ST_DENIED: a REFUSE was sent, and the session ends. */
NODISCARD enum status dr_session_check(struct dr_session *s);
/* The fields of a WELCOME or PONG that tell where the primary stands. */
void dr_session_addresses(struct dr_session *s, struct dr_addresses *ret);
/* Note a sign of life of the secondary, whose state has the version `position`. */
void dr_session_heard(struct dr_session *s, uint64_t position);
/* The secondary follows this set and epoch, and has acknowledged everything up to `version`. */
void dr_session_confirmed(struct dr_session *s, uint64_t version);

/* Count what the connection has sent since the last call. */
void dr_session_count(struct dr_session *s);

/* How long the session must wait before it sends more, at most DR_JUDGE_MS; 0: it may send. */
NODISCARD unsigned dr_session_pause_ms(struct dr_session *s);
/* How many of `bytes` the session sends at once, so that what it owes is little. */
size_t dr_session_piece(const struct dr_session *s, size_t bytes);

/* The state at a pin, or parts of it, on the way to a secondary: written into a file without a
 * name, then sent at the secondary's pace (serve_sync.c). Begins with `s` alone. */
struct fs_file;
struct dr_outgoing {
    struct dr_session *s;
    struct env_task task; /* for the raft thread, which makes the pin */
    struct wait wait;
    struct rlog_machine_dump dump;
    bool pinned;
    struct fs_file *file;
    uint64_t keys, credit;
    /* Of the thread that writes the file, while it runs. */
    uint32_t crc;
    uint8_t root[DR_ROOT_BYTES]; /* of the whole replicated state */
    atomic_bool given_up;        /* the session failed: the writer ends early */
    pthread_mutex_t lock;        /* guards what follows */
    pthread_cond_t more;         /* `bytes` or `written` has changed */
    uint64_t bytes;              /* in the file */
    bool written;                /* the writer has ended, as `st` says */
    enum status st;
};
/* Afterwards dr_outgoing_done is due. ST_NOMEM. */
NODISCARD enum status dr_outgoing_init(struct dr_outgoing *y, struct dr_session *s);
/* Make the file, and pin the newest version. ST_CLOSED, ST_BUSY; else as fs_open. */
NODISCARD enum status dr_outgoing_pin(struct dr_outgoing *y);
void dr_outgoing_unpin(struct dr_outgoing *y);
/* Write what y->dump names into the file, unpin, and send the file meanwhile; wait until the
 * secondary closes the connection. ST_NO_SPACE; else as fs_write_at and dr_conn_send. */
NODISCARD enum status dr_outgoing_send(struct dr_outgoing *y);
void dr_outgoing_done(struct dr_outgoing *y);

/* The work of each purpose, until the connection ends. */
enum status dr_session_stream(struct dr_session *s);
enum status dr_session_sync(struct dr_session *s);
enum status dr_session_diff(struct dr_session *s);
enum status dr_session_pulse(struct dr_session *s);

#endif
