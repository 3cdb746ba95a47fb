/* submit.c - see submit.h. */
#include "policy/submit.h"

void ag_submit_woken(struct ag_submit_pace *p, uint64_t now)
{
    p->woken = now;
    p->nap = AG_SUBMIT_NAP_NS;
}

uint64_t ag_submit_until(const struct ag_submit_pace *p, bool last_comes)
{
    uint64_t since = ag_submit_since(p);
    if (last_comes)
        return since + AG_SUBMIT_BUSY_NS;
    return p->apart < AG_SUBMIT_SPIN_NS ? since + AG_SUBMIT_SPIN_NS : since;
}

void ag_submit_found(struct ag_submit_pace *p, uint32_t work, uint64_t now)
{
    uint64_t ns = (now - p->last) * AG_WORK_OF_CHUNK / (work - p->work);
    uint64_t most = 2ull * AG_SUBMIT_SPIN_NS;
    p->apart = (p->apart * 7 + (ns < most ? ns : most)) / 8;
    p->work = work;
    p->last = now;
    p->nap = AG_SUBMIT_NAP_NS;
}

void ag_submit_napped(struct ag_submit_pace *p, uint64_t now)
{
    if (now - ag_submit_since(p) > AG_SUBMIT_BUSY_NS)
        p->nap += p->nap / 2;
}
