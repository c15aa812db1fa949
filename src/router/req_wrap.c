#include "router/req_wrap.h"
#include "router/request/dialect.h"

void req_wrap(struct req *req, int64_t ttl_s, enum wrap_form form)
{
    ASSERT(ttl_s > 0);
    ASSERT(req->token != NULL);
    ASSERT(req->dialect->finish != NULL); /* this function wraps the reply */
    req->reply.wrap_ttl_s = ttl_s;
    req->reply.wrap_jwt = form == WRAP_JWT;
}
