/* Shared by the files of this folder. */
#ifndef HOLDFAST_OUT_OUT_INTERNAL_H
#define HOLDFAST_OUT_OUT_INTERNAL_H

#include "base/arena.h"
#include "out/out.h"

#include <curl/curl.h>

/* out_memory.c */

/* Initialise libcurl, once: its memory comes from base/mem.h and is wiped when released. ST_NOMEM:
 * libcurl cannot be used. */
NODISCARD enum status out_memory_init(void);

/* out_target.c: whom a URL names. */

enum { OUT_HOST_MAX = 255 };

struct out_target {
    CURLU *url;
    char host[OUT_HOST_MAX + 1]; /* name, or address, in brackets for IPv6 */
    uint16_t port;
    bool tls;      /* https */
    char text[80]; /* "host:port" for reasons; a long name is cut */
};

/* Read and check a URL. ST_INVALID with a reason that does not show the URL; ST_NOMEM. Release the
 * target with out_target_done, also after a failure. */
NODISCARD enum status out_target_parse(const char *url, struct out_target *ret_target,
                                       struct reason *reason);
void out_target_done(struct out_target *target);

/* out_lines.c: the head of a request. */

/* Check method and body. ST_INVALID with a reason. */
NODISCARD enum status out_lines_check(const struct out_request *request, struct reason *reason);
/* Make the list of header lines, in the arena. ST_INVALID with a reason; ST_NOMEM. */
NODISCARD enum status out_lines_make(const struct out_request *request, struct arena *arena,
                                     struct curl_slist **ret_lines, struct reason *reason);

/* out_head.c: the head of a reply, line by line.
 *
 *   STATUS -> FIELDS -> BODY
 *      ^--------'  behind the fields of an interim reply (1xx)
 *
 * Lines in BODY are trailers, and are discarded. take_status does the first transition, end_fields
 * the others. */

enum out_head_phase { OUT_HEAD_STATUS, OUT_HEAD_FIELDS, OUT_HEAD_BODY };

struct out_head {
    const struct out_request *request;
    struct out_reply *reply;
    enum out_head_phase phase;
    bool framed;       /* a header has told the length of the body */
    size_t bytes;      /* length of all lines so far */
    const char *fault; /* why the reply is refused, a predicate: "has a folded header" */
};

/* Take one line with its end. ST_TOO_BIG, ST_BAD_GATEWAY with head->fault; ST_NOMEM. */
NODISCARD enum status out_head_line(struct out_head *head, struct bytes line);

/* out.c: one request under way. */

struct out_call {
    const struct out_request *request;
    struct out_target target;
    struct arena arena; /* memory of the header lines */
    struct buf trusted; /* certificates of a folder; libcurl borrows them */
    CURL *easy;
    CURLM *multi;
    struct out_head head;
    struct out_reply reply;
    enum status stopped; /* not ST_OK: one of our own functions ended the transfer, and why */
    bool cut;            /* enough of the body has arrived */
    unsigned n_opened;   /* sockets that were opened */
    bool refused;        /* the rules have refused an address, and `refusal` says which */
    struct reason refusal;
    char error[CURL_ERROR_SIZE];
};

/* Whether the connection was made, with its handshake: the request may have been sent. */
bool out_call_is_open(const struct out_call *call);

/* libcurl's function that makes a socket: the rules judge the address first. `ctx` is a struct
 * out_call. */
curl_socket_t out_call_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to);

/* out_folder.c: authorities from files. */

/* Append the certificates of every file in a folder, which is not searched deeper. Each is whole
 * and readable; what else the files have is left out. Blocks for the disk. ST_INVALID with a
 * reason: the folder cannot be read, is too large, or has no certificate; ST_NOMEM. */
NODISCARD enum status out_folder_read(const char *path, struct buf *out, struct reason *reason);
/* The same for one file. */
NODISCARD enum status out_folder_file(const char *path, struct buf *out, struct reason *reason);

/* out_fault.c: why a request failed. */

/* The status of a transfer that ended with `code`, and its reason. */
NODISCARD enum status out_fault_judge(struct out_call *call, CURLcode code, struct reason *reason);

#endif
