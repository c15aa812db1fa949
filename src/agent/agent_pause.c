/* Schedules of tasks and their overrides (B13). */
#include "agent/agent_internal.h"

#include "text/window.h"

#include <stdlib.h>
#include <time.h>

/* The local time of a zone; "": of this machine. The zone is a setting of the whole process, and
 * the lock of the agent guards it. */
static struct tm local_time(const char *zone)
{
    time_t now = time(NULL);
    struct tm at;
    if (zone[0] == '\0') {
        (void)localtime_r(&now, &at); /* the time is valid */
        return at;
    }
    const char *before = getenv("TZ");
    char old[128] = "";
    if (before != NULL && strlen(before) < sizeof old)
        memcpy(old, before, strlen(before) + 1);
    (void)setenv("TZ", zone, 1); /* without memory the zone stays */
    tzset();
    (void)localtime_r(&now, &at); /* the time is valid */
    if (before != NULL)
        (void)setenv("TZ", old, 1); /* without memory the zone stays */
    else
        (void)unsetenv("TZ"); /* a valid name */
    tzset();
    return at;
}

const char *task_schedule(const struct task *task, bool *ret_paused)
{
    const struct text_value *schedule = text_get(task->spec, "Schedule");
    const struct text_value *cron = text_get(schedule, "Cron");
    struct text_window window;
    *ret_paused = false;
    if (cron == NULL || cron->kind != TEXT_OBJECT)
        return "";
    if (task->override != NULL && strcmp(task->override, "run") == 0)
        return "force_run";
    if (task->override != NULL) {
        *ret_paused = true;
        return "force_pause";
    }
    if (text_window_parse(bytes_str(member_text(cron, "Start")),
                          bytes_str(member_text(cron, "End")), &window, NULL) != ST_OK)
        return ""; /* the server refuses such a schedule */
    struct tm at = local_time(member_text(cron, "Timezone"));
    *ret_paused = !text_window_has(&window, &at);
    return *ret_paused ? "scheduled_pause" : "";
}
