/* The edge as a whole: bytes of a connection go in, decisions come out. The HTTP server, the router
 * and the state are the real ones; a log applies at once, and stubs stand for the node.
 *
 * The path of every request is worked out a second time, by a simple reading of its target as it
 * was sent. What is streamed, refused for a missing header, routed, counted by a quota, recorded,
 * listed as under way, redirected or sent to another node has to agree with that.
 *
 * The first byte chooses what the node and its listener are (enum mode), the second one how many
 * bytes are sent at once. The token "fuzz" may do everything. */
#include "audit/device.h"
#include "router/world.h"

#include "api/cubbyhole/cubbyhole.h"
#include "front/front_http.h"
#include "front/front_request.h"
#include "http/counters.h"
#include "loop/loop.h"
#include "raft/memfs.h"
#include "raft/memfs_calls.h"
#include "router/quota.h"
#include "text/json.h"
#include "text/utf8.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum mode {
    MODE_STANDBY = 1,
    MODE_READS = 2,  /* a standby that answers reads */
    MODE_HEADER = 4, /* the listener requires a header */
    MODE_PEERS = 8,  /* the listener is for nodes of the cluster */
    MODE_ONLY = 16,  /* the listener serves one request only */
};

#define ONLY "sys/storage/raft/bootstrap/join"

enum { TURNS_MAX = 5000, RECORDS_MAX = 64, PATH_MAX_BYTES = 16 * 1024 };

/* What a request is about, by its target alone. */
struct reading {
    bool sound, folder;        /* `folder`: it ends in '/' */
    char text[PATH_MAX_BYTES]; /* "/v1/kv/a", without a '/' at its end */
};

static struct edge {
    struct world w;
    struct env *env;
    struct http_server *server;
    struct front_http http;
    struct quota_table *quotas;
    struct memfs *disk;
    struct audit_table audit;
    struct audit_set devices;
    struct audit_device device;
    struct audit_offer *records[RECORDS_MAX]; /* to be accepted */
    unsigned n_records;

    /* The request that is being served. */
    struct http_request *req;
    struct reading is;
    enum http_method method;
    bool has_header;
    bool reached; /* a handler, a record, another node */
    bool replied; /* by the router */
    void (*respond)(struct router_request *request, struct router_reply *reply);
} edge;

/* The second opinion */

