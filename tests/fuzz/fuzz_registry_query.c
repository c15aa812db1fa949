/* Reading the query of a GET of the registry never fails badly. A wait has a bound, a mode has one
 * meaning, and an index that is taken is the number that the client wrote. */
#include "front/registry/registry_read.h"
#include "router/request/path.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_given(const struct req *req, const char *name)
{
    return text_get(req->query, name) != NULL;
}

/* Leading zeros make no difference. */
static void check_index(const struct req *req)
{
    struct bytes given = registry_parameter(req, "index");
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)req->block.index);
    while (given.len > 1 && given.data[0] == '0')
        given = bytes_from(given, 1);
    ASSERT(given.len == 0 ? req->block.index == 0 : text_is(given, text));
}

static void check_taken(const struct req *req)
{
    if (req->query->n == 0)
        return;
    ASSERT(req->block.wait_ms >= 1 && req->block.wait_ms <= 600 * 1000);
    if (registry_parameter(req, "wait").len == 0)
        ASSERT(req->block.wait_ms == 300 * 1000);
    check_index(req);
    ASSERT((req->mode == REQ_CONSISTENT) == is_given(req, "consistent"));
    if (is_given(req, "leader") || is_given(req, "consistent"))
        ASSERT(req->mode != REQ_STALE);
    else
        ASSERT((req->mode == REQ_STALE) == (is_given(req, "stale") || req->max_stale_ms != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct req req = {.arena = &arena, .method = METHOD_GET};
    struct text_value *query;
    if (path_parse_pairs(&arena, bytes_of(data, size), &query, NULL) != ST_OK)
        return 0;
    req.query = query;
    enum status st = registry_read_query(&req);
    ASSERT(st == ST_OK || st == ST_INVALID);
    if (st == ST_OK)
        check_taken(&req);
    else
        ASSERT(req_error(&req)->text[0] != '\0');
    return 0;
}
