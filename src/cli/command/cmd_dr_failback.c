/* operator dr failback: this cluster becomes the primary in place of the other one.
 *
 * The command keeps nothing: each turn reads the state of both clusters, and takes the one step
 * that leads on. So it goes on where it was interrupted, and it may run when everything is done.
 *
 *   here                   there                 step
 *   primary running        secondary streaming   done
 *   primary running        secondary idle        there follows here (follow_here)
 *   primary running        primary superseded    demote there
 *   secondary streaming    primary running       demote there (hand_over)
 *   secondary, streaming   secondary idle        promote here, once both have the same version
 *     or idle
 *   secondary syncing      any                   wait
 *
 * Anything else needs a decision of the operator; the command says so and changes nothing. */
#include "cli/command/cmd_dr.h"

#include <inttypes.h>

#define NAME_DEFAULT "former-primary"

struct failback {
    struct dr_view here, there;
    const char *others;     /* URLs of the nodes of the other cluster */
    const char *name, *ttl; /* of the other cluster as a secondary, and of its token */
    const char *primary_api_addr, *ca_file; /* how the other cluster reaches this one */
    bool done;
};

/* The token for what is done on a secondary. It is of the cluster at `address`. */
static const char *authority_of(struct cli *cli, const char *address)
{
    const char *token = dr_token(cli);
    if (token == NULL)
        cli_say("This step needs a DR operation token of %s in HOLDFAST_DR_TOKEN\n"
                "(\"holdfast operator dr token -init -address=%s\"). Then run the command again.\n",
                address, address);
    return token;
}

static int with_hint(int code, const char *address)
{
    if (code != CLI_OK)
        cli_say("If the DR operation token was of the other cluster: make one of %s\n"
                "(\"holdfast operator dr token -init -address=%s\"), and run the command again.\n",
                address, address);
    return code;
}

static int demote_there(struct cli *cli, const struct failback *f)
{
    CLEANUP(buf_done) struct buf body = {0};
    int code = dr_post(cli, f->there.address, DR_PATH "primary/demote", &body);
    return code == CLI_OK ? dr_await(cli, f->others, "secondary", NULL) : code;
}

/* Only a secondary that is up to date, with roots that do not differ, takes over. */
static int hand_over(struct cli *cli, const struct failback *f)
{
    const struct text_value *differs = text_get(f->here.data, "corrupted_merkle_tree");
    if (differs != NULL && differs->truth) {
        cli_complain("the roots of both clusters differ: nothing was changed");
        return CLI_REMOTE_ERROR;
    }
    dr_say(cli, arena_format(&cli->arena,
                             "Demoting %s: from now on no cluster takes writes, until this one is "
                             "promoted …",
                             f->there.address));
    return demote_there(cli, f);
}

/* The other cluster has stopped: wait for the last of its writes, then promote. */
static int promote_here(struct cli *cli, const struct failback *f)
{
    int64_t here = dr_view_number(&f->here, "version");
    int64_t there = dr_view_number(&f->there, "version");
    ASSERT(f->others != NULL && !f->done);
    if (here < there) {
        dr_view_pause();
        return CLI_OK; /* the next turn looks again */
    }
    if (here > there || dr_view_number(&f->here, "epoch") < dr_view_number(&f->there, "epoch")) {
        cli_complain("%s has version %" PRId64 " of epoch %s, this cluster version %" PRId64
                     " of epoch %s: decide which one is right, and promote it",
                     f->there.address, there, dr_view_text(&f->there, "epoch"), here,
                     dr_view_text(&f->here, "epoch"));
        return CLI_REMOTE_ERROR;
    }
    dr_say(cli, arena_format(&cli->arena,
                             "Both clusters have version %" PRId64 ". Promoting this one …", here));
    const char *authority = authority_of(cli, f->here.address);
    if (authority == NULL)
        return CLI_LOCAL_ERROR;
    return with_hint(dr_promote(cli, f->here.address, authority), f->here.address);
}

/* A name that an earlier run used up, or did not use, is free again. */
static int revoke_name(struct cli *cli, const struct failback *f)
{
    const struct text_value *known = text_get(f->here.data, "known_secondaries");
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    if (known == NULL || known->kind != TEXT_LIST)
        return CLI_OK;
    TEXT_FOR (id, known) {
        if (strcmp((const char *)id->text.data, f->name) != 0)
            continue;
        text_open_object(&w);
        text_member_str(&w, "id", f->name);
        text_close(&w);
        return dr_post(cli, f->here.address, DR_PATH "primary/revoke-secondary", &body);
    }
    return CLI_OK;
}

