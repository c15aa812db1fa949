/* The command that recovers from a lost majority: its output. The work is in
 * cluster/membership/recovery. */
#include "server/recover.h"

#include "cluster/membership/recovery/recovery.h"
#include "cluster/mesh/mesh.h"
#include "crypto/crypto.h"
#include "loop/loop_fs.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct recover {
    struct cli *cli;
    const char *dir;
    struct recovery *recovery;
    bool join, apply, mentions; /* mentions: any other member was named */
};

static int recover_fail(const struct recover *rec, enum status st, const struct reason *reason)
{
    const char *text = reason->text[0] != '\0' ? reason->text : status_text(st);
    (void)fprintf(stderr, "holdfast: %s: %s\n", rec->dir, text); /* the exit code tells it too */
    if (st == ST_CORRUPT)
        (void)fprintf(stderr, "Damaged data cannot be recovered from. On the other survivors name "
                              "this node with -lost.\n"); /* the exit code tells it too */
    return EXIT_FAILURE;
}

static enum status read_mentions(struct recover *rec, struct reason *reason)
{
    unsigned at = 0;
    const char *word;
    ASSERT(!rec->mentions);
    while ((word = cli_each(rec->cli, "survivor", &at)) != NULL) {
        rec->mentions = true;
        TRY(recovery_survivor(rec->recovery, word, reason));
    }
    at = 0;
    while ((word = cli_each(rec->cli, "lost", &at)) != NULL) {
        rec->mentions = true;
        TRY(recovery_lost(rec->recovery, word, reason));
    }
    return ST_OK;
}

static const char *role_text(enum rlog_role role)
{
    switch (role) {
    case RLOG_SPARE: return "joins";
    case RLOG_STANDBY: return "no vote";
    case RLOG_VOTER: return "voter";
    }
    return "unknown";
}

static void print_facts(const struct recover *rec)
{
    const struct rlog_survey *s = recovery_survey(rec->recovery);
    char word[RECOVERY_WORD_MAX], cluster[MESH_CLUSTER_ID_TEXT];
    ASSERT(s->n_members > 0 && s->n_newest <= s->n_members);
    mesh_cluster_text(s->identity.cluster, cluster);
    recovery_word(rec->recovery, word);
    printf("node        %s, raft id %llu, cluster %s\n", s->identity.name,
           (unsigned long long)s->identity.id, cluster);
    printf("replica     %s/%s, whole%s\n", rec->dir, recovery_folder(rec->recovery),
           s->torn ? "; a write that was interrupted and never acknowledged is cut" : "");
    printf("last entry  %llu of term %llu; newest term seen: %llu\n",
           (unsigned long long)s->last.index, (unsigned long long)s->last.term,
           (unsigned long long)s->term);
    printf("committed   up to entry %llu; of later entries, not known from this disk\n",
           (unsigned long long)s->snapshot_index);
    printf("members     as entry %llu says:\n", (unsigned long long)s->conf_index);
    for (unsigned i = 0; i < s->n_members; i++) {
        const struct rlog_member *m = &s->members[i];
        printf("  %-20s %-8s %s%s%s\n", m->name, role_text(m->role), m->address,
               m->id == s->identity.id ? ", this node" : "",
               i >= s->n_newest ? ", in the list before the newest one" : "");
    }
    printf("position    %s\n", word);
}

static void print_loss(const struct recover *rec)
{
    const struct rlog_survey *s = recovery_survey(rec->recovery);
    if (rec->join) {
        printf("\n%s gives up its replica and joins the recovered cluster as a new member. The "
               "folder %s/%s stays.\n",
               s->identity.name, rec->dir, recovery_folder(rec->recovery));
        return;
    }
    printf("\n%s becomes the only member, with every entry up to %llu.\nDropped from the cluster:",
           s->identity.name, (unsigned long long)s->last.index);
    for (unsigned i = 0; i < s->n_members; i++)
        if (s->members[i].id != s->identity.id)
            printf(" %s", s->members[i].name);
    printf("\nLost: writes behind entry %llu, if the dropped members acknowledged any without the "
           "survivors.\nNo survivor can tell whether there are such writes.\n",
           (unsigned long long)s->last.index);
}

static int recover_apply(const struct recover *rec)
{
    struct reason reason = {{0}};
    uint64_t id;
    ASSERT(rec->apply);
    enum status st = crypto_random(&id, sizeof id);
    if (st == ST_OK)
        st = rec->join ? recovery_join(rec->recovery, id, &reason)
                       : recovery_run(rec->recovery, id, &reason);
    if (st != ST_OK)
        return recover_fail(rec, st, &reason);
    printf("\nDone. Start this node now. The former replica stays in %s/%s until you delete it.\n",
           rec->dir, recovery_folder(rec->recovery));
    return EXIT_SUCCESS;
}

static int recover_judge(const struct recover *rec)
{
    struct reason reason = {{0}};
    enum status st = rec->join ? recovery_join_check(rec->recovery, &reason)
                               : recovery_check(rec->recovery, &reason);
    if (st == ST_OK) {
        print_loss(rec);
        if (rec->apply)
            return recover_apply(rec);
        printf("\nNothing was changed. With -apply it is done.\n");
        return EXIT_SUCCESS;
    }
    (void)fflush(stdout); /* the message comes behind the facts */
    if (rec->mentions || rec->apply || st == ST_EXISTS)
        return recover_fail(rec, st, &reason);
    printf("\nNothing was changed. Next: %s\n", reason.text);
    return EXIT_SUCCESS;
}

static int recover_opened(struct recover *rec)
{
    ASSERT(rec->recovery != NULL);
    struct reason reason = {{0}};
    /* A node that is alone already says so, whatever the former members' names are now. */
    bool alone = !rec->join && recovery_survey(rec->recovery)->n_members == 1;
    enum status st = alone ? ST_OK : read_mentions(rec, &reason);
    if (st != ST_OK)
        return recover_fail(rec, st, &reason);
    if (cli_bool(rec->cli, "position", false)) {
        char word[RECOVERY_WORD_MAX];
        recovery_word(rec->recovery, word);
        printf("%s\n", word);
        return EXIT_SUCCESS;
    }
    print_facts(rec);
    return recover_judge(rec);
}

/* New files belong to the user that runs the command, and the node must be able to read them. */
static bool recover_owned(const struct recover *rec)
{
    struct stat info;
    if (!rec->apply || stat(rec->dir, &info) != 0 || info.st_uid == geteuid())
        return true; /* a directory that cannot be read is reported when it is opened */
    (void)fprintf(stderr,
                  "holdfast: %s belongs to user %u: run this command as that user, with sudo -u\n",
                  rec->dir, (unsigned)info.st_uid); /* the exit code tells it too */
    return false;
}

int recover_run(struct cli *cli)
{
    struct recover rec = {.cli = cli,
                          .dir = cli->args[0],
                          .join = cli_bool(cli, "join", false),
                          .apply = cli_bool(cli, "apply", false)};
    struct reason reason = {{0}};
    struct fs *fs;
    ASSERT(cli->n_args == 1);
    bool locked;
    if (!recover_owned(&rec))
        return EXIT_FAILURE;
    enum status st = crypto_init(&locked);
    if (st == ST_OK)
        st = loop_fs_new(rec.dir, &fs, &reason);
    if (st != ST_OK)
        return recover_fail(&rec, st, &reason);
    st = recovery_open(fs, &rec.recovery, &reason);
    int code = st == ST_OK ? recover_opened(&rec) : recover_fail(&rec, st, &reason);
    recovery_close(rec.recovery);
    loop_fs_free(fs);
    return code;
}
