/* Rows of the outbox: written by the step of a run (platform_outbox.h). */
#include "api/platform/platform_outbox.h"
#include "api/platform/platform_message.h"
#include "base/record.h"
#include "text/random.h"
#include "text/time.h"

#include <inttypes.h>

static const struct record_field row_fields[] = {
    RECORD_FIELD(struct platform_outbox_row, delivery, TEXT0, .min = 1, .max = 64),
    RECORD_FIELD(struct platform_outbox_row, trigger, TEXT0, .max = 64),
    RECORD_FIELD(struct platform_outbox_row, run, TEXT0, .max = PLATFORM_ID_MAX),
    RECORD_FIELD(struct platform_outbox_row, made_ms, VARINT, .max = TEXT_CLOCK_END - 1),
    RECORD_FIELD(struct platform_outbox_row, due_ms, VARINT, .max = TEXT_CLOCK_END - 1),
    RECORD_FIELD(struct platform_outbox_row, tries, U8, .help = "tries that failed"),
    RECORD_FIELD(struct platform_outbox_row, body, REST, .secret = true, .help = "what is sent"),
};
static const struct record outbox_record = {RECORD(struct platform_outbox_row, row_fields),
                                            .name = "platform/outbox", .key = PLATFORM_OUTBOX "*/",
                                            .newest = 1};
RECORD_LISTED(outbox_record);

enum status platform_outbox_load(struct state_txn *txn, struct bytes key,
                                 struct platform_outbox_row *ret_row)
{
    struct state_value value;
    TRY(state_get(txn, key, &value));
    return record_decode(&outbox_record, value.value, txn->arena, ret_row);
}

enum status platform_outbox_put(struct state_txn *txn, struct bytes key,
                                const struct platform_outbox_row *row)
{
    CLEANUP(buf_done) struct buf record = {0};
    TRY(record_encode(&outbox_record, row, &record));
    return state_put(txn, key, buf_bytes(&record));
}

enum status platform_outbox_empty(struct state_txn *txn)
{
    return state_delete_prefix(txn, BYTES(PLATFORM_OUTBOX));
}

/* Make room for one more row of a configuration. *ret_full: there is none. */
static enum status make_row_room(struct state_txn *txn, const char *config, struct bytes prefix,
                                 bool *ret_full)
{
    struct state_iter iter;
    bool crowded = state_count(txn, BYTES(PLATFORM_OUTBOX)) >= PLATFORM_OUTBOX_TOTAL;
    *ret_full = false;
    if (!crowded && state_count(txn, prefix) < PLATFORM_OUTBOX_ROWS)
        return ST_OK;
    platform_outbox_dropped(config);
    TRY(state_scan(txn, prefix, (struct bytes){0}, &iter));
    if (!state_iter_next(&iter)) {
        *ret_full = true;
        return ST_OK;
    }
    const uint8_t *key = arena_dup(txn->arena, iter.key);
    return key != NULL ? state_delete(txn, bytes_of(key, iter.key.len)) : ST_NOMEM;
}

static enum status add_outbox_row(struct platform_flow *flow, const struct platform_object *config,
                                  int64_t number, struct platform_outbox_row *row)
{
    struct state_txn *txn = flow->txn;
    char uuid[TEXT_UUID_LEN + 1];
    bool full;
    const char *prefix = arena_format(txn->arena, PLATFORM_OUTBOX "%s/", config->id);
    const char *key =
        arena_format(txn->arena, PLATFORM_OUTBOX "%s/%012" PRIx64, config->id, (uint64_t)number);
    if (prefix == NULL || key == NULL)
        return ST_NOMEM;
    TRY(make_row_room(txn, config->id, bytes_str(prefix), &full));
    if (full)
        return ST_OK;
    text_uuid(state_env(txn->state), uuid);
    row->delivery = uuid;
    return platform_outbox_put(txn, bytes_str(key), row);
}

/* The name of a user, for people; "": there is none. */
static enum status name_of(struct state_txn *txn, const char *id, const char **ret_name)
{
    struct platform_object user;
    *ret_name = "";
    enum status st = id[0] != '\0' ? platform_user_load(txn, id, &user) : ST_NOT_FOUND;
    if (st == ST_OK)
        *ret_name = platform_text(user.attrs, "username");
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status collect_facts(struct platform_flow *flow, enum run_told told,
                                 struct platform_message *ret_facts)
{
    struct state_txn *txn = flow->txn;
    struct platform_object org;
    const struct run_state *state = run_state_of(platform_run_status(&flow->run));
    TRY(platform_object_load(txn, "organizations", flow->ws.parent, &org));
    *ret_facts = (struct platform_message){
        .run_id = flow->run.id,
        .run_message = platform_text(flow->run.attrs, "message"),
        .run_created_ms = flow->run.created_ms,
        .workspace_id = flow->ws.id,
        .workspace_name = flow->ws.name,
        .organization_name = org.name,
        .message = told == RUN_TOLD_NEEDS_ATTENTION ? "Run Needs Attention" : state->message,
        .trigger = run_told_name(told),
        .run_status = state->name,
        .run_updated_ms = flow->now_ms,
        .needs_action = told == RUN_TOLD_NEEDS_ATTENTION,
    };
    TRY(name_of(txn, platform_text(flow->run.links, "created-by"), &ret_facts->run_created_by));
    TRY(name_of(txn, flow->actor, &ret_facts->run_updated_by));
    const char *base = platform_text(flow->run.links, "base");
    ret_facts->workspace_url =
        arena_format(txn->arena, "%s/app/%s/%s", base, org.name, flow->ws.name);
    ret_facts->run_url = arena_format(txn->arena, "%s/app/%s/%s/runs/%s", base, org.name,
                                      flow->ws.name, flow->run.id);
    return ret_facts->run_url != NULL && ret_facts->workspace_url != NULL ? ST_OK : ST_NOMEM;
}

static bool wants(const struct platform_object *config, const char *trigger)
{
    return platform_flag(config->attrs, "enabled") &&
           platform_has(config->attrs, "triggers", trigger);
}

enum status platform_outbox_tell(struct platform_flow *flow, enum run_told told)
{
    const char *trigger = run_told_name(told);
    const char *mode = platform_text(flow->ws.attrs, "execution-mode");
    struct platform_objects configs;
    struct platform_message facts;
    if (trigger == NULL || platform_flag(flow->run.attrs, "plan-only") ||
        strcmp(mode, "local") == 0)
        return ST_OK;
    TRY(platform_object_children(flow->txn, flow->ws.id, "notification-configurations", &configs));
    size_t n = 0;
    for (size_t i = 0; i < configs.n; i++)
        if (wants(&configs.items[i], trigger))
            configs.items[n++] = configs.items[i];
    if (n == 0)
        return ST_OK;
    TRY(collect_facts(flow, told, &facts));
    int64_t number = platform_number(flow->ws.links, "told") + 1;
    flow->ws_changed = true;
    TRY(platform_set_number(flow->txn->arena, flow->ws.links, "told", number));
    for (size_t i = 0; i < n; i++) {
        CLEANUP(buf_done) struct buf body = {0};
        const struct platform_object *config = &configs.items[i];
        facts.config_id = config->id;
        platform_message_run(platform_form_of(platform_text(config->attrs, "destination-type")),
                             &facts, &body);
        TRY(buf_status(&body));
        struct platform_outbox_row row = {.trigger = trigger,
                                          .run = flow->run.id,
                                          .made_ms = flow->now_ms,
                                          .due_ms = flow->now_ms,
                                          .body = buf_bytes(&body)};
        TRY(add_outbox_row(flow, config, number, &row));
    }
    return ST_OK;
}
