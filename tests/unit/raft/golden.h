/* Golden files: bytes of a format as first released. They never change; a format that must differ
 * gets another number and another file. HOLDFAST_GOLDEN=write makes missing ones. */
#ifndef HOLDFAST_TESTS_UNIT_RAFT_GOLDEN_H
#define HOLDFAST_TESTS_UNIT_RAFT_GOLDEN_H

#include "support.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef GOLDEN_FOLDER
#define GOLDEN_FOLDER "raft"
#endif

/* Appends the file's content. */
static inline void golden_read(const char *name, struct buf *out)
{
    char path[512];
    assert_true(snprintf(path, sizeof path, "%s/" GOLDEN_FOLDER "/golden/%s", UNIT_DIR, name) <
                (int)sizeof path);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("no golden file %s", path);
    for (int c = fgetc(file); c != EOF; c = fgetc(file))
        buf_add_u8(out, (uint8_t)c);
    assert_int_equal(fclose(file), 0);
}

/* Only when asked to by the environment, and never over an existing one. */
static inline void golden_make(const char *name, struct bytes content)
{
    char path[512];
    const char *mode = getenv("HOLDFAST_GOLDEN");
    if (mode == NULL || strcmp(mode, "write") != 0)
        return;
    assert_true(snprintf(path, sizeof path, "%s/" GOLDEN_FOLDER "/golden/%s", UNIT_DIR, name) <
                (int)sizeof path);
    FILE *file = fopen(path, "wbx");
    if (file != NULL) {
        assert_int_equal(fwrite(content.data, 1, content.len, file), content.len);
        assert_int_equal(fclose(file), 0);
    }
}

static inline void assert_golden(const char *name, struct bytes have)
{
    struct buf want = {0};
    golden_make(name, have);
    golden_read(name, &want);
    assert_bytes(have, buf_bytes(&want));
    buf_done(&want);
}

#endif
