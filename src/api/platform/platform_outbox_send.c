/* The service that sends the rows of the outbox (platform_outbox.h).
 *
 * The service's thread alone reads and changes the state. A row that is due gets a flight: a thread
 * that calls the receiver. The service looks for flights that landed, ends their rows in one
 * transaction, and begins further ones. A service that is asked to end waits for its flights, each
 * of which has a deadline; their rows are sent again by the next active node. */
#include "api/platform/platform.h"
#include "api/platform/platform_call.h"
#include "api/platform/platform_mail.h"
#include "api/platform/platform_message.h"
#include "api/platform/platform_outbox.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/trace.h"
#include "node/service.h"
#include "state/feature.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    IDLE_MS = 50,                               /* between two looks */
    LAND_MS = 2,                                /* between two looks for flights that landed */
    SLOW_SENDERS = PLATFORM_OUTBOX_SENDERS / 2, /* for rows that failed before */
    CONFIGS_LOOKED_MAX = 1000,                  /* in one look */
};

static _Atomic uint64_t sent, failed, dropped, rows, oldest_ms;

struct flight {
    bool used, again;    /* again: an earlier try failed */
    bool ready, landing; /* to take off, to be ended, once the transaction is over */
    _Atomic bool landed; /* set by the thread, as its last touch */
    pthread_t thread;
    struct arena arena;
    struct bytes key;          /* of the row */
    const char *config;        /* id */
    const char *url, *trigger; /* of the receiver; of the row */
    bool mails;
    struct platform_call call;
    struct platform_mail mail;
    struct platform_mailer mailer;
    struct platform_answer answer;
    enum status st; /* of the call: ST_OK also without a reply */
};

struct sender {
    struct flight flights[PLATFORM_OUTBOX_SENDERS];
    size_t n_used, n_again;
};

/* Flights */

static void send_mail(struct flight *flight)
{
    struct reason why = {{0}};
    flight->st = platform_mail_send(&flight->mailer, &flight->mail, &why);
    flight->answer = (struct platform_answer){
        .status = flight->st == ST_OK ? 200 : 0,
        .body = arena_str(&flight->arena, bytes_str(why.text)),
        .headers = text_value_new(&flight->arena, NULL, TEXT_OBJECT, (struct bytes){0}),
    };
    bool made = flight->answer.body != NULL && flight->answer.headers != NULL;
    flight->st = made ? ST_OK : ST_NOMEM;
}

static void *fly(void *ctx)
{
    struct flight *flight = ctx;
    if (flight->mails)
        send_mail(flight);
    else
        flight->st = platform_call_send(&flight->arena, &flight->call, &flight->answer);
    atomic_store_explicit(&flight->landed, true, memory_order_release);
    return NULL;
}

static void end_flight(struct sender *sender, struct flight *flight)
{
    (void)pthread_join(flight->thread, NULL); /* our own thread, joined once */
    arena_done(&flight->arena);
    sender->n_used--;
    sender->n_again -= flight->again;
    flight->used = false;
}

static bool has_landed(const struct flight *flight)
{
    return flight->used && atomic_load_explicit(&flight->landed, memory_order_acquire);
}

/* Landing */

/* 1 s, 5 s, 25 s, 125 s. */
static int64_t pause_ms(unsigned tries)
{
    int64_t ms = 1000;
    for (unsigned i = 1; i < tries; i++)
        ms *= 5;
    return ms;
}

static bool may_try_again(const struct flight *flight)
{
    int status = flight->answer.status;
    return flight->st != ST_OK || status == 0 || status == 429 || status >= 500;
}

static enum status keep_answer(struct state_txn *txn, const struct flight *flight, int64_t now_ms)
{
    struct platform_object config;
    enum status st =
        platform_object_load(txn, "notification-configurations", flight->config, &config);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    if (flight->st != ST_OK)
        return ST_OK;
    TRY(platform_notification_keep(txn->arena, now_ms, flight->url, &flight->answer, &config));
    return platform_object_put(txn, "", &config);
}

static enum status land_one(struct state_txn *txn, const struct flight *flight, int64_t now_ms)
{
    struct platform_outbox_row row;
    enum status st = platform_outbox_load(txn, flight->key, &row);
    if (st != ST_OK) /* dropped meanwhile */
        return st == ST_NOT_FOUND ? ST_OK : st;
    TRY(keep_answer(txn, flight, now_ms));
    row.tries++;
    if (!may_try_again(flight) || row.tries >= PLATFORM_OUTBOX_TRIES)
        return state_delete(txn, flight->key);
    row.due_ms = now_ms + pause_ms(row.tries);
    return platform_outbox_put(txn, flight->key, &row);
}

