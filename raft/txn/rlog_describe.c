#include "raft/txn/rlog_describe.h"
#include "base/record.h"
#include "raft/txn/rlog_txn_read.h"
#include "raft/txn/rlog_wal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { KEY_SHOWN_MAX = 512 };

static void add_key(struct buf *out, struct bytes key)
{
    for (size_t i = 0; i < MIN(key.len, (size_t)KEY_SHOWN_MAX); i++)
        if (key.data[i] >= 0x20 && key.data[i] < 0x7F && key.data[i] != '\\')
            buf_add_u8(out, key.data[i]);
        else
            buf_add_format(out, "\\x%02x", key.data[i]);
    if (key.len > KEY_SHOWN_MAX)
        buf_add_format(out, "… (%zu bytes)", key.len);
}

/* Write one line, or the words "out of memory". */
static void write_line(const struct rlog_lines *lines, struct buf *text)
{
    buf_add_u8(text, 0);
    lines->line(lines->ctx, text->failed ? "(out of memory)" : (const char *)text->data);
    buf_clear(text);
}

__attribute__((format(printf, 3, 4))) static void say(const struct rlog_lines *lines,
                                                      struct bytes key, const char *format, ...)
{
    CLEANUP(buf_done) struct buf text = {0};
    char words[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args); /* cannot be cut: the words are our own */
    va_end(args);
    for (const char *at = words; *at != '\0'; at++)
        if (*at == '@')
            add_key(&text, key);
        else
            buf_add_u8(&text, (uint8_t)*at);
    write_line(lines, &text);
}

static const struct bytes no_key = {0};

/* Show the value of a record that is stored unencrypted. */
static void describe_value(struct bytes key, struct bytes value, const char *in,
                           const struct rlog_lines *lines)
{
    CLEANUP(buf_done) struct buf text = {0};
    const struct record *record = record_of_key(key);
    if (record == NULL || !record->raw)
        return;
    buf_add_format(&text, "%s  %s: ", in, record->name);
    record_dump(record, value, &text);
    write_line(lines, &text);
}

static void say_time(const struct rlog_lines *lines, const char *before, int64_t time_ms,
                     const char *after)
{
    char text[64] = "?";
    struct tm tm;
    time_t s = (time_t)(time_ms / 1000);
    if (gmtime_r(&s, &tm) != NULL)
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm); /* empty if it does not fit */
    say(lines, no_key, "%scluster time %s.%03dZ%s", before, text, (int)(time_ms % 1000), after);
}

static void describe_need(const struct rlog_need *need, const struct rlog_lines *lines)
{
    if (need->kind == RLOG_NEED_STAGE)
        say(lines, no_key, "    needs the staged tree %" PRIu64, need->version);
    else if (need->kind == RLOG_NEED_PREFIX)
        say(lines, need->key, "    needs nothing newer than %" PRIu64 " below @", need->version);
    else if (need->version == 0)
        say(lines, need->key, "    needs no @");
    else
        say(lines, need->key, "    needs @ at %" PRIu64, need->version);
}

static void describe_needs(struct rlog_prior *prior, struct bytes needs,
                           const struct rlog_lines *lines)
{
    struct rlog_need_run run;
    unsigned place = 0;
    enum status st;

    while ((st = rlog_entry_need_next(prior, &needs, &place, &run)) == ST_OK)
        for (unsigned i = 0; i < run.n; i++)
            describe_need(run.same ? &prior->needs[run.place + i] : &run.need, lines);
    if (st != ST_NOT_FOUND)
        say(lines, no_key, "    malformed precondition");
}

/* `in`: blanks before the line. */
static void describe_put(const struct rlog_op *op, const char *in, const struct rlog_lines *lines)
{
    switch (op->kind) {
    case RLOG_OP_PUT:
        say(lines, op->key, "%sput @ (%zu bytes)", in, op->value.len);
        describe_value(op->key, op->value, in, lines);
        break;
    case RLOG_OP_PUT_RETAIN:
        say(lines, op->key, "%sput @ (%zu bytes), then bytes %zu to %zu of what is there", in,
            op->value.len, op->retain.from, op->retain.from + op->retain.len);
        break;
    case RLOG_OP_DELETE: say(lines, op->key, "%sdelete @", in); break;
    default:
        ASSERT(op->kind == RLOG_OP_DELETE_PREFIX);
        say(lines, op->key, "%sdelete all below @", in);
    }
}

static void describe_run(struct bytes run, const struct rlog_lines *lines)
{
    struct rlog_wal_record record;
    struct rlog_wal_span span;
    struct rlog_op op;

    say(lines, no_key, "    follow a run of the WAL (%zu bytes)", run.len);
    if (rlog_wal_check(run, &span) != ST_OK) {
        say(lines, no_key, "      malformed run");
        return;
    }
    while (rlog_wal_next(&run, &record) == ST_OK) {
        char before[64];
        (void)snprintf(before, sizeof before, "      %s version %" PRIu64 ", ",
                       record.kind == RLOG_WAL_JUMP ? "jump to" : "at",
                       record.version); /* cannot be cut: the text is short */
        say_time(lines, before, record.time_ms, "");
        while (rlog_op_next(&record.ops, &op) == ST_OK)
            describe_put(&op, "        ", lines);
    }
}

