/* Requests in progress on a worker, for sys/in-flight-req. */
#include "router/pipeline/pipe.h"
#include "router/request/dialect.h"
#include "text/json.h"

struct inflight_out {
    const char *request_id, *client_remote_address, *request_method, *client_id;
    struct bytes request_path;
    int64_t start_time;
};
static const struct field inflight_fields[] = {
    FIELD(struct inflight_out, start_time, TIME),
    FIELD(struct inflight_out, client_remote_address, STRING),
    FIELD(struct inflight_out, request_path, BYTES),
    FIELD(struct inflight_out, request_method, STRING),
    FIELD(struct inflight_out, client_id, STRING),
};
const struct schema router_inflight_schema =
    SCHEMA_NAMED(struct inflight_out, request_id, inflight_fields);

static void put_pipe(const struct pipe *p, struct text_writer *w)
{
    CLEANUP(buf_done) struct buf path = {0};
    struct env *env = p->worker->env;
    int64_t age_ms = (int64_t)(env_mono_ms(env) - p->begun_ms);
    buf_add_str(&path, p->req.dialect->root);
    buf_add(&path, p->req.path);
    const struct inflight_out out = {
        .start_time = env_wall_ms(env) - age_ms,
        .client_remote_address = p->request->peer,
        .request_path = buf_bytes(&path),
        .request_method = http_method_name(p->request->method),
        .client_id = "", /* id of an entity: entities do not exist yet */
    };
    text_key(w, p->req.request_id);
    schema_encode(&router_inflight_schema, &out, w);
}

void router_worker_inflight(struct router_worker *worker, struct text_writer *w)
{
    LIST_FOR (link, &worker->requests_under_way)
        put_pipe(CONTAINER_OF(link, struct pipe, link), w);
}
