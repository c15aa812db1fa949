#include "api/scheduler/sched_show.h"
#include "api/scheduler/sched_spec.h"

void sched_put_json(struct text_writer *w, const char *name, const char *json,
                    const char *otherwise)
{
    text_key(w, name);
    text_put_raw(w, bytes_str(json[0] != '\0' ? json : otherwise));
}

void sched_put_ns(struct text_writer *w, const char *name, int64_t ms)
{
    text_key(w, name);
    text_put_int(w, ms * 1000000);
}

static void put_uint(struct text_writer *w, const char *name, uint64_t n)
{
    text_key(w, name);
    text_put_uint(w, n);
}

/* Allocations */

static void put_optional(struct text_writer *w, const char *name, bool truth)
{
    if (truth)
        text_member_bool(w, name, true);
    else
        text_member_null(w, name);
}

static void put_transition(const struct sched_plan *plan, struct text_writer *w)
{
    text_key(w, "DesiredTransition");
    text_open_object(w);
    put_optional(w, "Migrate", (plan->transition & SCHED_MIGRATE) != 0);
    put_optional(w, "Reschedule", (plan->transition & SCHED_RESCHEDULE) != 0);
    text_member_null(w, "ForceReschedule");
    put_optional(w, "NoShutdownDelay", (plan->transition & SCHED_NO_SHUTDOWN_DELAY) != 0);
    text_member_null(w, "MigrateDisablePlacement");
    text_close(w);
}

static void put_networks(struct text_writer *w, const char *name)
{
    text_key(w, name);
    text_put_raw(w, BYTES("[]"));
}

/* One task as AllocatedResources has it. */
static void put_task_resources(const struct text_value *task, struct text_writer *w)
{
    const struct text_value *resources = text_get(task, "Resources");
    text_open_object(w);
    text_key(w, "Cpu");
    text_open_object(w);
    text_member_int(w, "CpuShares", spec_int(resources, "CPU"));
    text_member_null(w, "ReservedCores");
    text_close(w);
    text_key(w, "Memory");
    text_open_object(w);
    text_member_int(w, "MemoryMB", spec_int(resources, "MemoryMB"));
    text_member_int(w, "MemoryMaxMB", spec_int(resources, "MemoryMaxMB"));
    text_close(w);
    put_networks(w, "Networks");
    put_networks(w, "Devices");
    text_close(w);
}

void sched_show_resources(const struct sched_alloc *alloc, const struct text_value *spec,
                          struct text_writer *w)
{
    const struct text_value *group = spec_group(spec, alloc->plan.group);
    const struct text_value *tasks = text_get(group, "Tasks");
    text_key(w, "AllocatedResources");
    text_open_object(w);
    text_key(w, "Tasks");
    text_open_object(w);
    for (const struct text_value *t = tasks != NULL ? tasks->first : NULL; t != NULL; t = t->next) {
        text_key(w, spec_text(t, "Name"));
        put_task_resources(t, w);
    }
    text_close(w);
    text_key(w, "TaskLifecycles");
    text_open_object(w);
    for (const struct text_value *t = tasks != NULL ? tasks->first : NULL; t != NULL; t = t->next)
        text_member_null(w, spec_text(t, "Name"));
    text_close(w);
    text_key(w, "Shared");
    text_open_object(w);
    put_networks(w, "Networks");
    put_uint(w, "DiskMB", alloc->plan.disk_mb);
    sched_put_json(w, "Ports", alloc->plan.ports, "[]");
    text_close(w);
    text_close(w);
}

static void put_sum(struct text_writer *w, const char *name, uint64_t cpu, uint64_t memory_mb,
                    uint64_t disk_mb)
{
    text_key(w, name);
    text_open_object(w);
    put_uint(w, "CPU", cpu);
    put_uint(w, "MemoryMB", memory_mb);
    put_uint(w, "DiskMB", disk_mb);
    put_networks(w, "Networks");
    text_close(w);
}

