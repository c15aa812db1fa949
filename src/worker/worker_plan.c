/* The JSON form of a plan, as `show -json` writes it. */
#include "worker/worker_internal.h"

enum { DEPTH_MAX = TEXT_WRITER_DEPTH_MAX - 2 };

#define HIDDEN "(sensitive value)"
#define HIDDEN_AFTER "(sensitive value, changed)"

/* Counts */

static bool has_action(const struct text_value *actions, const char *name)
{
    if (actions == NULL || actions->kind != TEXT_LIST)
        return false;
    TEXT_FOR (action, actions)
        if (action->kind == TEXT_STRING && text_is(action->text, name))
            return true;
    return false;
}

enum status worker_plan_count(struct bytes json, struct plan_facts *ret_facts)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *root = NULL;
    struct plan_facts facts = {0};
    TRY(text_json_parse(&arena, json, &root, NULL));
    const struct text_value *changes = text_get(root, "resource_changes");
    if (root->kind != TEXT_OBJECT || (changes != NULL && changes->kind != TEXT_LIST))
        return ST_INVALID;
    for (const struct text_value *one = changes != NULL ? changes->first : NULL; one != NULL;
         one = one->next) {
        const struct text_value *change = text_get(one, "change");
        const struct text_value *actions = text_get(change, "actions");
        const struct text_value *importing = text_get(change, "importing");
        facts.additions += has_action(actions, "create");
        facts.changes += has_action(actions, "update");
        facts.destructions += has_action(actions, "delete");
        facts.imports += importing != NULL && importing->kind == TEXT_OBJECT;
    }
    *ret_facts = facts;
    return ST_OK;
}

/* Redaction */

static bool is_hidden(const struct text_value *mask)
{
    return mask != NULL && mask->kind == TEXT_BOOL && mask->truth;
}

static const struct text_value *first_of(const struct text_value *list)
{
    return list != NULL && list->kind == TEXT_LIST ? list->first : NULL;
}

/* A member by its name, of an object; an object of a mask has few members. */
static const struct text_value *member_of(const struct text_value *of, struct bytes name)
{
    if (of == NULL || of->kind != TEXT_OBJECT)
        return NULL;
    TEXT_FOR (item, of)
        if (bytes_eq(item->name, name))
            return item;
    return NULL;
}

/* Whether a text replaced another one. `before` may be NULL. */
static bool is_changed(const struct text_value *before, const struct text_value *v)
{
    return before != NULL && before->kind == TEXT_STRING && !bytes_eq(before->text, v->text);
}

/* Write a value without what its mask hides: the mask is an object or list like the value, with
 * true in place of what is sensitive. A hidden text that differs from that in `before` (NULL: none)
 * stays different, so that a change is seen. */
static void put_masked(struct text_writer *w, const struct text_value *v,
                       const struct text_value *mask, const struct text_value *before)
{
    if (v == NULL || v->kind == TEXT_NULL || w->depth >= DEPTH_MAX) {
        text_put_null(w);
    } else if (is_hidden(mask)) {
        if (v->kind == TEXT_STRING)
            text_put_str(w, is_changed(before, v) ? HIDDEN_AFTER : HIDDEN);
        else
            text_put_null(w);
    } else if (v->kind == TEXT_OBJECT) {
        text_open_object(w);
        TEXT_FOR (item, v) {
            text_key_bytes(w, item->name);
            put_masked(w, item, member_of(mask, item->name), member_of(before, item->name));
        }
        text_close(w);
    } else if (v->kind == TEXT_LIST) {
        const struct text_value *next = first_of(mask), *old = first_of(before);
        text_open_list(w);
        TEXT_FOR (item, v) {
            put_masked(w, item, next, old);
            next = next != NULL ? next->next : NULL;
            old = old != NULL ? old->next : NULL;
        }
        text_close(w);
    } else {
        text_put_value(w, v);
    }
}

/* A change: before, after, and the masks of both. */
static void put_change(struct text_writer *w, const struct text_value *change)
{
    const struct text_value *before = text_get(change, "before"),
                            *after = text_get(change, "after");
    text_open_object(w);
    TEXT_FOR (item, change) {
        text_key_bytes(w, item->name);
        if (item == before)
            put_masked(w, before, text_get(change, "before_sensitive"), NULL);
        else if (item == after)
            put_masked(w, after, text_get(change, "after_sensitive"), before);
        else
            put_masked(w, item, NULL, NULL);
    }
    text_close(w);
}

/* A resource or an output with its change in the member `change`. */
static void put_resource(struct text_writer *w, const struct text_value *one)
{
    if (one->kind != TEXT_OBJECT) {
        text_put_null(w);
        return;
    }
    text_open_object(w);
    TEXT_FOR (item, one) {
        text_key_bytes(w, item->name);
        if (text_is(item->name, "change") && item->kind == TEXT_OBJECT)
            put_change(w, item);
        else
            put_masked(w, item, NULL, NULL);
    }
    text_close(w);
}

static void put_resources(struct text_writer *w, const char *name, const struct text_value *list)
{
    text_key(w, name);
    text_open_list(w);
    if (list != NULL && list->kind == TEXT_LIST)
        TEXT_FOR (one, list)
            put_resource(w, one);
    text_close(w);
}

static void put_output_changes(struct text_writer *w, const struct text_value *outputs)
{
    text_key(w, "output_changes");
    text_open_object(w);
    if (outputs != NULL && outputs->kind == TEXT_OBJECT)
        TEXT_FOR (one, outputs)
            if (one->kind == TEXT_OBJECT) {
                text_key_bytes(w, one->name);
                put_change(w, one);
            }
    text_close(w);
}

enum status worker_plan_redact(struct bytes plan, struct bytes schemas, struct buf *out)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *root = NULL, *providers = NULL;
    struct text_writer w = {.out = out};
    TRY(text_json_parse(&arena, plan, &root, NULL));
    TRY(text_json_parse(&arena, schemas, &providers, NULL));
    if (root->kind != TEXT_OBJECT || providers->kind != TEXT_OBJECT)
        return ST_INVALID;
    text_open_object(&w);
    text_member_str(&w, "plan_format_version", member_text(root, "format_version"));
    put_resources(&w, "resource_changes", text_get(root, "resource_changes"));
    put_resources(&w, "resource_drift", text_get(root, "resource_drift"));
    text_key(&w, "relevant_attributes");
    put_masked(&w, text_get(root, "relevant_attributes"), NULL, NULL);
    put_output_changes(&w, text_get(root, "output_changes"));
    text_member_str(&w, "provider_format_version", member_text(providers, "format_version"));
    text_key(&w, "provider_schemas");
    put_masked(&w, text_get(providers, "provider_schemas"), NULL, NULL);
    text_close(&w);
    return buf_status(out);
}
