/* The table of the transitions of a run: what holds for every row, and for every pair of status and
 * event that has none. The table in docs/platform.md is that of the program. */
#include "api/platform/platform_run_table.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>

#define ALL_GUARDS ((1U << RUN_GUARDS) - 1)

/* What the interface says about the actions of clients (2.6), by the names of the statuses. */
static const struct {
    enum run_event event;
    const char *allowed; /* between blanks */
} actions[] = {
    {RUN_CONFIRM, " planned planned_and_saved "},
    {RUN_DISCARD, " pending planned planned_and_saved "},
    {RUN_CANCEL, " pending plan_queued planning apply_queued applying "},
    {RUN_FORCE_CANCEL, " planning applying "},
};

static void an_action_is_taken_where_the_interface_says_so_and_nowhere_else(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        for (unsigned s = 0; s < RUN_STATUSES; s++) {
            char word[64];
            (void)snprintf(word, sizeof word, " %s ", run_state_of((enum run_status)s)->name);
            bool allowed = strstr(actions[i].allowed, word) != NULL;
            const struct run_row *row =
                run_row_find((enum run_status)s, actions[i].event, ALL_GUARDS);
            if ((row != NULL) != allowed)
                fail_msg("%s on%s", run_event_name(actions[i].event), word);
        }
}

static void nothing_moves_a_run_that_has_ended(void **ctx)
{
    (void)ctx;
    for (unsigned s = 0; s < RUN_STATUSES; s++)
        for (unsigned e = 0; e < RUN_EVENTS; e++)
            if (run_state_of((enum run_status)s)->final)
                assert_null(run_row_find((enum run_status)s, (enum run_event)e, ALL_GUARDS));
}

/* What is under way ends when its worker or the state is lost: no lock stays. */
static void whatever_is_under_way_can_be_lost(void **ctx)
{
    (void)ctx;
    for (unsigned s = 0; s < RUN_STATUSES; s++) {
        const struct run_state *state = run_state_of((enum run_status)s);
        const struct run_row *row = run_row_find((enum run_status)s, RUN_LOSE, 0);
        bool passes_by_itself = run_row_find((enum run_status)s, RUN_GO_ON, 0) != NULL &&
                                run_row_find((enum run_status)s, RUN_GO_ON, 0)->to != s;
        assert_false(state->final && state->under_way);
        if (state->under_way && !passes_by_itself) {
            assert_non_null(row);
            assert_int_equal(row->to, RUN_ERRORED);
            assert_int_equal(row->told, RUN_TOLD_ERRORED);
        }
        if (state->holds_lock)
            assert_true(state->under_way);
    }
}

/* With any guards the steps that follow by themselves come to an end. */
static void steps_by_themselves_end(void **ctx)
{
    (void)ctx;
    for (unsigned guards = 0; guards <= ALL_GUARDS; guards++)
        for (unsigned s = 0; s < RUN_STATUSES; s++) {
            enum run_status at = (enum run_status)s;
            unsigned steps = 0;
            const struct run_row *row;
            while ((row = run_row_find(at, RUN_GO_ON, guards)) != NULL && row->to != at) {
                at = row->to;
                assert_true(steps++ < RUN_STATUSES);
            }
        }
}

