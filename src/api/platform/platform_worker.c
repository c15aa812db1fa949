/* The protocol of workers: registration, claims of phases, and what becomes of them
 * (docs/worker-protocol.md). A worker shows the token of its agent pool, and speaks for the phases
 * that it claimed: the claim is a text that it chose. A repeated request does no harm. */
#include "api/platform/platform_worker.h"
#include "api/platform/platform.h"
#include "api/platform/platform_log.h"
#include "api/platform/platform_rows.h"
#include "text/encode.h"
#include "text/random.h"

enum {
    HEARTBEAT_S = 20,
    PING_STEP_MS = 10 * 1000, /* a later word is stored; an earlier one costs no transaction */
    JOBS_MAX = 20,            /* in one reply */
    NAME_MAX_BYTES = 200,
    MESSAGE_MAX = 1000,
    GRACE_MS = 120 * 1000, /* after the timeout of a phase, for its end by the worker */
    TOKEN_MS = 3600 * 1000,
    COUNT_MAX = 1000000000,
};

/* The fields have presets instead of being required: the sender is judged before the body. */

/* Agents */

enum status platform_worker_agent(struct req *req, struct platform_object *ret_agent)
{
    struct platform_object pool;
    TRY(platform_who_pool(req, &pool));
    TRY(platform_object_load(req->txn, "agents", req_param(req, "agent"), ret_agent));
    return strcmp(ret_agent->parent, pool.id) == 0 ? ST_OK : ST_NOT_FOUND;
}

struct worker_hello {
    const char *name, *version, *agent_id;
    const struct text_value *tools;
};
static const struct field hello_fields[] = {
    FIELD(struct worker_hello, name, STRING, .preset = "", .help = "Name of the worker."),
    FIELD(struct worker_hello, version, STRING, .preset = ""),
    FIELD(struct worker_hello, agent_id, STRING, .preset = "",
          .help = "Id of an earlier registration of this worker."),
    FIELD(struct worker_hello, tools, VALUE, .help = "Objects with `tool` and `version`."),
};
static const struct schema worker_hello_schema = SCHEMA(struct worker_hello, hello_fields);

struct worker_terms {
    const char *agent_id, *pool_id;
    int64_t lease_s, renew_s, heartbeat_s, log_bytes_max, file_bytes_max;
};
static const struct field terms_fields[] = {
    FIELD(struct worker_terms, agent_id, STRING),
    FIELD(struct worker_terms, pool_id, STRING),
    FIELD(struct worker_terms, lease_s, INT, .help = "How long a claim lasts without a renewal."),
    FIELD(struct worker_terms, renew_s, INT, .help = "How often to renew."),
    FIELD(struct worker_terms, heartbeat_s, INT),
    FIELD(struct worker_terms, log_bytes_max, INT),
    FIELD(struct worker_terms, file_bytes_max, INT),
};
static const struct schema worker_terms_reply = SCHEMA(struct worker_terms, terms_fields);

/* Make room for a further agent: those that were silent for long go. */
static enum status make_agent_room(struct req *req, const struct platform_object *pool)
{
    struct platform_objects agents;
    size_t kept = 0;
    TRY(platform_object_children(req->txn, pool->id, "agents", &agents));
    for (size_t i = 0; i < agents.n; i++) {
        int64_t ping_ms = platform_number(agents.items[i].links, "ping-ms");
        if (req->now_ms > ping_ms + PLATFORM_AGENT_KNOWN_MS)
            TRY(platform_object_delete(req->txn, &agents.items[i]));
        else
            kept++;
    }
    return kept < PLATFORM_AGENTS_MAX
               ? ST_OK
               : req_fail(req, ST_REFUSED, "a pool has at most %d agents", PLATFORM_AGENTS_MAX);
}

