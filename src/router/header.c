#include "router/header.h"

struct bytes header_bearer(const struct router_request *request)
{
    static const struct bytes scheme = {(const uint8_t *)"Bearer ", 7};
    struct bytes token = router_header(request, "authorization");
    return bytes_has_prefix(token, scheme) ? bytes_from(token, scheme.len) : (struct bytes){0};
}
