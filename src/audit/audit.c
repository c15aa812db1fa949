/* Audit records: written as one line of JSON, offered to every device. */
#include "audit/audit.h"
#include "barrier/token.h"
#include "base/trace.h"
#include "text/json.h"

void audit_init(struct audit *audit)
{
    list_init(&audit->devices);
    audit->n_devices = 0;
}

enum status audit_enable(struct audit *audit, struct audit_device *device)
{
    ASSERT(device->write != NULL && device->name != NULL);
    if (audit->n_devices == AUDIT_DEVICES_MAX)
        return ST_NO_SPACE;
    list_push(&audit->devices, &device->link);
    audit->n_devices++;
    return ST_OK;
}

static enum status put_token(struct text_writer *w, struct barrier_cipher *cipher,
                             struct bytes token)
{
    char name[2 * BARRIER_MAC_BYTES + 1];
    if (token.len == 0)
        return ST_OK;
    enum status st = token_name(cipher, token, name);
    if (st == ST_SEALED)
        return ST_OK;
    TRY(st);
    ASSERT(strlen(name) == sizeof name - 1);
    text_key(w, "client_token");
    CLEANUP(buf_done) struct buf text = {0};
    buf_add_format(&text, "hmac-sha256:%s", name);
    TRY(buf_status(&text));
    text_put_bytes(w, buf_bytes(&text));
    return ST_OK;
}

static void put_auth(struct text_writer *w, const struct audit_facts *facts)
{
    text_key(w, "auth");
    text_open_object(w);
    if (facts->accessor != NULL) {
        text_member_str(w, "accessor", facts->accessor);
        text_member_str(w, "display_name", facts->display_name);
        text_member_str(w, "token_type", facts->token_type);
        text_key(w, "policies");
        text_open_list(w);
        for (size_t i = 0; i < facts->n_policies; i++)
            text_put_str(w, facts->policies[i]);
        text_close(w);
    }
    text_close(w);
}

static enum status put_request(struct text_writer *w, struct barrier_cipher *cipher,
                               const struct audit_facts *facts)
{
    text_key(w, "request");
    text_open_object(w);
    text_member_str(w, "id", facts->request_id);
    text_member_str(w, "operation", facts->operation);
    text_key(w, "path");
    text_put_bytes(w, facts->path);
    text_key(w, "namespace");
    text_open_object(w);
    text_member_str(w, "id", facts->ns);
    text_close(w);
    text_member_str(w, "mount_type", facts->mount_type);
    text_member_str(w, "remote_address", facts->peer);
    TRY(put_token(w, cipher, facts->token));
    text_close(w);
    return ST_OK;
}

static enum status put_record(struct buf *line, struct barrier_cipher *cipher,
                              const struct audit_facts *facts)
{
    struct text_writer w = {.out = line};
    bool reply = facts->kind == AUDIT_REPLY;

    text_open_object(&w);
    text_member_time(&w, "time", facts->time_ms);
    text_member_str(&w, "type", reply ? "response" : "request");
    put_auth(&w, facts);
    TRY(put_request(&w, cipher, facts));
    if (reply) {
        text_key(&w, "response");
        text_open_object(&w);
        text_member_int(&w, "status", facts->status);
        text_close(&w);
    }
    if (facts->error != NULL)
        text_member_str(&w, "error", facts->error);
    text_close(&w);
    ASSERT(w.depth == 0);
    return buf_status(line);
}

static void on_written(struct audit_write *write, enum status st)
{
    struct audit_op *op = write->op;
    ASSERT(op->waiting > 0 && op->waiting <= AUDIT_DEVICES_MAX);
    ASSERT(write >= op->writes && write < op->writes + AUDIT_DEVICES_MAX);
    op->accepted += st == ST_OK;
    if (--op->waiting > 0)
        return;
    if (op->accepted == 0)
        trace(TRACE_ERROR, "audit", "no device accepts records: requests fail");
    buf_done(&op->line);
    op->done(op, op->accepted > 0 ? ST_OK : ST_IO);
}

enum status audit_record(struct audit *audit, struct barrier_cipher *cipher,
                         const struct audit_facts *facts, struct audit_op *op)
{
    ASSERT(audit_enabled(audit) && op->done != NULL);
    op->line = (struct buf){0};
    enum status st = put_record(&op->line, cipher, facts);
    if (st != ST_OK) {
        buf_done(&op->line);
        return st;
    }
    op->waiting = audit->n_devices;
    op->accepted = 0;
    unsigned i = 0;
    LIST_FOR (link, &audit->devices) {
        struct audit_device *device = CONTAINER_OF(link, struct audit_device, link);
        op->writes[i] = (struct audit_write){buf_bytes(&op->line), on_written, op};
        ASSERT(i < audit->n_devices);
        device->write(device, &op->writes[i++]);
    }
    ASSERT(i == audit->n_devices);
    return ST_OK;
}