/* The agent that registers: the one it was before, or a new one. *ret_new: it is not stored. */
static enum status find_or_make(struct req *req, const struct platform_object *pool,
                                const char *former, struct platform_object *ret_agent,
                                bool *ret_new)
{
    enum status st = former[0] != '\0' ? platform_object_load(req->txn, "agents", former, ret_agent)
                                       : ST_NOT_FOUND;
    *ret_new = st == ST_NOT_FOUND || (st == ST_OK && strcmp(ret_agent->parent, pool->id) != 0);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    if (!*ret_new)
        return ST_OK;
    TRY(make_agent_room(req, pool));
    TRY(platform_object_new(req, "agents", platform_agent_kind.prefix, ret_agent));
    ret_agent->parent = pool->id;
    return ST_OK;
}

/* The address without the port. */
static enum status set_address(struct req *req, struct platform_object *agent)
{
    const char *colon = strrchr(req->peer, ':');
    size_t len = colon != NULL ? (size_t)(colon - req->peer) : strlen(req->peer);
    const char *address = arena_str(req->arena, bytes_of(req->peer, len));
    return address != NULL ? platform_set_text(req->arena, agent->attrs, "ip-address", address)
                           : ST_NOMEM;
}

static enum status worker_register(struct req *req)
{
    const struct worker_hello *in = req_body(req);
    struct platform_object pool, agent;
    bool fresh;
    TRY(platform_who_pool(req, &pool));
    if (in->name[0] == '\0' || strlen(in->name) > NAME_MAX_BYTES ||
        strlen(in->version) > NAME_MAX_BYTES)
        return req_fail(req, ST_REFUSED, "name, version: texts of 1 to %d bytes are expected",
                        NAME_MAX_BYTES);
    TRY(find_or_make(req, &pool, in->agent_id, &agent, &fresh));
    TRY(platform_set_text(req->arena, agent.attrs, "name", in->name));
    TRY(platform_set_text(req->arena, agent.attrs, "version", in->version));
    TRY(set_address(req, &agent));
    TRY(platform_set_text(req->arena, agent.links, "status", "idle"));
    TRY(platform_set_number(req->arena, agent.links, "ping-ms", req->now_ms));
    TRY(fresh ? platform_object_add(req->txn, &agent) : platform_object_put(req->txn, "", &agent));
    const struct platform_config *config = platform_config();
    return req_reply(req,
                     &(struct worker_terms){.agent_id = agent.id,
                                            .pool_id = pool.id,
                                            .lease_s = platform_config()->run_lease_s,
                                            .renew_s = platform_config()->run_lease_s / 3,
                                            .heartbeat_s = HEARTBEAT_S,
                                            .log_bytes_max = (int64_t)config->log_bytes_max,
                                            .file_bytes_max = (int64_t)config->blob_bytes_max});
}

struct worker_beat {
    const char *status;
};
static const struct field beat_fields[] = {
    FIELD(struct worker_beat, status, STRING, .preset = "", .help = "idle, busy or exited."),
};
static const struct schema worker_beat_schema = SCHEMA(struct worker_beat, beat_fields);

struct worker_done {
    bool ok;
};
static const struct field done_fields[] = {FIELD(struct worker_done, ok, BOOL)};
static const struct schema worker_done_reply = SCHEMA(struct worker_done, done_fields);

static enum status worker_beat(struct req *req)
{
    const struct worker_beat *in = req_body(req);
    struct platform_object agent;
    bool known = strcmp(in->status, "idle") == 0 || strcmp(in->status, "busy") == 0 ||
                 strcmp(in->status, "exited") == 0;
    TRY(platform_worker_agent(req, &agent));
    if (!known)
        return req_fail(req, ST_REFUSED, "status: idle, busy or exited is expected");
    bool same = strcmp(platform_text(agent.links, "status"), in->status) == 0;
    bool fresh = req->now_ms < platform_number(agent.links, "ping-ms") + PING_STEP_MS;
    if (!same || !fresh) {
        TRY(platform_set_text(req->arena, agent.links, "status", in->status));
        TRY(platform_set_number(req->arena, agent.links, "ping-ms", req->now_ms));
        TRY(platform_object_put(req->txn, "", &agent));
    }
    return req_reply(req, &(struct worker_done){true});
}

