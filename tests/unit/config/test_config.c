#include "support.h"

#include "base/mem.h"
#include "config/config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LISTENER "listener \"tcp\" {\n  address = \"127.0.0.1:8200\"\n  tls_disable = true\n}\n"
#define CLUSTER                                                                            \
    "cluster {\n  address = \"127.0.0.1:8201\"\n  ca_file = \"ca\"\n  cert_file = \"c\"\n" \
    "  key_file = \"k\"\n  member \"a\" { address = \"127.0.0.1:8201\" }\n"                \
    "  member \"b\" { address = \"h:1\" }\n}\n"
#define SEAL "seal \"static\" {\n  key_file = \"seal.key\"\n}\n"
#define NAMES "node_name = \"a\"\ndata_dir = \"d\"\n"

static struct config config;
static struct reason why;

static int done(void **ctx)
{
    (void)ctx;
    config_done(&config);
    return 0;
}

/* The block of a module. */
struct lamp {
    const char *colour;
    int64_t bulbs;
    const char *secret;
};
static const struct field lamp_fields[] = {FIELD(struct lamp, colour, STRING, .preset = "red"),
                                           FIELD(struct lamp, bulbs, INT),
                                           FIELD(struct lamp, secret, STRING, .hidden = true)};
static const struct schema lamp_schema = SCHEMA(struct lamp, lamp_fields);
static const char *check_lamp(const void *fields)
{
    const struct lamp *lamp = fields;
    return lamp->bulbs > 100 ? "bulbs: 100 at most are expected" : NULL;
}

static const struct config_block lamp_block = {"lamp", &lamp_schema, check_lamp};
static const struct config_blocks blocks = {{&lamp_block}, 1};

static void load(const char *text)
{
    if (config_parse(bytes_str(text), "x.hcl", &blocks, &config, &why) != ST_OK)
        fail_msg("%s: %s", text, why.text);
}

static void refused(const char *text, const char *start, const char *part)
{
    assert_status(config_parse(bytes_str(text), "x.hcl", &blocks, &config, &why), ST_INVALID);
    if (strncmp(why.text, start, strlen(start)) != 0 || strstr(why.text, part) == NULL)
        fail_msg("\"%s\" is not \"%s … %s\"", why.text, start, part);
}

#define JOINS(auto_join)                                                                       \
    NAMES LISTENER SEAL                                                                        \
        "cluster {\naddress = \"h:1\"\nca_file = \"1\"\ncert_file = \"1\"\nkey_file = \"1\"\n" \
        "member \"b\" { address = \"h:2\" }\njoin_token_file = \"t\"\n" auto_join "}\n"

static void auto_join_becomes_an_address(void **ctx)
{
    (void)ctx;
    load(JOINS(""));
    assert_null(config.cluster.auto_join);
    config_done(&config);
    load(JOINS("auto_join = \"ports.example\"\n"));
    assert_string_equal(config.cluster.auto_join, "ports.example:8201");
    config_done(&config);
    load(JOINS("auto_join = \"provider=dns name=::1 port=9\"\n"));
    assert_string_equal(config.cluster.auto_join, "[::1]:9");
}

static void the_least_configuration_has_the_defaults(void **ctx)
{
    (void)ctx;
    load(NAMES LISTENER CLUSTER SEAL);
    assert_string_equal(config.node_name, "a");
    assert_string_equal(config.log_level, "info");
    assert_int_equal(config.workers, 0);
    assert_true(config.default_kv && config.performance_standby);
    assert_string_equal(config.api_addr, "http://127.0.0.1:8200");
    assert_null(config.reported_version);
    assert_int_equal(config.n_listeners, 1);
    assert_int_equal(config.listeners[0].max_request_bytes, 32 << 20);
    assert_int_equal(config.listeners[0].request_timeout_s, 90);
    assert_string_equal(config.cluster.advertise, "127.0.0.1:8201");
    assert_int_equal(config.cluster.n_members, 2);
    assert_string_equal(config.cluster.members[1].name, "b");
    assert_string_equal(config.cluster.members[1].address, "h:1");
    assert_string_equal(config.seal.type, "static");
    assert_string_equal(config.seal.key_id, "default");
}

