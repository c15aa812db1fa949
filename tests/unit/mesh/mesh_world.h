/* Certificates of two clusters, and a loop that runs until a condition holds. */
#ifndef HOLDFAST_TESTS_MESH_WORLD_H
#define HOLDFAST_TESTS_MESH_WORLD_H

#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "cluster/mesh/mesh.h"
#include "crypto/cert.h"
#include "crypto/crypto.h"
#include "crypto/tls.h"
#include "loop/loop.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define assert_status(expression, expected) \
    assert_string_equal(status_name(expression), status_name(expected))

enum { NODES = 3, PATIENCE_MS = 120000 };

struct node {
    struct mesh *mesh;
    struct mesh_member member;
    unsigned received, gone, http;
    uint64_t from, gone_id;
    char from_name[MESH_NAME_MAX];
    struct buf last;      /* the newest frame */
    struct buf all;       /* first byte of each frame */
    uint64_t refuse_id;   /* id_allowed says no to it */
    struct mesh_http web; /* the newest connection handed over */
    uint64_t superseded;  /* raft id from before a recovery; 0: none */
    const char *removed;  /* name of a node that was; NULL: none */
    char refused_by[MESH_NAME_MAX];
    uint16_t feature; /* feature level of the cluster, as this node knows it */
    unsigned refusals, supersedings, unauthenticated;
};

struct world {
    char root[64];
    struct fs *fs;
    struct env *env;
    struct node nodes[NODES];
    unsigned open; /* meshes started and not yet closed */
};

static char logged[65536]; /* since nodes_init */

static inline void note_log(enum trace_level level, const char *module, const char *text)
{
    (void)level, (void)module;
    size_t len = strlen(logged);
    (void)snprintf(logged + len, sizeof logged - len, "%s\n", text);
}

/* Files: w->root/a has nodes n1..n3, b another cluster with an n2, old an expired n2 of a. */

static inline const char *file(const struct world *w, const char *dir, const char *name,
                               const char *end)
{
    static char paths[16][256];
    static unsigned turn;
    char *path = paths[turn++ % ARRAY_LEN(paths)];
    (void)snprintf(path, sizeof paths[0], "%s/%s/%s%s", w->root, dir, name, end);
    return path;
}

static inline void copy(const struct world *w, const char *from_dir, const char *to_dir,
                        const char *name)
{
    char command[512];
    (void)snprintf(command, sizeof command, "cp %s/%s/%s %s/%s/", w->root, from_dir, name, w->root,
                   to_dir);
    assert_int_equal(system(command), 0); /* NOLINT: fixed words */
}

static inline int world_init(void **ctx)
{
    static struct world world;
    struct world *w = &world;
    static const struct mesh_node_names names[] = {{.name = "n1"}, {.name = "n2"}, {.name = "n3"}};
    static const char *const cas[] = {"ca.pem", "ca-key.pem", "tls-ca.pem", "tls-ca-key.pem"};
    *w = (struct world){.root = "/tmp/mesh.XXXXXX"};
    *ctx = w;
    trace_set_sink(note_log);
    trace_set_level(TRACE_DEBUG);
    assert_status(crypto_init(NULL), ST_OK);
    assert_non_null(mkdtemp(w->root));
    assert_status(loop_fs_new(w->root, &w->fs, NULL), ST_OK);
    struct mesh_pki pki = {w->fs, "a", time(NULL)};
    assert_status(mesh_bootstrap(&pki, names, 3, NULL), ST_OK);
    pki.dir = "b";
    assert_status(mesh_bootstrap(&pki, names, 2, NULL), ST_OK);
    assert_status(fs_mkdir(w->fs, "old"), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(cas); i++)
        copy(w, "a", "old", cas[i]);
    pki = (struct mesh_pki){w->fs, "old", 1000000000};
    assert_status(mesh_bootstrap_node(&pki, &names[1], NULL), ST_OK);
    return 0;
}

static inline int world_done(void **ctx)
{
    struct world *w = *ctx;
    char command[128];
    loop_fs_free(w->fs);
    trace_set_sink(NULL);
    (void)snprintf(command, sizeof command, "rm -r %s", w->root);
    return system(command); /* NOLINT: fixed words */
}

/* Run the loop until `done` says so; fails the test when it never does. */

struct waiting {
    struct env_timer timer;
    struct world *w;
    bool (*done)(void *ctx);
    void *ctx;
    uint64_t until_ms;
    bool seen;
};

static inline void look(struct env_timer *timer)
{
    struct waiting *waiting = CONTAINER_OF(timer, struct waiting, timer);
    struct env *env = waiting->w->env;
    waiting->seen = waiting->done(waiting->ctx);
    if (waiting->seen || env_mono_ms(env) > waiting->until_ms)
        loop_stop(env);
    else
        env_timer_set(env, timer, env_mono_ms(env) + 1);
}

static inline void run_until(struct world *w, bool (*done)(void *ctx), void *ctx)
{
    struct waiting waiting = {.timer.fire = look,
                              .w = w,
                              .done = done,
                              .ctx = ctx,
                              .until_ms = env_mono_ms(w->env) + PATIENCE_MS};
    env_timer_set(w->env, &waiting.timer, 0);
    loop_run(w->env);
    if (!waiting.seen)
        print_error("%s\n", logged);
    assert_true(waiting.seen);
}

static inline bool past(void *ctx)
{
    const struct waiting *waiting = ctx;
    return env_mono_ms(waiting->w->env) >= waiting->until_ms;
}

/* Let things happen that should not. */
static inline void run_for(struct world *w, uint64_t ms)
{
    struct waiting until = {.w = w, .until_ms = env_mono_ms(w->env) + ms};
    run_until(w, past, &until);
}

#endif