/* Jobs that wait */

struct worker_waiting {
    const char *id, *phase, *run_id, *tool, *tool_version;
};
static const struct field waiting_fields[] = {
    FIELD(struct worker_waiting, id, STRING),           FIELD(struct worker_waiting, phase, STRING),
    FIELD(struct worker_waiting, run_id, STRING),       FIELD(struct worker_waiting, tool, STRING),
    FIELD(struct worker_waiting, tool_version, STRING),
};
static const struct schema waiting_schema = SCHEMA(struct worker_waiting, waiting_fields);
struct worker_waiting_list {
    uint64_t index;
    struct field_list jobs;
};
static const struct field waiting_list_fields[] = {
    FIELD(struct worker_waiting_list, index, UINT, .help = "For the next request."),
    FIELD(struct worker_waiting_list, jobs, LIST, .sub = &waiting_schema),
};
static const struct schema worker_waiting_reply =
    SCHEMA(struct worker_waiting_list, waiting_list_fields);

static enum status find_waiting(struct req *req, const char *id, struct worker_waiting *ret_job)
{
    struct platform_flow flow;
    TRY(platform_flow_of_phase(req->txn, req->now_ms, id, &flow));
    bool plan = strcmp(id, flow.plan.id) == 0;
    *ret_job = (struct worker_waiting){.id = id,
                                       .phase = plan ? "plan" : "apply",
                                       .run_id = flow.run.id,
                                       .tool = plan ? "" : platform_text(flow.run.links, "tool"),
                                       .tool_version = platform_job_version(&flow, plan)};
    return ST_OK;
}

static enum status worker_jobs(struct req *req)
{
    struct platform_object agent;
    struct state_iter iter;
    struct bytes prefix;
    struct worker_waiting *jobs = arena_alloc(req->arena, JOBS_MAX * sizeof *jobs);
    size_t n = 0;
    if (jobs == NULL)
        return ST_NOMEM;
    TRY(platform_worker_agent(req, &agent));
    TRY(platform_run_prefix(req->txn, "job", agent.parent, &prefix));
    TRY(req_watch_prefix(req, prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, &iter));
    while (n < JOBS_MAX && state_iter_next(&iter)) {
        const char *id = platform_run_key_id(req->txn, iter.key);
        if (id == NULL)
            return ST_NOMEM;
        enum status st = find_waiting(req, id, &jobs[n]);
        if (st != ST_OK && st != ST_NOT_FOUND) /* not found: the workspace was deleted */
            return st;
        n += st == ST_OK;
    }
    return req_reply(req, &(struct worker_waiting_list){req->index, {jobs, n}});
}

/* Claims */

struct worker_claim {
    const char *claim;
};
static const struct field claim_fields[] = {
    FIELD(struct worker_claim, claim, STRING, .preset = "", .hidden = true,
          .help = "16 to 64 random letters and digits; new for each claim."),
};
static const struct schema worker_claim_schema = SCHEMA(struct worker_claim, claim_fields);

static bool is_claim(const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)text[i];
        if (!((c | 0x20) >= 'a' && (c | 0x20) <= 'z') && !(c >= '0' && c <= '9'))
            return false;
    }
    return len >= PLATFORM_CLAIM_MIN && len <= PLATFORM_CLAIM_MAX;
}

bool platform_worker_owns(const struct platform_object *agent, const struct platform_object *phase,
                          const char *claim)
{
    const char *known = platform_text(phase->links, "claim");
    return strcmp(platform_text(phase->links, "agent"), agent->id) == 0 && known[0] != '\0' &&
           bytes_eq_secret(bytes_str(known), bytes_str(claim));
}

struct platform_object *platform_worker_find(struct platform_flow *flow, const char *id)
{
    return strcmp(flow->plan.id, id) == 0    ? &flow->plan
           : strcmp(flow->apply.id, id) == 0 ? &flow->apply
                                             : NULL;
}