static enum status land(struct state_txn *txn, void *ctx, int64_t now_ms)
{
    struct sender *sender = ctx;
    for (size_t i = 0; i < ARRAY_LEN(sender->flights); i++)
        if (sender->flights[i].landing)
            TRY(land_one(txn, &sender->flights[i], now_ms));
    return ST_OK;
}

static void note_flight(const struct flight *flight)
{
    int status = flight->answer.status;
    bool good = flight->st == ST_OK && status >= 200 && status <= 299;
    atomic_fetch_add_explicit(good ? &sent : &failed, 1, memory_order_relaxed);
    if (!good)
        trace(TRACE_INFO, "platform", "notification %s of %s was not taken: status %d",
              flight->trigger, flight->config, status);
}

/* End the flights that landed. After a failed transaction they stay, and are ended next time. */
static enum status land_all(struct service *service, struct sender *sender, bool *ret_any)
{
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(sender->flights); i++)
        any |= sender->flights[i].landing = has_landed(&sender->flights[i]);
    *ret_any = any;
    if (!any)
        return ST_OK;
    TRY(service_transact(service, land, sender));
    for (size_t i = 0; i < ARRAY_LEN(sender->flights); i++)
        if (sender->flights[i].landing) {
            note_flight(&sender->flights[i]);
            end_flight(sender, &sender->flights[i]);
        }
    return ST_OK;
}

/* Looking */

static bool is_flying(const struct sender *sender, const char *config)
{
    for (size_t i = 0; i < ARRAY_LEN(sender->flights); i++)
        if (sender->flights[i].used && strcmp(sender->flights[i].config, config) == 0)
            return true;
    return false;
}

static struct flight *free_flight(struct sender *sender)
{
    for (size_t i = 0; i < ARRAY_LEN(sender->flights); i++)
        if (!sender->flights[i].used)
            return &sender->flights[i];
    return NULL;
}

/* Copies into the flight's arena: the transaction's ends before the flight does. NULL: no memory.
 */
static const char *copy_text(struct flight *flight, const char *text)
{
    return arena_str(&flight->arena, bytes_str(text));
}

static enum status prepare_mail(struct state_txn *txn, const struct platform_object *config,
                                const struct platform_outbox_row *row, int64_t now_ms,
                                struct flight *flight)
{
    struct platform_object smtp;
    struct platform_mailer mailer;
    const char *const *to;
    size_t n;
    TRY(platform_settings_load(txn, "smtp", &smtp));
    platform_mailer_of(&smtp, &mailer);
    TRY(platform_notification_to(txn, config, &to, &n));
    if (!mailer.enabled || n == 0)
        return ST_NOT_FOUND; /* no mail can be sent */
    const char **copies = arena_alloc(&flight->arena, n * sizeof *copies);
    if (copies == NULL)
        return ST_NOMEM;
    bool made = true;
    for (size_t i = 0; i < n; i++)
        made = made && (copies[i] = copy_text(flight, to[i])) != NULL;
    const char *text = arena_str(&flight->arena, row->body);
    const char *subject =
        text != NULL ? arena_str(&flight->arena, bytes_of(text, strcspn(text, "\r\n"))) : NULL;
    flight->mailer = mailer;
    flight->mailer.host = copy_text(flight, mailer.host);
    flight->mailer.sender = copy_text(flight, mailer.sender);
    flight->mailer.auth = copy_text(flight, mailer.auth);
    flight->mailer.username = copy_text(flight, mailer.username);
    flight->mailer.password = copy_text(flight, mailer.password);
    flight->mail = (struct platform_mail){
        .to = copies, .n_to = n, .subject = subject, .text = text, .now_ms = now_ms};
    flight->mails = true;
    flight->url = "";
    made = made && subject != NULL && flight->mailer.host != NULL &&
           flight->mailer.sender != NULL && flight->mailer.auth != NULL &&
           flight->mailer.username != NULL && flight->mailer.password != NULL;
    return made ? ST_OK : ST_NOMEM;
}

