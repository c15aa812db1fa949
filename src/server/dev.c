/* "holdfast dev": nodes to try things on, unsealed and with TLS, in a folder that is thrown away.
 *
 *   options -> folder -> ports free? -> children -> sys/init, once -> a root token that works
 *   -> what to paste is printed -> watch until a signal -> children end -> folder goes
 *
 * After a failure at any step the children are ended, and a temporary folder is removed. After
 * SIGKILL of the parent the kernel ends the children; the folder stays. */
#include "server/dev.h"

#include "crypto/crypto.h"
#include "text/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

enum { POLL_MS = 10, START_MS = 60000, REQUEST_MS = 10000, WATCH_MS = 500 };

char *dev_url(const struct dev *dev, unsigned node)
{
    bool any = strcmp(dev->host, "0.0.0.0") == 0 || strcmp(dev->host, "::") == 0;
    const char *host = any ? "127.0.0.1" : dev->host;
    bool v6 = strchr(host, ':') != NULL;
    return arena_format(&dev->cli->arena, "https://%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "",
                        dev->port + node * DEV_PORTS_APART);
}

/* The value of a flag; without the flag, of the environment variable HOLDFAST_NAME or
 * VAULT_NAME. */
static const char *wish(struct cli *cli, const char *flag, const char *env)
{
    const char *value = cli_text(cli, flag);
    return value != NULL ? value : cli_env(cli, env);
}

/* A node listens on an address, not on a name. */
static bool read_listen(struct dev *dev, const char *text)
{
    uint8_t raw[sizeof(struct in6_addr)];
    if (text_address_split(text, dev->host, &dev->port) != ST_OK)
        return false;
    if (strcmp(dev->host, "localhost") == 0)
        (void)snprintf(dev->host, sizeof dev->host, "127.0.0.1"); /* the text fits */
    return inet_pton(AF_INET, dev->host, raw) == 1 || inet_pton(AF_INET6, dev->host, raw) == 1;
}

static bool read_options(struct dev *dev)
{
    struct cli *cli = dev->cli;
    const char *listen = wish(cli, "listen", "DEV_LISTEN_ADDRESS");
    int64_t nodes = cli_int(cli, "nodes", 0);
    if (!cli_bool(cli, "dev-tls", true)) {
        (void)cli_usage_error(
            cli, "-dev-tls=false: TLS cannot be switched off"); /* this function returns false */
        return false;
    }
    if (listen == NULL)
        listen = "127.0.0.1:8200";
    if (!read_listen(dev, listen)) {
        (void)cli_usage_error(
            cli, "-listen is ADDRESS:PORT, as 127.0.0.1:8200"); /* this function returns false */
        return false;
    }
    if (nodes > DEV_NODES_MAX || (nodes == 0 && cli_text(cli, "nodes") != NULL)) {
        (void)cli_usage_error(cli, "-nodes is 1 to 7"); /* this function returns false */
        return false;
    }
    dev->n_nodes = (unsigned)nodes;
    return true;
}

static bool open_folder(struct dev *dev)
{
    unsigned had = 0;
    if (!dev_dir_open(dev, cli_text(dev->cli, "data"), &had))
        return false;
    if (had != 0 && dev->n_nodes != 0 && dev->n_nodes != had) {
        cli_complain("%s was made for %u node%s; leave -nodes out, or take another folder",
                     dev->dir, had, had == 1 ? "" : "s");
        return false;
    }
    if (had != 0)
        dev->n_nodes = had;
    if (dev->n_nodes == 0)
        dev->n_nodes = 1;
    return true;
}

/* Send one request to a node. Returns the HTTP status; 0: no reply came. */
static int node_ask(struct dev *dev, unsigned node, const struct cli_request *request,
                    struct cli_reply *reply)
{
    struct reason reason = {{0}};
    dev->cli->address = dev_url(dev, node);
    dev->cli->ca_file = dev->ca_file;
    dev->cli->timeout_ms = REQUEST_MS;
    *reply = (struct cli_reply){0};
    if (dev->cli->address == NULL || cli_send(dev->cli, request, reply, &reason) != ST_OK)
        return 0;
    return reply->status;
}

