/* operator generate-root and operator dr token: make a root token, or a DR operation token, with
 * key shares. */
#include "base/mem.h"
#include "cli/command/ceremony.h"
#include "cli/command/command.h"
#include "cli/command/dr_view.h"
#include "crypto/crypto.h"
#include "text/encode.h"

#define ROOT "sys/generate-root/"
#define DR "sys/replication/dr/secondary/"

enum { TOKEN_BYTES_MAX = 1024 };

static bool is_dr(struct cli *cli)
{
    return strcmp(cli->command->name, "operator dr token") == 0 || cli_bool(cli, "dr-token", false);
}

/* The path of the attempt, or of what is done with it. NULL without memory. */
static const char *path_of(struct cli *cli, const char *last)
{
    const char *folder = is_dr(cli) ? DR "generate-operation-token/" : ROOT;
    return arena_format(&cli->arena, "%s%s", folder, last);
}

static int request(struct cli *cli, const char *method, const char *last, const struct buf *body,
                   struct cli_reply *ret_reply)
{
    const char *path = path_of(cli, last);
    return path != NULL ? cli_request(cli, method, path, body, ret_reply) : CLI_LOCAL_ERROR;
}

/* Ask the server for the status of the attempt. NULL with a message. */
static const struct text_value *attempt_load(struct cli *cli, int *ret_code)
{
    struct cli_reply reply = {0};
    *ret_code = request(cli, "GET", "attempt", NULL, &reply);
    return *ret_code == CLI_OK ? cli_parse_reply(cli, &reply) : NULL;
}

static int attempt_show(struct cli *cli, const struct text_value *answer)
{
    static const struct ceremony_row rows[] = {{"Nonce", "nonce"},
                                               {"Started", "started"},
                                               {"Progress", "progress"},
                                               {"Complete", "complete"},
                                               {"PGP Fingerprint", "pgp_fingerprint"},
                                               {"Encoded Token", "encoded_token"},
                                               {"OTP", "otp"},
                                               {"OTP Length", "otp_length"}};
    return ceremony_show(cli, answer, "required", rows, ARRAY_LEN(rows));
}

static int attempt_status(struct cli *cli)
{
    int code;
    const struct text_value *answer = attempt_load(cli, &code);
    return code != CLI_OK ? code : attempt_show(cli, answer);
}

static int attempt_begin(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    struct cli_reply reply = {0};
    text_open_object(&w);
    cli_put_text(cli, &w, "otp", "otp");
    int code = ceremony_put_pgp_key(cli, &w, "pgp-key", "pgp_key");
    text_close(&w);
    if (code == CLI_OK)
        code = request(cli, "PUT", "attempt", &body, &reply);
    return code != CLI_OK ? code : attempt_show(cli, cli_parse_reply(cli, &reply));
}

static int attempt_cancel(struct cli *cli)
{
    struct cli_reply reply = {0};
    int code = request(cli, "DELETE", "attempt", NULL, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! %s token generation canceled (if it was started)\n",
               is_dr(cli) ? "DR operation" : "Root");
    return code;
}

/* Print a one-time password as long as a token of this server. */
static int make_otp(struct cli *cli)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { BASE = sizeof digits - 1, FAIR = 256 / BASE * BASE };
    char otp[TOKEN_BYTES_MAX + 1];
    int code;
    const struct text_value *length = text_get(attempt_load(cli, &code), "otp_length");
    int64_t wanted = 0;
    if (code != CLI_OK)
        return code;
    if (length == NULL || text_int_parse(length->text, &wanted) != ST_OK || wanted < 1 ||
        wanted > TOKEN_BYTES_MAX)
        return cli_unexpected();
    for (int64_t n = 0; n < wanted;) {
        uint8_t random;
        if (crypto_random(&random, 1) != ST_OK) {
            cli_complain("the system has no random bytes");
            return CLI_LOCAL_ERROR;
        }
        if (random < FAIR) /* greater numbers would favour some digits */
            otp[n++] = digits[random % BASE];
    }
    ASSERT(wanted <= TOKEN_BYTES_MAX);
    otp[wanted] = '\0';
    struct text_value *table = cli_object(cli, NULL);
    if (table == NULL)
        return CLI_LOCAL_ERROR;
    cli_add_text(cli, table, "otp", otp);
    if (cli->json)
        cli_print_json(table);
    else
        printf("%s\n", otp);
    mem_wipe(otp, sizeof otp);
    return CLI_OK;
}

/* Decode the encoded token with the one-time password. No request is sent: only this terminal sees
 * the token. */