static void every_field_is_read(void **ctx)
{
    (void)ctx;
    load(NAMES
         "api_addr = \"https://x\"\nlog_level = \"debug\"\nworkers = 3\n"
         "drain_delay_s = \"3s\"\n"
         "segment_bytes = \"1MiB\"\nsnapshot_log_bytes = 65536\nstate_bytes_max = \"1GiB\"\n"
         "reserve_bytes = 5\ndefault_kv = false\nperformance_standby = \"false\"\n"
         "compat { reported_version = \"1.15.0\" }\n" LISTENER
         "listener \"tcp\" {\n address = \"[::1]:1\"\n tls_cert_file = \"c\"\n"
         " tls_key_file = \"k\"\n max_request_bytes = \"1KiB\"\n max_connections = 7\n"
         " max_connections_per_address = 5\n"
         " idle_timeout_s = \"2m\"\n unauthenticated_metrics = true\n"
         " authenticated_ceremonies = true\n}\n" SEAL
         "cluster {\n id = \"0123abcd-0000-4000-8000-000000000000\"\n name = \"n\"\n"
         " address = \"0.0.0.0:1\"\n advertise = \"h:2\"\n ca_file = \"1\"\n cert_file = \"2\"\n"
         " key_file = \"3\"\n election_ms = 500\n heartbeat_ms = 50\n"
         " member \"a\" { address = \"h:2\" }\n}\n");
    assert_string_equal(config.api_addr, "https://x");
    assert_int_equal(config.workers, 3);
    assert_int_equal(config.drain_delay_s, 3);
    assert_int_equal(config.segment_bytes, 1 << 20);
    assert_int_equal(config.snapshot_log_bytes, 65536);
    assert_int_equal(config.state_bytes_max, 1 << 30);
    assert_int_equal(config.reserve_bytes, 5);
    assert_false(config.default_kv || config.performance_standby);
    assert_string_equal(config.reported_version, "1.15.0");
    assert_int_equal(config.n_listeners, 2);
    assert_true(config.listeners[1].unauthenticated_metrics);
    assert_true(config.listeners[1].authenticated_ceremonies);
    assert_false(config.listeners[0].authenticated_ceremonies);
    assert_false(config.listeners[1].tls_disable);
    assert_int_equal(config.listeners[1].max_request_bytes, 1024);
    assert_int_equal(config.listeners[1].max_connections, 7);
    assert_int_equal(config.listeners[1].max_connections_per_address, 5);
    assert_int_equal(config.listeners[1].idle_timeout_s, 120);
    assert_string_equal(config.cluster.advertise, "h:2");
    assert_int_equal(config.cluster.election_ms, 500);
    assert_int_equal(config.cluster.heartbeat_ms, 50);
}

static void json_is_read_too(void **ctx)
{
    (void)ctx;
    load("{\"node_name\": \"a\", \"data_dir\": \"d\", \"cluster\": {\"address\": \"h:1\","
         "\"ca_file\": \"1\", \"cert_file\": \"2\", \"key_file\": \"3\", \"member\": {\"a\": "
         "{\"address\": \"h:1\"}, \"b\": {\"address\": \"h:2\"}}},"
         "\"listener\": [{\"tcp\": {\"address\": \"h:3\", \"tls_disable\": true}},"
         "{\"tcp\": [{\"address\": \"h:4\", \"tls_disable\": 1}]}],"
         "\"seal\": {\"static\": {\"key_file\": \"k\"}}}");
    assert_int_equal(config.cluster.n_members, 2);
    assert_int_equal(config.n_listeners, 2);
    assert_string_equal(config.listeners[1].address, "h:4");
}

static void an_error_names_file_line_and_field(void **ctx)
{
    (void)ctx;
    refused(NAMES "\nlistner \"tcp\" {\n}\n", "x.hcl:4: ", "\"listner\"");
    refused(NAMES LISTENER CLUSTER "seal \"static\" {\n  key_fil = \"x\"\n}\n",
            "x.hcl:16: ", "\"key_fil\"");
    refused(NAMES LISTENER CLUSTER "seal \"static\" {\n}\n", "x.hcl:15: ", "key_file: is required");
    refused("node_name = \"a\"\n", "x.hcl:1: ", "data_dir: is required");
    refused(NAMES "workers = \"many\"\n", "x.hcl:3: ", "workers: a whole number");
    refused(NAMES "a = \n", "x.hcl:4: ", "a value is expected");
    refused("{\n\"node_name\": 1,\n\"x\": 2}", "x.hcl:3: ", "\"x\"");
}

static void a_seal_key_comes_from_a_file_or_a_credential(void **ctx)
{
    (void)ctx;
    load(NAMES LISTENER CLUSTER "seal \"static\" {\n  credential = \"seal.key\"\n}\n");
    assert_string_equal(config.seal.type, "static");
    assert_string_equal(config.seal.credential, "seal.key");
    assert_null(config.seal.key_file);
    config_done(&config);
    refused(NAMES LISTENER CLUSTER
            "seal \"static\" {\n  key_file = \"k\"\n  credential = \"c\"\n}\n",
            "x.hcl:17: ", "credential: there is key_file already");
}

#define DISABLED(id)                                                                    \
    "seal \"static\" {\n  key_file = \"old.key\"\n  key_id = \"" id "\"\n  disabled = " \
    "\"true\"\n}\n"

static void a_disabled_seal_is_the_one_to_move_away_from(void **ctx)
{
    (void)ctx;
    load(NAMES LISTENER CLUSTER SEAL);
    assert_null(config.former_seal.type);
    config_done(&config);
    load(NAMES LISTENER CLUSTER DISABLED("old") SEAL);
    assert_string_equal(config.seal.key_file, "seal.key");
    assert_string_equal(config.former_seal.key_file, "old.key");
    assert_string_equal(config.former_seal.key_id, "old");
    config_done(&config);
    load(NAMES LISTENER CLUSTER SEAL "seal \"shamir\" { disabled = true }\n");
    assert_string_equal(config.seal.type, "static");
    assert_string_equal(config.former_seal.type, "shamir");
    config_done(&config);
    load("{\"node_name\": \"a\", \"data_dir\": \"d\", \"cluster\": {\"address\": \"h:1\","
         "\"ca_file\": \"1\", \"cert_file\": \"2\", \"key_file\": \"3\", \"member\":"
         "{\"a\": {\"address\": \"h:1\"}}},"
         "\"listener\": {\"tcp\": {\"address\": \"h:3\", \"tls_disable\": true}},"
         "\"seal\": {\"static\": [{\"key_file\": \"k\"},"
         "{\"key_file\": \"l\", \"key_id\": \"former\", \"disabled\": true}]}}");
    assert_string_equal(config.seal.key_id, "default");
    assert_string_equal(config.former_seal.key_id, "former");
}