static int hex(int c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool unescape(struct bytes raw, char *text, size_t *ret_len)
{
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        int c = raw.data[i];
        if (c == '%') {
            int high = i + 2 < raw.len ? hex(raw.data[i + 1]) : -1;
            int low = i + 2 < raw.len ? hex(raw.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = high * 16 + low;
            i += 2;
        }
        text[len++] = (char)c;
    }
    *ret_len = len;
    return true;
}

/* Segment by segment. */
static void read_target(struct bytes raw, struct reading *ret)
{
    static char text[PATH_MAX_BYTES];
    size_t len = 0, total = 0;
    *ret = (struct reading){0};
    if (raw.len >= sizeof text || !unescape(raw, text, &len))
        return;
    if (!text_printable(bytes_of(text, len)))
        return;
    for (size_t at = 0; at < len;) {
        size_t end = at;
        while (end < len && text[end] != '/')
            end++;
        struct bytes segment = bytes_of(text + at, end - at);
        if (text_is(segment, ".") || text_is(segment, ".."))
            return;
        if (segment.len != 0) {
            ret->text[total++] = '/';
            memcpy(ret->text + total, segment.data, segment.len);
            total += segment.len;
        }
        at = end + 1;
    }
    ret->folder = len != 0 && text[len - 1] == '/';
    ret->sound = total - (total != 0) + ret->folder <= 3000;
}

static bool below_v1(const struct reading *r)
{
    return r->sound &&
           (strncmp(r->text, "/v1/", 4) == 0 || (r->folder && strcmp(r->text, "/v1") == 0));
}

/* Whether a path that a part of the program saw is that of the request. Who lists sees a folder. */
static bool is_it(const struct reading *r, struct bytes seen)
{
    const char *path = strlen(r->text) > 4 ? r->text + 4 : "";
    struct bytes bare = seen;
    bare.len -= seen.len != 0 && seen.data[seen.len - 1] == '/';
    return below_v1(r) && text_is(bare, path);
}

static void saw(struct bytes path)
{
    ASSERT(is_it(&edge.is, path));
    edge.reached = true;
}

static bool is_upload(const struct reading *r)
{
    return strcmp(r->text, "/v1/sys/storage/raft/snapshot") == 0 ||
           strcmp(r->text, "/v1/sys/storage/raft/snapshot-force") == 0;
}

/* Quotas, the longest path first: the limit says which one counted. */
static const struct {
    const char *name, *path;
    uint64_t limit;
} quotas[] = {
    {"self", "auth/token/lookup-self", 1000001},
    {"folder", "sys/test/folder/", 1000002},
    {"part", "sys/test/f*", 1000003},
    {"exact", "sys/test/q", 1000004},
    {"test", "sys/test/", 1000005},
    {"all", "", 1000006},
};

static uint64_t quota_of(const struct reading *r, bool listed)
{
    char path[PATH_MAX_BYTES], whole[PATH_MAX_BYTES + 2];
    (void)snprintf(path, sizeof path, "%s", strlen(r->text) > 4 ? r->text + 4 : "");
    (void)snprintf(whole, sizeof whole, "%s/", path);
    for (size_t i = 0; i < ARRAY_LEN(quotas); i++) {
        size_t len = strlen(quotas[i].path);
        char last = len != 0 ? quotas[i].path[len - 1] : '/';
        const char *compared = last == '/' || listed || r->folder ? whole : path;
        bool fits = last == '*'   ? strncmp(compared, quotas[i].path, len - 1) == 0
                    : last == '/' ? strncmp(compared, quotas[i].path, len) == 0
                                  : strcmp(path, quotas[i].path) == 0;
        if (fits)
            return quotas[i].limit;
    }
    return 0;
}

static bool is_exempt(const struct reading *r)
{
    static const char *const always[] = {"/v1/sys/health", "/v1/sys/seal-status", "/v1/sys/unseal"};
    for (size_t i = 0; i < ARRAY_LEN(always); i++)
        if (strcmp(r->text, always[i]) == 0)
            return true;
    return false;
}

/* What is looked at */

static enum status reply_test(struct req *req)
{
    CLEANUP(buf_done) struct buf list = {0};
    const struct text_value *tree;
    struct text_writer w = {.out = &list};
    saw(req->path);
    ASSERT(strcmp(req_param(req, "path"), (const char *)req->path.data + strlen("sys/test/")) == 0);
    text_open_object(&w);
    router_worker_inflight(edge.w.worker, &w);
    text_close(&w);
    ASSERT(text_json_parse(req->arena, buf_bytes(&list), &tree, NULL) == ST_OK);
    const struct text_value *path = text_get(text_get(tree, req->request_id), "request_path");
    ASSERT(path != NULL && bytes_has_prefix(path->text, BYTES("/v1/")));
    ASSERT(bytes_eq(bytes_from(path->text, 4), req->path));
    return ST_OK;
}

static const struct route test_routes[] = {
    {.method = METHOD_GET, .path = "*path", .handler = reply_test},
    {.method = METHOD_LIST, .path = "*path", .handler = reply_test, .flags = ROUTE_SCANS},
    {.method = METHOD_POST, .path = "*path", .handler = reply_test, .input = INPUT_FREE},
    {.method = METHOD_DELETE, .path = "*path", .handler = reply_test},
};
static const struct route_api test_api = {.dialect = &secrets_dialect,
                                          .prefix = "sys/test/",
                                          .type = "test",
                                          .routes = test_routes,
                                          .n = ARRAY_LEN(test_routes)};
static const struct route_api *const test_apis[] = {&test_api};
static const struct module test_module = {.name = "test", .apis = test_apis, .n_apis = 1};
static const struct module *const modules[] = {&test_module, &token_module, &cubbyhole_module,
                                               SYS_MODULES, &kv_module};

/* A request that was refused as malformed is recorded too, but reaches nothing. */
static enum status on_record(struct audit_device *device, struct audit_offer *offer)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf line = {0};
    const struct audit_render how = {.raw = true};
    const struct text_value *record;
    (void)device;
    ASSERT(audit_record_render(offer->record, &how, &line) == ST_OK);
    ASSERT(text_json_parse(&arena, buf_bytes(&line), &record, NULL) == ST_OK);
    const struct text_value *path = text_get(text_get(record, "request"), "path");
    ASSERT(path != NULL);
    bool outside = path->text.len == 0 || path->text.data[0] == '/'; /* outside of every API */
    if (text_get(record, "error") == NULL && !outside)
        saw(path->text);
    ASSERT(edge.n_records < RECORDS_MAX);
    edge.records[edge.n_records++] = offer;
    return ST_OK;
}

