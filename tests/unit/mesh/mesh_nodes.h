/* Nodes that are joined over loopback and run in one thread. */
#ifndef HOLDFAST_TESTS_MESH_NODES_H
#define HOLDFAST_TESTS_MESH_NODES_H

#include "mesh/mesh_world.h"

static inline void on_receive(void *ctx, uint64_t from, const char *from_name, struct bytes frame)
{
    struct node *node = ctx;
    node->received++;
    node->from = from;
    (void)snprintf(node->from_name, sizeof node->from_name, "%s", from_name);
    buf_clear(&node->last);
    buf_add(&node->last, frame);
    if (frame.len != 0)
        buf_add_u8(&node->all, frame.data[0]);
}

static inline void on_gone(void *ctx, uint64_t id)
{
    struct node *node = ctx;
    node->gone++;
    node->gone_id = id;
}

static inline void on_http(void *ctx, struct mesh_http http)
{
    struct node *node = ctx;
    if (node->http++ != 0)
        mesh_http_drop(&node->web);
    node->web = http;
}

static inline void on_unauthenticated(void *ctx, struct mesh_http http)
{
    struct node *node = ctx;
    node->unauthenticated++;
    mesh_http_drop(&http);
}

static inline bool is_removed(void *ctx, const char *name, uint64_t id)
{
    (void)id;
    const struct node *node = ctx;
    return node->removed != NULL && strcmp(node->removed, name) == 0;
}

static inline void refused_as_removed(void *ctx, const char *name)
{
    struct node *node = ctx;
    node->refusals++;
    (void)snprintf(node->refused_by, sizeof node->refused_by, "%s", name);
}

static inline bool is_superseded(void *ctx, uint64_t id)
{
    const struct node *node = ctx;
    return node->superseded != 0 && node->superseded == id;
}

static inline void refused_as_superseded(void *ctx, const char *name)
{
    struct node *node = ctx;
    node->supersedings++;
    (void)snprintf(node->refused_by, sizeof node->refused_by, "%s", name);
}

static inline bool id_allowed(void *ctx, uint64_t id, const char *name)
{
    const struct node *node = ctx;
    (void)name;
    return id != node->refuse_id;
}

static inline uint16_t feature_level(void *ctx)
{
    const struct node *node = ctx;
    return node->feature;
}

static inline struct mesh_options options_of(struct world *w, unsigned i, const char *dir)
{
    struct node *node = &w->nodes[i];
    char name[16];
    (void)snprintf(name, sizeof name, "n%u", i + 1);
    return (struct mesh_options){
        .env = w->env,
        .address = node->member.address[0] != '\0' ? node->member.address : "127.0.0.1:0",
        .ca_path = file(w, dir, "ca", ".pem"),
        .cert_path = file(w, dir, name, ".pem"),
        .key_path = file(w, dir, name, "-key.pem"),
        .id = i + 1,
        .feature = 2,
        .events = {.receive = on_receive,
                   .gone = on_gone,
                   .http = on_http,
                   .removed = is_removed,
                   .refused_as_removed = refused_as_removed,
                   .superseded = is_superseded,
                   .refused_as_superseded = refused_as_superseded,
                   .id_allowed = id_allowed,
                   .feature = feature_level,
                   .ctx = node},
    };
}

static inline void start_with(struct world *w, unsigned i, const struct mesh_options *options)
{
    struct node *node = &w->nodes[i];
    struct reason reason = {""};
    enum status st = mesh_start(options, &node->mesh, &reason);
    assert_string_equal(reason.text, "");
    assert_status(st, ST_OK);
    node->member.id = options->id;
    (void)snprintf(node->member.name, sizeof node->member.name, "n%u", i + 1);
    (void)snprintf(node->member.address, sizeof node->member.address, "127.0.0.1:%u",
                   (unsigned)mesh_port(node->mesh));
    w->open++;
}

static inline void start(struct world *w, unsigned i)
{
    struct mesh_options options = options_of(w, i, "a");
    start_with(w, i, &options);
}

static inline void on_mesh_closed(void *ctx)
{
    struct world *w = ctx;
    w->open--;
}

static inline bool fewer_open(void *ctx)
{
    struct waiting *waiting = ctx;
    return waiting->w->open < waiting->until_ms;
}

static inline void stop(struct world *w, unsigned i)
{
    struct waiting until = {.w = w, .until_ms = w->open};
    mesh_close(w->nodes[i].mesh, on_mesh_closed, w);
    w->nodes[i].mesh = NULL;
    run_until(w, fewer_open, &until);
}

static inline int nodes_init(void **ctx)
{
    struct world *w = *ctx;
    memset(w->nodes, 0, sizeof w->nodes);
    logged[0] = '\0';
    assert_status(loop_new(NULL, &w->env), ST_OK);
    return 0;
}

static inline int nodes_done(void **ctx)
{
    struct world *w = *ctx;
    for (unsigned i = 0; i < NODES; i++) {
        struct node *node = &w->nodes[i];
        if (node->mesh != NULL)
            stop(w, i);
        if (node->http != 0)
            mesh_http_drop(&node->web);
        buf_done(&node->last);
        buf_done(&node->all);
    }
    assert_int_equal(w->open, 0);
    loop_free(w->env);
    return 0;
}

/* Tell node i of all that run. */
static inline void introduce(struct world *w, unsigned i)
{
    struct mesh_member members[NODES];
    unsigned n = 0;
    for (unsigned j = 0; j < NODES; j++)
        if (w->nodes[j].mesh != NULL)
            members[n++] = w->nodes[j].member;
    mesh_members(w->nodes[i].mesh, members, n);
}

static inline struct mesh_stats stats(const struct node *node)
{
    struct mesh_stats s;
    mesh_stats(node->mesh, &s);
    return s;
}

static inline bool all_linked(void *ctx)
{
    struct world *w = ctx;
    for (unsigned i = 0; i < NODES; i++) {
        if (w->nodes[i].mesh == NULL)
            continue;
        struct mesh_stats s = stats(&w->nodes[i]);
        if (s.links_out != 2 * ((uint64_t)w->open - 1) || s.links_in != 2 * ((uint64_t)w->open - 1))
            return false;
    }
    return true;
}

/* Start the first n nodes, all knowing all. */
static inline void start_linked(struct world *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        start(w, i);
    for (unsigned i = 0; i < n; i++)
        introduce(w, i);
    run_until(w, all_linked, w);
}

static inline bool received_one(void *ctx)
{
    return ((struct node *)ctx)->received != 0;
}

static inline void send_str(struct node *from, uint64_t to, const char *text, bool bulk)
{
    struct bytes part = bytes_str(text);
    mesh_send(from->mesh, to, &part, 1, bulk);
}

#endif
