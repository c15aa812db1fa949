/* A client of the mesh that is driven by hand and may break every rule of the protocol. */
#ifndef HOLDFAST_TESTS_MESH_RAW_H
#define HOLDFAST_TESTS_MESH_RAW_H

#include "mesh/mesh_nodes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

struct raw {
    struct world *w;
    int fd;
    struct tls_ctx *ctx;
    struct tls_conn *tls;
    struct buf got;
    bool ended, deaf;
};

static inline void raw_connect(struct raw *raw, struct world *w, unsigned to)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    addr.sin_port = htons(mesh_port(w->nodes[to].mesh));
    *raw = (struct raw){.w = w, .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_int_equal(connect(raw->fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(fcntl(raw->fd, F_SETFL, O_NONBLOCK), 0);
}

static inline void raw_tls(struct raw *raw, struct tls_options options)
{
    struct reason reason = {""};
    struct tls_target any = {0};
    enum status st = tls_ctx_new(&options, &raw->ctx, &reason);
    assert_string_equal(reason.text, "");
    assert_status(st, ST_OK);
    assert_status(tls_conn_new(raw->ctx, &any, &raw->tls), ST_OK);
}

static inline struct tls_options raw_options(struct world *w, const char *dir, const char *name,
                                             const char *alpn)
{
    return (struct tls_options){.ca.path = file(w, "a", "ca", ".pem"),
                                .cert.path = file(w, dir, name, ".pem"),
                                .key.path = file(w, dir, name, "-key.pem"),
                                .alpn = alpn};
}

static inline void raw_done(struct raw *raw)
{
    tls_conn_free(raw->tls);
    tls_ctx_unref(raw->ctx);
    buf_done(&raw->got);
    assert_int_equal(close(raw->fd), 0);
}

static inline void raw_say(struct raw *raw, struct bytes bytes)
{
    if (raw->tls != NULL)
        assert_status(tls_write(raw->tls, &bytes, 1), ST_OK);
    else
        assert_int_equal(TEMP_FAILURE_RETRY(send(raw->fd, bytes.data, bytes.len, MSG_NOSIGNAL)),
                         bytes.len);
}

/* Move what can be moved. */
static inline void raw_step(struct raw *raw)
{
    static uint8_t chunk[65536];
    CLEANUP(buf_done) struct buf out = {0};
    size_t n = 0;
    ssize_t len = raw->deaf ? 0 : TEMP_FAILURE_RETRY(recv(raw->fd, chunk, sizeof chunk, 0));
    raw->ended |= !raw->deaf && (len == 0 || (len < 0 && errno != EAGAIN));
    if (raw->tls == NULL)
        return;
    if (len > 0)
        assert_status(tls_feed(raw->tls, bytes_of(chunk, (size_t)len)), ST_OK);
    while (!raw->deaf && tls_read(raw->tls, chunk, sizeof chunk, &n) == ST_OK && n != 0)
        buf_add(&raw->got, bytes_of(chunk, n));
    tls_take_out(raw->tls, &out);
    if (out.len != 0 &&
        TEMP_FAILURE_RETRY(send(raw->fd, out.data, out.len, MSG_NOSIGNAL)) != (ssize_t)out.len)
        raw->ended = true;
}

static inline bool raw_open(void *ctx)
{
    struct raw *raw = ctx;
    raw_step(raw);
    return tls_conn_phase(raw->tls) == TLS_OPEN;
}

static inline bool raw_answered(void *ctx)
{
    struct raw *raw = ctx;
    raw_step(raw);
    return raw->got.len >= MESH_HEADER_BYTES;
}

static inline bool raw_ended(void *ctx)
{
    struct raw *raw = ctx;
    raw_step(raw);
    return raw->ended;
}

/* Shake hands as a node of `dir`. */
static inline void raw_node(struct raw *raw, struct world *w, const char *dir, const char *name)
{
    raw_connect(raw, w, 0);
    raw_tls(raw, raw_options(w, dir, name, "holdfast-raft/1"));
    run_until(w, raw_open, raw);
}

static inline void raw_frame(struct raw *raw, enum mesh_kind kind, struct bytes payload)
{
    uint8_t header[MESH_HEADER_BYTES];
    mesh_header_encode(kind, (uint32_t)payload.len, header);
    raw_say(raw, bytes_of(header, sizeof header));
    raw_say(raw, payload);
}

/* n2 of cluster a, looking for n1. */
static inline struct mesh_hello good_hello(struct world *w)
{
    struct mesh_hello hello = {.protocol = MESH_PROTOCOL, .id = 2, .wanted = 1, .feature = 2};
    assert_status(mesh_identity_read(file(w, "a", "n2", ".pem"), &hello.identity, NULL), ST_OK);
    return hello;
}

static inline void raw_hello(struct raw *raw, const struct mesh_hello *hello)
{
    CLEANUP(buf_done) struct buf payload = {0};
    mesh_hello_encode(hello, &payload);
    raw_frame(raw, MESH_HELLO, buf_bytes(&payload));
}

#endif
