/* expect.c - see expect.h. */
#include "capture/core/expect.h"
#include "capture/tracking/count.h"
#include "capture/core/flush.h"
#include "capture/settings/log.h"
#include "capture/tracking/stream.h"
#include "policy/policy.h"

bool ag_unexpected(struct ag_stream *s, const char *what)
{
    static _Atomic bool said;
    ag_count(AG_COUNT_UNEXPECTED);
    if (!atomic_exchange(&said, true))
        ag_say("a mistake of this library's, please report it: \"%s\" does not hold. The stream is "
               "submitted eagerly from here on.",
               what);
    atomic_store(&s->not_understood, true);
    ag_policy_break(&s->policy);
    if (s->num_deferred > s->num_recorded)
        s->num_deferred = s->num_recorded;
    if (s->num_deferred)
        ag_flush(s, s->num_deferred);
    s->num_recorded = s->num_bytes = 0;
    return false;
}
