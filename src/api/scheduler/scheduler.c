/* The module, its tables and its block of the configuration. */
#include "api/scheduler/scheduler.h"
#include "front/scheduler/scheduler.h"
#include "node/service.h"

#define API(name_, prefix_, ...)                                                \
    static const struct route_table *const name_##_tables[] = {__VA_ARGS__};    \
    static const struct route_api name_##_api = {.dialect = &scheduler_dialect, \
                                                 .prefix = (prefix_),           \
                                                 .type = "scheduler",           \
                                                 .more = name_##_tables,        \
                                                 .n_more = ARRAY_LEN(name_##_tables)}

API(allocations, "allocations", &sched_alloc_list_table);
API(allocation, "allocation/", &sched_alloc_read_table, &sched_act_table);
API(client, "client/", &sched_client_checks_table, &sched_client_act_table, &sched_exec_table,
    &sched_agent_table);
API(jobs, "jobs", &sched_jobs_table);
API(job, "job/", &sched_job_table);
API(evaluations, "evaluations", &sched_evals_table);
API(evaluation, "evaluation/", &sched_eval_table);
API(nodes, "nodes", &sched_nodes_table);
API(node, "node/", &sched_node_table);
API(scheduler, "scheduler/", &sched_acl_table);

/* Paths that clients of the scheduler know, and that no mount can have (module.reserved): the reply
 * is the scheduler's, that no such path is served. */
#define ABSENT(name_, prefix_)                    \
    static const struct route_api name_##_api = { \
        .dialect = &scheduler_dialect, .prefix = (prefix_), .type = "scheduler"}
ABSENT(deployment, "deployment/");
ABSENT(deployments, "deployments");
ABSENT(namespace, "namespace/");
ABSENT(namespaces, "namespaces");
ABSENT(regions, "regions");
ABSENT(search, "search");
ABSENT(system, "system/");

static const struct route_api *const apis[] = {
    &allocations_api, &allocation_api,  &client_api,    &jobs_api,       &job_api,
    &evaluations_api, &evaluation_api,  &nodes_api,     &node_api,       &scheduler_api,
    &deployment_api,  &deployments_api, &namespace_api, &namespaces_api, &regions_api,
    &search_api,      &system_api};

static const struct node_service services[] = {{.name = "scheduler", .run = sched_loop_run}};

/* Configuration */

struct block {
    int64_t beat_ttl_s, beat_grace_s, beat_first_s;
};
static const struct field block_fields[] = {
    FIELD_NAMED("beat_ttl", struct block, beat_ttl_s, DURATION, .preset = "10s",
                .help = "How often a node says that it lives."),
    FIELD_NAMED("beat_grace", struct block, beat_grace_s, DURATION, .preset = "10s",
                .help = "How long after two missed beats a node is down."),
    FIELD_NAMED("beat_first", struct block, beat_first_s, DURATION, .preset = "5m",
                .help = "How long a new active node waits for the first beat of each node."),
};
static const struct schema block_schema = SCHEMA(struct block, block_fields);

static const char *check_block(const void *fields)
{
    const struct block *block = fields;
    return block->beat_ttl_s >= 1 && block->beat_ttl_s <= 3600 ? NULL
                                                               : "beat_ttl: 1s to 1h is expected";
}

static const struct config_block scheduler_block = {"scheduler", &block_schema, check_block};

static struct sched_settings settings = {10000, 10000, 300000};

const struct sched_settings *sched_settings(void)
{
    return &settings;
}

static void configure(const void *fields)
{
    const struct block *block = fields;
    settings = (struct sched_settings){block->beat_ttl_s * 1000, block->beat_grace_s * 1000,
                                       block->beat_first_s * 1000};
}

const struct module scheduler_module = {.name = "scheduler",
                                        .apis = apis,
                                        .n_apis = ARRAY_LEN(apis),
                                        .services = services,
                                        .n_services = ARRAY_LEN(services),
                                        .config = &scheduler_block,
                                        .configure = configure};
