/* The programs that plan and apply, and their versions. */
#include "worker/worker_internal.h"

#include "crypto/sha256.h"
#include "text/encode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION_MAX = 64 * 1024, VERSION_MS = 30000 };

/* The digest of a program: an apply must use the one that planned. */
static enum status tool_digest(const char *path, char ret_hex[WORKER_SHA256_HEX + 1])
{
    struct crypto_sha256 *hash = NULL;
    uint8_t part[64 * 1024], digest[CRYPTO_SHA256_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return status_from_errno(errno);
    enum status st = crypto_sha256_new(&hash);
    if (st == ST_OK)
        crypto_sha256_begin(hash);
    for (ssize_t n = 1; n != 0 && st == ST_OK;) {
        n = read(fd, part, sizeof part);
        if (n > 0)
            crypto_sha256_add(hash, bytes_of(part, (size_t)n));
        else if (n < 0 && errno != EINTR)
            st = ST_IO;
    }
    if (st == ST_OK) {
        crypto_sha256_end(hash, digest);
        text_hex_put(bytes_of(digest, sizeof digest), ret_hex);
    }
    crypto_sha256_free(hash);
    (void)close(fd); /* the file was only read */
    return st;
}

/* The first line of `version`: "Terraform v1.11.4" or "OpenTofu v1.10.6". */
static bool tool_read_version(struct tool *tool, const char *text)
{
    static const char *const kinds[][2] = {{"Terraform v", "terraform"}, {"OpenTofu v", "tofu"}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t len = strlen(kinds[i][0]);
        if (strncmp(text, kinds[i][0], len) != 0)
            continue;
        tool->kind = kinds[i][1];
        tool->version =
            arena_format(&worker.arena, "%.*s", (int)strcspn(text + len, " \r\n"), text + len);
        return tool->version != NULL && tool->version[0] != '\0';
    }
    return false;
}

static enum status tool_probe(struct tool *tool, struct reason *why)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    struct job job = {.wake = -1, .work = worker.config.data_dir};
    struct worker_env env;
    int code = 0;
    job.end_ms = client_mono_ms() + VERSION_MS;
    job.lease_from_ms = client_mono_ms();
    TRY(worker_env_init(&env, &arena));
    TRY(worker_env_set(&env, "CHECKPOINT_DISABLE", "1"));
    TRY(worker_env_set(&env, "TF_CLI_CONFIG_FILE", "/dev/null"));
    TRY(worker_env_set(&env, "HOME", worker.config.data_dir));
    job.env = env.items;
    TRY(worker_process(&job, (const char *const[]){tool->path, "version", NULL}, &out, VERSION_MAX,
                       &code, why));
    buf_add_u8(&out, 0);
    TRY(buf_status(&out));
    if (code == 0 && tool_read_version(tool, (const char *)out.data))
        return tool_digest(tool->path, tool->sha256);
    reason_set(why, "%s: `version` does not say what it is (exit code %d)", tool->path, code);
    return ST_INVALID;
}

/* Add a program. One that was found by its name alone may be missing. */
static enum status add_tool(const char *name, bool required, struct reason *why)
{
    static char *const none[] = {NULL};
    struct tool *tool = &worker.tools[worker.n_tools];
    *tool = (struct tool){.path = client_program(&worker.arena, none, "/", name)};
    if (tool->path == NULL && !required)
        return ST_OK;
    if (tool->path == NULL) {
        reason_set(why, "tools: %.200s is no program", name);
        return ST_NOT_FOUND;
    }
    TRY(tool_probe(tool, why));
    worker_say("%s %s: %s", tool->kind, tool->version, tool->path);
    worker.n_tools++;
    return ST_OK;
}

enum status worker_find_tools(struct reason *why)
{
    const struct field_strings *tools = &worker.config.tools;
    if (tools->n > WORKER_TOOLS_MAX) {
        reason_set(why, "tools: at most %d", WORKER_TOOLS_MAX);
        return ST_INVALID;
    }
    for (size_t i = 0; i < tools->n; i++)
        TRY(add_tool(tools->items[i], true, why));
    if (tools->n == 0) {
        TRY(add_tool("tofu", false, why));
        TRY(add_tool("terraform", false, why));
    }
    if (worker.n_tools != 0)
        return ST_OK;
    reason_set(why, "neither tofu nor terraform was found: name their paths in `tools`");
    return ST_NOT_FOUND;
}

const struct tool *worker_tool(const char *kind, const char *version, struct reason *why)
{
    CLEANUP(buf_done) struct buf have = {0};
    bool any = version[0] == '\0' || strcmp(version, "latest") == 0;
    for (size_t i = 0; i < worker.n_tools; i++) {
        const struct tool *tool = &worker.tools[i];
        if ((kind[0] == '\0' || strcmp(kind, tool->kind) == 0) &&
            (any || strcmp(version, tool->version) == 0))
            return tool;
        buf_add_format(&have, "%s%s %s", i != 0 ? ", " : "", tool->kind, tool->version);
    }
    reason_set(why, "this worker has no %s %.32s; it has %.*s",
               kind[0] != '\0' ? kind : "terraform or tofu", version, (int)have.len,
               have.len != 0 ? (const char *)have.data : "");
    return NULL;
}
