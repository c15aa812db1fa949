#include "selftest.h"
#include "trail.h"

/* One request that node 1 runs: its record is written at 10 ns, its proposal follows at 20 ns, the
 * record of the reply at 30 ns, the reply at 40 ns. */
enum { SLOT = 1, PROCESS = 7 };

static struct trail_line line_at(const char *id, bool reply, uint64_t at_ns)
{
    struct trail_line line = {.reply = reply, .slot = SLOT, .process = PROCESS, .at_ns = at_ns};
    (void)snprintf(line.id, sizeof line.id, "%s", id); /* fits */
    return line;
}

static void add_line(struct trail *trail, const char *id, bool reply, uint64_t at_ns)
{
    const struct trail_line line = line_at(id, reply, at_ns);
    trail_add_line(trail, 0, &line);
}

static void add_effect(struct trail *trail, uint64_t at_ns)
{
    const struct trail_effect effect = {SLOT, PROCESS, at_ns};
    trail_add_effect(trail, 0, &effect);
}

static void add_run(struct trail *trail, const char *id, enum trail_way way, enum trail_says says,
                    int http)
{
    struct trail_run run = {.way = way, .says = says, .http = http, .ret_ns = 40};
    (void)snprintf(run.id, sizeof run.id, "%s", id); /* fits */
    trail_add_run(trail, 0, &run);
}

/* Without the reply of the run. */
static struct trail written(enum trail_kind kind)
{
    struct trail trail = {0};
    (void)trail_add(&trail, kind);
    add_line(&trail, "a", false, 10);
    add_effect(&trail, 20);
    add_line(&trail, "a", true, 30);
    trail.calls[0].changed = true;
    return trail;
}

static struct trail complete(enum trail_kind kind)
{
    struct trail trail = written(kind);
    add_run(&trail, "a", TRAIL_OWN, TRAIL_RECORDED, 200);
    return trail;
}

/* Releases the trail. */
static bool good(struct trail *trail)
{
    char text[TRAIL_TEXT];
    bool well = trail_judge(trail, text);
    trail_done(trail);
    return well;
}

static void a_change_is_on_record_first(void)
{
    struct trail trail = complete(TRAIL_CHANGE);
    CHECK(good(&trail));
    trail = complete(TRAIL_CHANGE);
    add_effect(&trail, 9); /* proposed before the record was written */
    CHECK(!good(&trail));
    trail = complete(TRAIL_CHANGE);
    trail.calls[0].effects[0].process++; /* proposed by a process that recorded nothing */
    CHECK(!good(&trail));
    trail = complete(TRAIL_CHANGE);
    trail.calls[0].effects[0].slot++;
    CHECK(!good(&trail));
    trail = complete(TRAIL_CHANGE);
    trail.calls[0].n_effects = 0; /* the change has no proposal */
    CHECK(!good(&trail));
}

/* The process died between the record and the commit, or before the reply. */
static void a_trail_may_say_more_than_happened(void)
{
    struct trail trail = {0};
    (void)trail_add(&trail, TRAIL_CHANGE);
    add_line(&trail, "a", false, 10);
    CHECK(good(&trail));
    trail = written(TRAIL_CHANGE);
    CHECK(good(&trail));
    trail = written(TRAIL_CHANGE);
    trail.calls[0].changed = false;
    CHECK(good(&trail));
}

static void a_reply_has_both_records(void)
{
    for (size_t lost = 0; lost < 2; lost++) {
        struct trail trail = complete(TRAIL_LOOK);
        trail.calls[0].n_effects = 0;
        trail.calls[0].changed = false;
        trail.calls[0].lines[lost].id[0] = 'b'; /* of another run */
        CHECK(!good(&trail));
        trail = complete(TRAIL_LOOK);
        trail.calls[0].lines[lost].at_ns = 41; /* after the reply */
        CHECK(!good(&trail));
    }
    struct trail trail = complete(TRAIL_CHANGE);
    trail.calls[0].runs[0].way = TRAIL_FORWARDED;
    trail.calls[0].lines[1].at_ns = 41;
    CHECK(!good(&trail));
}