/* The phase of the path, in the pool of the agent. */
static enum status find_job(struct req *req, const struct platform_object *agent,
                            struct platform_flow *ret_flow, struct platform_object **ret_phase)
{
    const char *id = req_param(req, "job");
    TRY(platform_flow_of_phase(req->txn, req->now_ms, id, ret_flow));
    *ret_phase = platform_worker_find(ret_flow, id);
    bool own = strcmp(platform_text(ret_flow->run.links, "pool"), agent->parent) == 0;
    return own && *ret_phase != NULL ? ST_OK : ST_NOT_FOUND;
}

static bool is_phase(const struct platform_object *phase, enum run_phase_status status)
{
    return strcmp(platform_text(phase->attrs, "status"), run_phase_status_name(status)) == 0;
}

enum status platform_worker_phase(struct req *req, const char *claim,
                                  struct platform_flow *ret_flow,
                                  struct platform_object **ret_phase)
{
    struct platform_object agent;
    TRY(platform_worker_agent(req, &agent));
    TRY(find_job(req, &agent, ret_flow, ret_phase));
    return is_phase(*ret_phase, RUN_PHASE_RUNNING) &&
                   platform_worker_owns(&agent, *ret_phase, claim)
               ? ST_OK
               : req_fail(req, ST_EXISTS, "the job is not yours any more: it is %s, and the run %s",
                          platform_text((*ret_phase)->attrs, "status"),
                          platform_text(ret_flow->run.attrs, "status"));
}

/* Stage a token of the run for the phase, in place of the former one. */
static enum status mint_run_token(struct req *req, const struct platform_flow *flow,
                                  struct platform_object *phase, const char **ret_secret)
{
    const struct auth_scope scope = req_scope(req);
    const char *former = platform_text(phase->links, "token");
    char random[17];
    text_random(req->env, random, 16);
    const char *id = arena_concat(req->arena, "at-", random);
    int64_t until_ms = platform_number(phase->links, "deadline-ms") + TOKEN_MS;
    if (id == NULL)
        return ST_NOMEM;
    if (former[0] != '\0')
        TRY(platform_token_end(&scope, former));
    TRY(platform_token_add(req, id, flow->run.id, until_ms, ret_secret));
    return platform_set_text(req->arena, phase->links, "token", id);
}

static enum status take_claim(struct req *req, const struct platform_object *agent,
                              const char *claim, struct platform_flow *flow,
                              struct platform_object *phase)
{
    int64_t timeout_s;
    TRY(platform_job_timeout(req->txn, flow, phase == &flow->plan, &timeout_s));
    TRY(platform_set_text(req->arena, phase->links, "agent", agent->id));
    TRY(platform_set_text(req->arena, phase->links, "claim", claim));
    TRY(platform_set_number(req->arena, phase->links, "deadline-ms",
                            req->now_ms + timeout_s * 1000 + GRACE_MS));
    return platform_lease_set(req->txn, phase, req->now_ms + platform_config()->run_lease_s * 1000);
}

static enum status worker_claim(struct req *req)
{
    const struct worker_claim *in = req_body(req);
    struct platform_object agent, *phase;
    struct platform_flow flow;
    const char *secret;
    TRY(platform_worker_agent(req, &agent));
    TRY(find_job(req, &agent, &flow, &phase));
    if (!is_claim(in->claim))
        return req_fail(req, ST_REFUSED, "claim: %d to %d letters and digits are expected",
                        PLATFORM_CLAIM_MIN, PLATFORM_CLAIM_MAX);
    bool again =
        is_phase(phase, RUN_PHASE_RUNNING) && platform_worker_owns(&agent, phase, in->claim);
    if (!again && !is_phase(phase, RUN_PHASE_QUEUED))
        return req_fail(req, ST_EXISTS, "the job does not wait any more: it is %s",
                        platform_text(phase->attrs, "status"));
    if (!again)
        TRY(take_claim(req, &agent, in->claim, &flow, phase));
    TRY(mint_run_token(req, &flow, phase, &secret));
    TRY(again ? platform_flow_put(&flow) : platform_run_step(&flow, RUN_CLAIM));
    return platform_job_reply(req, &flow, phase, secret);
}

