/* samples.c - keeps the latest times of a few visits. */
#include "policy/internal.h"

void ag_sample_add(uint32_t *ns, uint32_t *count, uint32_t most, uint64_t sample)
{
    ns[(*count)++ % most] = sample < UINT32_MAX ? (uint32_t)sample : UINT32_MAX;
    if (*count == 2 * most)
        *count = most;
}

uint32_t ag_samples_middle(const uint32_t *ns, uint32_t kept, int off)
{
    uint32_t sorted[AG_TUNE_SAMPLES] = {0};
    for (uint32_t i = 0; i < kept; i++) {
        uint32_t k = i;
        for (; k > 0 && sorted[k - 1] > ns[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = ns[i];
    }
    return sorted[(int)(kept / 2) + off];
}