static int token_decode(struct cli *cli)
{
    const char *coded = cli_text(cli, "decode"), *otp = cli_text(cli, "otp");
    uint8_t token[TEXT_BASE64_BYTES(TOKEN_BYTES_MAX)];
    size_t n = 0;
    if (strcmp(coded, "-") == 0)
        coded = cli_secret(cli, "Encoded token (will be hidden): ");
    if (coded == NULL)
        return CLI_LOCAL_ERROR;
    if (otp == NULL)
        return cli_usage_error(cli, "-decode needs -otp");
    if (strlen(coded) > TOKEN_BYTES_MAX || text_base64_parse(bytes_str(coded), token, &n) != ST_OK)
        return cli_usage_error(cli, "the encoded token is not base64");
    if (n != strlen(otp)) {
        mem_wipe(token, sizeof token);
        return cli_usage_error(cli, "the OTP is not as long as the token");
    }
    bool readable = true;
    ASSERT(n <= sizeof token);
    for (size_t i = 0; i < n; i++) {
        token[i] ^= (uint8_t)otp[i];
        readable = readable && token[i] > 0x20 && token[i] < 0x7F;
    }
    if (!readable)
        return cli_usage_error(cli, "the OTP does not belong to this encoded token");
    const struct text_value v = {.kind = TEXT_STRING, .text = bytes_of(token, n)};
    struct text_value *object = cli_object(cli, NULL);
    if (cli->json && object != NULL) {
        cli_add(cli, object, "token", &v);
        cli_print_json(object);
    } else if (!cli->json) {
        cli_put(stdout, v.text);
        printf("\n");
    }
    mem_wipe(token, sizeof token);
    return CLI_OK;
}

static int attempt_give_share(struct cli *cli)
{
    struct cli_reply reply = {0};
    CLEANUP(buf_done) struct buf body = {0};
    int code;
    const struct text_value *now = attempt_load(cli, &code);
    if (code != CLI_OK)
        return code;
    const struct text_value *started = text_get(now, "started");
    if (started == NULL || !started->truth) {
        cli_complain("no %s is in progress: begin with -init",
                     is_dr(cli) ? "generation of a DR operation token" : "root generation");
        return CLI_LOCAL_ERROR;
    }
    code = ceremony_share_body(cli, now, "nonce", &body);
    if (code == CLI_OK)
        code = request(cli, "PUT", "update", &body, &reply);
    return code != CLI_OK ? code : attempt_show(cli, cli_parse_reply(cli, &reply));
}

/* End a DR operation token, which has no expiry. */
static int dr_token_delete(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    struct cli_reply reply = {0};
    const char *token = dr_token(cli);
    if (token == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    text_member_str(&w, "dr_operation_token", token);
    text_close(&w);
    int code = cli_request(cli, "PUT", DR "operation-token/delete", &body, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! The DR operation token was deleted.\n");
    return code;
}

static int cmd_generate_root(struct cli *cli)
{
    if (cli_bool(cli, "generate-otp", false))
        return make_otp(cli);
    if (cli_text(cli, "decode") != NULL)
        return token_decode(cli);
    if (cli_bool(cli, "cancel", false))
        return attempt_cancel(cli);
    if (cli_bool(cli, "init", false))
        return attempt_begin(cli);
    return cli_bool(cli, "status", false) ? attempt_status(cli) : attempt_give_share(cli);
}

static int cmd_dr_token(struct cli *cli)
{
    return cli_bool(cli, "delete", false) ? dr_token_delete(cli) : cmd_generate_root(cli);
}

#define ATTEMPT_FLAGS                                                                             \
    {"init", CLI_BOOL, "begin an attempt"},                                                       \
        {"otp", CLI_TEXT, "one-time password, for -init and -decode"},                            \
        {"pgp-key", CLI_FILE,                                                                     \
         "with -init: file with a PGP public key, to encrypt the token; decode by base64 -d | "   \
         "gpg -d"},                                                                               \
        {"nonce", CLI_TEXT, "nonce of the attempt; default: that of the attempt in progress"},    \
        {"status", CLI_BOOL, "show the progress of the attempt"},                                 \
        {"cancel", CLI_BOOL, "cancel the attempt"},                                               \
        {"generate-otp", CLI_BOOL, "print a one-time password"},                                  \
    {                                                                                             \
        "decode", CLI_TEXT, "decode this token, or - (standard input), with the password of -otp" \
    }

static const struct cli_flag generate_root_flags[] = {
    ATTEMPT_FLAGS,
    {"dr-token", CLI_BOOL, "make a DR operation token, as \"operator dr token\" does"}};
static const struct cli_flag dr_token_flags[] = {
    ATTEMPT_FLAGS,
    {"delete", CLI_BOOL,
     "end the DR operation token in HOLDFAST_DR_TOKEN, else the one that is typed"}};

static const struct cli_command generate_root_commands[] = {
    {.name = "operator generate-root",
     ARGS("[KEY | -]", 0, 1),
     FLAGS(generate_root_flags),
     .run = cmd_generate_root,
     .help = "Make a root token: -init, then give key shares one by one, then -decode."},
    {.name = "operator dr token",
     ARGS("[KEY | -]", 0, 1),
     FLAGS(dr_token_flags),
     .run = cmd_dr_token,
     .help =
         "On a DR secondary, make a DR operation token with key shares: -init, then give shares "
         "one by one, then -decode; -delete ends it."},
};

const struct cli_group cli_generate_root_commands = {generate_root_commands,
                                                     ARRAY_LEN(generate_root_commands)};