static void a_run_is_recorded_once_and_by_one_node(void)
{
    for (unsigned reply = 0; reply < 2; reply++) {
        struct trail trail = complete(TRAIL_CHANGE);
        add_line(&trail, "a", reply != 0, 35); /* again, on the same device */
        CHECK(!good(&trail));
        trail = complete(TRAIL_CHANGE);
        struct trail_line line = line_at("a", reply != 0, 35);
        line.device++;
        trail_add_line(&trail, 0, &line);
        CHECK(good(&trail));
        trail = complete(TRAIL_CHANGE);
        line = line_at("a", reply != 0, 35);
        line.slot++;
        trail_add_line(&trail, 0, &line);
        CHECK(!good(&trail));
        trail = complete(TRAIL_CHANGE); /* another run of the request, on another node */
        line = line_at("b", reply != 0, 35);
        line.slot++;
        trail_add_line(&trail, 0, &line);
        CHECK(good(&trail));
    }
}

static struct trail look_twice(bool reply)
{
    struct trail trail = complete(TRAIL_LOOK);
    trail.calls[0].n_effects = 0;
    trail.calls[0].changed = false;
    add_line(&trail, "a", reply, 35);
    return trail;
}

/* Only where no device took the records of that run, or the run has no end. */
static void a_read_that_was_passed_on_may_be_recorded_twice(void)
{
    for (unsigned reply = 0; reply < 2; reply++) {
        struct trail trail = look_twice(reply != 0);
        CHECK(!good(&trail));
        trail = look_twice(reply != 0);
        trail.calls[0].runs[0].passed = true;
        CHECK(good(&trail));
        trail = look_twice(reply != 0);
        add_run(&trail, "b", TRAIL_RELAYED, TRAIL_RECORDED, 200);
        trail.calls[0].runs[1].passed = true;
        CHECK(!good(&trail));
        trail = look_twice(reply != 0);
        trail.calls[0].n_runs = 0;
        CHECK(good(&trail));
    }
}

static void a_node_that_forwards_records_nothing(void)
{
    static const enum trail_way ways[] = {TRAIL_RELAYED, TRAIL_HANDED_BACK};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct trail trail = complete(TRAIL_CHANGE);
        add_run(&trail, "b", ways[i], TRAIL_RECORDED, 200);
        CHECK(good(&trail));
        trail = complete(TRAIL_CHANGE);
        add_run(&trail, "b", ways[i], TRAIL_RECORDED, 200);
        add_line(&trail, "b", true, 35);
        CHECK(!good(&trail));
    }
}

static void what_clients_hear_is_true(void)
{
    static const struct {
        enum trail_way way;
        enum trail_says says;
        int http;
        bool with, without; /* true where the change is there, and where it is not */
    } rows[] = {
        {TRAIL_OWN, TRAIL_RECORDED, 200, true, false},
        {TRAIL_RELAYED, TRAIL_RECORDED, 200, true, false},
        {TRAIL_FORWARDED, TRAIL_RECORDED, 200, true, true},
        {TRAIL_OWN, TRAIL_RECORDED, 400, false, true},
        {TRAIL_OWN, TRAIL_RECORDED, 500, true, true},
        {TRAIL_OWN, TRAIL_NOTHING, 500, false, true},
        {TRAIL_RELAYED, TRAIL_NOTHING, 500, false, true},
        {TRAIL_FORWARDED, TRAIL_NOTHING, 500, true, true},
        {TRAIL_OWN, TRAIL_MADE, 500, true, false},
        {TRAIL_OWN, TRAIL_UNKNOWN, 500, true, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (unsigned changed = 0; changed < 2; changed++) {
            struct trail trail = written(TRAIL_CHANGE);
            const char *id = rows[i].way == TRAIL_RELAYED ? "b" : "a";
            trail.calls[0].changed = changed != 0;
            add_run(&trail, id, rows[i].way, rows[i].says, rows[i].http);
            CHECK(good(&trail) == (changed != 0 ? rows[i].with : rows[i].without));
        }
    }
    struct trail trail = written(TRAIL_CHANGE);
    trail.calls[0].untouched = true;
    CHECK(!good(&trail));
    trail = written(TRAIL_CHANGE);
    trail.calls[0].untouched = true;
    trail.calls[0].changed = false;
    CHECK(good(&trail));
}

unsigned selftest_trail(void)
{
    a_change_is_on_record_first();
    a_trail_may_say_more_than_happened();
    a_reply_has_both_records();
    a_run_is_recorded_once_and_by_one_node();
    a_read_that_was_passed_on_may_be_recorded_twice();
    a_node_that_forwards_records_nothing();
    what_clients_hear_is_true();
    return 7;
}
