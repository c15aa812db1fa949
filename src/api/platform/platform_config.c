/* The block `platform` of the configuration file. */
#include "api/platform/platform.h"

static const struct field block_fields[] = {
    FIELD(struct platform_config, url, STRING, .preset = "",
          .help = "URL of this service as its clients know it, without a slash at the end; empty: "
                  "https:// and the host that each request names."),
    FIELD(struct platform_config, sms_base_url, STRING, .preset = "",
          .help = "URL of the SMS provider; empty: no SMS is sent."),
    FIELD(struct platform_config, blob_bytes_max, SIZE, .preset = "64MiB",
          .help = "Most bytes of one state, configuration or file of a plan."),
    FIELD(struct platform_config, blob_bytes_total_max, SIZE, .preset = "1GiB",
          .help = "Most bytes of all of them."),
    FIELD(struct platform_config, log_bytes_max, SIZE, .preset = "32MiB",
          .help = "Most bytes of the log of one plan or apply; what is beyond is cut."),
    FIELD_NAMED(
        "run_lease", struct platform_config, run_lease_s, DURATION, .preset = "60s",
        .help = "How long a plan or apply waits for a word of its worker before it is errored."),
};
static const struct schema block_schema = SCHEMA(struct platform_config, block_fields);

static bool is_url(const char *text)
{
    size_t len = strlen(text);
    return len == 0 || ((strncmp(text, "https://", 8) == 0 || strncmp(text, "http://", 7) == 0) &&
                        text[len - 1] != '/' && len < 300);
}

static const char *check_platform_block(const void *fields)
{
    const struct platform_config *block = fields;
    if (!is_url(block->url))
        return "url: a URL without a slash at the end is expected";
    if (!is_url(block->sms_base_url))
        return "sms_base_url: a URL without a slash at the end is expected";
    if (block->blob_bytes_max == 0 || block->blob_bytes_max > UINT64_C(256) << 20)
        return "blob_bytes_max: 1 to 256 MiB are expected";
    if (block->log_bytes_max < 64 * 1024 || block->log_bytes_max > UINT64_C(1) << 30)
        return "log_bytes_max: 64 KiB to 1 GiB are expected";
    if (block->run_lease_s < 5 || block->run_lease_s > 3600)
        return "run_lease: 5s to 1h is expected";
    return NULL;
}

const struct config_block platform_block = {"platform", &block_schema, check_platform_block};

static const struct platform_config presets = {.url = "",
                                               .sms_base_url = "",
                                               .blob_bytes_max = UINT64_C(64) << 20,
                                               .blob_bytes_total_max = UINT64_C(1) << 30,
                                               .log_bytes_max = UINT64_C(32) << 20,
                                               .run_lease_s = 60};
static const struct platform_config *configured = &presets; /* set before threads start */

void platform_configure(const void *fields)
{
    ASSERT(fields != NULL);
    configured = fields;
}

const struct platform_config *platform_config(void)
{
    return configured;
}
