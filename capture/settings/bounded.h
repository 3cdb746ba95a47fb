/* bounded.h - writes of the library that a limit on the size of files (RLIMIT_FSIZE) refuses, and
 * that must not end the program. */
#ifndef AG_BOUNDED_H
#define AG_BOUNDED_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct ag_bounded {
    sigset_t signal, before;
    bool pending; /* one of the program's, which stays */
};

/* Until the end below, a write beyond the limit fails with EFBIG in this thread and does no more.
 */
static inline void ag_bounded_begin(struct ag_bounded *b)
{
    sigset_t pending;
    sigemptyset(&b->signal);
    sigaddset(&b->signal, SIGXFSZ);
    b->pending = !sigpending(&pending) && sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &b->signal, &b->before);
}

/* `failed`: the write did, and errno says why. */
static inline void ag_bounded_end(const struct ag_bounded *b, bool failed)
{
    const struct timespec none = {0, 0};
    int why = errno;
    if (failed && why == EFBIG && !b->pending)
        sigtimedwait(&b->signal, NULL, &none);
    pthread_sigmask(SIG_SETMASK, &b->before, NULL);
    errno = why;
}

#endif
