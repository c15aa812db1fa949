/* Commands of the scheduler: jobs, allocations, nodes. */
#include "cli/command/command.h"
#include "cli/dialect/dialect.h"

#include <time.h>

enum { MONITOR_MS = 200, MONITOR_TRIES = 150, FULL_ID = 36 };

/* Requests */

/* Send a request and parse the reply. Returns an exit code, with a message unless CLI_OK. */
static int call(struct cli *cli, const char *method, const char *path, const struct buf *body,
                const struct text_value **ret_reply)
{
    struct cli_reply reply = {0};
    struct cli_request request = {.method = method};
    ASSERT(method != NULL && ret_reply != NULL);
    if (body == NULL || buf_status(body) == ST_OK)
        request.path = path != NULL ? arena_concat(&cli->arena, "/v1/", path) : NULL;
    if (body != NULL)
        request.body = buf_bytes(body);
    int code = cli_ask(cli, &request, &reply);
    if (code != CLI_OK)
        return code == CLI_REMOTE_ERROR ? cli_refused(cli, &request, &reply) : code;
    *ret_reply = cli_parse_reply(cli, &reply);
    return *ret_reply != NULL ? CLI_OK : CLI_REMOTE_ERROR;
}

static const char *text_of(const struct text_value *of, const char *name)
{
    const struct text_value *v = text_get(of, name);
    return v != NULL && v->kind == TEXT_STRING ? (const char *)v->text.data : "";
}

/* "PATH/ARGUMENT/more", escaped. */
static const char *path_of(struct cli *cli, const char *path, const char *id, const char *more)
{
    char *escaped = cli_escape(cli, id);
    return escaped != NULL ? arena_format(&cli->arena, "%s/%s%s", path, escaped, more) : NULL;
}

/* Print some members of each item of a list, in columns. */
static int print_columns(struct cli *cli, const struct text_value *list, const char *const *names,
                         size_t n)
{
    struct text_value *rows = text_value_new(&cli->arena, NULL, TEXT_LIST, (struct bytes){0});
    ASSERT(list != NULL && n != 0);
    if (cli->json) {
        cli_print_json(list);
        return CLI_OK;
    }
    for (const struct text_value *item = list->first; rows != NULL && item != NULL;
         item = item->next) {
        struct text_value *row = cli_object(cli, rows);
        for (size_t i = 0; row != NULL && i < n; i++)
            cli_add(cli, row, names[i], text_get(item, names[i]));
    }
    if (rows != NULL && rows->first != NULL)
        cli_print_grid(rows);
    return CLI_OK;
}

/* The one object whose id begins with the argument, among those of a list. */
static int find_id(struct cli *cli, const char *list_path, const char *begin, const char **ret_id)
{
    const struct text_value *list = NULL;
    size_t n = 0;
    ASSERT(begin != NULL);
    *ret_id = begin;
    if (strlen(begin) == FULL_ID)
        return CLI_OK;
    int code = call(cli, "GET", list_path, NULL, &list);
    if (code != CLI_OK)
        return code;
    TEXT_FOR (item, list)
        if (strncmp(text_of(item, "ID"), begin, strlen(begin)) == 0) {
            *ret_id = text_of(item, "ID");
            n++;
        }
    if (n != 1)
        cli_complain(n == 0 ? "no id begins so" : "more than one id begins so");
    return n == 1 ? CLI_OK : CLI_REMOTE_ERROR;
}

/* Wait until an evaluation has ended, and print how. Exit code 2: something was not placed. */
static int monitor(struct cli *cli, const char *id)
{
    const struct timespec pause = {0, MONITOR_MS * 1000000L};
    const struct text_value *eval = NULL;
    ASSERT(id != NULL);
    if (id[0] == '\0')
        return CLI_OK;
    cli_say("Evaluation %s\n", id);
    for (unsigned i = 0; i < MONITOR_TRIES; i++) {
        int code = call(cli, "GET", path_of(cli, "evaluation", id, ""), NULL, &eval);
        if (code != CLI_OK)
            return code;
        if (strcmp(text_of(eval, "Status"), "pending") != 0)
            break;
        (void)nanosleep(&pause, NULL); /* a shorter pause does no harm */
    }
    const struct text_value *failed = text_get(eval, "FailedTGAllocs");
    cli_say("Evaluation %s: %s\n", id, text_of(eval, "Status"));
    if (failed == NULL || failed->kind != TEXT_OBJECT)
        return CLI_OK;
    TEXT_FOR (group, failed)
        cli_say("Group %.*s is not placed whole; evaluation %s waits for capacity\n",
                (int)group->name.len, (const char *)group->name.data, text_of(eval, "BlockedEval"));
    return CLI_REMOTE_ERROR;
}

