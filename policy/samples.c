/* samples.c - the times of a few visits, of which the latest are kept, and what they say. */
#include "policy/internal.h"

void ag_sample_add(uint64_t *ns, uint32_t *count, uint32_t kept, uint64_t sample)
{
    ns[(*count)++ % kept] = sample;
    if (*count == 2 * kept)
        *count = kept;
}

/* The median of `kept` samples, or the one `off` places behind it in their order. */
uint64_t ag_samples_middle(const uint64_t *ns, uint32_t kept, int off)
{
    uint64_t sorted[AG_TUNE_SAMPLES] = {0};
    for (uint32_t i = 0; i < kept; i++) {
        uint32_t k = i;
        for (; k > 0 && sorted[k - 1] > ns[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = ns[i];
    }
    return sorted[(int)(kept / 2) + off];
}

/* A median and its neighbour on the wrong side: so that a preempted thread, a slow sync or two of
 * them do not decide. */
bool ag_samples_beat(const uint64_t *a, const uint64_t *b, uint32_t kept, int percent)
{
    return ag_samples_middle(a, kept, 1) * 100 < ag_samples_middle(b, kept, -1) * (uint64_t)percent;
}
