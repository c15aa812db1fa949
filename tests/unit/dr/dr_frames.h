/* One frame of each type and the bytes of its written form. */
#ifndef HOLDFAST_TESTS_UNIT_DR_FRAMES_H
#define HOLDFAST_TESTS_UNIT_DR_FRAMES_H

#include "support.h"

#include "cluster/dr/link/dr_frame.h"

enum { TEXT_HOST_BYTES = 255 }; /* most bytes of a host */

struct golden_frame {
    struct dr_frame frame;
    const char *wire;
    size_t bytes;
};

#define GOLDEN(text) .wire = (text), .bytes = sizeof(text) - 1
#define SET16                                                 \
    {                                                         \
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 \
    }
#define SET16_WIRE "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20"
#define ROOT32_WIRE SET16_WIRE "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff"

static const struct golden_frame golden_frames[] = {
    {.frame = {.type = DR_HELLO,
               .hello = {.protocol = 1,
                         .feature = 4,
                         .purpose = DR_SYNC,
                         .set = SET16,
                         .epoch = 3,
                         .position = 0x0102030405060708,
                         .record_ms = 1000,
                         .id = "east-1"}},
     GOLDEN("\x34\0\0\0\x01"
            "\1\0\4\0\2" SET16_WIRE "\3\0\0\0\0\0\0\0"
            "\x08\x07\x06\x05\x04\x03\x02\x01"
            "\xe8\3\0\0\0\0\0\0"
            "\6east-1")},
    {.frame = {.type = DR_CREDIT, .credit = {0x400000}},
     GOLDEN("\x08\0\0\0\x02"
            "\0\0\x40\0\0\0\0\0")},
    {.frame = {.type = DR_ACK, .ack = {77, 1500}},
     GOLDEN("\x10\0\0\0\x03"
            "\x4d\0\0\0\0\0\0\0\xdc\5\0\0\0\0\0\0")},
    {.frame = {.type = DR_ROOT,
               .root = {.version = 77,
                        .root = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                                 16, [31] = 255}}},
     GOLDEN("\x28\0\0\0\x04"
            "\x4d\0\0\0\0\0\0\0" ROOT32_WIRE)},
    {.frame = {.type = DR_PING,
               .ping = {5,
                        77,
                        6,
                        7,
                        1000,
                        8,
                        9,
                        {(const uint8_t *)"https://s", 9},
                        {(const uint8_t *)"s:1", 3}}},
     GOLDEN("\x46\0\0\0\x05"
            "\5\0\0\0\0\0\0\0\x4d\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
            "\7\0\0\0\0\0\0\0\xe8\3\0\0\0\0\0\0\x08\0\0\0\0\0\0\0"
            "\x09\0\0\0\0\0\0\0"
            "\x09https://s\3s:1")},
    {.frame = {.type = DR_CERT_REQUEST, .cert_request = {{(const uint8_t *)"key", 3}}},
     GOLDEN("\x04\0\0\0\x06"
            "\3key")},
    {.frame = {.type = DR_WELCOME,
               .welcome = {.protocol = 1,
                           .feature = 4,
                           .set = SET16,
                           .epoch = 3,
                           .version = 99,
                           .time_ms = 1000,
                           .record_ms = 1001,
                           .addresses = {2, {"a:8201", "[::1]:8201"}}}},
     GOLDEN("\x47\0\0\0\x10"
            "\1\0\4\0" SET16_WIRE "\3\0\0\0\0\0\0\0"
            "\x63\0\0\0\0\0\0\0\xe8\3\0\0\0\0\0\0"
            "\xe9\3\0\0\0\0\0\0"
            "\2\6a:8201\12[::1]:8201")},
    {.frame = {.type = DR_REFUSE, .refuse = {DR_REFUSE_EPOCH, 4, {(const uint8_t *)"too old", 7}}},
     GOLDEN("\x11\0\0\0\x11"
            "\4\4\0\0\0\0\0\0\0\7too old")},
    {.frame = {.type = DR_WAL, .wal = {7, 9, 3, 0, {3, false, {(const uint8_t *)"abc", 3}}}},
     GOLDEN("\x20\0\0\0\x12"
            "\7\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0"
            "\3\0\0\0\0\0\0\0\0\3\0\0\0"
            "abc")},
    {.frame = {.type = DR_TOO_OLD, .too_old = {50}},
     GOLDEN("\x08\0\0\0\x13"
            "\x32\0\0\0\0\0\0\0")},
    {.frame = {.type = DR_CHECKPOINT, .checkpoint = {60}},
     GOLDEN("\x08\0\0\0\x14"
            "\x3c\0\0\0\0\0\0\0")},
    {.frame = {.type = DR_SYNC_BEGIN, .sync_begin = {99, 12, 1000}},
     GOLDEN("\x18\0\0\0\x15"
            "\x63\0\0\0\0\0\0\0"
            "\x0c\0\0\0\0\0\0\0\xe8\3\0\0\0\0\0\0")},
    {.frame = {.type = DR_SYNC_DATA,
               .sync_data = {0x100, {40, true, {(const uint8_t *)"lz4 lz4", 7}}}},
     GOLDEN("\x14\0\0\0\x16"
            "\0\1\0\0\0\0\0\0\1\x28\0\0\0"
            "lz4 lz4")},
    {.frame = {.type = DR_SYNC_END,
               .sync_end = {0x10000,
                            0xe3069283,
                            {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, [31] = 255}}},
     GOLDEN("\x2c\0\0\0\x17"
            "\0\0\1\0\0\0\0\0\x83\x92\x06\xe3" ROOT32_WIRE)},
    {.frame = {.type = DR_PONG,
               .pong = {.stamp = 5,
                        .version = 99,
                        .time_ms = 1000,
                        .own = 6,
                        .wall_ms = 1001,
                        .behind = 7,
                        .verified = 9,
                        .renew = true,
                        .api = {(const uint8_t *)"https://p", 9},
                        .addresses = {1, {"a:8201"}}}},
     GOLDEN("\x4b\0\0\0\x18"
            "\5\0\0\0\0\0\0\0\x63\0\0\0\0\0\0\0\xe8\3\0\0\0\0\0\0"
            "\6\0\0\0\0\0\0\0\xe9\3\0\0\0\0\0\0\7\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\1"
            "\x09https://p"
            "\1\6a:8201")},
    {.frame = {.type = DR_CERT, .cert = {{(const uint8_t *)"pem", 3}}},
     GOLDEN("\x04\0\0\0\x19"
            "\3pem")},
    {.frame = {.type = DR_DIFF_ASK, .diff_list = {true, {3, false, {(const uint8_t *)"ask", 3}}}},
     GOLDEN("\x09\0\0\0\x07"
            "\1\0\3\0\0\0ask")},
    {.frame = {.type = DR_DIFF_WANT,
               .diff_list = {false, {40, true, {(const uint8_t *)"lz4 lz4", 7}}}},
     GOLDEN("\x0d\0\0\0\x08"
            "\0\1\x28\0\0\0lz4 lz4")},
    {.frame = {.type = DR_DIFF_BEGIN,
               .diff_begin = {.version = 99, .floor = 70, .keys = 12, .fork = 60, .time_ms = 1000}},
     GOLDEN("\x28\0\0\0\x1a"
            "\x63\0\0\0\0\0\0\0\x46\0\0\0\0\0\0\0"
            "\x0c\0\0\0\0\0\0\0\x3c\0\0\0\0\0\0\0\xe8\3\0\0\0\0\0\0")},
    {.frame = {.type = DR_DIFFERS, .checkpoint = {60}},
     GOLDEN("\x08\0\0\0\x1c"
            "\x3c\0\0\0\0\0\0\0")},
    {.frame = {.type = DR_DIFF_NODES,
               .diff_list = {false, {5, false, {(const uint8_t *)"nodes", 5}}}},
     GOLDEN("\x0b\0\0\0\x1b"
            "\0\0\5\0\0\0nodes")},
};

static inline struct bytes golden_bytes(const struct golden_frame *g)
{
    return bytes_of(g->wire, g->bytes);
}

static inline struct bytes golden_of(enum dr_type type)
{
    for (size_t i = 0; i < ARRAY_LEN(golden_frames); i++)
        if (golden_frames[i].frame.type == type)
            return golden_bytes(&golden_frames[i]);
    fail_msg("no frame of type %u", (unsigned)type);
    return (struct bytes){0};
}

#endif