/* The resources as older clients read them. */
static void put_legacy(const struct sched_alloc *alloc, const struct text_value *spec,
                       struct text_writer *w)
{
    const struct text_value *tasks = text_get(spec_group(spec, alloc->plan.group), "Tasks");
    put_sum(w, "Resources", alloc->plan.cpu, alloc->plan.memory_mb, alloc->plan.disk_mb);
    put_sum(w, "SharedResources", 0, 0, alloc->plan.disk_mb);
    text_key(w, "TaskResources");
    text_open_object(w);
    for (const struct text_value *t = tasks != NULL ? tasks->first : NULL; t != NULL; t = t->next) {
        const struct text_value *r = text_get(t, "Resources");
        put_sum(w, spec_text(t, "Name"), (uint64_t)spec_int(r, "CPU"),
                (uint64_t)spec_int(r, "MemoryMB"), 0);
    }
    text_close(w);
}

static void put_head(const struct sched_alloc *alloc, struct text_writer *w)
{
    text_member_str(w, "ID", alloc->id);
    text_member_str(w, "EvalID", alloc->plan.eval);
    text_member_str(w, "Name", alloc->plan.name);
    text_member_str(w, "Namespace", "default");
    text_member_str(w, "NodeID", alloc->plan.node);
    text_member_str(w, "NodeName", alloc->plan.node_name);
    text_member_str(w, "JobID", alloc->plan.job);
}

static void put_status(const struct sched_alloc *alloc, struct text_writer *w)
{
    text_member_str(w, "TaskGroup", alloc->plan.group);
    text_member_str(w, "ClientStatus", sched_client_name(alloc->report.status));
    text_member_str(w, "ClientDescription", alloc->report.text);
    text_member_str(w, "DesiredStatus", sched_desired_name(alloc->plan.desired));
    text_member_str(w, "DesiredDescription", alloc->plan.desired_text);
    put_transition(&alloc->plan, w);
    text_member_null(w, "DeploymentStatus");
    text_member_str(w, "FollowupEvalID", alloc->plan.followup);
    text_member_str(w, "PreviousAllocation", alloc->plan.previous);
    text_member_str(w, "NextAllocation", alloc->plan.next);
    text_member_null(w, "PreemptedAllocations");
    text_member_str(w, "PreemptedByAllocation", "");
    sched_put_json(w, "RescheduleTracker", alloc->plan.tracker, "null");
}

static void put_times(const struct sched_alloc *alloc, struct text_writer *w)
{
    put_uint(w, "CreateIndex", alloc->created);
    put_uint(w, "ModifyIndex", alloc->modified);
    sched_put_ns(w, "CreateTime", alloc->plan.created_ms);
    sched_put_ns(w, "ModifyTime", MAX(alloc->plan.modified_ms, alloc->report.modified_ms));
}

void sched_show_stub(const struct sched_alloc *alloc, const struct sched_stub *how,
                     struct text_writer *w)
{
    text_open_object(w);
    put_head(alloc, w);
    text_member_str(w, "JobType", how->job_type);
    put_uint(w, "JobVersion", alloc->plan.job_version);
    put_status(alloc, w);
    sched_put_json(w, "TaskStates", how->states ? alloc->report.states : "", "null");
    put_times(alloc, w);
}

void sched_show_alloc(const struct sched_alloc *alloc, const struct text_value *spec,
                      struct text_writer *w)
{
    const struct sched_job job = {.id = alloc->plan.job,
                                  .version = alloc->plan.job_version,
                                  .submit_ms = alloc->plan.created_ms,
                                  .created = 0,
                                  .spec = spec};
    text_open_object(w);
    put_head(alloc, w);
    text_key(w, "Job");
    if (spec != NULL)
        sched_show_job(&job, "running", w);
    else
        text_put_null(w);
    text_member_str(w, "JobType", spec_text(spec, "Type"));
    put_uint(w, "JobVersion", alloc->plan.job_version);
    put_status(alloc, w);
    put_legacy(alloc, spec, w);
    sched_show_resources(alloc, spec, w);
    sched_put_json(w, "Metrics", alloc->plan.metrics, "null");
    sched_put_json(w, "TaskStates", alloc->report.states, "null");
    text_member_null(w, "AllocStates");
    text_member_str(w, "DeploymentID", "");
    text_member_null(w, "NetworkStatus");
    text_member_str(w, "SigningKeyID", "");
    put_uint(w, "AllocModifyIndex", alloc->plan_modified);
    put_times(alloc, w);
    text_close(w);
}

/* Jobs */

