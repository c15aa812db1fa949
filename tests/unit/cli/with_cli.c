#include "cli/with_cli.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char shown[8192], err[8192];

/* Send a stream to a file of its own while a command runs. */
static int divert(FILE *stream, FILE *to)
{
    (void)fflush(stream);
    int kept = dup(fileno(stream));
    assert_true(kept >= 0 && dup2(fileno(to), fileno(stream)) >= 0);
    return kept;
}

static void restore(FILE *stream, int kept, FILE *from, char *text, size_t room)
{
    (void)fflush(stream);
    assert_true(dup2(kept, fileno(stream)) >= 0);
    assert_int_equal(close(kept), 0);
    rewind(from);
    size_t n = fread(text, 1, room - 1, from);
    text[n] = '\0';
    assert_int_equal(fclose(from), 0);
}

int run(const char *command, int argc, const char *const *argv)
{
    char *words[32], *rest = strdup(command), *all = rest;
    int n = 0;
    FILE *o = tmpfile(), *e = tmpfile();
    assert_true(o != NULL && e != NULL && argc <= 24);
    while (rest != NULL)
        words[n++] = strdup(strsep(&rest, " "));
    for (int i = 0; i < argc; i++)
        words[n++] = strdup(argv[i]);
    int kept_out = divert(stdout, o), kept_err = divert(stderr, e);
    int code = cli_main(NULL, 0, n, words);
    restore(stdout, kept_out, o, shown, sizeof shown);
    restore(stderr, kept_err, e, err, sizeof err);
    for (int i = 0; i < n; i++)
        free(words[i]);
    free(all);
    return code;
}