static void the_previous_key_of_a_seal_is_read(void **ctx)
{
    (void)ctx;
    load(NAMES LISTENER CLUSTER "seal \"static\" {\n  key_file = \"new.key\"\n  key_id = \"2\"\n"
                                "  previous_key_file = \"old.key\"\n}\n");
    assert_string_equal(config.seal.previous_key_file, "old.key");
    assert_string_equal(config.seal.previous_key_id, "default");
    config_done(&config);
    load(NAMES LISTENER CLUSTER "seal \"static\" {\n  credential = \"new\"\n  key_id = \"2\"\n"
                                "  previous_credential = \"old\"\n  previous_key_id = \"1\"\n}\n");
    assert_null(config.seal.previous_key_file);
    assert_string_equal(config.seal.previous_credential, "old");
    assert_string_equal(config.seal.previous_key_id, "1");
}

static void a_disabled_seal_alone_moves_to_key_shares(void **ctx)
{
    (void)ctx;
    load(NAMES LISTENER CLUSTER DISABLED("old"));
    assert_string_equal(config.seal.type, "shamir");
    assert_string_equal(config.former_seal.key_id, "old");
    config_done(&config);
    load(NAMES LISTENER CLUSTER DISABLED("old") "seal \"shamir\" {\n}\n");
    assert_string_equal(config.seal.type, "shamir");
    assert_string_equal(config.former_seal.type, "static");
}

static void seals_that_contradict_each_other_are_refused(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {SEAL SEAL, "18: seal: is repeated; at most one may lack disabled"},
        {SEAL "seal \"shamir\" {\n}\n", "18: seal: is repeated; at most one may lack disabled"},
        {DISABLED("a") DISABLED("b"), "20: seal: is repeated; at most one may be disabled"},
        {DISABLED("a") SEAL DISABLED("b"), "seal: is repeated; at most one may be disabled"},
        {DISABLED("default") SEAL, "20: key_id: both seals are named \"default\""},
        {SEAL DISABLED("default"), "18: key_id: both seals are named \"default\""},
        {"seal \"shamir\" { disabled = true }\n", "15: seal: \"shamir\" is disabled, and there is"},
        {"seal \"shamir\" {}\nseal \"shamir\" { disabled = true }\n", "\"shamir\" is repeated"},
        {"seal \"shamir\" { key_id = \"x\" }\n", "unknown field \"key_id\""},
        {"seal \"static\" {\n  key_file = \"k\"\n  previous_key_file = \"o\"\n}\n",
         "15: key_id: the key and the previous key are both named \"default\": give the new key"},
        {"seal \"static\" {\n  key_file = \"k\"\n  previous_key_id = \"o\"\n}\n",
         "17: previous_key_id: there is no previous_key_file"},
        {"seal \"static\" {\n  key_file = \"k\"\n  key_id = \"2\"\n  previous_key_file = \"o\"\n"
         "  previous_credential = \"o\"\n}\n",
         "19: previous_credential: there is previous_key_file already"},
        {"seal \"static\" {\n  key_file = \"k\"\n  key_id = \"2\"\n  previous_key_file = \"o\"\n"
         "  disabled = true\n}\n",
         "previous_key_file: a disabled seal takes none"},
        {"seal \"static\" {\n  key_file = \"k\"\n  key_id = \"2\"\n  previous_key_file = \"o\"\n"
         "}\n" DISABLED("default"),
         "previous_key_id: \"default\" is the disabled seal's too"},
        {"seal \"static\" {\n  key_file = \"k\"\n  disabled = \"maybe\"\n}\n",
         "17: disabled: true or false"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf text = {0};
        buf_add_format(&text, NAMES LISTENER CLUSTER "%s", cases[i].text);
        buf_add_u8(&text, 0);
        refused((const char *)text.data, "x.hcl:", cases[i].part);
    }
}

#define PLAIN "listener \"tcp\" {\naddress = \"h:1\"\ntls_disable = true\n"

static void the_last_value_that_can_work_is_taken(void **ctx)
{
    (void)ctx;
    load(NAMES
         "drain_delay_s = 3600\n" PLAIN
         "max_header_bytes = 1024\nproxy_protocol_behavior = \"use_always\"\n}\n" CLUSTER SEAL);
    assert_int_equal(config.drain_delay_s, 3600);
    config_done(&config);
    CLEANUP(buf_done) struct buf text = {0};
    for (int over = 0; over < 2; over++) {
        buf_clear(&text);
        buf_add_str(&text, NAMES PLAIN "}\n" SEAL "cluster {\naddress = \"h:1\"\nca_file = \"1\"\n"
                                       "cert_file = \"1\"\nkey_file = \"1\"\n");
        for (int i = 0; i < CONFIG_MEMBERS_MAX + over; i++)
            buf_add_format(&text, "member \"n%d\" { address = \"h:%d\" }\n", i, i + 1);
        buf_add(&text, bytes_of("}\n", 3));
        if (over)
            refused((const char *)text.data, "x.hcl:", "member: more than 16");
        else
            load((const char *)text.data);
        config_done(&config);
    }
}