static enum status get_devices(struct audit_table *table, struct state_txn *txn,
                               struct audit_set **ret_set)
{
    (void)table;
    (void)txn;
    *ret_set = audit_set_ref(&edge.devices);
    return ST_OK;
}

/* The target that another node is given has to be read alike there. */
static void check_sent(struct bytes raw)
{
    static struct reading there;
    for (size_t i = 0; i < raw.len; i++)
        ASSERT(raw.data[i] > ' ' && raw.data[i] < 0x7f && raw.data[i] != '?');
    read_target(raw, &there);
    ASSERT(there.sound && there.folder == edge.is.folder);
    ASSERT(strcmp(there.text, edge.is.text) == 0);
}

static void on_forward(struct router_request *request, struct router_forward *f)
{
    struct bytes raw;
    ASSERT(request == f->request);
    ASSERT(path_encode(request->arena, &request->target, &raw) == ST_OK);
    check_sent(raw);
    ASSERT(!edge.http.peers && request->method == edge.method);
    edge.reached = true;
    edge.w.forwards = 0;
    world_forward(&edge.w, f);
}

static void check_location(struct bytes location)
{
    struct bytes before = bytes_str(edge.w.node.leader_address);
    ASSERT(bytes_has_prefix(location, before));
    location = bytes_from(location, before.len);
    const uint8_t *mark = memchr(location.data, '?', location.len);
    check_sent(mark != NULL ? bytes_of(location.data, (size_t)(mark - location.data)) : location);
}

static void check_limit(struct bytes value)
{
    int64_t limit;
    ASSERT(text_int_parse(value, &limit) == ST_OK);
    if (edge.w.proposals != 0)
        return; /* quotas may have been changed */
    ASSERT((uint64_t)limit == quota_of(&edge.is, false) ||
           (uint64_t)limit == quota_of(&edge.is, true));
}

static void on_respond(struct router_request *request, struct router_reply *reply)
{
    bool limited = false;
    edge.replied = true;
    for (size_t i = 0; i < reply->n_headers; i++) {
        struct http_header h = reply->headers[i];
        if (bytes_eq(h.name, BYTES("Location")))
            check_location(h.value);
        if (bytes_eq(h.name, BYTES("X-Ratelimit-Limit"))) {
            check_limit(h.value);
            limited = true;
        }
    }
    if (edge.reached && !edge.http.peers && edge.w.proposals == 0)
        ASSERT(limited != is_exempt(&edge.is));
    edge.respond(request, reply);
}

/* The connection */

static uint64_t refusals(void)
{
    struct http_counters counters;
    http_server_counters(edge.server, &counters);
    return counters.replies[4];
}

static void on_head(void *ctx, struct http_request *req)
{
    (void)ctx;
    edge.req = req;
    edge.method = req->method;
    edge.reached = edge.replied = false;
    read_target(req->path, &edge.is);
    struct bytes ours = http_header(req, "x-secrets-request");
    struct bytes theirs = http_header(req, "x-vault-request");
    edge.has_header = text_is(ours, "true") || text_is(theirs, "true");
    front_http_handler.head(&edge.http, req);
}

static bool needs_stream(const struct http_request *req)
{
    bool writes = req->method == METHOD_POST || req->method == METHOD_PUT;
    return writes && is_upload(&edge.is);
}

static void on_request(void *ctx, struct http_request *req)
{
    bool refused = edge.http.require_request_header && !edge.http.peers && below_v1(&edge.is) &&
                   !edge.has_header;
    bool other = edge.http.only != NULL && (req->method != METHOD_POST || edge.is.folder ||
                                            strcmp(edge.is.text, "/v1/" ONLY) != 0);
    uint64_t before = refusals();
    (void)ctx;
    ASSERT(edge.req == req);
    ASSERT(!needs_stream(req) || http_body_streams(req));
    struct router_request *request = &front_request_get(req)->request;
    ASSERT((request->target.fault == NULL) == edge.is.sound);
    edge.respond = request->respond;
    request->respond = on_respond;
    request->forward = on_forward;
    front_http_handler.request(&edge.http, req);
    bool at_once = refusals() != before && !edge.replied;
    ASSERT(!(refused || other) || (at_once && !edge.reached));
}

