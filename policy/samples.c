/* samples.c - keeps the latest times of a few visits, and compares them. */
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

/* How many places the median may be off by chance: one place of 7 or 15 samples, three of 47. This
 * grows with the square root, or a little faster. */
static int doubt(uint32_t kept)
{
    return kept < 32 ? 1 : (int)(kept + 1) / 16;
}

/* Compares a neighbour of each median, on the unfavourable side, so that a preempted thread, a slow
 * sync or two of them do not decide. */
bool ag_samples_beat(const uint32_t *a, uint32_t kept_a, const uint32_t *b, uint32_t kept_b,
                     int percent)
{
    return (uint64_t)ag_samples_middle(a, kept_a, doubt(kept_a)) * 100 <
           (uint64_t)ag_samples_middle(b, kept_b, -doubt(kept_b)) * (uint64_t)percent;
}

bool ag_samples_cannot_beat(const uint32_t *a, uint32_t taken, const uint32_t *b, uint32_t kept,
                            int percent)
{
    uint64_t bound = (uint64_t)ag_samples_middle(b, kept, -doubt(kept)) * (uint64_t)percent;
    uint32_t slow = 0;
    for (uint32_t i = 0; i < taken; i++)
        slow += (uint64_t)a[i] * 100 >= bound;
    return slow >= kept - kept / 2 - (uint32_t)doubt(kept);
}