static enum status prepare_call(const struct platform_object *config,
                                const struct platform_outbox_row *row, enum platform_form form,
                                struct flight *flight)
{
    static const char *const headers[] = {"X-Infra-Notification-Signature",
                                          "X-TFE-Notification-Signature"};
    const char *key = copy_text(flight, platform_text(config->attrs, "token"));
    const uint8_t *body = arena_dup(&flight->arena, row->body);
    flight->url = copy_text(flight, platform_text(config->attrs, "url"));
    const char *delivery = copy_text(flight, row->delivery);
    if (key == NULL || body == NULL || flight->url == NULL || delivery == NULL)
        return ST_NOMEM;
    bool is_signed = form == PLATFORM_GENERIC && key[0] != '\0';
    flight->mails = false;
    flight->call = (struct platform_call){.url = flight->url,
                                          .body = bytes_of(body, row->body.len),
                                          .key = key,
                                          .signature = headers,
                                          .n_signature = is_signed ? ARRAY_LEN(headers) : 0,
                                          .delivery = delivery};
    return ST_OK;
}

/* Make the flight of a row ready. ST_NOT_FOUND: the row is not wanted. */
static enum status prepare_flight(struct state_txn *txn, struct bytes key, const char *id,
                                  int64_t now_ms, const struct platform_outbox_row *row,
                                  struct flight *flight)
{
    struct platform_object config, ws;
    TRY(platform_object_load(txn, "notification-configurations", id, &config));
    TRY(platform_object_load(txn, "workspaces", config.parent, &ws));
    if (!platform_flag(config.attrs, "enabled"))
        return ST_NOT_FOUND;
    const uint8_t *own = arena_dup(&flight->arena, key);
    flight->config = copy_text(flight, id);
    flight->trigger = copy_text(flight, row->trigger);
    if (own == NULL || flight->config == NULL || flight->trigger == NULL)
        return ST_NOMEM;
    flight->key = bytes_of(own, key.len);
    flight->again = row->tries != 0;
    enum platform_form form = platform_form_of(platform_text(config.attrs, "destination-type"));
    return form == PLATFORM_EMAIL ? prepare_mail(txn, &config, row, now_ms, flight)
                                  : prepare_call(&config, row, form, flight);
}

/* Forget a flight that has not taken off. */
static void drop_flight(struct sender *sender, struct flight *flight)
{
    arena_done(&flight->arena);
    sender->n_used--;
    sender->n_again -= flight->again;
    flight->used = flight->ready = false;
}

static void take_off(struct sender *sender, struct flight *flight)
{
    flight->ready = flight->landing = false;
    atomic_store_explicit(&flight->landed, false, memory_order_relaxed);
    if (pthread_create(&flight->thread, NULL, fly, flight) != 0)
        drop_flight(sender, flight); /* tried again with the next look */
}

/* Look at the first row of a configuration. */
static enum status look_at(struct state_txn *txn, struct sender *sender, struct bytes key,
                           const char *config, int64_t now_ms)
{
    struct platform_outbox_row row;
    struct flight *flight = free_flight(sender);
    TRY(platform_outbox_load(txn, key, &row));
    uint64_t age_ms = now_ms > row.made_ms ? (uint64_t)(now_ms - row.made_ms) : 0;
    if (age_ms > atomic_load_explicit(&oldest_ms, memory_order_relaxed))
        atomic_store_explicit(&oldest_ms, age_ms, memory_order_relaxed);
    if (row.due_ms > now_ms || flight == NULL ||
        (row.tries != 0 && sender->n_again >= SLOW_SENDERS))
        return ST_OK;
    enum status st = prepare_flight(txn, key, config, now_ms, &row, flight);
    if (st == ST_OK) {
        flight->used = flight->ready = true;
        sender->n_used++;
        sender->n_again += flight->again;
        return ST_OK;
    }
    arena_done(&flight->arena);
    return st == ST_NOT_FOUND ? state_delete(txn, key) : st;
}

