/* Shared by tests of outgoing requests: a server on a thread of its own that says what a test
 * wants, byte by byte, in clear or through TLS. */
#ifndef HOLDFAST_TEST_OUT_WITH_PEER_H
#define HOLDFAST_TEST_OUT_WITH_PEER_H

#include "support.h"

#include "base/buf.h"
#include "crypto/tls.h"
#include "out/out.h"

#include <pthread.h>
#include <stdatomic.h>

struct link;
/* Serve one connection; it is closed afterwards. */
typedef void peer_serve(struct link *link);

struct peer {
    peer_serve *serve;
    struct tls_ctx *tls; /* NULL: in clear */
    struct bytes script; /* what serve_script says */
    int fd;
    uint16_t port;
    pthread_t thread;
    atomic_int accepted;
    atomic_bool ended; /* the test is over */
    struct buf heard;  /* what the last connection said; read it after peer_down or a reply */
};

struct link {
    struct peer *peer;
    int fd;
    struct tls_conn *tls;
};

/* Listen on 127.0.0.1, and on ::1 if `v6` is set. */
void peer_up(struct peer *peer, peer_serve *serve, struct tls_ctx *tls);
void peer_up_v6(struct peer *peer, peer_serve *serve);
void peer_down(struct peer *peer);

/* False: the connection has ended. */
bool link_say(struct link *link, struct bytes text);
/* Read until what was heard since the connection began contains `until`. False: it ended before. */
bool link_hear(struct link *link, const char *until);
/* Wait until the test is over. */
void link_hang(struct link *link);
/* Close with a reset instead of an orderly end. */
void link_reset(struct link *link);

/* Hear a head, then say peer->script. */
void serve_script(struct link *link);
/* Hear a head, and never reply. */
void serve_nothing(struct link *link);

/* "http://HOST:PORT/path", in a static buffer of the thread. */
const char *url_of(const struct peer *peer, const char *scheme, const char *host);

/* GET the URL; the reply is `*reply`, which the caller releases. */
enum status get(const char *url, struct out_reply *reply, struct reason *reason);

void assert_has_text(const char *text, const char *word);
void assert_lacks_text(const char *text, const char *word);
/* Milliseconds of the monotonic clock. */
uint64_t clock_ms(void);

#endif
