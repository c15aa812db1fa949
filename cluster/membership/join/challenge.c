#include "cluster/membership/join/challenge.h"

/* The label distinguishes the two messages from each other and from other proofs. */
static enum status add(const char *label, struct bytes a, struct bytes b, struct bytes c,
                       struct buf *out)
{
    buf_add_block(out, bytes_str(label));
    buf_add_block(out, a);
    buf_add_block(out, b);
    buf_add_block(out, c);
    return buf_status(out);
}

enum status challenge_answer(struct bytes challenge, struct bytes name, struct bytes public_key,
                             struct buf *out)
{
    return add("holdfast: join, answer", challenge, name, public_key, out);
}

enum status challenge_accepted(struct bytes challenge, struct bytes certificate, struct bytes ca,
                               struct buf *out)
{
    return add("holdfast: join, accepted", challenge, certificate, ca, out);
}