struct worker_renewed {
    const char *action;
    int64_t lease_s, log_length;
};
static const struct field renewed_fields[] = {
    FIELD(struct worker_renewed, action, STRING, .help = "continue, cancel or force-cancel."),
    FIELD(struct worker_renewed, lease_s, INT),
    FIELD(struct worker_renewed, log_length, INT),
};
static const struct schema worker_renewed_reply = SCHEMA(struct worker_renewed, renewed_fields);

/* A phase that outlived its timeout gets no further lease. */
static enum status worker_renew(struct req *req)
{
    const struct worker_claim *in = req_body(req);
    struct platform_object *phase;
    struct platform_flow flow;
    uint64_t length;
    TRY(platform_worker_phase(req, in->claim, &flow, &phase));
    bool late = req->now_ms > platform_number(phase->links, "deadline-ms");
    if (!late) {
        TRY(platform_lease_set(req->txn, phase,
                               req->now_ms + platform_config()->run_lease_s * 1000));
        TRY(platform_object_put(req->txn, "", phase));
    }
    TRY(platform_log_length(req->txn, phase->id, &length));
    bool cancel = platform_number(flow.run.links, "cancel-ms") != 0;
    return req_reply(req, &(struct worker_renewed){.action = late     ? "force-cancel"
                                                             : cancel ? "cancel"
                                                                      : "continue",
                                                   .lease_s = platform_config()->run_lease_s,
                                                   .log_length = (int64_t)length});
}

/* Logs */

struct worker_piece {
    const char *claim, *data;
    int64_t offset;
};
static const struct field piece_fields[] = {
    FIELD(struct worker_piece, claim, STRING, .preset = "", .hidden = true),
    FIELD(struct worker_piece, offset, INT, .preset = "-1",
          .help = "Where the bytes begin in the log."),
    FIELD(struct worker_piece, data, STRING, .preset = "", .hidden = true,
          .help = "Up to 65536 bytes, in base64."),
};
static const struct schema worker_piece_schema = SCHEMA(struct worker_piece, piece_fields);
struct worker_logged {
    int64_t length;
};
static const struct field logged_fields[] = {
    FIELD(struct worker_logged, length, INT, .help = "Bytes of the log that are stored."),
};
static const struct schema worker_logged_reply = SCHEMA(struct worker_logged, logged_fields);

static enum status worker_log(struct req *req)
{
    const struct worker_piece *in = req_body(req);
    struct platform_object *phase;
    struct platform_flow flow;
    uint64_t length;
    size_t text_len = strlen(in->data), len;
    TRY(platform_worker_phase(req, in->claim, &flow, &phase));
    uint8_t *raw = arena_alloc(req->arena, TEXT_BASE64_BYTES(text_len));
    if (raw == NULL)
        return ST_NOMEM;
    if (text_base64_parse(bytes_str(in->data), raw, &len) != ST_OK || len == 0 ||
        len > PLATFORM_LOG_PIECE)
        return req_fail(req, ST_REFUSED, "data: 1 to %d bytes in base64 are expected",
                        PLATFORM_LOG_PIECE);
    if (in->offset < 0 || in->offset > INT64_C(1) << 40)
        return req_fail(req, ST_REFUSED, "offset: 0 to 1 TiB is expected");
    enum status st =
        platform_log_append(req->txn, phase->id, (uint64_t)in->offset, bytes_of(raw, len), &length);
    if (st == ST_REFUSED)
        return req_fail(req, ST_EXISTS, "gap: the log has %llu bytes", (unsigned long long)length);
    TRY(st);
    return req_reply(req, &(struct worker_logged){(int64_t)length});
}

