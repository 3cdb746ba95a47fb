/* fault.c - errors armed by name and count, by SIMCUDA_FAIL or cuSimFail. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault {
    bool armed;
    uint64_t at; /* fails when the symbol's call count gets here; 0: always */
    CUresult error;
};
static struct fault faults[SIM_SYMBOL_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

CUresult sim_fault(enum sim_symbol symbol)
{
    CUresult error = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct fault *f = &faults[symbol];
    if (f->armed && (f->at == 0 || f->at == atomic_load(&sim_calls[symbol])))
        error = f->error;
    pthread_mutex_unlock(&lock);
    return error;
}

SIM_EXPORT int cuSimFail(const char *symbol, uint64_t nth, int error)
{
    int i = sim_symbol_find(symbol);
    if (i < 0)
        return -1;
    pthread_mutex_lock(&lock);
    faults[i].armed = error != 0;
    faults[i].at = nth ? atomic_load(&sim_calls[i]) + nth : 0;
    faults[i].error = (CUresult)error;
    pthread_mutex_unlock(&lock);
    if (error)
        atomic_fetch_or(&sim_attention, SIM_ATTEND_FAULTS);
    return 0;
}

/* "name:n=code,name:*=code" */
void sim_fault_read_environment(void)
{
    const char *text = getenv("SIMCUDA_FAIL");
    if (!text || !*text)
        return;
    char *copy = strdup(text), *rest = copy;
    for (char *item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        char name[96], count[32];
        int error;
        if (sscanf(item, " %95[A-Za-z0-9_]:%31[0-9*]=%d", name, count, &error) != 3 ||
            cuSimFail(name, *count == '*' ? 0 : strtoull(count, NULL, 10), error) != 0)
            fprintf(stderr, "simcuda: SIMCUDA_FAIL: \"%s\" is not symbol:count=error\n", item);
    }
    free(copy);
}