static void values_that_cannot_work_are_refused(void **ctx)
{
    (void)ctx;
    static const char rest[] = LISTENER CLUSTER SEAL;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"node_name = \"a/b\"\ndata_dir = \"d\"\n", "node_name"},
        {"node_name = \"\"\ndata_dir = \"d\"\n", "node_name"},
        {"node_name = \"a\"\ndata_dir = \"\"\n", "data_dir"},
        {NAMES "log_level = \"loud\"\n", "log_level"},
        {NAMES "log_format = \"xml\"\n", "log_format"},
        {NAMES "workers = -1\n", "workers"},
        {NAMES "drain_delay_s = \"2h\"\n", "3: drain_delay_s: at most 3600"},
        {NAMES "max_blocking_queries = 0\n", "3: max_blocking_queries: 1 to 1000000"},
        {NAMES "max_blocking_queries = 10\nmax_blocking_queries_per_address = 11\n",
         "4: max_blocking_queries_per_address: 0 to 10"},
        {NAMES "max_connections = 0\n", "3: max_connections: 1 to 1000000"},
        {NAMES "max_connections = 1000001\n", "3: max_connections: 1 to 1000000"},
        {NAMES "max_connections_per_address = 0\n", "3: max_connections_per_address: 1 or more"},
        {NAMES "unread_bytes_max = 1048575\n", "3: unread_bytes_max: 1MiB or more"},
        {NAMES "drain_delay_s = 3601\n", "3: drain_delay_s: at most 3600"},
        {NAMES "segment_bytes = \"1.5MiB\"\n", "segment_bytes"},
        {NAMES "listener \"tcp\" { address = \"h:1\"\n tls_cert_file = \"c\" }\n", "tls_key_file"},
        {NAMES PLAIN "x_forwarded_for_hop_skips = -1\n}\n", "hop_skips: 0 or more"},
        {NAMES PLAIN "proxy_protocol_behavior = \"allow_authorized\"\n}\n", "is required with"},
        {NAMES PLAIN "proxy_protocol_behavior = \"deny_unauthorized\"\n}\n", "is required with"},
        {NAMES PLAIN "proxy_protocol_behavior = \"always\"\n}\n", "use_always"},
        {NAMES PLAIN "max_connections = -1\n}\n", "max_connections: 0 to 1000000"},
        {NAMES PLAIN "max_connections = 1000001\n}\n", "max_connections: 0 to 1000000"},
        {NAMES PLAIN "max_connections_per_address = -1\n}\n",
         "max_connections_per_address: 0 or more"},
        {NAMES PLAIN "max_header_bytes = 1023\n}\n", "at least 1024"},
        {NAMES PLAIN "max_request_bytes = 0\n}\n", "above 0"},
        {NAMES SEAL, "seal: is repeated"},
        {NAMES CLUSTER, "cluster: is repeated"},
        {NAMES "listener \"unix\" { address = \"h:1\" }\n", "listener: \"unix\""},
        {NAMES "listener { address = \"h:1\" }\n", "label is missing"},
        {NAMES "listener \"tcp\" { address = \"h:1\" }\n", "tls_cert_file"},
        {NAMES "listener \"tcp\" { address = \"h\"\n tls_disable = true }\n", "host:port"},
        {NAMES "compat = 1\n", "compat: a block"},
        {NAMES "api_addr = \"node1:8200\"\n", "3: api_addr: a URL"},
        {NAMES "api_addr = \"ftp://node1\"\n", "3: api_addr: a URL"},
        {NAMES "api_addr = \"https://\"\n", "3: api_addr: a URL"},
        {NAMES "api_addr = \"\"\n", "3: api_addr: a URL"},
        {NAMES "api_addr = \"https://h/v1\"\n", "3: api_addr: a URL"},
        {NAMES "api_addr = \"https://h:99999\"\n", "3: api_addr: a URL"},
        {NAMES "api_addr = \"https://h\\r\\nSet-Cookie: a\"\n", "3: api_addr: a URL"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[2000];
        (void)snprintf(text, sizeof text, "%s%s", cases[i].text, rest);
        refused(text, "x.hcl:", cases[i].part);
    }
}

static void what_is_missing_is_named(void **ctx)
{
    (void)ctx;
    refused(NAMES CLUSTER SEAL, "x.hcl:1: ", "listener: at least one");
    refused(NAMES LISTENER SEAL, "x.hcl:1: ", "cluster: is required");
    refused(NAMES LISTENER CLUSTER "seal = 1\n", "x.hcl:15: ", "seal: a block with a label");
    refused(NAMES SEAL CLUSTER "listener = [1]\n", "x.hcl:14: ", "listener: a block with a label");
}

#define FULL NAMES LISTENER CLUSTER
#define TRAIL "audit \"file\" \"trail\" {\n  options { file_path = \"/a\" }\n}\n"

static void audit_devices_have_a_type_and_a_path(void **ctx)
{
    (void)ctx;
    load(FULL TRAIL "audit \"syslog\" \"log/\" {\n  description = \"d\"\n"
                    "  options = { tag = \"t\", log_raw = true }\n}\n"
                    "audit \"file\" \"more\" {}\n");
    assert_int_equal(config.n_audits, 3);
    assert_string_equal(config.audits[0].type, "file");
    assert_string_equal(config.audits[0].path, "trail");
    assert_string_equal(config.audits[0].options.pairs[0], "file_path");
    assert_string_equal(config.audits[0].options.pairs[1], "/a");
    assert_string_equal(config.audits[1].type, "syslog");
    assert_string_equal(config.audits[1].description, "d");
    assert_int_equal(config.audits[1].options.n, 2);
    assert_string_equal(config.audits[1].options.pairs[3], "1");
    assert_string_equal(config.audits[2].path, "more");
}

