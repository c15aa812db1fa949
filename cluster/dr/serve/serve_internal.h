/* Shared by the files of this folder, and private to it. */
#ifndef HOLDFAST_CLUSTER_DR_SERVE_SERVE_INTERNAL_H
#define HOLDFAST_CLUSTER_DR_SERVE_SERVE_INTERNAL_H

#include "cluster/dr/link/dr_conn.h"
#include "cluster/dr/reader.h"
#include "cluster/dr/records.h"
#include "cluster/dr/serve/serve.h"
#include "cluster/dr/site.h"

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
    int64_t judged_ms;   /* when, by dr_conn_now_ms */
    uint64_t position;   /* version that the secondary has confirmed */
};

/* Whether the secondary may be served now; else *ret_refuse says why, with a code that is not 0. */
NODISCARD bool dr_session_judge(struct dr_session *s, struct dr_refuse *ret_refuse);
/* Judge again if that is due. ST_DENIED: a REFUSE was sent, and the session ends. */
NODISCARD enum status dr_session_check(struct dr_session *s);
/* The fields of a WELCOME or PONG that tell where the primary stands. */
void dr_session_addresses(struct dr_session *s, struct dr_addresses *ret);
/* Note a sign of life of the secondary. */
void dr_session_heard(struct dr_session *s, const struct dr_ping *ping);

/* The work of each purpose, until the connection ends. */
enum status dr_session_stream(struct dr_session *s);
enum status dr_session_sync(struct dr_session *s);
enum status dr_session_pulse(struct dr_session *s);

#endif
