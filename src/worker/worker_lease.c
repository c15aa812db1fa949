/* The lease of the job under way. The servers end a job whose lease was not renewed in time, so
 * nothing of it may run any longer than that: it is interrupted a little earlier. */
#include "worker/worker_internal.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { ASK_S = 5, RETRY_MS = 1000 };

void job_order(struct job *job, enum order order)
{
    uint64_t one = 1;
    int before = job->order;
    while ((int)order > before && !atomic_compare_exchange_weak(&job->order, &before, (int)order))
        continue;
    if (job->wake >= 0)
        (void)!write(job->wake, &one, sizeof one); /* a full counter wakes as well */
}

bool job_is_lost(const struct job *job, uint64_t before_ms)
{
    uint64_t lease_ms = (uint64_t)worker.lease_s * 1000;
    return job->order == ORDER_LOST ||
           client_mono_ms() + before_ms >= job->lease_from_ms + lease_ms;
}

static void on_renewed(struct job *job, struct bytes reply)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *said = NULL;
    if (text_json_parse(&arena, reply, &said, NULL) != ST_OK)
        return; /* the status said that the lease goes on */
    const char *action = member_text(said, "action");
    if (strcmp(action, "force-cancel") == 0)
        job_order(job, ORDER_KILL);
    else if (strcmp(action, "cancel") == 0)
        job_order(job, ORDER_CANCEL);
}

/* One renewal. False: try again soon. */
static bool lease_renew(struct job *job)
{
    CLEANUP(buf_done) struct buf body = {0}, reply = {0};
    struct text_writer w = {.out = &body};
    char path[512];
    struct client_call call = {.method = "POST",
                               .path = path,
                               .header = worker.header,
                               .type = "application/json",
                               .timeout_s = ASK_S};
    uint64_t sent_ms = client_mono_ms();
    job_body_begin(job, &w);
    text_close(&w);
    (void)snprintf(path, sizeof path, "/api/v2/worker/agents/%s/jobs/%s/renew", worker.agent,
                   job->id); /* ids are short */
    call.body = buf_bytes(&body);
    if (buf_status(&body) != ST_OK || worker_ask(&call, &reply) != ST_OK)
        return false;
    if (call.http == 200) {
        job->lease_from_ms = sent_ms;
        on_renewed(job, buf_bytes(&reply));
    } else {
        worker_say("job %s: the lease is lost: %d", job->id, call.http);
        job_order(job, ORDER_LOST);
    }
    return true;
}

/* Wait, unless the job ends. */
static void await_ms(struct job *job, int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until); /* the clock exists */
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&job->lock); /* a plain mutex, not held by this thread */
    if (!job->over)
        (void)pthread_cond_timedwait(&job->done, &job->lock, &until); /* the caller looks again */
    (void)pthread_mutex_unlock(&job->lock);
}

static void *lease_run(void *ctx)
{
    struct job *job = ctx;
    int64_t pause_ms = worker.renew_s * 1000;
    while (!job->over && job->order != ORDER_LOST) {
        await_ms(job, pause_ms);
        if (job->over)
            break;
        pause_ms = lease_renew(job) ? worker.renew_s * 1000 : RETRY_MS;
        if (job_is_lost(job, 0)) {
            worker_say("job %s: no server renewed the lease", job->id);
            job_order(job, ORDER_LOST);
        }
    }
    return NULL;
}

bool job_lease_start(struct job *job)
{
    job->leased = worker_thread(&job->lease, lease_run, job);
    return job->leased;
}

void job_lease_end(struct job *job)
{
    (void)pthread_mutex_lock(&job->lock); /* a plain mutex, not held by this thread */
    job->over = true;
    (void)pthread_cond_broadcast(&job->done);
    (void)pthread_mutex_unlock(&job->lock);
    if (job->leased)
        (void)pthread_join(job->lease, NULL); /* a thread of ours */
    job->leased = false;
}