/* The end of a phase */

struct worker_end {
    const char *claim, *status, *message, *tool, *tool_version;
    bool has_changes, generated_configuration;
    int64_t resource_additions, resource_changes, resource_destructions, resource_imports;
};
static const struct field end_fields[] = {
    FIELD(struct worker_end, claim, STRING, .preset = "", .hidden = true),
    FIELD(struct worker_end, status, STRING, .preset = "",
          .help = "finished, errored or canceled."),
    FIELD(struct worker_end, message, STRING, .preset = "", .help = "Why, for people."),
    FIELD(struct worker_end, tool, STRING, .preset = "", .help = "The tool that made the plan."),
    FIELD(struct worker_end, tool_version, STRING, .preset = ""),
    FIELD(struct worker_end, has_changes, BOOL),
    FIELD(struct worker_end, generated_configuration, BOOL),
    FIELD(struct worker_end, resource_additions, INT, .preset = "0"),
    FIELD(struct worker_end, resource_changes, INT, .preset = "0"),
    FIELD(struct worker_end, resource_destructions, INT, .preset = "0"),
    FIELD(struct worker_end, resource_imports, INT, .preset = "0"),
};
static const struct schema worker_end_schema = SCHEMA(struct worker_end, end_fields);

static enum status set_counts(struct req *req, const struct worker_end *in,
                              struct platform_object *phase)
{
    const struct {
        const char *name;
        int64_t n;
    } counts[] = {{"resource-additions", in->resource_additions},
                  {"resource-changes", in->resource_changes},
                  {"resource-destructions", in->resource_destructions},
                  {"resource-imports", in->resource_imports}};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        if (counts[i].n < 0 || counts[i].n > COUNT_MAX)
            return req_fail(req, ST_REFUSED, "resource counts: 0 to %d are expected", COUNT_MAX);
        TRY(platform_set_number(req->arena, phase->attrs, counts[i].name, counts[i].n));
    }
    return ST_OK;
}

/* A finished plan decides how its run goes on. */
static enum status settle_plan(struct req *req, const struct worker_end *in,
                               struct platform_flow *flow)
{
    struct arena *arena = req->arena;
    bool applies = !platform_flag(flow->run.attrs, "plan-only") &&
                   (in->has_changes || platform_flag(flow->run.attrs, "allow-empty-apply"));
    if (applies && platform_text(flow->plan.links, "plan-file")[0] == '\0')
        return req_fail(req, ST_REFUSED, "upload the plan-file first: the plan can be applied");
    if (strlen(in->tool) > NAME_MAX_BYTES || strlen(in->tool_version) > NAME_MAX_BYTES)
        return req_fail(req, ST_REFUSED, "tool, tool_version: at most %d bytes are expected",
                        NAME_MAX_BYTES);
    TRY(platform_set_flag(arena, flow->plan.attrs, "has-changes", in->has_changes));
    TRY(platform_set_flag(arena, flow->plan.attrs, "generated-configuration",
                          in->generated_configuration));
    TRY(platform_set_flag(arena, flow->run.attrs, "has-changes", in->has_changes));
    TRY(platform_set_text(arena, flow->run.links, "tool", in->tool));
    return platform_set_text(arena, flow->run.links, "tool-version", in->tool_version);
}

/* The version of the state that the run made last belongs to its apply. */
static enum status settle_apply(struct req *req, struct platform_flow *flow)
{
    struct platform_object state;
    enum status st = platform_state_current(req->txn, &flow->ws, &state);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    bool own = strcmp(platform_text(state.links, "run"), flow->run.id) == 0;
    return own ? platform_set_text(req->arena, flow->apply.links, "state", state.id) : ST_OK;
}

static bool end_event_of(const char *status, enum run_event *ret_event)
{
    static const struct {
        const char *status;
        enum run_event event;
    } events[] = {{"finished", RUN_FINISH}, {"errored", RUN_FAIL}, {"canceled", RUN_STOP}};
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        if (strcmp(events[i].status, status) == 0) {
            *ret_event = events[i].event;
            return true;
        }
    return false;
}