void sched_show_job(const struct sched_job *job, const char *status, struct text_writer *w)
{
    text_open_object(w);
    TEXT_FOR (member, job->spec) {
        text_key_bytes(w, member->name);
        text_put_value(w, member);
    }
    text_member_bool(w, "Stop", job->stop);
    text_member_str(w, "ParentID", "");
    text_member_bool(w, "Stable", false);
    put_uint(w, "Version", job->version);
    text_member_str(w, "Status", status);
    text_member_str(w, "StatusDescription", "");
    sched_put_ns(w, "SubmitTime", job->submit_ms);
    put_uint(w, "CreateIndex", job->created);
    put_uint(w, "ModifyIndex", job->modified);
    put_uint(w, "JobModifyIndex", job->spec_modified);
    text_close(w);
}

/* Evaluations */

void sched_show_eval(const struct sched_eval *eval, struct text_writer *w)
{
    text_open_object(w);
    text_member_str(w, "ID", eval->id);
    put_uint(w, "Priority", eval->priority);
    text_member_str(w, "Type", eval->type);
    text_member_str(w, "TriggeredBy", eval->trigger);
    text_member_str(w, "Namespace", "default");
    text_member_str(w, "JobID", eval->job);
    put_uint(w, "JobModifyIndex", eval->job_modified);
    text_member_str(w, "NodeID", eval->node);
    text_member_str(w, "DeploymentID", "");
    text_member_str(w, "Status", sched_eval_status_name(eval->status));
    text_member_str(w, "StatusDescription", eval->text);
    if (eval->wait_until_ms != 0)
        text_member_time(w, "WaitUntil", eval->wait_until_ms);
    else
        text_member_str(w, "WaitUntil", "0001-01-01T00:00:00Z");
    text_member_str(w, "NextEval", eval->next);
    text_member_str(w, "PreviousEval", eval->previous);
    text_member_str(w, "BlockedEval", eval->blocked);
    sched_put_json(w, "FailedTGAllocs", eval->failed, "null");
    sched_put_json(w, "QueuedAllocations", eval->queued, "{}");
    put_uint(w, "SnapshotIndex", eval->modified);
    put_uint(w, "CreateIndex", eval->created);
    put_uint(w, "ModifyIndex", eval->modified);
    sched_put_ns(w, "CreateTime", eval->created_ms);
    sched_put_ns(w, "ModifyTime", eval->modified_ms);
    text_close(w);
}

/* Nodes */

static void put_resources(const struct sched_node *node, struct text_writer *w)
{
    text_key(w, "NodeResources");
    text_open_object(w);
    text_key(w, "Cpu");
    text_open_object(w);
    put_uint(w, "CpuShares", node->cpu);
    text_close(w);
    text_key(w, "Memory");
    text_open_object(w);
    put_uint(w, "MemoryMB", node->memory_mb);
    text_close(w);
    text_key(w, "Disk");
    text_open_object(w);
    put_uint(w, "DiskMB", node->disk_mb);
    text_close(w);
    put_networks(w, "Networks");
    text_member_int(w, "MinDynamicPort", 20000);
    text_member_int(w, "MaxDynamicPort", 32000);
    text_close(w);
}

void sched_show_node(const struct sched_node *node, bool whole, struct text_writer *w)
{
    text_open_object(w);
    text_member_str(w, "ID", node->id);
    text_member_str(w, "Name", node->name);
    text_member_str(w, "Datacenter", node->datacenter);
    text_member_str(w, "NodePool", node->pool);
    text_member_str(w, "NodeClass", node->class_name);
    text_member_str(w, "Status", sched_node_status_name(node->status));
    text_member_str(w, "StatusDescription", "");
    text_member_str(w, "SchedulingEligibility", node->ineligible ? "ineligible" : "eligible");
    text_member_bool(w, "Drain", false);
    if (whole) {
        /* clients send requests about tasks to a server */
        text_member_str(w, "HTTPAddr", "");
        text_member_bool(w, "TLSEnabled", true);
        sched_put_json(w, "Facts", node->facts, "{}");
        put_resources(node, w);
        text_member_null(w, "DrainStrategy");
        text_member_int(w, "StatusUpdatedAt", node->status_ms / 1000);
    }
    put_uint(w, "CreateIndex", node->created);
    put_uint(w, "ModifyIndex", node->modified);
    text_close(w);
}
