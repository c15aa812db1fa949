/* Message framings on which a proxy and a server might disagree, and the expected refusal of each.
 * */
#ifndef HOLDFAST_TEST_HTTP_HOSTILE_H
#define HOLDFAST_TEST_HTTP_HOSTILE_H

#include "base/bytes.h"

#define RAW(literal)                                       \
    {                                                      \
        (const uint8_t *)("" literal), sizeof(literal) - 1 \
    }
#define LINE "POST / HTTP/1.1\r\n"
#define HEAD LINE "Host: h\r\n"
#define CHUNKED HEAD "Transfer-Encoding: chunked\r\n\r\n"
static const struct {
    struct bytes in;
    int status;
} hostile[] = {
    {RAW(HEAD "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {RAW(HEAD "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n"), 400},
    {RAW(HEAD "Content-Length: 1\r\nContent-Length: 1\r\n\r\na"), 400},
    {RAW(HEAD "Content-Length: 1\r\nContent-Length: 2\r\n\r\na"), 400},
    {RAW(HEAD "Content-Length: 1, 1\r\n\r\na"), 400},
    {RAW(HEAD "Content-Length: +1\r\n\r\na"), 400},
    {RAW(HEAD "Content-Length: -1\r\n\r\na"), 400},
    {RAW(HEAD "Content-Length: 0x1\r\n\r\na"), 400},
    {RAW(HEAD "Content-Length: 1 1\r\n\r\na"), 400},
    {RAW(HEAD "Content-Length:\r\n\r\n"), 400},
    {RAW(HEAD "Content-Length: 99999999999999999999\r\n\r\n"), 400},
    {RAW(HEAD "Content-Length: 18446744073709551617\r\n\r\n"), 400},
    {RAW(HEAD "Content-Length : 1\r\n\r\na"), 400},
    {RAW(HEAD " Content-Length: 1\r\n\r\na"), 400},
    {RAW(HEAD "Content-Length\r\n\r\n"), 400},
    {RAW(HEAD "Content-Length: 1\n\r\na"), 400},
    {RAW(HEAD "Content-Length: 1\r\n\n"), 400},
    {RAW(HEAD "Content-Length: 1\r\r\n\r\na"), 400},
    {RAW(HEAD "X: a\r\n b\r\n\r\n"), 400},
    {RAW(HEAD "X: a\r\n\tb\r\n\r\n"), 400},
    {RAW(HEAD "X: a\rb\r\n\r\n"), 400},
    {RAW(HEAD "X: a\nContent-Length: 1\r\n\r\n"), 400},
    {RAW(HEAD "X: a\0b\r\n\r\n"), 400},
    {RAW(HEAD "X\0: a\r\n\r\n"), 400},
    {RAW(HEAD "X(: a\r\n\r\n"), 400},
    {RAW(HEAD ": a\r\n\r\n"), 400},
    {RAW(HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 501},
    {RAW(HEAD "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"), 400},
    {RAW(HEAD "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), 400},
    {RAW(HEAD "Transfer-Encoding: identity\r\n\r\n"), 501},
    {RAW(HEAD "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), 501},
    {RAW(HEAD "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"), 501},
    {RAW(HEAD "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n0\r\n\r\n"),
     400},
    {RAW(HEAD "Transfer-Encoding:\r\n\r\n0\r\n\r\n"), 501},
    {RAW(HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
    {RAW(HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n"), 400},
    {RAW(HEAD "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"), 400},
    {RAW("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "3 \r\nabc\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED " 3\r\nabc\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "+3\r\nabc\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "0x3\r\nabc\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "3;a=b\r\nabc\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "3\nabc\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "3\r\nabc\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "3\r\nabcd\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "3\r\nabc0\r\n\r\n"), 400},
    {RAW(CHUNKED "3\rabc\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "-1\r\nabc\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "fffffffffffffffff\r\nabc\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "\r\n0\r\n\r\n"), 400},
    {RAW(CHUNKED "0\r\nX : y\r\n\r\n"), 400},
    {RAW(CHUNKED "0\n\n"), 400},
    {RAW(LINE "\r\n"), 400},
    {RAW(LINE "Host: a\r\nHost: a\r\n\r\n"), 400},
    {RAW(LINE "Host: a\r\nHost: b\r\n\r\n"), 400},
    {RAW(LINE "Host:\r\n\r\n"), 400},
    {RAW(LINE "Host: a b\r\n\r\n"), 400},
    {RAW(LINE "Host: a, b\r\n\r\n"), 400},
    {RAW(LINE "Host: a@b\r\n\r\n"), 400},
    {RAW(LINE "Host: a/b\r\n\r\n"), 400},
    {RAW("POST / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), 400},
    {RAW("POST http://a/ HTTP/1.1\r\nHost: b\r\n\r\n"), 400},
    {RAW("POST  / HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST /  HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST\t/ HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST / HTTP/1.1 \r\nHost: h\r\n\r\n"), 400},
    {RAW("POST / HTTP/1.1\nHost: h\r\n\r\n"), 400},
    {RAW(" POST / HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST /a b HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST /a\x80 HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST /a\0 HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST /a#b HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST * HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST a HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST http://h HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST /\r\n\r\n"), 505},
    {RAW("POST / HTTP/0.9\r\nHost: h\r\n\r\n"), 505},
    {RAW("POST / HTTP/1.2\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST / HTTP/2.0\r\nHost: h\r\n\r\n"), 505},
    {RAW("POST / HTTP/1.10\r\nHost: h\r\n\r\n"), 400},
    {RAW("POST / http/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 501},
    {RAW("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n"), 501},
    {RAW("TRACE / HTTP/1.1\r\nHost: h\r\n\r\n"), 501},
    {RAW("get / HTTP/1.1\r\nHost: h\r\n\r\n"), 400},
    {RAW("HTTP/1.1 200 OK\r\n\r\n"), 400},
    {RAW("\x16\x03\x01\x02"), 400},
    {RAW("\0\0\0\0"), 400},
};

#undef RAW
#undef LINE
#undef HEAD
#undef CHUNKED

#endif