static void audit_devices_that_cannot_work_are_refused(void **ctx)
{
    (void)ctx;
    refused(FULL TRAIL TRAIL, "x.hcl:", "audit: ");
    refused(FULL TRAIL "audit \"syslog\" \"trail\" {}\n", "x.hcl:", "\"trail\" is repeated");
    refused(FULL "audit \"file\" { file_path = \"a\" }\n", "x.hcl:", "audit: one block");
    refused(FULL "audit = 1\n", "x.hcl:", "audit: a block");
    refused(FULL "audit \"file\" \"a\" { path = 1 }\n", "x.hcl:", "unknown field \"path\"");
    refused(FULL "audit \"file\" \"a\" { options = 1 }\n", "x.hcl:", "options: ");
    refused(FULL "audit \"file\" \"1\" {}\naudit \"file\" \"2\" {}\naudit \"file\" \"3\" {}\n"
                 "audit \"file\" \"4\" {}\naudit \"file\" \"5\" {}\naudit \"file\" \"6\" {}\n"
                 "audit \"file\" \"7\" {}\naudit \"file\" \"8\" {}\naudit \"file\" \"9\" {}\n",
            "x.hcl:", "audit: more than 8");
}

static void members_differ(void **ctx)
{
    (void)ctx;
    static const char start[] = NAMES LISTENER SEAL
        "cluster {\naddress = \"h:1\"\nca_file = \"1\"\ncert_file = \"1\"\nkey_file = \"1\"\n"
        "member \"a\" { address = \"h:1\" }\n";
    char text[2000];
    (void)snprintf(text, sizeof text, "%smember \"a\" { address = \"h:2\" }\n}", start);
    refused(text, "x.hcl:16: ", "\"a\" is repeated");
    (void)snprintf(text, sizeof text, "%smember \"b\" { address = \"h:1\" }\n}", start);
    refused(text, "x.hcl:16: ", "have the same one");
    (void)snprintf(text, sizeof text, "%smember \"b\" { port = 1 }\n}", start);
    refused(text, "x.hcl:16: ", "unknown field \"port\"");
    (void)snprintf(text, sizeof text, "%sid = \"abc\"\n}", start);
    refused(text, "x.hcl:16: ", "UUID");
    (void)snprintf(text, sizeof text, "%sjoin = \"dns\"\n}", start);
    refused(text, "x.hcl:16: ", "join: \"api\" is expected");
    (void)snprintf(text, sizeof text, "%sjoin_token_file = \"t\"\njoin = \"api\"\n}", start);
    refused(text, "x.hcl:17: ", "join: there is join_token_file already");
    (void)snprintf(text, sizeof text, "%sauto_join = \"a\"\n}", start);
    refused(text, "x.hcl:16: ", "auto_join: join_token_file is required");
    (void)snprintf(text, sizeof text, "%sjoin_token_file = \"t\"\nauto_join = \"%s\"\n}", start,
                   "provider=aws region=x");
    refused(text, "x.hcl:17: ", "auto_join: only the provider dns is available, not aws");
    (void)snprintf(text, sizeof text, "%selection_ms = 100\nheartbeat_ms = 90\n}", start);
    refused(text, "x.hcl:16: ", "election_ms");
    (void)snprintf(text, sizeof text, "%selection_ms = 100\n}", start);
    refused(text, "x.hcl:16: ", "they are 100 and 100");
    refused(NAMES LISTENER SEAL "cluster {\naddress = \"h:1\"\nca_file = \"1\"\ncert_file = \"1\"\n"
                                "key_file = \"1\"\n}\n",
            "x.hcl:10: ", "member: at least one");
}

static void a_node_is_reached_where_the_list_of_members_has_it(void **ctx)
{
    (void)ctx;
    static const char everywhere[] =
        NAMES LISTENER SEAL "cluster {\naddress = \"0.0.0.0:1\"\nca_file = \"1\"\n"
                            "cert_file = \"1\"\nkey_file = \"1\"\n%s"
                            "member \"a\" { address = \"a.example:2\" }\n}\n";
    char text[2000], longer[200] = {0};
    (void)snprintf(text, sizeof text, everywhere, "");
    load(text);
    assert_string_equal(config.cluster.advertise, "a.example:2");
    config_done(&config);
    (void)snprintf(text, sizeof text, everywhere, "advertise = \"a.example:3\"\n");
    load(text);
    assert_string_equal(config.cluster.advertise, "a.example:3");
    config_done(&config);
    memset(longer, 'h', CONFIG_ADDRESS_MAX - 1);
    (void)snprintf(text, sizeof text, everywhere, "advertise = \"");
    size_t at = (size_t)(strstr(text, "member \"a\"") - text);
    (void)snprintf(text + at, sizeof text - at, "%s:2\"\nmember \"a\" { address = \"a:2\" }\n}\n",
                   longer);
    refused(text, "x.hcl:15: ", "advertise: at most 127 characters");
}