static const struct http_handler handler = {.head = on_head, .request = on_request};

/* The node */

static enum status refuse_name(struct node *node, const char *name, struct reason *why)
{
    (void)node, (void)name, (void)why;
    return ST_NOT_FOUND;
}

static enum status refuse_vote(struct node *node, const char *name, bool votes, struct reason *why)
{
    (void)node, (void)name, (void)votes, (void)why;
    return ST_NOT_FOUND;
}

static enum status refuse(struct node *node, struct reason *why)
{
    (void)node, (void)why;
    return ST_BUSY;
}

static enum status refuse_share(struct node *node, struct env *env, struct bytes share,
                                bool migrate, struct reason *why)
{
    (void)node, (void)env, (void)share, (void)migrate, (void)why;
    return ST_INVALID;
}

static enum status list_inflight(struct router_host *host, struct text_writer *w)
{
    (void)host;
    router_worker_inflight(edge.w.worker, w);
    return ST_OK;
}

static void seal_node(struct node *node)
{
    (void)node;
}

static enum status refuse_join(struct node *node, const struct join_request *how,
                               struct reason *why)
{
    (void)node, (void)how, (void)why;
    return ST_EXISTS;
}

static enum status refuse_save(struct node *node, struct fs_file **ret_file, uint64_t *ret_bytes,
                               struct reason *why)
{
    (void)node, (void)ret_file, (void)ret_bytes, (void)why;
    return ST_BUSY;
}

static enum status check_restore(struct node *node, struct env *env,
                                 const struct snapshot_source *source, struct reason *why)
{
    (void)node, (void)env, (void)why;
    ASSERT(source->file != NULL && is_upload(&edge.is));
    edge.reached = true;
    return ST_INVALID;
}

static enum status open_file(struct node *node, struct fs_file **ret_file)
{
    (void)node;
    return fs_open(&edge.disk->fs, "upload", FS_READ | FS_WRITE | FS_CREATE, ret_file);
}

static bool file_room(struct node *node)
{
    (void)node;
    return true;
}

static unsigned no_peers(struct node *node, struct node_peer *ret_peers)
{
    (void)node, (void)ret_peers;
    return 0;
}

static bool is_member(const struct front_http *http, const struct http_request *req,
                      char ret_name[static MESH_NAME_MAX])
{
    (void)http, (void)req;
    memcpy(ret_name, "node", sizeof "node");
    return true;
}

static void must(int http, enum http_method method, const char *target, const char *body)
{
    struct test_request *t = world_request(&edge.w, method, target, body);
    if (t->http != http)
        fail_msg("%s: %d %s", target, t->http, (const char *)t->body.data);
}

static void set_host(struct router_host *host, struct node_ops *ops)
{
    host->inflight = list_inflight;
    host->upload_bytes_max = 1024 * 1024;
    host->quotas = edge.quotas;
    ops->peers = no_peers;
    ops->unseal_share = refuse_share;
    ops->unseal_reset = refuse;
    ops->seal = seal_node;
    ops->join = refuse_join;
    ops->remove_member = refuse_name;
    ops->set_vote = refuse_vote;
    ops->step_down = refuse;
    ops->snapshot_file = open_file;
    ops->snapshot_room = file_room;
    ops->snapshot_save = refuse_save;
    ops->snapshot_restore = check_restore;
}

/* A fresh cluster with its quotas, and a token whose text is known. */
static void node_up(void)
{
    struct world *w = &edge.w;
    char target[100], body[200];
    ASSERT(quota_table_new((uint64_t[2]){1, 2}, &edge.quotas) == ST_OK);
    world_open(w, modules, ARRAY_LEN(modules));
    set_host(&w->host, &w->node_ops);
    router_worker_free(w->worker);
    ASSERT(router_worker_new(&w->router, &w->env.env, w->state, &w->worker) == ST_OK);
    world_init(w);
    must(200, METHOD_POST, "/v1/auth/token/create", "{\"id\":\"fuzz\"}");
    must(204, METHOD_POST, "/v1/sys/quotas/config",
         "{\"enable_rate_limit_response_headers\":true}");
    for (size_t i = 0; i < ARRAY_LEN(quotas); i++) {
        (void)snprintf(target, sizeof target, "/v1/sys/quotas/rate-limit/%s", quotas[i].name);
        (void)snprintf(body, sizeof body, "{\"path\":\"%s\",\"rate\":%llu}", quotas[i].path,
                       (unsigned long long)quotas[i].limit);
        must(204, METHOD_POST, target, body);
    }
    static const struct audit_device_ops ops = {.offer = on_record};
    static const struct audit_use use;
    edge.device = (struct audit_device){.ops = &ops, .refs = 1};
    edge.devices = (struct audit_set){.refs = 1, .n_uses = 1, .n = 1};
    edge.devices.uses[0] = &use;
    edge.devices.devices[0] = &edge.device;
    edge.audit.get = get_devices;
    w->host.audit = &edge.audit;
    w->proposals = 0;
    w->env.now_ms += 2 * QUOTA_PATIENCE_MS;
}

