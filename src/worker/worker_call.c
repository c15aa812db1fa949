/* Requests. A repeated request is harmless by the protocol, so a request is tried until a server
 * decides, or the job is lost. */
#include "worker/worker_internal.h"

#include <stdio.h>

enum { PAUSE_MS = 500, PATH_BYTES = 512 };

/* Replies that say nothing about the request: another server, or the same one later, decides. */
static bool is_passing(int http)
{
    return http == 429 || http == 500 || http >= 502;
}

enum status worker_ask(struct client_call *call, struct buf *ret_reply)
{
    TRY(client_request(&worker.client, call, ret_reply));
    if (!is_passing(call->http))
        return ST_OK;
    worker.client.server = (worker.client.server + 1) % (unsigned)worker.client.servers.n;
    return ST_IO;
}

/* The detail of the first error of a reply. */
static void reason_of(struct bytes reply, int http, struct reason *why)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *root = NULL;
    if (text_json_parse(&arena, reply, &root, NULL) != ST_OK)
        root = NULL;
    const struct text_value *errors = text_get(root, "errors");
    const struct text_value *first =
        errors != NULL && errors->kind == TEXT_LIST ? errors->first : NULL;
    reason_set(why, "the servers replied %d: %s", http, member_text(first, "detail"));
}

enum status job_ask_url(struct job *job, struct client_call *call, struct buf *ret_reply,
                        struct reason *why)
{
    while (worker_ask(call, ret_reply) != ST_OK) {
        if (job_is_lost(job, 0))
            return ST_CLOSED;
        client_sleep_ms(PAUSE_MS);
    }
    if (call->http >= 200 && call->http < 300)
        return ST_OK;
    reason_of(buf_bytes(ret_reply), call->http, why);
    return ST_REFUSED;
}

enum status job_ask(struct job *job, const char *method, const char *what, const char *type,
                    struct bytes body, struct buf *ret_reply, struct reason *why)
{
    char path[PATH_BYTES];
    struct client_call call = {.method = method,
                               .path = path,
                               .header = worker.header,
                               .type = type != NULL ? type : "application/json",
                               .body = body};
    (void)snprintf(path, sizeof path, "/api/v2/worker/agents/%s/jobs/%s/%s", worker.agent, job->id,
                   what); /* ids are short */
    enum status st = job_ask_url(job, &call, ret_reply, why);
    bool gone = call.http == 401 || call.http == 403 || call.http == 404 || call.http == 409;
    if (st == ST_REFUSED && gone) {
        worker_say("job %s: %s: %s", job->id, what, why->text);
        job_order(job, ORDER_LOST);
        return ST_CLOSED;
    }
    return st;
}

void job_body_begin(const struct job *job, struct text_writer *w)
{
    text_open_object(w);
    text_member_str(w, "claim", job->claim);
}