static void a_node_has_an_address_for_clients(void **ctx)
{
    (void)ctx;
    load(NAMES CLUSTER SEAL
         "listener \"tcp\" { address = \"0.0.0.0:8300\"\n tls_disable = true }\n" LISTENER);
    assert_string_equal(config.api_addr, "http://127.0.0.1:8300");
    config_done(&config);
    load(NAMES CLUSTER SEAL
         "listener \"tcp\" { address = \"[::]:8300\"\n tls_disable = true }\n" LISTENER);
    assert_string_equal(config.api_addr, "http://127.0.0.1:8300");
    config_done(&config);
    load(NAMES CLUSTER SEAL "listener \"tcp\" { address = \"[::1]:1\"\n tls_cert_file = \"c\"\n"
                            " tls_key_file = \"k\" }\n");
    assert_string_equal(config.api_addr, "https://[::1]:1");
    config_done(&config);
    load(NAMES "api_addr = \"https://[fd00::1]:8200\"\n" LISTENER CLUSTER SEAL);
    assert_string_equal(config.api_addr, "https://[fd00::1]:8200");
}

static void a_file_is_loaded_and_a_missing_one_named(void **ctx)
{
    (void)ctx;
    char path[] = "/tmp/holdfast-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = NAMES LISTENER CLUSTER SEAL;
    assert_int_equal(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
    assert_int_equal(close(fd), 0);
    assert_status(config_load(path, NULL, &config, &why), ST_OK);
    assert_string_equal(config.file, path);
    config_done(&config);
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && lseek(fd, 0, SEEK_END) > 0);
    static char comment[(1 << 20) + 2];
    memset(comment, '#', sizeof comment);
    comment[0] = '\n';
    assert_int_equal(write(fd, comment, sizeof comment), (ssize_t)sizeof comment);
    assert_int_equal(close(fd), 0);
    assert_status(config_load(path, NULL, &config, &why), ST_TOO_BIG);
    assert_int_equal(unlink(path), 0);
    assert_status(config_load(path, NULL, &config, &why), ST_NOT_FOUND);
    assert_non_null(strstr(why.text, path));
}

/* What differs between two files must be named as `wanted`, in both directions. */
static void assert_changes(const char *text, const char *other, const char *wanted)
{
    struct config second;
    CLEANUP(buf_done) struct buf there = {0}, back = {0};
    load(text);
    if (config_parse(bytes_str(other), "y.hcl", &blocks, &second, &why) != ST_OK)
        fail_msg("%s: %s", other, why.text);
    assert_status(config_changes(&config, &second, &there), ST_OK);
    assert_status(config_changes(&second, &config, &back), ST_OK);
    config_done(&second);
    done(NULL);
    buf_add_u8(&there, 0);
    buf_add_u8(&back, 0);
    assert_string_equal((const char *)there.data, wanted);
    assert_string_equal((const char *)back.data, wanted);
}

static void a_module_has_a_block_of_its_own(void **ctx)
{
    CLEANUP(buf_done) struct buf shown = {0};
    (void)ctx;
    load(NAMES LISTENER CLUSTER SEAL);
    const struct lamp *lamp = config.block_data[0];
    assert_string_equal(lamp->colour, "red");
    assert_int_equal(lamp->bulbs, 0);
    done(NULL);
    load(NAMES LISTENER CLUSTER SEAL "lamp {\n  bulbs = 3\n  secret = \"dark\"\n}\n");
    lamp = config.block_data[0];
    assert_string_equal(lamp->colour, "red");
    assert_int_equal(lamp->bulbs, 3);
    assert_string_equal(lamp->secret, "dark"); /* not shown below */
    config_show(&config, &shown);
    buf_add_u8(&shown, 0);
    assert_non_null(strstr((const char *)shown.data, "\"lamp\":{\"colour\":\"red\",\"bulbs\":3}"));
    done(NULL);
    refused(NAMES LISTENER CLUSTER SEAL "lamp {\n  bulbs = 101\n}\n",
            "x.hcl:18:", "lamp: bulbs: 100 at most");
    refused(NAMES LISTENER CLUSTER SEAL "lamp {\n  bulb = 3\n}\n", "x.hcl:19:", "\"bulb\"");
    refused(NAMES LISTENER CLUSTER SEAL "lamp {\n  bulbs = \"x\"\n}\n", "x.hcl:19:", "bulbs");
    refused(NAMES LISTENER CLUSTER SEAL "lamp {\n}\nlamp {\n}\n", "x.hcl:", "one block");
    refused(NAMES LISTENER CLUSTER SEAL "lamp \"a\" {\n}\n", "x.hcl:", "a");
    assert_status(
        config_parse(BYTES(NAMES LISTENER CLUSTER "lamp {\n}\n"), "x", NULL, &config, &why),
        ST_INVALID);
    assert_changes(NAMES LISTENER CLUSTER SEAL,
                   NAMES LISTENER CLUSTER SEAL "lamp {\n bulbs = 1\n}\n", "lamp.bulbs");
}

