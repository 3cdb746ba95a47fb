/* bounded.h - writes of the library that the system may refuse by a signal, which must not end or
 * stop the program: beyond the limit on the size of files (RLIMIT_FSIZE), to a pipe that nobody
 * reads any more, to the terminal from the background. */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct ag_bounded {
    sigset_t before;
    sigset_t pending; /* the program's, which stay */
};

/* Until the end below, a write that is refused fails with EFBIG or EPIPE in this thread and does no
 * more. */
static inline void ag_bounded_begin(struct ag_bounded *b)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGXFSZ);
    sigaddset(&signals, SIGPIPE);
    sigaddset(&signals, SIGTTOU); /* while it is blocked the terminal takes the line */
    sigemptyset(&b->pending);
    sigpending(&b->pending);
    pthread_sigmask(SIG_BLOCK, &signals, &b->before);
}

/* `failed`: the write did, and errno says why. */
static inline void ag_bounded_end(const struct ag_bounded *b, bool failed)
{
    const struct timespec none = {0, 0};
    int why = errno, came = !failed ? 0 : why == EFBIG ? SIGXFSZ : why == EPIPE ? SIGPIPE : 0;
    if (came && sigismember(&b->pending, came) != 1) {
        sigset_t signal;
        sigemptyset(&signal);
        sigaddset(&signal, came);
        sigtimedwait(&signal, NULL, &none);
    }
    pthread_sigmask(SIG_SETMASK, &b->before, NULL);
    errno = why;
}
