/* stopped.c - preloaded: the program's clock stands still, at another time than the machine's, as
 * libfaketime makes it stand where it is told an absolute time. */
#include <time.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = 1230106542};
    return 0;
}