/* Jobs */

static int cmd_job_run(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    const struct text_value *job = NULL, *reply = NULL;
    struct bytes text;
    struct reason why = {{0}};
    ASSERT(cli->n_args == 1);
    if (!cli_slurp(cli, cli->args[0], "job file", &text))
        return CLI_LOCAL_ERROR;
    enum status st = text_json_parse(&cli->arena, text, &job, &why);
    if (st != ST_OK || job->kind != TEXT_OBJECT) {
        cli_complain("job file: %s", why.text[0] != '\0' ? why.text : "a JSON object is expected");
        return CLI_LOCAL_ERROR;
    }
    text_open_object(&w);
    text_key(&w, "Job");
    text_put_value(&w, text_get(job, "Job") != NULL ? text_get(job, "Job") : job);
    text_close(&w);
    int code = call(cli, "PUT", "jobs", &body, &reply);
    if (code != CLI_OK)
        return code;
    return cli_bool(cli, "detach", false) ? CLI_OK : monitor(cli, text_of(reply, "EvalID"));
}

static int cmd_job_status(struct cli *cli)
{
    static const char *const jobs[] = {"ID", "Type", "Priority", "Status"};
    static const char *const allocs[] = {"ID", "Name", "NodeName", "DesiredStatus", "ClientStatus"};
    const struct text_value *reply = NULL, *list = NULL;
    int code;
    if (cli->n_args == 0) {
        code = call(cli, "GET", "jobs", NULL, &reply);
        return code == CLI_OK ? print_columns(cli, reply, jobs, ARRAY_LEN(jobs)) : code;
    }
    code = call(cli, "GET", path_of(cli, "job", cli->args[0], ""), NULL, &reply);
    if (code != CLI_OK)
        return code;
    if (cli->json) {
        cli_print_json(reply);
        return CLI_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        printf("%-10s ", jobs[i]);
        cli_print_value(text_get(reply, jobs[i]));
    }
    code = call(cli, "GET", path_of(cli, "job", cli->args[0], "/allocations"), NULL, &list);
    return code == CLI_OK ? print_columns(cli, list, allocs, ARRAY_LEN(allocs)) : code;
}

static int cmd_job_stop(struct cli *cli)
{
    const struct text_value *reply = NULL;
    const char *purge = cli_bool(cli, "purge", false) ? "?purge=true" : "";
    int code = call(cli, "DELETE", path_of(cli, "job", cli->args[0], purge), NULL, &reply);
    if (code != CLI_OK)
        return code;
    return cli_bool(cli, "detach", false) ? CLI_OK : monitor(cli, text_of(reply, "EvalID"));
}

/* Allocations */

static int cmd_alloc_list(struct cli *cli)
{
    static const char *const names[] = {"ID", "Name", "NodeName", "DesiredStatus", "ClientStatus"};
    const struct text_value *list = NULL;
    int code = call(cli, "GET", "allocations?task_states=false", NULL, &list);
    return code == CLI_OK ? print_columns(cli, list, names, ARRAY_LEN(names)) : code;
}

static void print_tasks(const struct text_value *states)
{
    if (states == NULL || states->kind != TEXT_OBJECT)
        return;
    TEXT_FOR (task, states) {
        const struct text_value *events = text_get(task, "Events");
        printf("\nTask %.*s is %s\n", (int)task->name.len, (const char *)task->name.data,
               text_of(task, "State"));
        if (events == NULL || events->kind != TEXT_LIST)
            continue;
        TEXT_FOR (event, events)
            printf("  %-20s %s\n", text_of(event, "Type"), text_of(event, "DisplayMessage"));
    }
}