static enum status look_for_rows(struct state_txn *txn, void *ctx, int64_t now_ms)
{
    struct sender *sender = ctx;
    struct state_walk walk;
    unsigned looked = 0;
    bool raised;
    for (size_t i = 0; i < ARRAY_LEN(sender->flights); i++)
        if (sender->flights[i].ready) /* of a look that met other writes */
            drop_flight(sender, &sender->flights[i]);
    TRY(state_has_feature(txn, PLATFORM_RUNS_FEATURE, &raised));
    atomic_store_explicit(&rows, state_count(txn, BYTES(PLATFORM_OUTBOX)), memory_order_relaxed);
    atomic_store_explicit(&oldest_ms, 0, memory_order_relaxed);
    if (!raised || now_ms <= 0)
        return ST_OK;
    state_walk(txn, BYTES(PLATFORM_OUTBOX), &walk);
    while (looked++ < CONFIGS_LOOKED_MAX && state_walk_next(&walk)) {
        const uint8_t *slash = memrchr(walk.key.data, '/', walk.key.len);
        size_t begin = sizeof PLATFORM_OUTBOX - 1;
        size_t end = (size_t)(slash - walk.key.data);
        const uint8_t *copy = arena_dup(txn->arena, walk.key);
        if (copy == NULL || end <= begin)
            return copy == NULL ? ST_NOMEM : ST_CORRUPT;
        const char *config = arena_str(txn->arena, bytes_of(copy + begin, end - begin));
        if (config == NULL)
            return ST_NOMEM;
        if (!is_flying(sender, config)) {
            enum status st = look_at(txn, sender, bytes_of(copy, walk.key.len), config, now_ms);
            if (st != ST_OK && st != ST_NOT_FOUND)
                return st;
        }
        state_walk_skip(&walk, bytes_of(copy, end + 1));
    }
    return ST_OK;
}

/* Look for rows that are due, and send them once the look is known to be of the newest state. */
static enum status look_all(struct service *service, struct sender *sender)
{
    enum status st = ST_OK;
    if (sender->n_used < PLATFORM_OUTBOX_SENDERS)
        st = service_transact(service, look_for_rows, sender);
    for (size_t i = 0; i < ARRAY_LEN(sender->flights); i++)
        if (sender->flights[i].ready && st == ST_OK)
            take_off(sender, &sender->flights[i]);
        else if (sender->flights[i].ready)
            drop_flight(sender, &sender->flights[i]);
    return st;
}

void platform_outbox_run(struct service *service)
{
    struct sender *sender = mem_zalloc(sizeof *sender);
    if (sender == NULL)
        return;         /* begun again in the next term */
    unsigned quiet = 0; /* waits since the last look */
    for (uint64_t wait_ms = 0; service_wait(service, wait_ms);) {
        bool landed;
        enum status st = land_all(service, sender, &landed);
        bool looks = landed || sender->n_used == 0 || ++quiet >= IDLE_MS / LAND_MS;
        if (st == ST_OK && looks) {
            quiet = 0;
            st = look_all(service, sender);
        }
        if (st != ST_OK && st != ST_CONFLICT && st != ST_CLOSED && st != ST_NOT_LEADER)
            trace(TRACE_WARN, "platform", "the outbox waits: %s", status_text(st));
        wait_ms = st != ST_OK ? 1000 : sender->n_used != 0 ? LAND_MS : IDLE_MS;
    }
    for (size_t i = 0; i < ARRAY_LEN(sender->flights); i++)
        if (sender->flights[i].used)
            end_flight(sender, &sender->flights[i]);
    atomic_store_explicit(&rows, 0, memory_order_relaxed);
    atomic_store_explicit(&oldest_ms, 0, memory_order_relaxed);
    mem_free(sender);
}

void platform_outbox_dropped(const char *config)
{
    atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
    trace(TRACE_WARN, "platform", "the outbox of %s is full: its oldest row is dropped", config);
}

void platform_outbox_metrics(struct metric_out *out)
{
    metric_one(out, "holdfast_platform_notifications_sent_total", METRIC_COUNTER,
               "Notifications that a receiver took.", atomic_load(&sent));
    metric_one(out, "holdfast_platform_notifications_failed_total", METRIC_COUNTER,
               "Tries of notifications that a receiver did not take.", atomic_load(&failed));
    metric_one(out, "holdfast_platform_notifications_dropped_total", METRIC_COUNTER,
               "Notifications dropped because too many wait.", atomic_load(&dropped));
    metric_one(out, "holdfast_platform_outbox_rows", METRIC_GAUGE,
               "Notifications that wait on the active node.", atomic_load(&rows));
    metric_start(out, "holdfast_platform_outbox_age_seconds", METRIC_GAUGE,
                 "Age of the oldest notification that waits on the active node.");
    metric_nanos(out, NULL, atomic_load(&oldest_ms) * 1000000);
}
