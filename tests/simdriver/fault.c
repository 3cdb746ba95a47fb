/* fault.c - errors armed by name and count, by SIMCUDA_FAIL or cuSimFail. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault {
    uint64_t first, last; /* calls of the symbol that fail, counted from its first one ever */
    CUresult error;       /* success: not armed */
};
static struct fault faults[SIM_SYMBOL_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool spared;

SIM_EXPORT void cuSimSpare(int on)
{
    spared = on;
}

CUresult sim_fault(enum sim_symbol symbol)
{
    CUresult error = CUDA_SUCCESS;
    if (spared)
        return error;
    pthread_mutex_lock(&lock);
    struct fault *f = &faults[symbol];
    uint64_t call = atomic_load(&sim_calls[symbol]);
    if (call >= f->first && call <= f->last)
        error = f->error;
    pthread_mutex_unlock(&lock);
    return error;
}

/* From the `first` to the `last` call from now on. */
static int arm(const char *symbol, uint64_t first, uint64_t last, int error)
{
    int i = sim_symbol_find(symbol);
    if (i < 0)
        return -1;
    pthread_mutex_lock(&lock);
    uint64_t before = atomic_load(&sim_calls[i]);
    faults[i].first = before + first;
    faults[i].last = last == UINT64_MAX ? last : before + last;
    faults[i].error = (CUresult)error;
    pthread_mutex_unlock(&lock);
    if (error)
        atomic_fetch_or(&sim_attention, SIM_ATTEND_FAULTS);
    return 0;
}

SIM_EXPORT int cuSimFail(const char *symbol, uint64_t nth, int error)
{
    return nth ? arm(symbol, nth, nth, error) : arm(symbol, 1, UINT64_MAX, error);
}

/* "n", "n-m" or "*"; false for anything else. */
static bool read_count(const char *text, uint64_t *first, uint64_t *last)
{
    char *end;
    *first = 1;
    *last = UINT64_MAX;
    if (!strcmp(text, "*"))
        return true;
    *first = *last = strtoull(text, &end, 10);
    if (*end == '-')
        *last = strtoull(end + 1, &end, 10);
    return *first && *last >= *first && !*end;
}

/* "name:n=code,name:n-m=code,name:*=code" */
void sim_fault_read_environment(void)
{
    const char *text = getenv("SIMCUDA_FAIL");
    if (!text || !*text)
        return;
    char *copy = strdup(text), *rest = copy;
    for (char *item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        char name[96], count[32];
        uint64_t first, last;
        int error;
        if (sscanf(item, " %95[A-Za-z0-9_]:%31[0-9*-]=%d", name, count, &error) != 3 ||
            !read_count(count, &first, &last) || arm(name, first, last, error) != 0)
            fprintf(stderr, "simcuda: SIMCUDA_FAIL: \"%s\" is not symbol:count=error\n", item);
    }
    free(copy);
}
