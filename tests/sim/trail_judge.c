/* Judges what audit devices wrote: whether a cluster that keeps PROTOCOL R20 can leave it. */
#include "trail.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t trail_add(struct trail *trail, enum trail_kind kind)
{
    trail->calls = sim_grow(trail->calls, (trail->n_calls + 1) * sizeof *trail->calls);
    trail->calls[trail->n_calls] = (struct trail_call){.kind = kind};
    return trail->n_calls++;
}

static struct trail_call *call_of(struct trail *trail, uint64_t number)
{
    ASSERT(number < trail->n_calls);
    return &trail->calls[number];
}

void trail_add_line(struct trail *trail, uint64_t number, const struct trail_line *line)
{
    struct trail_call *call = call_of(trail, number);
    call->lines = sim_grow(call->lines, (call->n_lines + 1) * sizeof *call->lines);
    call->lines[call->n_lines++] = *line;
}

void trail_add_effect(struct trail *trail, uint64_t number, const struct trail_effect *effect)
{
    struct trail_call *call = call_of(trail, number);
    call->effects = sim_grow(call->effects, (call->n_effects + 1) * sizeof *call->effects);
    call->effects[call->n_effects++] = *effect;
}

void trail_add_run(struct trail *trail, uint64_t number, const struct trail_run *run)
{
    struct trail_call *call = call_of(trail, number);
    call->runs = sim_grow(call->runs, (call->n_runs + 1) * sizeof *call->runs);
    call->runs[call->n_runs++] = *run;
}

void trail_done(struct trail *trail)
{
    for (size_t i = 0; i < trail->n_calls; i++) {
        free(trail->calls[i].lines);
        free(trail->calls[i].effects);
        free(trail->calls[i].runs);
    }
    free(trail->calls);
}

/* Effects */

static bool is_on_record(const struct trail_call *call, const struct trail_effect *effect)
{
    for (size_t i = 0; i < call->n_lines; i++) {
        const struct trail_line *line = &call->lines[i];
        if (!line->reply && line->slot == effect->slot && line->process == effect->process &&
            line->at_ns <= effect->at_ns)
            return true;
    }
    return false;
}

static const char *judge_effects(const struct trail_call *call)
{
    for (size_t i = 0; i < call->n_effects; i++)
        if (!is_on_record(call, &call->effects[i]))
            return "takes effect before it is on record";
    if (call->changed && call->n_effects == 0)
        return "changed something that no node proposed";
    return NULL;
}

/* Lines */

/* Whether a device may have the records of a run twice. A standby on which no device took the
 * records of a read may become the active node and record the read again; the device that was late
 * may write its first records too. Of a run without an end it is not known. */
static bool may_repeat(const struct trail_call *call, const char *id)
{
    bool ended = false, passed = false;
    for (size_t i = 0; i < call->n_runs; i++) {
        bool same = strcmp(call->runs[i].id, id) == 0;
        ended = ended || same;
        passed = passed || (same && call->runs[i].passed);
    }
    return call->kind == TRAIL_LOOK && (passed || !ended);
}

static const char *judge_lines(const struct trail_call *call)
{
    for (size_t i = 0; i < call->n_lines; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct trail_line *one = &call->lines[i], *other = &call->lines[k];
            if (strcmp(one->id, other->id) != 0)
                continue;
            if (one->slot != other->slot || one->process != other->process)
                return "has a run that two nodes recorded";
            if (one->device == other->device && one->reply == other->reply &&
                !may_repeat(call, one->id))
                return "has a run that a device recorded twice";
        }
    }
    return NULL;
}

/* Whether a device has the record of a run by the time `until_ns`. */
static bool has_line(const struct trail_call *call, const char *id, bool reply, uint64_t until_ns)
{
    for (size_t i = 0; i < call->n_lines; i++) {
        const struct trail_line *line = &call->lines[i];
        if (strcmp(line->id, id) == 0 && line->reply == reply && line->at_ns <= until_ns)
            return true;
    }
    return false;
}

/* Runs */

static bool changes(enum trail_kind kind)
{
    return kind == TRAIL_TOUCH || kind == TRAIL_CHANGE || kind == TRAIL_OUTSIDE;
}

static const char *judge_records(const struct trail_call *call, const struct trail_run *run)
{
    /* a device that was left out may still write the records of a request that another node got */
    if (run->way == TRAIL_RELAYED && !changes(call->kind))
        return NULL;
    if (run->way == TRAIL_RELAYED || run->way == TRAIL_HANDED_BACK)
        /* a late device may write the record of the reply after its request was handed back */
        return has_line(call, run->id, true, run->way == TRAIL_RELAYED ? UINT64_MAX : run->ret_ns)
                   ? "is recorded by a node that gave no reply of its own"
                   : NULL;
    if (run->says != TRAIL_RECORDED)
        return NULL;
    if (!has_line(call, run->id, false, run->ret_ns))
        return "gets a reply before the request is on record";
    if (!has_line(call, run->id, true, run->ret_ns))
        return "gets a reply before the reply is on record";
    return NULL;
}

/* What the client hears. The reply to a node that forwarded the request may be lost, and another
 * node may run the request then. */
static const char *judge_words(const struct trail_call *call, const struct trail_run *run)
{
    if (run->way == TRAIL_FORWARDED || run->way == TRAIL_HANDED_BACK)
        return NULL;
    bool done = run->http < 300 && run->says == TRAIL_RECORDED && changes(call->kind);
    bool refused = run->http >= 400 && run->http < 500 && run->says == TRAIL_RECORDED;
    if (done && !call->changed)
        return "was acknowledged, but its change is not there";
    if (refused && call->changed)
        return "was refused, but its change is there";
    if (run->says == TRAIL_NOTHING && call->changed)
        return "could not be recorded, but its change is there";
    if (run->says == TRAIL_MADE && changes(call->kind) && !call->changed)
        return "was said to be made without a record, but its change is not there";
    return NULL;
}

static const char *judge_call(const struct trail_call *call)
{
    const char *wrong = judge_effects(call);
    if (wrong == NULL)
        wrong = judge_lines(call);
    for (size_t i = 0; i < call->n_runs && wrong == NULL; i++) {
        wrong = judge_records(call, &call->runs[i]);
        if (wrong == NULL)
            wrong = judge_words(call, &call->runs[i]);
    }
    if (wrong == NULL && call->untouched && call->changed)
        wrong = "was given up as unchanged, but its change is there";
    return wrong;
}

bool trail_judge(const struct trail *trail, char text[TRAIL_TEXT])
{
    for (size_t i = 0; i < trail->n_calls; i++) {
        const char *wrong = judge_call(&trail->calls[i]);
        if (wrong == NULL)
            continue;
        snprintf(text, TRAIL_TEXT, "recorded request %zu of kind %d %s", i, trail->calls[i].kind,
                 wrong);
        return false;
    }
    return true;
}
