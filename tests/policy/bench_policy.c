/* bench_policy - what ag_policy_op() costs: observing, following with deferral, and is_dormant. */
#include "policy/policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t seed;
static ag_key random_key(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed | 1;
}

/* Random keys for period 0, else a loop; `steps` puts a sync point behind every period. */
static void bench(const char *name, uint32_t period, bool steps, uint32_t warm, uint32_t n)
{
    struct ag_policy p;
    struct ag_policy_config config;
    struct ag_verdict v;
    ag_key *keys = malloc((size_t)n * sizeof(*keys));
    ag_policy_defaults(&config);
    config.profit = true;
    if (!keys || ag_policy_open(&p, &config, NULL))
        exit(2);
    seed = 88172645463325252ull;
    for (uint32_t i = 0; i < n; i++)
        keys[i] = period ? 1 + i % period : random_key();
    double start = 0;
    for (uint32_t i = 0, place = 0; i < n; i++) {
        if (i == warm)
            start = seconds();
        ag_policy_op(&p, keys[i], (uint64_t)i * 500, &v);
        if (v.done && v.what == AG_DO_RECORD)
            ag_policy_built(v.done, true);
        if (steps && ++place == period) {
            ag_policy_sync_point(&p, (uint64_t)i * 500);
            place = 0;
        }
    }
    double ns = (seconds() - start) * 1e9 / (n - warm);
    printf("%-28s %6.2f ns/op   replayed %5.1f %%   dormant %5.1f %%   %zu KB\n", name, ns,
           100.0 * (double)p.counts.replayed / n, 100.0 * (double)p.counts.dormant / n,
           ag_policy_memory(&p) / 1024);
    ag_policy_close(&p);
    free(keys);
}

int main(void)
{
    bench("random, observing", 0, false, 0, 40000);
    bench("random, with dormant times", 0, false, 2000000, 8000000);
    bench("steps of 20, following", 20, true, 1000, 2000000);
    bench("steps of 1000, following", 1000, true, 10000, 2000000);
    bench("period 109, following", 109, false, 10000, 2000000);
    bench("period 1, following", 1, false, 10000, 2000000);
    return 0;
}
