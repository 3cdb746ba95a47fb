/*
 * cases_pauses.c - cases of cases.c in which the host is slow, or pauses. Some count what the
 * library does meanwhile.
 */
#include "tests/command/cases.h"
#include <dirent.h>
#include <stdbool.h>

/* N steps of 60 launches, 3 us apart, some of which change: a host far slower than the GPU. */
int slow_host(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        for (uint64_t k = 1; k <= 3 * STEP; k++) {
            struct timespec now, before;
            clock_gettime(CLOCK_MONOTONIC, &before);
            do
                clock_gettime(CLOCK_MONOTONIC, &now);
            while ((now.tv_sec - before.tv_sec) * 1000000000 + now.tv_nsec - before.tv_nsec < 3000);
            uint64_t argument = k % 7 ? k : (uint64_t)i;
            CHECK(cuLaunchKernel(hash, (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                                 (void *[]){&data, &argument}, NULL));
        }
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

static void works(double seconds)
{
    for (double until = ag_prog_seconds() + seconds; ag_prog_seconds() < until;)
        ;
}

/* 50 steps of 32 launches, 20 us apart; a pause within a step; then N more steps. */
int pauses_once(int n)
{
    int pauses = 0;
    start();
    for (int i = 0; i < 50 + n; i++) {
        double last = ag_prog_seconds();
        for (uint64_t k = 1; k <= 32; k++) {
            double now = ag_prog_seconds(), until = now + 20e-6;
            pauses += now - last > 160e-6;
            last = now;
            CHECK(cuLaunchKernel(hash, (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                                 (void *[]){&data, &k}, NULL));
            while (ag_prog_seconds() < until)
                ;
            if (i == 50 && k == 16)
                works(60e-3);
        }
        pauses += ag_prog_seconds() - last > 160e-6;
        CHECK(cuStreamSynchronize(stream));
    }
    printf("MEASURED %d pauses of eight ops or more\n", pauses);
    return print_value();
}

/* How often the threads of this name have given their processor up to wait. */
static long waits_of(const char *name)
{
    char path[300], line[200];
    long waits = 0, n;
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
        FILE *status = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        bool named = false;
        while (status && fgets(line, sizeof(line), status)) {
            named = named || (!strncmp(line, "Name:", 5) && strstr(line, name));
            if (named && sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1)
                waits += n;
        }
        if (status)
            fclose(status);
    }
    closedir(tasks);
    return waits;
}

/* Steps of 16 launches, this far apart. N of them have a pause, each tenth. Says how often the
 * watchdog looked, in per cent of so many times a second. */
static int host_pauses(int n, double apart, bool sleeps, double most)
{
    struct timespec pause = {.tv_nsec = 2000000};
    start();
    double began = ag_prog_seconds();
    for (int i = 0; i < 10 * n; i++) {
        for (uint64_t k = 1; k <= 16; k++) {
            double until = ag_prog_seconds() + apart;
            CHECK(cuLaunchKernel(hash, (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                                 (void *[]){&data, &k}, NULL));
            while (ag_prog_seconds() < until)
                ;
            if (i % 10 == 9 && k == 1 + (uint64_t)i / 10 % 15) {
                if (sleeps)
                    nanosleep(&pause, NULL);
                else
                    works(2e-3);
            }
        }
        CHECK(cuStreamSynchronize(stream));
    }
    most *= ag_prog_seconds() - began;
    printf("MEASURED %.0f %% of the most looks\n",
           100 * (double)waits_of("autograph-watch") / most);
    return print_value();
}

/* Slow looks come each 250 us; eight ops take 640. */
int slow_host_pauses(int n)
{
    return host_pauses(n, 80e-6, false, 5e3);
}

/* Fast looks come each 20 us, or in the time of four ops. */
int fast_host_pauses(int n)
{
    return host_pauses(n, 20e-6, false, 20e3);
}

/* Looks stay slow for a thread that sees nothing meanwhile. */
int fast_host_sleeps(int n)
{
    return host_pauses(n, 20e-6, true, 5e3);
}

/* N steps of ten launches, 35 ms apart. */
int slow_fill(int n)
{
    const struct timespec apart = {.tv_nsec = 35000000};
    start();
    for (int i = 0; i < n; i++) {
        for (uint64_t k = 1; k <= 10; k++) {
            CHECK(cuLaunchKernel(hash, (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                                 (void *[]){&data, &k}, NULL));
            nanosleep(&apart, NULL);
        }
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* For a second from the first such call on the program launches nothing, or from `first` seconds
 * later where none comes. Prints how often the call was made. */
static void counts_calls(const char *name, double first)
{
    struct timespec pause = {.tv_nsec = 10000000};
    uint64_t before = cuSimCallCount(name);
    double began = ag_prog_seconds();
    while (cuSimCallCount(name) == before && ag_prog_seconds() < began + first)
        nanosleep(&pause, NULL);
    began = ag_prog_seconds();
    while (ag_prog_seconds() < began + 1)
        nanosleep(&pause, NULL);
    printf("MEASURED %d calls in %d ms\n", (int)(cuSimCallCount(name) - before),
           (int)((ag_prog_seconds() - began) * 1000));
}

/* Graphs are built, and an attribute of their kernel changes, so that all are dropped. */
int drops(int n)
{
    start();
    for (int i = 0; i < n && cuSimCallCount("cuGraphInstantiateWithFlags") < STEP; i++)
        steps(1);
    CHECK(cuFuncSetAttribute(hash, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    counts_calls("cuGraphExecDestroy", cuSimCallCount("cuGraphInstantiateWithFlags") ? 60 : 0);
    return 0; /* how many steps it took hangs on the library */
}
