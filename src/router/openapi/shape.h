/* A short notation for the form of replies that no schema can describe, for documents and tests.
 *
 *   shape  = kind { "|" kind }           one of these
 *   kind   = "text" | "openmetrics" | "gzip" | "bytes"   the whole body, no JSON
 *          | "json"                      the whole body, any JSON
 *          | type                        data, or the whole body where the route is bare
 *   type   = ( "str" | "int" | "num" | "bool" | "any" | "map" | "obj"
 *            | "[" type "]" | "{" { member } "}"
 *            | "(" type { "|" type } ")" ) [ "~" ]               one of these; "~": or null
 *   member = ( NAME [ "?" ] | "*" ) ":" type                     "?": may be absent; "*": any other
 *          | "@"                                                 the fields of the route's `reply`
 *
 * with one space between members. "map" is an object of strings, "obj" any object. An object has no
 * members but those named. */
#ifndef HOLDFAST_ROUTER_OPENAPI_SHAPE_H
#define HOLDFAST_ROUTER_OPENAPI_SHAPE_H

#include "text/json.h"
#include "text/schema.h"

/* Whether one of the kinds of `shape` is `kind`: "text", "openmetrics", "gzip", "bytes", "json". */
bool shape_has(const char *shape, const char *kind);
/* The media type among the kinds of the shape; NULL: none. */
const char *shape_type(const char *shape);

/* The OpenAPI schema of a type; `reply` is what "@" stands for, NULL where none does. */
void shape_write(const char *type, const struct schema *reply, struct text_writer *w);
/* The OpenAPI schema of a table of fields: as a client may send the fields (`replied` false), or as
 * a reply contains them. Fields for which `skip` returns true are left out; `skip` NULL: none. */
void shape_write_fields(const struct schema *schema, bool replied,
                        bool (*skip)(void *ctx, const char *name), void *ctx,
                        struct text_writer *w);
/* The schema of one field as a client may send it. */
void shape_write_field(const struct field *field, struct text_writer *w);

/* Write the schema of a value that the schema describes: an object, or the value of its only field
 * (FIELD_ITSELF). NULL: any object. */
void shape_write_schema(const struct schema *schema, struct text_writer *w);

#endif
