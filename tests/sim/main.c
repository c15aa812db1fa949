#include "selftest.h"

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("%u passed, 0 failed\n", selftest_core() + selftest_fs() + selftest_lin());
}
