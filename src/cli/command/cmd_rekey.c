/* operator rekey: make new key shares, or new shares of the recovery key. */
#include "cli/command/ceremony.h"
#include "cli/command/command.h"

enum { SHARES_DEFAULT = 5, THRESHOLD_DEFAULT = 3 };

static bool is_recovery(struct cli *cli)
{
    const char *target = cli_text(cli, "target");
    return target != NULL && (strcmp(target, "recovery") == 0 ||
                              strcmp(target, "hsm") == 0); /* upstream's older word for recovery */
}

static bool verifies(struct cli *cli)
{
    return cli_bool(cli, "verify", false);
}

/* The path of a request: "sys/rekey/WHAT", or "sys/rekey-recovery-key/WHAT" with -target=recovery.
 * With -verify the last part is "verify"; with -init, -verify only asks for a verification later.
 */
static char *path_of(struct cli *cli, const char *what)
{
    bool verify = verifies(cli) && !cli_bool(cli, "init", false);
    return arena_format(&cli->arena, "sys/%s/%s", is_recovery(cli) ? "rekey-recovery-key" : "rekey",
                        verify ? "verify" : what);
}

static int rekey_show(struct cli *cli, const struct text_value *answer)
{
    static const struct ceremony_row rows[] = {{"Nonce", "nonce"},
                                               {"Started", "started"},
                                               {"Complete", "complete"},
                                               {"Rekey Progress", "progress"},
                                               {"New Shares", "n"},
                                               {"New Threshold", "t"},
                                               {"PGP Fingerprints", "pgp_fingerprints"},
                                               {"Backup", "backup"},
                                               {"Verification Required", "verification_required"},
                                               {"Verification Nonce", "verification_nonce"}};
    bool of_new = text_get(answer, "required") == NULL; /* true: new shares are being verified */
    return ceremony_show(cli, answer, of_new ? "t" : "required", rows, ARRAY_LEN(rows));
}

static int rekey_send(struct cli *cli, const char *method, const char *what, const struct buf *body,
                      const struct text_value **ret_answer)
{
    struct cli_reply reply = {0};
    char *path = path_of(cli, what);
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_request(cli, method, path, body, &reply);
    *ret_answer = NULL;
    if (code == CLI_OK && reply.body.len != 0)
        *ret_answer = cli_parse_reply(cli, &reply);
    return code;
}

static int rekey_begin(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    const struct text_value *answer;
    text_open_object(&w);
    text_member_int(&w, "secret_shares", cli_int(cli, "key-shares", SHARES_DEFAULT));
    text_member_int(&w, "secret_threshold", cli_int(cli, "key-threshold", THRESHOLD_DEFAULT));
    text_member_bool(&w, "require_verification", verifies(cli));
    text_member_bool(&w, "backup", cli_bool(cli, "backup", false));
    int code = ceremony_put_pgp_keys(cli, &w, "pgp-keys", "pgp_keys");
    text_close(&w);
    if (code == CLI_OK)
        code = rekey_send(cli, "PUT", "init", &body, &answer);
    return code != CLI_OK ? code : rekey_show(cli, answer);
}

static int rekey_cancel(struct cli *cli)
{
    const struct text_value *answer;
    int code = rekey_send(cli, "DELETE", "init", NULL, &answer);
    if (code == CLI_OK && !cli->json)
        printf("Success! %s\n", verifies(cli) ? "The keys given for verification are forgotten"
                                              : "Canceled rekeying (if it was started)");
    return code;
}

static int rekey_status(struct cli *cli)
{
    const struct text_value *answer;
    int code = rekey_send(cli, "GET", "init", NULL, &answer);
    return code != CLI_OK ? code : rekey_show(cli, answer);
}

static bool is_true(const struct text_value *answer, const char *name)
{
    const struct text_value *v = text_get(answer, name);
    return v != NULL && v->kind == TEXT_BOOL && v->truth;
}

/* Print the new shares, and whose PGP key each is encrypted with. Returns how many. */
static unsigned show_keys(const struct text_value *answer)
{
    const struct text_value *keys = text_get(answer, "keys_base64");
    const struct text_value *prints = text_get(answer, "pgp_fingerprints");
    unsigned n = 0;
    if (keys == NULL || keys->kind != TEXT_LIST)
        return 0;
    const struct text_value *print =
        prints != NULL && prints->kind == TEXT_LIST ? prints->first : NULL;
    TEXT_FOR (key, keys) {
        n++;
        if (print != NULL)
            printf("Key %u fingerprint: %.*s; value: %.*s\n", n, (int)print->text.len,
                   (const char *)print->text.data, (int)key->text.len,
                   (const char *)key->text.data);
        else
            printf("Key %u: %.*s\n", n, (int)key->text.len, (const char *)key->text.data);
        print = print != NULL ? print->next : NULL;
    }
    printf("\n");
    if (prints != NULL && prints->kind == TEXT_LIST)
        printf("Each value is read by its holder with \"base64 -d | gpg -d\".\n");
    if (is_true(answer, "backup"))
        printf("A copy of the encrypted values is kept: see -backup-retrieve.\n");
    return n;
}

