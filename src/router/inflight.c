/* Requests in progress on a worker, for sys/in-flight-req. */
#include "router/pipe.h"
#include "text/json.h"

static void put_pipe(const struct pipe *p, struct text_writer *w)
{
    CLEANUP(buf_done) struct buf path = {0};
    struct env *env = p->worker->env;
    int64_t age_ms = (int64_t)(env_mono_ms(env) - p->begun_ms);
    buf_add_str(&path, "/v1/");
    buf_add(&path, p->req.path);
    text_key(w, p->req.request_id);
    text_open_object(w);
    text_member_time(w, "start_time", env_wall_ms(env) - age_ms);
    text_member_str(w, "client_remote_address", p->call->peer);
    text_key(w, "request_path");
    text_put_bytes(w, buf_bytes(&path));
    text_member_str(w, "request_method", http_method_name(p->call->method));
    text_member_str(w, "client_id", ""); /* of an entity: there are none */
    text_close(w);
}

void router_worker_inflight(struct router_worker *worker, struct text_writer *w)
{
    LIST_FOR (link, &worker->calls_under_way)
        put_pipe(CONTAINER_OF(link, struct pipe, link), w);
}
