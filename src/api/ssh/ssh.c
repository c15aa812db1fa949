/* The module: tables, metrics, settings, and paths that change nothing. */
#include "api/ssh/ssh.h"

static _Atomic uint64_t counts[SSH_COUNTS];
static struct ssh_settings current = {.key_id_prefix = ""};

void ssh_settings_in(const struct ssh_settings *settings)
{
    ASSERT(settings->key_id_prefix != NULL);
    current = *settings;
}

const struct ssh_settings *ssh_settings(void)
{
    return &current;
}

void ssh_count(enum ssh_count which)
{
    ASSERT(which < SSH_COUNTS);
    atomic_fetch_add_explicit(&counts[which], 1, memory_order_relaxed);
}

static uint64_t counted(enum ssh_count which)
{
    return atomic_load_explicit(&counts[which], memory_order_relaxed);
}

static void ssh_metrics(struct metric_out *out)
{
    static const char *const rules[] = {
        [SSH_COUNT_REFUSED_KEY] = "rule=\"key\"",
        [SSH_COUNT_REFUSED_KEY_ID] = "rule=\"key_id\"",
        [SSH_COUNT_REFUSED_TYPE] = "rule=\"cert_type\"",
        [SSH_COUNT_REFUSED_PRINCIPALS] = "rule=\"principals\"",
        [SSH_COUNT_REFUSED_TTL] = "rule=\"ttl\"",
        [SSH_COUNT_REFUSED_OPTIONS] = "rule=\"critical_options\"",
        [SSH_COUNT_REFUSED_EXTENSIONS] = "rule=\"extensions\"",
    };
    metric_start(out, "holdfast_ssh_certificates_signed_total", METRIC_COUNTER,
                 "SSH certificates that this node signed.");
    metric_value(out, NULL, counted(SSH_COUNT_SIGNED));
    metric_start(out, "holdfast_ssh_certificates_refused_total", METRIC_COUNTER,
                 "SSH certificates that this node refused, by the rule of the role.");
    for (size_t i = SSH_COUNT_REFUSED_KEY; i <= SSH_COUNT_REFUSED_EXTENSIONS; i++)
        metric_value(out, rules[i], counted((enum ssh_count)i));
    metric_start(out, "holdfast_ssh_passwords_verified_total", METRIC_COUNTER,
                 "One-time passwords for SSH that hosts had verified.");
    metric_value(out, "result=\"good\"", counted(SSH_COUNT_VERIFIED));
    metric_value(out, "result=\"unknown\"", counted(SSH_COUNT_NOT_VERIFIED));
}

struct tidied {
    const char *message;
};
static const struct field tidied_fields[] = {
    FIELD(struct tidied, message, STRING, .help = "How many keys were removed."),
};
static const struct schema tidied_schema = SCHEMA(struct tidied, tidied_fields);

/* Upstream once stored keys for hosts ("dynamic keys"). This engine never did. */
static enum status ssh_tidy_keys(struct req *req)
{
    static const struct tidied out = {"Cleaned up 0 host keys"};
    return req_reply(req, &out);
}

static const struct route ssh_routes[] = {
    {.method = METHOD_DELETE,
     .path = "tidy/dynamic-keys",
     .handler = ssh_tidy_keys,
     .reply = &tidied_schema,
     .help = "Remove stored host keys of earlier versions. There are none: always 0."},
};

static const struct route_table *const ssh_tables[] = {
    &ssh_role_table, &ssh_ca_table, &ssh_sign_table, &ssh_otp_table, &ssh_lookup_table};

static const struct route_api ssh_api = {.type = "ssh",
                                         .routes = ssh_routes,
                                         .n = ARRAY_LEN(ssh_routes),
                                         .more = ssh_tables,
                                         .n_more = ARRAY_LEN(ssh_tables)};

static const struct route_api *const ssh_apis[] = {&ssh_api};
static const struct module_engine ssh_engines[] = {{.type = "ssh"}};
static const struct lease_kind *const ssh_leases[] = {&ssh_otp_kind};

const struct module ssh_module = {.name = "ssh",
                                  .apis = ssh_apis,
                                  .n_apis = ARRAY_LEN(ssh_apis),
                                  .engines = ssh_engines,
                                  .n_engines = ARRAY_LEN(ssh_engines),
                                  .leases = ssh_leases,
                                  .n_leases = ARRAY_LEN(ssh_leases),
                                  .metrics = ssh_metrics};