static void describe_swap_at(const struct rlog_op *op, const struct rlog_lines *lines)
{
    char before[80];
    (void)snprintf(before, sizeof before, "    swap the staged tree in at version %" PRIu64 ", ",
                   op->modified); /* cannot be cut: the text is short */
    say_time(lines, before, (int64_t)op->created, "");
    if (op->floor != 0)
        say(lines, no_key, "    no newest change is older than %" PRIu64, op->floor);
}

static void describe_op(const struct rlog_op *op, const struct rlog_lines *lines)
{
    switch (op->kind) {
    case RLOG_OP_PUT:
    case RLOG_OP_PUT_RETAIN:
    case RLOG_OP_DELETE:
    case RLOG_OP_DELETE_PREFIX: describe_put(op, "    ", lines); break;
    case RLOG_OP_STAGE_BEGIN: say(lines, no_key, "    begin a staged tree"); break;
    case RLOG_OP_STAGE_CLONE: say(lines, no_key, "    begin a clone of the state"); break;
    case RLOG_OP_STAGE_DELETE: say(lines, op->key, "    delete @ in the staged tree"); break;
    case RLOG_OP_STAGE_PUT:
        say(lines, op->key, "    stage @ (%zu bytes), created %" PRIu64 ", changed %" PRIu64,
            op->value.len, op->created, op->modified);
        break;
    case RLOG_OP_STAGE_NEWEST:
        say(lines, op->key, "    stage newest change below @: %" PRIu64, op->modified);
        break;
    case RLOG_OP_STAGE_SWAP: say(lines, no_key, "    swap the staged tree in"); break;
    case RLOG_OP_STAGE_SWAP_AT: describe_swap_at(op, lines); break;
    case RLOG_OP_STAGE_DROP: say(lines, no_key, "    drop the staged tree"); break;
    case RLOG_OP_WAL: describe_run(op->value, lines); break;
    case RLOG_OP_RAISE:
        say(lines, no_key, "    raise the version to %" PRIu64, op->modified);
        break;
    }
}

static void describe_txn(struct rlog_prior *prior, struct bytes txn, unsigned i,
                         const struct rlog_lines *lines)
{
    struct rlog_txn_view view;
    struct rlog_op op;
    enum status st = rlog_txn_open(txn, &view);

    if (st != ST_OK) {
        say(lines, no_key, "  transaction %u cannot be read: %s", i, status_text(st));
        return;
    }
    if (view.has_id) {
        char id[33];
        for (size_t n = 0; n < 16; n++)
            (void)snprintf(id + 2 * n, 3, "%02x", view.id.bytes[n]); /* two digits and a zero fit */
        say(lines, no_key, "  transaction %u, request %s issued at %" PRIu64 ", answer %zu bytes",
            i, id, view.id.issued, view.response.len);
    } else {
        say(lines, no_key, "  transaction %u", i);
    }
    describe_needs(prior, view.needs, lines);
    while ((st = rlog_entry_op_next(prior, &view.ops, &op)) == ST_OK)
        describe_op(&op, lines);
    if (st != ST_NOT_FOUND)
        say(lines, no_key, "    malformed operation");
}

void rlog_entry_describe(struct bytes entry, const struct rlog_lines *lines)
{
    struct rlog_prior prior;
    struct rlog_entry_view view;
    struct bytes txn;
    unsigned n = 0;
    enum status st = rlog_entry_open(entry, &view);

    if (st != ST_OK) {
        say(lines, no_key, "entry cannot be read: %s",
            st == ST_UNSUPPORTED ? "it needs a later version of this program" : status_text(st));
        return;
    }
    prior.n = 0;
    char after[64];
    (void)snprintf(after, sizeof after, ", feature %u, %u transactions", view.header.feature,
                   view.header.n_txns); /* cannot be cut: the text is short */
    say_time(lines, "", view.header.time_ms, after);
    while ((st = rlog_entry_next(&view.txns, &txn)) == ST_OK)
        describe_txn(&prior, txn, n++, lines);
    if (st != ST_NOT_FOUND || n != view.header.n_txns)
        say(lines, no_key, "  malformed: the number of transactions is another");
}

static void on_header(void *ctx, const struct rlog_machine *m)
{
    say(ctx, no_key, "version %" PRIu64 ", local version %" PRIu64 ", feature %u", m->version,
        m->local_version, m->feature);
    say_time(ctx, "", m->time_ms, "");
    say(ctx, no_key,
        "requests issued before %" PRIu64 " are forgotten, %" PRIu64 " bytes of answers kept",
        m->id_floor, m->id_bytes);
}

static void on_key(void *ctx, const struct store_item *item)
{
    say(ctx, item->key, "@ (%zu bytes), created %" PRIu64 ", changed %" PRIu64, item->value.len,
        item->created, item->modified);
    describe_value(item->key, item->value, "", ctx);
}

static void on_newest(void *ctx, struct bytes at, uint64_t version)
{
    say(ctx, at, "newest change below @: %" PRIu64, version);
}

struct rlog_content_visit rlog_content_describe(const struct rlog_lines *lines)
{
    return (struct rlog_content_visit){on_header, on_key, on_newest, (void *)(uintptr_t)lines};
}