static bool is_up(int status)
{
    return status == 200 || status == 429 || status == 473;
}

/* Whether a node waits for other members: then its reply says so and has no list of errors. */
static bool is_formed(struct dev *dev, const struct cli_reply *health)
{
    const struct text_value *v = NULL;
    if (text_json_parse(&dev->cli->arena, health->body, &v, NULL) != ST_OK)
        return false;
    const struct text_value *errors = text_get(v, "errors");
    return errors == NULL || errors->first == NULL;
}

/* Wait until every node is up; with `fresh`, until every node waits for initialisation. False: the
 * time limit passed, or a signal or the end of a node ended the wait. */
static bool await_nodes(struct dev *dev, bool *ret_fresh, bool *ret_failed)
{
    const struct cli_request health = {.method = "GET", .path = "/v1/sys/health", .token = ""};
    for (unsigned waited = 0; waited < START_MS; waited += POLL_MS) {
        struct cli_reply reply;
        unsigned n_up = 0, n_fresh = 0;
        for (unsigned i = 0; i < dev->n_nodes; i++) {
            int status = node_ask(dev, i, &health, &reply);
            n_up += is_up(status) ? 1 : 0;
            n_fresh += status == 501 && is_formed(dev, &reply) ? 1 : 0;
        }
        if (dev->cli->tls_fault == CLI_TLS_OTHER_HOST) {
            cli_complain("the certificates in %s/tls were made for another address than %s",
                         dev->dir, dev->host);
            *ret_failed = true;
            return false;
        }
        *ret_fresh = n_fresh == dev->n_nodes;
        if (*ret_fresh || n_up == dev->n_nodes)
            return true;
        if (!dev_nodes_watch(dev, POLL_MS, ret_failed))
            return false;
    }
    cli_complain("the nodes did not come up; their logs are %s/node*/log", dev->dir);
    *ret_failed = true;
    return false;
}

static bool refused(struct dev *dev, const struct cli_request *request,
                    const struct cli_reply *reply)
{
    if (reply->status != 0)
        (void)cli_refused(dev->cli, request, reply); /* the code of the command is another */
    else
        cli_complain("%s %s%s: no reply", request->method, dev->cli->address, request->path);
    return false;
}

static bool initialise(struct dev *dev)
{
    const struct cli_request request = {
        .method = "PUT", .path = "/v1/sys/init", .body = BYTES("{}"), .token = ""};
    struct cli_reply reply;
    if (node_ask(dev, 0, &request, &reply) != 200)
        return refused(dev, &request, &reply);
    return dev_dir_keep_init(dev, reply.body);
}

/* Make the root token that the user chose, with the root token of the initialisation. */
static bool root_token_make(struct dev *dev, const char *root, const char *id)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    struct cli_reply reply;
    text_open_object(&w);
    text_member_str(&w, "id", id);
    text_member_str(&w, "display_name", "root");
    text_member_bool(&w, "no_parent", true);
    text_key(&w, "policies");
    text_open_list(&w);
    text_put_str(&w, "root");
    text_close(&w);
    text_close(&w);
    const struct cli_request request = {
        .method = "POST", .path = "/v1/auth/token/create", .body = buf_bytes(&body), .token = root};
    if (buf_status(&body) != ST_OK || node_ask(dev, 0, &request, &reply) != 200)
        return refused(dev, &request, &reply);
    return true;
}

/* Find a root token that works. */
static bool root_token_find(struct dev *dev)
{
    struct cli_reply reply;
    const char *id = wish(dev->cli, "root-token-id", "DEV_ROOT_TOKEN_ID");
    const char *root = dev_dir_token(dev);
    if (root == NULL) {
        cli_complain("%s/init.json holds no root token; remove the folder to begin anew", dev->dir);
        return false;
    }
    dev->token = id != NULL ? id : root;
    const struct cli_request request = {
        .method = "GET", .path = "/v1/auth/token/lookup-self", .token = dev->token};
    int status = node_ask(dev, 0, &request, &reply);
    if (status == 403 && id != NULL)
        return root_token_make(dev, root, id);
    if (status == 403)
        cli_complain("the root token of %s/init.json is refused; -root-token-id names another",
                     dev->dir);
    else if (status != 200)
        (void)refused(dev, &request, &reply); /* refused() prints the error */
    return status == 200;
}

