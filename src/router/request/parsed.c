#include "router/request/parsed.h"
#include "base/mem.h"
#include "text/json.h"

#include <assert.h>

enum {
    UNCOUNTED_BYTES = 2 * 1024, /* a shorter body is small whatever it contains */
    SMALL_BYTES = 64 * 1024,    /* a longer body is large */
    SMALL_PARSED_BYTES = 256 * 1024,
    /* A value, with the rounding of its name and text and its place in a sorted list. */
    VALUE_BYTES = sizeof(struct text_value) + 3 * sizeof(max_align_t),
    BLOCK_BYTES = 64 * 1024, /* size of a block of the arena */
    TOTAL_BYTES = 256 * 1024 * 1024,
    ANONYMOUS_BYTES = 64 * 1024 * 1024,
    ANONYMOUS_SHARE = 16 * 1024 * 1024,
};

/* A share must hold every body without a token: the body has at most SMALL_BYTES, and each byte may
 * be a separator, which begins a value. */
static_assert((SMALL_BYTES + 2) * VALUE_BYTES + SMALL_BYTES <= ANONYMOUS_SHARE,
              "a share holds the largest document of a client without a token");

enum status parsed_budgets_init(struct parsed_budgets *budgets, struct env *env,
                                uint64_t body_bytes_max)
{
    size_t largest = (size_t)body_bytes_max + TEXT_JSON_VALUES_MAX * (size_t)VALUE_BYTES;
    size_t share = MAX((size_t)TOTAL_BYTES / 2, largest);
    const struct http_budget_options with_token = {
        .total = 2 * share, .share = share, .clients_max = 2 * share / SMALL_BYTES};
    const struct http_budget_options anonymous = {.total = ANONYMOUS_BYTES,
                                                  .share = ANONYMOUS_SHARE,
                                                  .clients_max = ANONYMOUS_BYTES / SMALL_BYTES};
    TRY(http_budget_init(&budgets->of[PARSED_CLIENTS], env, &with_token));
    TRY(http_budget_init(&budgets->of[PARSED_NODES], env, &with_token));
    return http_budget_init(&budgets->of[PARSED_ANONYMOUS], env, &anonymous);
}

void parsed_budgets_done(struct parsed_budgets *budgets)
{
    for (size_t i = 0; i < PARSED_FROM; i++)
        http_budget_done(&budgets->of[i]);
}

/* The most memory that a body can become. Each value is the first of its list, object or form, or
 * follows a separator; the reader refuses more than TEXT_JSON_VALUES_MAX. */
static size_t parsed_bytes_max(struct bytes body)
{
    size_t values = 2;
    for (size_t i = 0; i < body.len; i++) {
        uint8_t c = body.data[i];
        values += (size_t)(c == ',') + (size_t)(c == '[') + (size_t)(c == '{') + (size_t)(c == '&');
    }
    return body.len + MIN(values, (size_t)TEXT_JSON_VALUES_MAX) * VALUE_BYTES;
}

bool parsed_is_small(struct bytes body)
{
    return body.len <= UNCOUNTED_BYTES ||
           (body.len <= SMALL_BYTES && parsed_bytes_max(body) <= SMALL_PARSED_BYTES);
}

enum status parsed_new(struct http_budget *budget, const struct ip *client,
                       struct parsed **ret_parsed)
{
    struct parsed *parsed = mem_alloc(sizeof *parsed);
    if (parsed == NULL)
        return ST_NOMEM;
    *parsed = (struct parsed){.arena.block_bytes = BLOCK_BYTES,
                              .budget = budget->slots != NULL ? budget : NULL,
                              .client = *client};
    *ret_parsed = parsed;
    return ST_OK;
}

enum status parsed_take(struct parsed *parsed, struct bytes body)
{
    ASSERT(parsed->counted == 0);
    if (parsed->budget == NULL)
        return ST_OK;
    size_t bytes = parsed_bytes_max(body);
    if (!http_budget_take(parsed->budget, &parsed->client, bytes))
        return ST_BUSY;
    parsed->counted = bytes;
    return ST_OK;
}

void parsed_settle(struct parsed *parsed)
{
    if (parsed->counted <= parsed->arena.bytes)
        return;
    http_budget_give(parsed->budget, &parsed->client, parsed->counted - parsed->arena.bytes);
    parsed->counted = parsed->arena.bytes;
}

static void run_wipe(struct env_work *work)
{
    struct parsed *parsed = CONTAINER_OF(work, struct parsed, work);
    arena_done(&parsed->arena);
    if (parsed->counted != 0)
        http_budget_give(parsed->budget, &parsed->client, parsed->counted);
}

static void on_wiped(struct env_work *work)
{
    mem_free(CONTAINER_OF(work, struct parsed, work));
}

void parsed_free(struct env *env, struct parsed *parsed)
{
    if (parsed == NULL)
        return;
    parsed->work = (struct env_work){.run = run_wipe, .done = on_wiped, .lane = LANE_POOL};
    env_work(env, &parsed->work);
}