static void fields_that_changed_are_named(void **ctx)
{
    (void)ctx;
    assert_changes(NAMES LISTENER CLUSTER SEAL, NAMES SEAL CLUSTER LISTENER, "");
    assert_changes(NAMES LISTENER CLUSTER SEAL,
                   "node_name = \"n\"\ndata_dir = \"e\"\nworkers = 2\ndrain_delay_s = 1\n"
                   "state_bytes_max = 1\ndefault_kv = false\n" LISTENER CLUSTER SEAL,
                   "node_name, data_dir, workers, drain_delay_s, state_bytes_max, default_kv");
    assert_changes(NAMES LISTENER CLUSTER SEAL,
                   NAMES LISTENER CLUSTER SEAL "compat { reported_version = \"1\" }\n",
                   "compat.reported_version");
    assert_changes(NAMES LISTENER CLUSTER, NAMES LISTENER CLUSTER SEAL, "seal");
    assert_changes(NAMES LISTENER CLUSTER SEAL,
                   NAMES LISTENER CLUSTER "seal \"static\" { credential = \"c\" }\n",
                   "seal.key_file, seal.credential");
    assert_changes(NAMES LISTENER CLUSTER SEAL, NAMES LISTENER CLUSTER SEAL DISABLED("old"),
                   "seal[disabled]");
    assert_changes(NAMES LISTENER CLUSTER SEAL DISABLED("old"),
                   NAMES LISTENER CLUSTER SEAL DISABLED("older"), "seal[disabled].key_id");
    assert_changes(NAMES LISTENER CLUSTER DISABLED("old"),
                   NAMES LISTENER CLUSTER "seal \"shamir\" {}\n" DISABLED("old"), "");
}

static void a_field_that_a_reload_applies_is_not_named(void **ctx)
{
    (void)ctx;
    assert_changes(NAMES LISTENER CLUSTER SEAL,
                   NAMES "log_level = \"debug\"\n" LISTENER CLUSTER SEAL, "");
    assert_changes(NAMES "log_level = \"warn\"\nlog_requests_level = \"warn\"\n" LISTENER CLUSTER,
                   NAMES "log_level = \"debug\"\n" LISTENER CLUSTER, "log_requests_level");
}

static void a_default_that_another_field_gives_is_not_named(void **ctx)
{
    (void)ctx;
    const char *other = NAMES CLUSTER "listener \"tcp\" {\n address = \"127.0.0.1:8300\"\n"
                                      " tls_cert_file = \"c\"\n tls_key_file = \"k\"\n}\n";
    assert_changes(NAMES LISTENER CLUSTER, other,
                   "listener[0].address, listener[0].tls_cert_file, listener[0].tls_key_file, "
                   "listener[0].tls_disable");
    assert_changes(NAMES LISTENER CLUSTER, NAMES "api_addr = \"http://h:1\"\n" LISTENER CLUSTER,
                   "api_addr");
    assert_changes(NAMES LISTENER CLUSTER,
                   NAMES "api_addr = \"http://127.0.0.1:8200\"\n" LISTENER CLUSTER, "");
}

#define LISTENER_WITH(field) \
    "listener \"tcp\" {\n  address = \"127.0.0.1:8200\"\n  tls_disable = true\n" field "\n}\n"