static int follow_here(struct cli *cli, const struct failback *f)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    const struct text_value *wrap = NULL;
    dr_say(cli, arena_format(&cli->arena, "Letting %s follow this cluster …", f->there.address));
    const char *authority = authority_of(cli, f->there.address);
    if (authority == NULL)
        return CLI_LOCAL_ERROR;
    int code = revoke_name(cli, f);
    if (code == CLI_OK)
        code = dr_secondary_token(cli, f->here.address, f->name, f->ttl, &wrap);
    if (code != CLI_OK)
        return code;
    text_open_object(&w);
    text_member_str(&w, "dr_operation_token", authority);
    text_key(&w, "token");
    text_put_bytes(&w, text_get(wrap, "token")->text);
    if (f->primary_api_addr != NULL)
        text_member_str(&w, "primary_api_addr", f->primary_api_addr);
    if (f->ca_file != NULL)
        text_member_str(&w, "ca_file", f->ca_file);
    text_close(&w);
    code = dr_post(cli, f->there.address, DR_PATH "secondary/update-primary", &body);
    if (code == CLI_OK)
        code = dr_await(cli, f->others, "secondary", "stream-wals");
    return with_hint(code, f->there.address);
}

static bool syncs(const struct dr_view *view)
{
    return dr_view_is(view, "secondary", NULL) && !dr_view_is(view, "secondary", "idle") &&
           !dr_view_is(view, "secondary", "stream-wals");
}

static int one_step(struct cli *cli, struct failback *f)
{
    bool primary = dr_view_is(&f->here, "primary", "running");
    bool secondary = dr_view_is(&f->here, "secondary", NULL);
    ASSERT(!f->done && !(primary && secondary));
    if (strcmp(dr_view_text(&f->here, "cluster_id"), dr_view_text(&f->there, "cluster_id")) != 0) {
        cli_complain("%s and %s are not of one set", f->here.address, f->there.address);
        return CLI_REMOTE_ERROR;
    }
    if (syncs(&f->here) || syncs(&f->there)) {
        dr_view_pause();
        return CLI_OK;
    }
    if (primary && dr_view_is(&f->there, "secondary", "stream-wals")) {
        f->done = true;
        return CLI_OK;
    }
    if (primary && dr_view_is(&f->there, "secondary", "idle"))
        return follow_here(cli, f);
    if (primary && dr_view_is(&f->there, "primary", "idle"))
        return demote_there(cli, f);
    if (secondary && dr_view_is(&f->there, "primary", "running") &&
        dr_view_is(&f->here, "secondary", "stream-wals"))
        return hand_over(cli, f);
    if (secondary && dr_view_is(&f->there, "secondary", "idle"))
        return promote_here(cli, f);
    cli_complain("this cluster is %s, %s, and %s is %s, %s: no step is safe. Make this cluster "
                 "follow the other one first (\"holdfast operator dr follow\")",
                 dr_view_text(&f->here, "mode"), dr_view_text(&f->here, "state"), f->there.address,
                 dr_view_text(&f->there, "mode"), dr_view_text(&f->there, "state"));
    return CLI_REMOTE_ERROR;
}

int cmd_dr_failback(struct cli *cli)
{
    enum { TURNS_MAX = 2000 };
    struct failback f = {.others = dr_view_other(cli),
                         .name = cli_text(cli, "name"),
                         .ttl = cli_text(cli, "ttl"),
                         .primary_api_addr = cli_text(cli, "primary-api-addr"),
                         .ca_file = cli_text(cli, "ca-file")};
    (void)cli_int(cli, "wait", 0); /* read by the steps that wait */
    if (f.name == NULL)
        f.name = NAME_DEFAULT;
    if (f.others == NULL) {
        cli_complain(
            "the other cluster is not known: give its nodes by -other or HOLDFAST_DR_NODES");
        return CLI_LOCAL_ERROR;
    }
    for (unsigned i = 0; i < TURNS_MAX && !f.done; i++) {
        int code = dr_view_load(cli, cli->address, &f.here) && dr_view_load(cli, f.others, &f.there)
                       ? one_step(cli, &f)
                       : CLI_REMOTE_ERROR;
        if (code != CLI_OK)
            return code;
    }
    if (!f.done) {
        cli_complain("the clusters are not in step yet: run the command again");
        return CLI_REMOTE_ERROR;
    }
    dr_say(cli, "Success! This cluster is the primary, and the other one follows it. Delete the DR "
                "operation\ntoken of the other one: \"holdfast operator dr token -delete\".");
    return CLI_OK;
}