/* Quote a text for a shell with single quotes; "''" for NULL, which means that memory ran out. */
static const char *quoted(struct dev *dev, const char *text)
{
    CLEANUP(buf_done) struct buf b = {0};
    buf_add_u8(&b, '\'');
    for (; text != NULL && *text != '\0'; text++)
        if (*text == '\'')
            buf_add_str(&b, "'\\''");
        else
            buf_add_u8(&b, (uint8_t)*text);
    buf_add_u8(&b, '\'');
    char *copy = buf_status(&b) == ST_OK ? arena_str(&dev->cli->arena, buf_bytes(&b)) : NULL;
    return copy != NULL ? copy : "''";
}

/* Print the variable of the program, and those of clients of the upstream products. */
static void print_export(struct dev *dev, const char *name, const char *registry, const char *value)
{
    const char *text = quoted(dev, value);
    printf("  export HOLDFAST_%s=%s VAULT_%s=%s %s=%s\n", name, text, name, text, registry, text);
}

static void print_ready(struct dev *dev)
{
    const char *self = program_invocation_name;
    printf("%u node%s, unsealed, in %s%s\n\n", dev->n_nodes,
           dev->n_nodes == 1 ? " is up" : "s are up", dev->dir,
           dev->keep ? "" : ", which is removed at the end");
    for (unsigned i = 0; i < dev->n_nodes; i++)
        printf("  node%u       %s\n", i + 1, dev_url(dev, i));
    printf("  root token  %s\n  logs        %s/node*/log\n\nPaste into another terminal:\n\n",
           dev->token, dev->dir);
    print_export(dev, "ADDR", "CONSUL_HTTP_ADDR", dev_url(dev, 0));
    print_export(dev, "CACERT", "CONSUL_CACERT", dev->ca_file);
    print_export(dev, "TOKEN", "CONSUL_HTTP_TOKEN", dev->token);
    printf("\nand try:\n\n"
           "  %s kv put secret/hello who=world\n"
           "  %s kv get secret/hello\n"
           "  curl --cacert \"$HOLDFAST_CACERT\" -H \"X-Vault-Token: $HOLDFAST_TOKEN\" "
           "\"$HOLDFAST_ADDR/v1/secret/data/hello\"\n\n"
           "Not for production: the token is on this screen, the seal's key beside the data. "
           "Ctrl-C ends it.\n",
           self, self);
    (void)fflush(stdout); /* checked when all is flushed */
}

/* Run the nodes: from the start of the children to their end. */
static bool dev_serve(struct dev *dev)
{
    bool fresh = false, failed = false;
    if (!dev_nodes_start(dev))
        return false;
    if (!await_nodes(dev, &fresh, &failed))
        return !failed;
    if (fresh && !initialise(dev))
        return false;
    if (fresh && !await_nodes(dev, &fresh, &failed))
        return !failed;
    if (!root_token_find(dev))
        return false;
    print_ready(dev);
    while (dev_nodes_watch(dev, WATCH_MS, &failed))
        continue;
    return !failed;
}

int dev_run(struct cli *cli)
{
    struct dev dev = {.cli = cli};
    bool locked, good = false;
    if (!read_options(&dev))
        return CLI_LOCAL_ERROR;
    if (crypto_init(&locked) != ST_OK) {
        cli_complain("the cryptographic library cannot be used");
        return CLI_LOCAL_ERROR;
    }
    dev_nodes_prepare(&dev);
    if (open_folder(&dev) && dev_ports_free(&dev) && dev_dir_fill(&dev))
        good = dev_serve(&dev);
    dev_nodes_stop(&dev);
    dev_dir_close(&dev);
    return good ? CLI_OK : CLI_LOCAL_ERROR;
}
