/* The kinds of the platform, and how they are shown. Each is defined in the file that its comment
 * names, together with the routes that make and change its resources. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_KINDS_H
#define HOLDFAST_API_PLATFORM_PLATFORM_KINDS_H

#include "api/platform/platform_doc.h"
#include "api/platform/platform_who.h"

/* platform_user.c */
extern const struct platform_kind platform_user_kind;
extern const struct platform_resource platform_user;
/* Check that no other user has the e-mail address of this one: invitations go by the address.
 * ST_REFUSED with the request's error. */
NODISCARD enum status platform_user_check(struct req *req, const struct platform_object *user);
/* platform_org.c */
extern const struct platform_kind platform_org_kind;
extern const struct platform_resource platform_org;
/* Prepare an organization to be shown: its id in documents is its name. */
struct platform_object platform_org_shown(const struct platform_object *org);
/* platform_project.c */
extern const struct platform_kind platform_project_kind;
/* Stage the default project of a new organization. */
NODISCARD enum status platform_project_default(struct req *req, struct platform_object *org);
/* platform_team.c */
extern const struct platform_kind platform_team_kind, platform_member_kind;
extern const struct platform_resource platform_team;
/* Stage the team of owners of a new organization. */
NODISCARD enum status platform_team_owners(struct req *req, const struct platform_object *org,
                                           const char **ret_team);
/* Stage that a user is a member of the organization and of the team; `team` "": of none. */
NODISCARD enum status platform_member_add(struct req *req, const struct platform_object *org,
                                          const struct platform_object *user, const char *team);
/* Whether the sender sees a team, which another resource refers to: a secret one is for its members
 * and those who manage teams. */
NODISCARD enum status platform_team_sees(struct req *req, const struct platform_who *who,
                                         const struct platform_object *team, bool *ret_sees);
/* platform_ws.c */
extern const struct platform_kind platform_ws_kind;
extern const struct platform_resource platform_ws;
/* platform_state.c */
extern const struct platform_kind platform_state_kind, platform_output_kind;
extern const struct platform_resource platform_state, platform_output;
/* The newest complete version of a workspace. ST_NOT_FOUND: there is none. */
NODISCARD enum status platform_state_current(struct state_txn *txn,
                                             const struct platform_object *ws,
                                             struct platform_object *ret_state);
/* platform_task.c, platform_ws_task.c */
extern const struct platform_kind platform_task_kind, platform_ws_task_kind;
extern const struct platform_resource platform_task, platform_ws_task;
/* platform_notification.c */
extern const struct platform_kind platform_notification_kind;
/* platform_settings.c: the settings `id`, or their presets, with what a client may not see. */
NODISCARD enum status platform_settings_load(struct state_txn *txn, const char *id,
                                             struct platform_object *ret_settings);

/* Characters of names: letters, digits, '-' and '_'; for projects also spaces. */
const char *platform_check_name(struct bytes text);
const char *platform_check_project_name(struct bytes text);
const char *platform_check_email(struct bytes text);
const char *platform_check_url(struct bytes text);

#endif