static void node_down(void)
{
    world_close(&edge.w);
    quota_table_free(edge.quotas);
}

static void set_mode(unsigned mode)
{
    static const char *const only[] = {ONLY, NULL};
    struct world *w = &edge.w;
    w->node.active = true;
    w->node.perf_standby = false;
    if ((mode & MODE_STANDBY) != 0)
        world_standby(w, (mode & MODE_READS) != 0);
    edge.http = (struct front_http){.worker = w->worker,
                                    .peers = (mode & MODE_PEERS) != 0,
                                    .is_member = is_member,
                                    .only = (mode & MODE_ONLY) != 0 ? only : NULL,
                                    .require_request_header = (mode & MODE_HEADER) != 0};
}

static void server_up(void)
{
    static struct http_limits limits;
    limits = http_limits_default;
    limits.request_ms = 0;
    const struct http_server_options options = {.handler = &handler, .limits = &limits};
    ASSERT(loop_new(NULL, &edge.env) == ST_OK);
    ASSERT(http_server_start(edge.env, &options, &edge.server, NULL) == ST_OK);
    edge.disk = memfs_new();
}

/* Everything that can happen now. */
static void turn(void)
{
    (void)uv_run(loop_uv(edge.env), UV_RUN_NOWAIT); /* whether more is to come shows elsewhere */
    clock_run(&edge.w.env);
    for (unsigned i = 0; i < edge.n_records; i++)
        edge.records[i]->done(edge.records[i], ST_OK);
    edge.n_records = 0;
    clock_run(&edge.w.env);
    edge.w.env.now_ms += 10;
}

/* Two ends of a connection. Ours is reset in the end, so that no port is kept. */
static void connect_pair(int ret_fds[2])
{
    static int listener = -1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct linger reset = {.l_onoff = 1};
    socklen_t len = sizeof at;
    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT(bind(listener, (struct sockaddr *)&at, sizeof at) == 0);
        ASSERT(listen(listener, 16) == 0);
    }
    ASSERT(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    ret_fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT(ret_fds[0] >= 0);
    ASSERT(connect(ret_fds[0], (struct sockaddr *)&at, sizeof at) == 0);
    ASSERT(setsockopt(ret_fds[0], SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
    ret_fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    ASSERT(ret_fds[1] >= 0);
}

static bool ended(int fd)
{
    char text[4096];
    ssize_t n = recv(fd, text, sizeof text, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

/* Send it all, end our side, and wait until the server has ended its own. */
static void converse(struct bytes in, size_t step)
{
    int fds[2];
    connect_pair(fds);
    ASSERT(http_server_adopt(edge.server, fds[1], NULL, (struct bytes){0}) == ST_OK);
    bool over = false, told = false;
    for (int idle = 0; idle < TURNS_MAX && !over;) {
        ssize_t n =
            in.len != 0 ? send(fds[0], in.data, MIN(step, in.len), MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
        if (n > 0)
            in = bytes_from(in, (size_t)n);
        else
            idle++;
        if (in.len == 0 && !told)
            told = shutdown(fds[0], SHUT_WR) == 0;
        turn();
        over = ended(fds[0]);
    }
    ASSERT(over);
    ASSERT(close(fds[0]) == 0);
    for (int i = 0; i < 4; i++)
        turn();
    ASSERT(router_worker_running(edge.w.worker) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (edge.env == NULL) {
        server_up();
        node_up();
    }
    set_mode(data[0]);
    converse(bytes_of(data + 2, size - 2), (size_t)data[1] * 16 + 1);
    if (edge.w.proposals != 0) { /* each input finds the same */
        node_down();
        node_up();
    }
    return 0;
}
