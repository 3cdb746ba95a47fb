/* state.h - the process-wide switches that every hook looks at first. */
#ifndef AG_STATE_H
#define AG_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ag_state {
    /* 0: hooks work. Else every hook passes through: off, a fork's child, the end of the process,
     * or the program captures. One word, so that the hot path has one test. */
    _Atomic uint32_t bypass;
    _Atomic uint32_t captures;     /* of the program, active now */
    _Atomic uint32_t observe_only; /* watch, but submit everything at once */
};

enum {
    AG_BYPASS_OFF = 1,     /* AUTOGRAPH=0, or not started */
    AG_BYPASS_FORKED = 2,  /* a fork's child */
    AG_BYPASS_END = 4,     /* the process ends */
    AG_BYPASS_CAPTURE = 8, /* a capture of the program's is active */
    AG_BYPASS_DEAD = 16,   /* a context is beyond repair, until it is destroyed */
};

extern struct ag_state ag_state;

/* A context has been destroyed: with it goes what was wrong with it. */
void ag_state_context_destroyed(void);

#endif