/* Whether the worker has reported the end of this claim before: its reply was lost. */
static enum status was_ended(struct req *req, const char *claim, bool *ret_ended)
{
    struct platform_object agent, *phase;
    struct platform_flow flow;
    TRY(platform_worker_agent(req, &agent));
    TRY(find_job(req, &agent, &flow, &phase));
    *ret_ended =
        platform_flag(phase->links, "reported") && platform_worker_owns(&agent, phase, claim);
    return ST_OK;
}

static enum status worker_end(struct req *req)
{
    const struct worker_end *in = req_body(req);
    struct platform_object *phase;
    struct platform_flow flow;
    enum run_event event;
    bool ended;
    TRY(was_ended(req, in->claim, &ended));
    if (ended)
        return req_reply(req, &(struct worker_done){true});
    TRY(platform_worker_phase(req, in->claim, &flow, &phase));
    if (!end_event_of(in->status, &event))
        return req_fail(req, ST_REFUSED, "status: finished, errored or canceled is expected");
    if (strlen(in->message) > MESSAGE_MAX)
        return req_fail(req, ST_REFUSED, "message: at most %d bytes are expected", MESSAGE_MAX);
    TRY(set_counts(req, in, phase));
    if (phase == &flow.plan && event == RUN_FINISH)
        TRY(settle_plan(req, in, &flow));
    if (phase == &flow.apply)
        TRY(settle_apply(req, &flow));
    TRY(platform_set_flag(req->arena, phase->links, "reported", true));
    flow.why = in->message;
    TRY(platform_run_step(&flow, event));
    return req_reply(req, &(struct worker_done){true});
}

static const struct platform_row of_worker = {NULL, PLATFORM_NOTHING, "agent pool", false, false};

#define JOB "worker/agents/:agent/jobs/:job"
#define WORKER_POST(path_, handler_, body_, ...)                                             \
    {                                                                                        \
        .method = METHOD_POST, .path = (path_), .handler = (handler_), .who = WHO_ANY_TOKEN, \
        .of_dialect = &of_worker, .input = INPUT_FREE, .feature = PLATFORM_RUNS_FEATURE,     \
        .body = &(body_), __VA_ARGS__                                                        \
    }

static const struct route worker_routes[] = {
    WORKER_POST("worker/register", worker_register, worker_hello_schema,
                .reply = &worker_terms_reply, .help = "Register a worker in its pool."),
    WORKER_POST("worker/agents/:agent/heartbeat", worker_beat, worker_beat_schema,
                .reply = &worker_done_reply, .help = "Say that the worker is there."),
    {.method = METHOD_GET,
     .path = "worker/agents/:agent/jobs",
     .handler = worker_jobs,
     .who = WHO_ANY_TOKEN,
     .of_dialect = &of_worker,
     .index = INDEX_BLOCKS,
     .feature = PLATFORM_RUNS_FEATURE,
     .reply = &worker_waiting_reply,
     .help = "The plans and applies that wait for a worker of the pool; `index` and `wait`: not "
             "before there is something newer."},
    WORKER_POST(JOB "/claim", worker_claim, worker_claim_schema, .reply = &platform_job_schema,
                .help = "Take a plan or apply that waits."),
    WORKER_POST(JOB "/renew", worker_renew, worker_claim_schema, .reply = &worker_renewed_reply,
                .help = "Keep a claim; the reply says whether to go on."),
    WORKER_POST(JOB "/log", worker_log, worker_piece_schema, .reply = &worker_logged_reply,
                .help = "Append to the log."),
    WORKER_POST(JOB "/end", worker_end, worker_end_schema, .reply = &worker_done_reply,
                .help = "Report the end of a plan or apply."),
};
const struct route_table platform_worker_table = {worker_routes, ARRAY_LEN(worker_routes)};