/* Print the result. The server shows new shares only once. */
static int show_made(struct cli *cli, const struct text_value *answer)
{
    const struct text_value *nonce = text_get(answer, "verification_nonce");
    if (cli->json) {
        cli_print_json(answer);
        return CLI_OK;
    }
    unsigned n = show_keys(answer);
    if (is_true(answer, "verification_required") && nonce != NULL)
        printf("The present keys are still valid. Verify the new keys: give enough of them with\n"
               "\"holdfast operator rekey -verify\". Then the new keys replace the present keys."
               "\n\nVerification Nonce: %.*s\n",
               (int)nonce->text.len, (const char *)nonce->text.data);
    else if (n != 0)
        printf("The new keys replace the old keys, which are no longer valid. Give the new keys to "
               "different\npeople.\n");
    else
        printf("The new keys were verified and replace the old keys, which are no longer valid.\n");
    return CLI_OK;
}

static int rekey_give_share(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    const struct text_value *now = NULL, *answer = NULL;
    /* With -nonce the status is not checked: after the last share, a client that lost the reply may
     * give that share again. */
    if (cli_text(cli, "nonce") == NULL) {
        int code = rekey_send(cli, "GET", "init", NULL, &now);
        if (code != CLI_OK)
            return code;
        if (!is_true(now, "started")) {
            cli_complain("no rekey is in progress: begin with -init");
            return CLI_LOCAL_ERROR;
        }
    }
    int code = ceremony_share_body(cli, now, "nonce", &body);
    if (code == CLI_OK)
        code = rekey_send(cli, "PUT", "update", &body, &answer);
    if (code != CLI_OK)
        return code;
    return is_true(answer, "complete") ? show_made(cli, answer) : rekey_show(cli, answer);
}

static const char *backup_path(struct cli *cli)
{
    return is_recovery(cli) ? "sys/rekey/recovery-key-backup" : "sys/rekey/backup";
}

/* Print the backup: each message with the fingerprint of its holder's key. */
static int backup_show(struct cli *cli)
{
    struct cli_reply reply = {0};
    ASSERT(cli->n_args <= 1);
    int code = cli_request(cli, "GET", backup_path(cli), NULL, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *answer = cli_parse_reply(cli, &reply);
    const struct text_value *keys = text_get(text_get(answer, "data"), "keys_base64");
    if (keys == NULL || keys->kind != TEXT_OBJECT)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(answer);
        return CLI_OK;
    }
    TEXT_FOR (list, keys)
        TEXT_FOR (key, list)
            printf("Fingerprint: %.*s; value: %.*s\n", (int)list->name.len,
                   (const char *)list->name.data, (int)key->text.len, (const char *)key->text.data);
    return CLI_OK;
}

static int backup_delete(struct cli *cli)
{
    struct cli_reply reply = {0};
    int code = cli_request(cli, "DELETE", backup_path(cli), NULL, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Deleted the backup of new keys (if there was one)\n");
    return code;
}

static int cmd_rekey(struct cli *cli)
{
    const char *target = cli_text(cli, "target");
    if (target != NULL && !is_recovery(cli) && strcmp(target, "barrier") != 0)
        return cli_usage_error(cli, "-target must be barrier or recovery");
    if (cli_bool(cli, "backup-retrieve", false))
        return backup_show(cli);
    if (cli_bool(cli, "backup-delete", false))
        return backup_delete(cli);
    if (cli_bool(cli, "cancel", false))
        return rekey_cancel(cli);
    if (cli_bool(cli, "init", false))
        return rekey_begin(cli);
    return cli_bool(cli, "status", false) ? rekey_status(cli) : rekey_give_share(cli);
}

static const struct cli_flag rekey_flags[] = {
    {"init", CLI_BOOL, "begin an attempt"},
    {"key-shares", CLI_INT, "how many new keys to make; default 5"},
    {"key-threshold", CLI_INT, "how many of the new keys are needed; default 3"},
    {"verify", CLI_BOOL,
     "with -init: the new keys must be verified; without -init: give a new key to verify it"},
    {"target", CLI_TEXT, "barrier (the keys that unseal), or recovery"},
    {"nonce", CLI_TEXT, "nonce of the attempt; default: that of the attempt in progress"},
    {"status", CLI_BOOL, "show the progress of the attempt"},
    {"cancel", CLI_BOOL, "cancel the attempt; with -verify: only the verification"},
    {"pgp-keys", CLI_MANY,
     "with -init: files with PGP public keys, separated by commas: one for each new key"},
    {"backup", CLI_BOOL, "with -pgp-keys: keep a copy of the encrypted new keys in the cluster"},
    {"backup-retrieve", CLI_BOOL, "show that copy"},
    {"backup-delete", CLI_BOOL, "delete that copy"}};

static const struct cli_command rekey_commands[] = {
    {.name = "operator rekey",
     ARGS("[KEY | -]", 0, 1),
     FLAGS(rekey_flags),
     .run = cmd_rekey,
     .help = "Make new key shares: -init, then give the present shares one by one."},
};

const struct cli_group cli_rekey_commands = {rekey_commands, ARRAY_LEN(rekey_commands)};
