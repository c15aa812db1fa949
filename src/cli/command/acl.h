/* Requests and output of the acl commands. */
#ifndef HOLDFAST_CLI_COMMAND_ACL_H
#define HOLDFAST_CLI_COMMAND_ACL_H

#include "cli/command/command.h"
#include "cli/dialect/dialect.h"

#define META_FLAG                                          \
    {                                                      \
        "meta", CLI_BOOL, "print Hash and the indexes too" \
    }

/* A request to the registry. */
struct acl_call {
    const char *method, *path; /* the path behind "/v1/", unescaped; NULL: out of memory */
    const char *query;         /* escaped, "expanded=true"; NULL: none */
    const struct buf *body;    /* JSON; NULL: none */
    const char *purpose;       /* begins the message of a refusal: "Failed to create new policy" */
    const char *token;         /* NULL: the token of the settings; "": none */
    bool may_be_absent;        /* a 404 is CLI_OK, and *ret_body NULL */
};

/* Send the request with the settings -datacenter and -stale. *ret_body: the reply. Returns an exit
 * code, with a message unless CLI_OK. */
int acl_do(struct cli *cli, const struct acl_call *call, const struct text_value **ret_body);

/* A kind of object that is named by its id. */
struct acl_kind {
    const char *what, *list, *id;  /* "policy", the path of the list, the member with the id */
    const char *word, *stands_for; /* a word in place of an id, and that id; NULL: none */
};

extern const struct acl_kind acl_policies, acl_tokens, acl_roles;

/* Find the id that `given` means: a whole UUID stands for itself without a request, a shorter text
 * for the one object whose id begins with it. `flag`: the name of the flag with `given`, for
 * messages. Returns an exit code, with a message unless CLI_OK. */
int acl_find(struct cli *cli, const struct acl_kind *kind, const char *flag, const char *given,
             const char **ret_id);
/* Put an object together for an update: `now` with the members of the JSON text `given` in place of
 * its own. `now` NULL: the members of `given` alone. False with a message. */
bool acl_merge(struct cli *cli, const struct text_value *now, const struct buf *given,
               const struct text_value **ret_whole);

/* acl_print.c: print a reply as -format and -meta say, in the columns of upstream's tool. Returns
 * the exit code. */
int acl_print_policy(struct cli *cli, const struct text_value *policy);
int acl_print_policies(struct cli *cli, const struct text_value *policies);
int acl_print_token(struct cli *cli, const struct text_value *token);
int acl_print_tokens(struct cli *cli, const struct text_value *tokens);
/* Print that an object was deleted. `reply` false: print that there was no such object. */
int acl_print_deleted(struct cli *cli, const char *what, const char *id,
                      const struct text_value *reply);

#endif
