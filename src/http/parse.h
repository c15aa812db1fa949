/* Parser of one HTTP/1.x message, from input in pieces of any size: llhttp, with additional checks.
 *
 * Beyond llhttp's strict mode it refuses: everything but HTTP/1.0 and 1.1, more than one space in
 * the request line, a missing or repeated Host in 1.1, Transfer-Encoding in 1.0, any transfer
 * coding but a single "chunked", lengths that are not plain digits, chunk extensions, targets that
 * are neither a path nor (OPTIONS) "*" nor an absolute URL that agrees with Host, methods we have
 * no use for. llhttp does not know LIST and SCAN: it is shown LINK instead, and a genuine LINK is
 * refused.
 *
 * The parser never looks beyond the end of the message, so the caller decides when the next message
 * begins. */
#ifndef HOLDFAST_HTTP_PARSE_H
#define HOLDFAST_HTTP_PARSE_H

#include "http/http.h"

#include <llhttp.h>

/* Positions count from the start of `text`, which begins with the request target. */
struct http_field {
    uint32_t name_at, name_len, value_at, value_len;
};

struct http_head {
    struct buf text;
    struct http_field *fields;
    size_t n_fields, fields_cap;
    /* a bit for each length that a field's name has; the last bit: that length and above */
    uint64_t name_lens;
    /* path_at, path_len: the path, also inside an absolute URL */
    uint32_t target_len, path_at, path_len;
    uint32_t query_at, query_len;
    bool has_query;

    enum http_method method; /* method of a request */
    int status;              /* status of a reply */
    bool http_1_0, keep_alive, expects_continue;
    bool chunked, has_length;
    uint64_t length; /* length of the body if has_length is set */
};

static inline uint64_t http_head_len_bit(size_t len)
{
    return (uint64_t)1 << MIN(len, (size_t)63);
}

/* Wipe and free. */
void http_head_done(struct http_head *head);
/* Wipe, and keep the memory for another message unless it has grown beyond the ordinary. */
void http_head_reset(struct http_head *head);
/* Release memory that the head does not use; without memory for a smaller copy it stays. */
void http_head_shrink(struct http_head *head);
/* The next field with that name, in any case; the search begins at field *at. */
bool http_head_next(const struct http_head *head, const char *name, size_t *at,
                    struct bytes *ret_value);
struct http_header http_head_field(const struct http_head *head, size_t i);

enum http_event {
    EVENT_MORE,    /* all input was used */
    EVENT_HEAD,    /* the head is complete and a body follows */
    EVENT_DONE,    /* the message is complete */
    EVENT_REFUSED, /* status and why are set; nothing more can be parsed */
};

enum http_parse_phase { PARSE_START, PARSE_HEAD, PARSE_BODY, PARSE_END };

struct http_parser {
    llhttp_t llhttp;
    const struct http_limits *limits;
    struct http_head *head;
    /* A run of the body, within the input. False refuses the message with what was passed to
     * http_parser_refuse. */
    bool (*on_body)(struct http_parser *parser, struct bytes run);

    enum http_parse_phase phase;
    bool own_method, half_crlf, skipped_crlf;
    bool target_done, version_seen, version_done, in_field, complete;
    bool no_body; /* the reply has no body */
    uint8_t start_len;
    uint8_t start[5]; /* the first bytes, until it is clear whether they say "LIST " or "SCAN " */
    /* how often these headers came; the second of a kind is refused */
    uint8_t n_host, n_length, n_coding;
    size_t head_bytes; /* given to llhttp so far */
    size_t trailer_bytes;
    const char *slice; /* the input that llhttp is reading */
    int status;        /* why the message was refused: an HTTP status … */
    const char *why;   /* … and a text; static */
};

/* Begin a message; on_body is kept. `head` must be empty; both are borrowed. */
void http_parser_request(struct http_parser *parser, const struct http_limits *limits,
                         struct http_head *head);
/* `no_body`: the reply is to a HEAD request, so it has no body. */
void http_parser_reply(struct http_parser *parser, const struct http_limits *limits,
                       struct http_head *head, bool no_body);

/* Use input up to the next event; *ret_used bytes were used. Not to be called after EVENT_DONE or
 * EVENT_REFUSED. */
enum http_event http_parser_run(struct http_parser *parser, struct bytes in, size_t *ret_used);

/* Refuse the message; call from on_body. `why` is static. */
void http_parser_refuse(struct http_parser *parser, int status, const char *why);

/* Whether the parser has seen nothing of the message. */
bool http_parser_untouched(const struct http_parser *parser);

#endif