static int cmd_alloc_status(struct cli *cli)
{
    static const char *const names[] = {"ID",
                                        "Name",
                                        "NodeName",
                                        "JobID",
                                        "DesiredStatus",
                                        "DesiredDescription",
                                        "ClientStatus",
                                        "ClientDescription"};
    const struct text_value *alloc = NULL;
    const char *id;
    int code = find_id(cli, "allocations?task_states=false", cli->args[0], &id);
    if (code == CLI_OK)
        code = call(cli, "GET", path_of(cli, "allocation", id, ""), NULL, &alloc);
    if (code != CLI_OK)
        return code;
    if (cli->json) {
        cli_print_json(alloc);
        return CLI_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        printf("%-19s %s\n", names[i], text_of(alloc, names[i]));
    print_tasks(text_get(alloc, "TaskStates"));
    return CLI_OK;
}

static int cmd_alloc_stop(struct cli *cli)
{
    const struct text_value *reply = NULL;
    const char *id;
    bool no_delay = cli_bool(cli, "no-shutdown-delay", false);
    int code = find_id(cli, "allocations?task_states=false", cli->args[0], &id);
    if (code == CLI_OK)
        code = call(
            cli, "POST",
            path_of(cli, "allocation", id, no_delay ? "/stop?no_shutdown_delay=true" : "/stop"),
            NULL, &reply);
    if (code != CLI_OK)
        return code;
    return cli_bool(cli, "detach", false) ? CLI_OK : monitor(cli, text_of(reply, "EvalID"));
}

/* Nodes */

static int cmd_node_status(struct cli *cli)
{
    static const char *const names[] = {"ID", "Name", "Datacenter", "SchedulingEligibility",
                                        "Status"};
    const struct text_value *reply = NULL;
    const char *id;
    int code;
    if (cli->n_args == 0) {
        code = call(cli, "GET", "nodes", NULL, &reply);
        return code == CLI_OK ? print_columns(cli, reply, names, ARRAY_LEN(names)) : code;
    }
    code = find_id(cli, "nodes", cli->args[0], &id);
    if (code == CLI_OK)
        code = call(cli, "GET", path_of(cli, "node", id, ""), NULL, &reply);
    if (code != CLI_OK)
        return code;
    if (cli->json)
        cli_print_json(reply);
    else
        cli_print_table(reply);
    return CLI_OK;
}

static int cmd_node_token(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    const struct text_value *reply = NULL;
    text_open_object(&w);
    cli_put_text(cli, &w, "ttl", "TTL");
    cli_put_text(cli, &w, "pool", "Pool");
    if (cli_text(cli, "uses") != NULL)
        text_member_int(&w, "Uses", cli_int(cli, "uses", 1));
    text_close(&w);
    int code = call(cli, "POST", "client/node/token", &body, &reply);
    if (code != CLI_OK)
        return code;
    if (cli->json)
        cli_print_json(reply);
    else
        printf("%s\n", text_of(reply, "SecretID"));
    return CLI_OK;
}

#define DETACH_FLAG                                                \
    {                                                              \
        "detach", CLI_BOOL, "do not wait for the evaluation's end" \
    }
static const struct cli_flag run_flags[] = {DETACH_FLAG};
static const struct cli_flag stop_flags[] = {DETACH_FLAG,
                                             {"purge", CLI_BOOL, "forget the job too"}};
static const struct cli_flag alloc_stop_flags[] = {
    DETACH_FLAG, {"no-shutdown-delay", CLI_BOOL, "skip the delays before the kill"}};
static const struct cli_flag token_flags[] = {
    {"ttl", CLI_DURATION, "how long the token is valid; default: 1h"},
    {"uses", CLI_INT, "nodes that may join with it; default: 1"},
    {"pool", CLI_TEXT, "pool of these nodes; default: default"}};

static const struct cli_command scheduler_commands[] = {
    {.name = "job run",
     ARGS("FILE", 1, 1),
     FLAGS(run_flags),
     .dialect = &cli_scheduler_dialect,
     .run = cmd_job_run,
     .help = "Scheduler: register the job of a JSON file, or of standard input (-)."},
    {.name = "job status",
     ARGS("[JOB]", 0, 1),
     .dialect = &cli_scheduler_dialect,
     .run = cmd_job_status,
     .help = "Scheduler: list jobs, or print one and its allocations."},
    {.name = "job stop",
     ARGS("JOB", 1, 1),
     FLAGS(stop_flags),
     .dialect = &cli_scheduler_dialect,
     .run = cmd_job_stop,
     .help = "Scheduler: stop a job."},
    {.name = "alloc list",
     ARGS("", 0, 0),
     .dialect = &cli_scheduler_dialect,
     .run = cmd_alloc_list,
     .help = "Scheduler: list allocations."},
    {.name = "alloc status",
     ARGS("ALLOC", 1, 1),
     .dialect = &cli_scheduler_dialect,
     .run = cmd_alloc_status,
     .help = "Scheduler: print an allocation and the events of its tasks."},
    {.name = "alloc stop",
     ARGS("ALLOC", 1, 1),
     FLAGS(alloc_stop_flags),
     .dialect = &cli_scheduler_dialect,
     .run = cmd_alloc_stop,
     .help = "Scheduler: stop an allocation; another one takes its place."},
    {.name = "node status",
     ARGS("[NODE]", 0, 1),
     .dialect = &cli_scheduler_dialect,
     .run = cmd_node_status,
     .help = "Scheduler: list nodes, or print one."},
    {.name = "node token",
     ARGS("", 0, 0),
     FLAGS(token_flags),
     .dialect = &cli_scheduler_dialect,
     .run = cmd_node_token,
     .help = "Scheduler: print a token with which agents join."},
};

const struct cli_group cli_scheduler_commands = {scheduler_commands, ARRAY_LEN(scheduler_commands)};