static void changed_listeners_are_told_by_their_place(void **ctx)
{
    (void)ctx;
    const char *second = "listener \"tcp\" {\n address = \"[::1]:1\"\n tls_disable = true\n}\n";
    char two[2048];
    (void)snprintf(two, sizeof two, "%s%s", NAMES LISTENER CLUSTER, second);
    assert_changes(NAMES LISTENER CLUSTER, two, "listener[1]");
    static const struct {
        const char *text, *wanted;
    } changes[] = {
        {LISTENER_WITH("x_forwarded_for_authorized_addrs = [\"10.0.0.1\", \"10.0.0.2\"]"),
         "listener[0].x_forwarded_for_authorized_addrs"},
        {LISTENER_WITH("x_forwarded_for_authorized_addrs = [\"10.0.0.1\", \"10.0.0.3\"]"),
         "listener[0].x_forwarded_for_authorized_addrs"},
        {LISTENER_WITH("idle_timeout_s = \"6m\""), "listener[0].idle_timeout_s"},
        {LISTENER_WITH("max_request_bytes = \"1KiB\""), "listener[0].max_request_bytes"},
        {LISTENER_WITH("max_connections = 7"), "listener[0].max_connections"},
        {LISTENER_WITH("require_request_header = true"), "listener[0].require_request_header"},
        {LISTENER_WITH("idle_timeout_s = \"300s\""), ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        char text[2048];
        (void)snprintf(text, sizeof text, "%s%s", NAMES CLUSTER, changes[i].text);
        assert_changes(NAMES LISTENER CLUSTER, text, changes[i].wanted);
    }
    char one[2048], other[2048];
    (void)snprintf(one, sizeof one, "%s%s", NAMES CLUSTER, changes[0].text);
    (void)snprintf(other, sizeof other, "%s%s", NAMES CLUSTER, changes[1].text);
    assert_changes(one, other, changes[1].wanted);
}

#define CLUSTER_OF(more)                                                                   \
    "cluster {\n  address = \"127.0.0.1:8201\"\n  ca_file = \"ca\"\n  cert_file = \"c\"\n" \
    "  key_file = \"k\"\n" more "}\n"

static void changed_members_are_told_by_their_name(void **ctx)
{
    (void)ctx;
    const char *before = NAMES LISTENER CLUSTER;
    assert_changes(before,
                   NAMES LISTENER CLUSTER_OF("member \"b\" { address = \"h:1\" }\n"
                                             "member \"a\" { address = \"127.0.0.1:8201\" }\n"),
                   "");
    assert_changes(before,
                   NAMES LISTENER CLUSTER_OF("member \"a\" { address = \"127.0.0.1:8201\" }\n"
                                             "member \"b\" { address = \"h:2\" }\n"),
                   "cluster.member[b].address");
    assert_changes(before,
                   NAMES LISTENER CLUSTER_OF("election_ms = 500\nadvertise = \"h:7\"\n"
                                             "member \"a\" { address = \"127.0.0.1:8201\" }\n"),
                   "cluster.advertise, cluster.election_ms, cluster.member[b]");
}

static void changed_audit_devices_are_told_by_their_path(void **ctx)
{
    (void)ctx;
    assert_changes(FULL TRAIL "audit \"file\" \"b\" {}\n", FULL "audit \"file\" \"b\" {}\n" TRAIL,
                   "");
    assert_changes(FULL TRAIL, FULL "audit \"file\" \"trail\" {}\n", "audit[trail].options");
    assert_changes(FULL TRAIL, FULL "audit \"syslog\" \"trail\" {}\n", "audit[trail]");
    assert_changes(FULL TRAIL "audit \"file\" \"b\" {}\n", FULL TRAIL, "audit[b]");
}

static void names_without_room_are_counted(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf before = {0}, after = {0};
    CLEANUP(buf_done) struct buf wanted = {0};
    buf_add_str(&before, NAMES CLUSTER);
    buf_add_str(&after, NAMES CLUSTER);
    for (int i = 0; i < CONFIG_LISTENERS_MAX; i++) {
        buf_add_str(&before, LISTENER_WITH(""));
        buf_add_str(&after, LISTENER_WITH("x_forwarded_for_reject_not_authorized = false\n"
                                          "x_forwarded_for_reject_not_present = false\n"));
    }
    buf_add_u8(&before, 0);
    buf_add_u8(&after, 0);
    for (int i = 0; buf_status(&wanted) == ST_OK && i < 2 * CONFIG_LISTENERS_MAX; i++) {
        char name[80];
        int n = snprintf(name, sizeof name, "%slistener[%d].x_forwarded_for_reject_not_%s",
                         i != 0 ? ", " : "", i / 2, i % 2 == 0 ? "authorized" : "present");
        if (wanted.len + (size_t)n > CONFIG_CHANGES_BYTES) {
            buf_add_format(&wanted, " and %d more", 2 * CONFIG_LISTENERS_MAX - i);
            break;
        }
        buf_add_str(&wanted, name);
    }
    buf_add_u8(&wanted, 0);
    assert_non_null(strstr((const char *)wanted.data, " more"));
    assert_changes((const char *)before.data, (const char *)after.data, (const char *)wanted.data);
}

static void a_comparison_without_memory_is_reported(void **ctx)
{
    (void)ctx;
    struct config second;
    CLEANUP(buf_done) struct buf names = {0};
    load(NAMES LISTENER CLUSTER SEAL);
    assert_status(config_parse(BYTES(NAMES LISTENER CLUSTER), "y", &blocks, &second, &why), ST_OK);
    (void)mem_fail_nth(1);
    enum status st = config_changes(&config, &second, &names);
    (void)mem_fail_nth(0);
    config_done(&second);
    assert_status(st, ST_NOMEM);
}

static void a_failed_allocation_is_reported(void **ctx)
{
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        (void)mem_fail_nth(n);
        enum status st =
            config_parse(BYTES(NAMES LISTENER CLUSTER SEAL), "x", &blocks, &config, &why);
        bool used = mem_fail_nth(0);
        assert_status(st, used ? ST_NOMEM : ST_OK);
        if (!used)
            break;
    }
}

#define TEST(f) cmocka_unit_test_teardown(f, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_least_configuration_has_the_defaults),
        TEST(auto_join_becomes_an_address),
        TEST(every_field_is_read),
        TEST(json_is_read_too),
        TEST(an_error_names_file_line_and_field),
        TEST(a_seal_key_comes_from_a_file_or_a_credential),
        TEST(the_previous_key_of_a_seal_is_read),
        TEST(a_disabled_seal_is_the_one_to_move_away_from),
        TEST(a_disabled_seal_alone_moves_to_key_shares),
        TEST(seals_that_contradict_each_other_are_refused),
        TEST(the_last_value_that_can_work_is_taken),
        TEST(values_that_cannot_work_are_refused),
        TEST(what_is_missing_is_named),
        TEST(audit_devices_have_a_type_and_a_path),
        TEST(audit_devices_that_cannot_work_are_refused),
        TEST(members_differ),
        TEST(a_node_is_reached_where_the_list_of_members_has_it),
        TEST(a_node_has_an_address_for_clients),
        TEST(a_file_is_loaded_and_a_missing_one_named),
        TEST(a_module_has_a_block_of_its_own),
        TEST(fields_that_changed_are_named),
        TEST(a_field_that_a_reload_applies_is_not_named),
        TEST(a_default_that_another_field_gives_is_not_named),
        TEST(changed_listeners_are_told_by_their_place),
        TEST(changed_members_are_told_by_their_name),
        TEST(changed_audit_devices_are_told_by_their_path),
        TEST(names_without_room_are_counted),
        TEST(a_comparison_without_memory_is_reported),
        TEST(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
