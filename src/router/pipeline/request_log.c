#include "router/pipeline/request_log.h"
#include "base/trace.h"

static void put_bytes(struct text_writer *w, const char *name, struct bytes text)
{
    text_key(w, name);
    text_put_bytes(w, bytes_of(text.data, MIN(text.len, (size_t)512)));
}

void request_log(const struct pipe *p)
{
    const struct req *req = &p->req;
    enum trace_level level = req->host->request_log;
    struct buf out = {0};
    struct text_writer w = {.out = &out};

    if (level < trace_level_of("router") || level >= TRACE_OFF)
        return;
    text_open_object(&w);
    text_member_str(&w, "request_id", req->request_id);
    text_member_str(&w, "method", http_method_name(p->request->method));
    text_member_str(&w, "operation", stage_operation(req->method));
    put_bytes(&w, "path", req->path);
    text_member_int(&w, "status", p->reply.http);
    text_member_int(&w, "duration_ms", (int64_t)(env_mono_ms(p->worker->env) - p->begun_ms));
    text_member_str(&w, "client", p->request->peer);
    text_member_bool(&w, "forwarded", p->request->forwarded);
    text_member_bool(&w, "sent_on", p->forward != NULL);
    text_member_int(&w, "request_bytes", (int64_t)p->request->body.len);
    text_member_int(&w, "answer_bytes", (int64_t)reply_bytes(&p->reply).len);
    if (req->api != NULL)
        text_member_str(&w, "mount_type", req->api->type);
    if (req->token != NULL)
        text_member_str(&w, "accessor", req->token->accessor);
    text_close(&w);
    if (buf_status(&out) == ST_OK) /* without memory the line is left out */
        trace_fields(level, "router", "request", buf_bytes(&out));
    buf_done(&out);
}
