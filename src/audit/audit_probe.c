#include "audit/audit_probe.h"
#include "audit/device.h"
#include "audit/record_write.h"

static enum status make_record(const char *request_id, int64_t time_ms,
                               struct audit_record **ret_record)
{
    struct audit_writer a;
    struct text_writer *w = &a.w;
    audit_writer_begin(&a, NULL, 512);
    text_open_object(w);
    text_member_time(w, "time", time_ms);
    text_member_str(w, "type", "request");
    text_key(w, "auth");
    text_open_object(w);
    text_member_str(w, "token_type", "default");
    text_close(w);
    text_key(w, "request");
    text_open_object(w);
    text_member_str(w, "id", request_id);
    text_member_str(w, "operation", "update");
    text_key(w, "namespace");
    text_open_object(w);
    text_member_str(w, "id", "root");
    text_close(w);
    text_member_str(w, "path", "sys/audit/test");
    text_close(w);
    text_close(w);
    ASSERT(w->depth == 0);
    return audit_writer_end(&a, ret_record);
}

enum status audit_probe_options(const struct audit_entry *entry, const struct audit_places *places,
                                struct audit_options *ret_options, struct reason *why)
{
    struct audit_options options;
    ASSERT(entry->type != NULL);
    TRY(audit_options_parse(entry->type, &entry->options, &options, why));
    TRY(audit_places_check(places, &options, why));
    *ret_options = options;
    return ST_OK;
}

enum status audit_probe(const struct audit_entry *entry, const struct audit_places *places,
                        const char *request_id, int64_t time_ms, struct reason *why)
{
    struct audit_device_options options = {.path = entry->path, .places = places};
    struct audit_record *record;
    ASSERT(entry->path != NULL && entry->type != NULL);
    TRY(audit_probe_options(entry, places, &options.options, why));
    TRY(make_record(request_id, time_ms, &record));
    enum status st = audit_device_try(&options, record, why);
    audit_record_unref(record);
    return st;
}