/* A plan that has nothing to apply, is saved, or waits: the order of the rows decides. */
static void a_plan_goes_where_its_run_wants(void **ctx)
{
    (void)ctx;
    static const struct {
        unsigned guards;
        enum run_status to;
    } cases[] = {
        {0, RUN_PLANNED},
        {1U << RUN_AUTO_APPLIES, RUN_CONFIRMED},
        {1U << RUN_SAVES | 1U << RUN_AUTO_APPLIES, RUN_PLANNED_AND_SAVED},
        {1U << RUN_NOTHING_TO_APPLY | 1U << RUN_SAVES | 1U << RUN_AUTO_APPLIES,
         RUN_PLANNED_AND_FINISHED},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(run_row_find(RUN_PLANNED, RUN_GO_ON, cases[i].guards)->to, cases[i].to);
    assert_null(run_row_find(RUN_PLANNED_AND_SAVED, RUN_CONFIRM, 0)); /* the workspace is locked */
    assert_null(run_row_find(RUN_APPLYING, RUN_FORCE_CANCEL, 1U << RUN_WAS_CANCELED));
    assert_int_equal(run_row_find(RUN_PLANNING, RUN_FINISH, 1U << RUN_WAS_CANCELED)->to,
                     RUN_CANCELED);
    assert_int_equal(run_row_find(RUN_APPLYING, RUN_FINISH, 1U << RUN_WAS_CANCELED)->to,
                     RUN_APPLIED);
}

static void a_phase_that_was_never_begun_is_unreachable(void **ctx)
{
    (void)ctx;
    for (unsigned s = 0; s < RUN_STATUSES; s++) {
        enum run_status to = (enum run_status)s;
        const struct run_state *state = run_state_of(to);
        for (unsigned plan = 0; plan < 2; plan++)
            for (unsigned b = 0; b <= RUN_PHASE_UNREACHABLE; b++) {
                enum run_phase_status before = (enum run_phase_status)b;
                enum run_phase_status after = run_phase_after(to, plan != 0, before);
                if (before > RUN_PHASE_RUNNING) /* it ended */
                    assert_int_equal(after, before);
                else if (state->final && before == RUN_PHASE_PENDING)
                    assert_int_equal(after, RUN_PHASE_UNREACHABLE);
                else if (state->final)
                    assert_true(after > RUN_PHASE_RUNNING);
            }
    }
}

static void names_are_unique_and_found(void **ctx)
{
    (void)ctx;
    for (unsigned s = 0; s < RUN_STATUSES; s++) {
        enum run_status found;
        assert_true(run_status_find(run_state_of((enum run_status)s)->name, &found));
        assert_int_equal(found, s);
        assert_string_not_equal(run_state_of((enum run_status)s)->message, "");
    }
    assert_false(run_status_find("nonsense", &(enum run_status){RUN_PENDING}));
}

static void line_of(const struct run_row *row, char *ret_line, size_t room)
{
    const char *told = run_told_name(row->told);
    (void)snprintf(ret_line, room, "| %s | %s | %s | %s | %s |\n", run_state_of(row->from)->name,
                   run_event_name(row->event), run_guard_name(row->guard),
                   run_state_of(row->to)->name, told != NULL ? told : "");
}

/* The lines between the marks of the page are the rows, in their order. */
static void the_page_has_this_table(void **ctx)
{
    static char page[256 * 1024];
    char line[256], *wanted = calloc(1, 64 * 1024);
    (void)ctx;
    FILE *file = fopen(UNIT_DIR "/../../docs/platform.md", "r");
    assert_non_null(file);
    assert_non_null(wanted);
    size_t n = fread(page, 1, sizeof page - 1, file);
    page[n] = '\0';
    assert_int_equal(fclose(file), 0);
    for (size_t i = 0; i < run_n_rows; i++) {
        line_of(&run_rows[i], line, sizeof line);
        strcat(wanted, line);
    }
    if (getenv("HOLDFAST_PRINT_TABLE") != NULL)
        print_message("%s", wanted);
    const char *begin = strstr(page, "<!-- table of runs -->\n");
    assert_non_null(begin);
    begin = strstr(begin, "|---|---|---|---|---|\n");
    assert_non_null(begin);
    begin += strlen("|---|---|---|---|---|\n");
    assert_int_equal(strncmp(begin, wanted, strlen(wanted)), 0);
    assert_int_equal(begin[strlen(wanted)], '\n');
    free(wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_action_is_taken_where_the_interface_says_so_and_nowhere_else),
        cmocka_unit_test(nothing_moves_a_run_that_has_ended),
        cmocka_unit_test(whatever_is_under_way_can_be_lost),
        cmocka_unit_test(steps_by_themselves_end),
        cmocka_unit_test(a_plan_goes_where_its_run_wants),
        cmocka_unit_test(a_phase_that_was_never_begun_is_unreachable),
        cmocka_unit_test(names_are_unique_and_found),
        cmocka_unit_test(the_page_has_this_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
