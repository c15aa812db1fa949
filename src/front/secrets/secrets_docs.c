/* The secrets service's part of the OpenAPI document. */
#include "front/secrets/secrets_docs.h"
#include "auth/login.h"
#include "router/openapi/shape.h"

static const char *const envelope_members[] = {
    "request_id", "lease_id", "renewable", "lease_duration", "data",
    "wrap_info",  "warnings", "auth",      "mount_type",
};

static void put_nullable_ref(struct text_writer *w, const char *name, const char *ref)
{
    ASSERT(ref[0] == '#');
    openapi_open_member(w, name);
    text_member_str(w, "type", "object");
    text_member_bool(w, "nullable", true);
    text_key(w, "allOf");
    text_open_list(w);
    openapi_put_ref(w, ref);
    text_close(w);
    text_close(w);
}

static void put_envelope(const struct route *route, const char *shape, struct text_writer *w)
{
    bool top = route->form == FORM_TOP_LEVEL; /* the envelope repeats the members of data */
    ASSERT(route->form != FORM_BARE);
    text_open_object(w);
    text_member_str(w, "type", "object");
    text_key(w, "required");
    text_open_list(w);
    for (size_t i = 0; i < ARRAY_LEN(envelope_members); i++)
        text_put_str(w, envelope_members[i]);
    text_close(w);
    openapi_open_member(w, "properties");
    text_key(w, "request_id");
    openapi_put_type(w, "string");
    text_key(w, "lease_id");
    openapi_put_type(w, "string");
    text_key(w, "renewable");
    openapi_put_type(w, "boolean");
    text_key(w, "lease_duration");
    openapi_put_type(w, "integer");
    text_key(w, "data");
    openapi_put_data(route, shape, w);
    put_nullable_ref(w, "wrap_info", "#/components/schemas/WrapInfo");
    text_key(w, "warnings");
    shape_write("[str]~", NULL, w);
    if (route->form == FORM_TOKEN) {
        text_key(w, "auth");
        openapi_put_ref(w, "#/components/schemas/Auth");
    } else {
        put_nullable_ref(w, "auth", "#/components/schemas/Auth");
    }
    text_key(w, "mount_type");
    openapi_put_type(w, "string");
    text_close(w);
    text_member_bool(w, "additionalProperties", top);
    text_close(w);
}

#define WRAP_SHAPE                                                         \
    "{token:str accessor:str ttl:int creation_time:str creation_path:str " \
    "wrapped_accessor?:str}"
#define ERROR_SHAPE "{errors:[str] warnings?:[str]~ data?:obj~}"

static void put_schemas(struct text_writer *w)
{
    openapi_open_member(w, "schemas");
    text_key(w, "Auth");
    shape_write_fields(&login_auth_schema, true, NULL, NULL, w);
    text_key(w, "WrapInfo");
    shape_write(WRAP_SHAPE, NULL, w);
    text_key(w, "Error");
    shape_write(ERROR_SHAPE, NULL, w);
    text_key(w, "Envelope");
    shape_write("{request_id:str lease_id:str renewable:bool lease_duration:int data:obj~ "
                "wrap_info:obj~ warnings:[str]~ auth:obj~ mount_type:str errors:[str]}",
                NULL, w);
    text_close(w);
}

static void put_response(struct text_writer *w, const char *name, const char *says, bool envelope)
{
    ASSERT(name[0] != '\0');
    ASSERT(says[0] != '\0');
    openapi_open_member(w, name);
    text_member_str(w, "description", says);
    openapi_open_member(w, "content");
    openapi_open_member(w, "application/json");
    openapi_open_member(w, "schema");
    text_key(w, envelope ? "oneOf" : "allOf");
    text_open_list(w);
    openapi_put_ref(w, "#/components/schemas/Error");
    if (envelope)
        openapi_put_ref(w, "#/components/schemas/Envelope");
    for (unsigned i = 0; i < 5; i++)
        text_close(w);
}

static void put_security_schemes(struct text_writer *w)
{
    openapi_open_member(w, "securitySchemes");
    openapi_open_member(w, "token");
    text_member_str(w, "type", "apiKey");
    text_member_str(w, "in", "header");
    text_member_str(w, "name", "X-Secrets-Token");
    text_member_str(w, "description", "Also taken as X-Vault-Token.");
    text_close(w);
    openapi_open_member(w, "bearer");
    text_member_str(w, "type", "http");
    text_member_str(w, "scheme", "bearer");
    text_close(w);
    text_close(w);
}

static void put_components(struct text_writer *w)
{
    openapi_open_member(w, "components");
    put_schemas(w);
    openapi_open_member(w, "responses");
    put_response(w, "Error", "Refused or failed; the texts say why.", false);
    put_response(w, "NotFound",
                 "There is nothing; where data or warnings say more, they are there.", true);
    text_close(w);
    put_security_schemes(w);
    text_close(w);
}

static void put_marks(const struct route *route, struct text_writer *w)
{
    if (route_is_open(route))
        text_member_bool(w, "x-vault-unauthenticated", true);
    if ((route->flags & ROUTE_SUDO) != 0)
        text_member_bool(w, "x-vault-sudo", true);
    if (route->exists != NULL)
        text_member_bool(w, "x-vault-createSupported", true);
}

const struct docs_dialect secrets_docs = {
    .title = "Secrets service",
    .description = "PUT is POST; LIST is GET with list=true, SCAN with scan=true.",
    .put_envelope = put_envelope,
    .put_marks = put_marks,
    .put_components = put_components,
};
