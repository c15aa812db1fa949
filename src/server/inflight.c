/* Lists the requests in progress on all workers. Each worker's list is made on the worker's own
 * thread. */
#include "server/server.h"
#include "text/json.h"

struct gather {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned left;
    struct text_writer *w;
};

struct question {
    struct env_task task;
    struct worker *worker;
    struct gather *gather;
};

static void inflight_reply(struct env_task *task)
{
    struct question *q = CONTAINER_OF(task, struct question, task);
    struct gather *g = q->gather;
    pthread_mutex_lock(&g->lock);
    ASSERT(g->left > 0);
    router_worker_inflight(q->worker->router, g->w);
    g->left--;
    pthread_cond_signal(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* The caller's request is under way until the end of this function, so no worker ends meanwhile. */
enum status inflight_gather(struct router_host *host, struct text_writer *w)
{
    struct server *s = CONTAINER_OF(host, struct server, host);
    struct question questions[WORKERS_MAX];
    struct gather g = {.left = s->n_workers, .w = w};
    unsigned n = g.left;
    ASSERT(n <= WORKERS_MAX);
    if (pthread_mutex_init(&g.lock, NULL) != 0)
        return ST_NOMEM;
    if (pthread_cond_init(&g.changed, NULL) != 0) {
        (void)pthread_mutex_destroy(&g.lock); /* no thread holds it */
        return ST_NOMEM;
    }
    for (unsigned i = 0; i < n; i++) {
        questions[i] = (struct question){
            .task = {.run = inflight_reply}, .worker = &s->workers[i], .gather = &g};
        env_post(s->workers[i].env, &questions[i].task);
    }
    pthread_mutex_lock(&g.lock);
    while (g.left != 0)
        pthread_cond_wait(&g.changed, &g.lock);
    pthread_mutex_unlock(&g.lock);
    (void)pthread_cond_destroy(&g.changed); /* no thread waits */
    (void)pthread_mutex_destroy(&g.lock);   /* no thread holds it */
    return ST_OK;
}
