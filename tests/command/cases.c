/*
 * cases.c - programs for the tests of the library as a user sees it; `cases NAME [N]`.
 *
 * Each prints what a program can see of its own work, so that a run with the library can be
 * compared with one without. None of them knows of the library, but for `hooks`, `threads` and
 * `wakes`, which tell what is there.
 */
#define _GNU_SOURCE
#include "tests/command/cases.h"
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

CUmodule module;
CUfunction hash;
CUstream stream;
CUdeviceptr data;

void start(void)
{
    ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    data = ag_prog_alloc(4096);
    CHECK(cuCtxSynchronize()); /* the fill is the legacy stream's, which orders nothing here */
}

/* Launches that look unlike each other, so that a step has no period of its own. */
void launch(unsigned int grid, uint64_t k)
{
    CHECK(cuLaunchKernel(hash, grid + (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                         (void *[]){&data, &k}, NULL));
}

void step(unsigned int grid)
{
    for (uint64_t k = 1; k <= STEP; k++)
        launch(grid, k);
}

void steps(int n)
{
    for (int i = 0; i < n; i++) {
        step(0);
        CHECK(cuStreamSynchronize(stream));
    }
}

int print_value(void)
{
    CHECK(cuStreamSynchronize(stream));
    printf("value %llu\n", (unsigned long long)ag_prog_read64(data));
    return 0;
}

/* N steps, a sync after each. */
static int repeat(int n)
{
    start();
    steps(n);
    return print_value();
}

/* In each of N steps one op lies between two that are others each time, of few kinds: the stream
 * joins its sequence there, and the chunk has that op alone. */
static int between(int n)
{
    uint64_t random = 1;
    start();
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            step(1);
            launch(100, random >> 59);
            launch(200, 1);
        }
        launch(100, random >> 50 & 31);
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* N phases of steps that look unlike each other, one after the other. */
static int phases(int n)
{
    start();
    for (int phase = 1; phase <= n; phase++)
        for (int i = 0; i < 8; i++) {
            step((unsigned int)phase * STEP);
            CHECK(cuStreamSynchronize(stream));
        }
    return print_value();
}

/* N steps with arguments that never were, and N more with the same three sets of them in turn. */
static int turns(int n)
{
    start();
    for (int i = 0; i < 2 * n; i++) {
        for (uint64_t k = 1; k <= STEP; k++) {
            uint64_t value = k + 1000 * (uint64_t)(i < n ? i + 10 : i % 3);
            CHECK(cuLaunchKernel(hash, (unsigned int)k, 1, 1, 1, 1, 1, 0, stream,
                                 (void *[]){&data, &value}, NULL));
        }
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

/* The program asks for an export table in the middle of a step. */
static int table(int n)
{
    static const CUuuid unknown = {
        .bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
    const void *answer = NULL;
    start();
    steps(n);
    step(0);
    CUresult r = cuGetExportTable(&answer, &unknown);
    printf("table: %d, %s\n", (int)r, answer ? "there" : "not there");
    steps(n);
    return print_value();
}

/* Copies from and to memory that can move under a graph's feet. */
static int memory(int n)
{
    CUdeviceptr managed;
    start();
    CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    for (int i = 0; i < n; i++) {
        CHECK(cuMemcpyDtoDAsync_v2(managed, data, 4096, stream));
        step(0);
        CHECK(cuMemcpyDtoDAsync_v2(data, managed, 4096, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    step(0);
    return print_value();
}

/* Leaves without running what was registered for the end. */
static int leaves(int n)
{
    start();
    steps(n);
    print_value();
    fflush(stdout);
    usleep(200000); /* so long that whoever looks at it now and then does */
    steps(1);
    _exit(3);
}

/* Before anybody has looked at it, as a rule. */
static int leaves_at_once(int n)
{
    start();
    steps(n);
    _exit(3);
}

/* Launches to the per-thread default stream. */
static int per_thread(int n)
{
    start();
    stream = CU_STREAM_PER_THREAD;
    steps(n);
    return print_value();
}

/* Known steps on one stream, broken off at every place by a launch to another that is ordered
 * behind it, or before it, by nothing but the rules of the legacy stream. */
static void break_steps(CUstream broken, CUstream other, int n)
{
    stream = broken;
    steps(n);
    for (uint64_t place = 1; place < STEP; place++) {
        for (uint64_t k = 1; k <= STEP; k++) {
            launch(0, k);
            if (k == place) {
                stream = other;
                launch(100, place);
                stream = broken;
            }
        }
        CHECK(cuCtxSynchronize());
        steps(3);
    }
}

static int legacy(int n)
{
    CUstream blocking;
    start();
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    break_steps(blocking, NULL, n);
    print_value();
    break_steps(NULL, blocking, n);
    return print_value();
}

/* N steps of 60 launches, 3 us apart, some of which change: a host far slower than the GPU. */
static int slow_host(int n)
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
static int pauses_once(int n)
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
static int drops(int n)
{
    start();
    for (int i = 0; i < n && cuSimCallCount("cuGraphInstantiateWithFlags") < STEP; i++)
        steps(1);
    CHECK(cuFuncSetAttribute(hash, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    counts_calls("cuGraphExecDestroy", cuSimCallCount("cuGraphInstantiateWithFlags") ? 60 : 0);
    return 0; /* how many steps it took hangs on the library */
}

/* Sixty kinds of steps in turn, N times each. */
static int sixty_kinds(int n)
{
    start();
    for (int i = 0; i < 60 * n; i++) {
        step((unsigned int)(i % 60) * STEP);
        CHECK(cuStreamSynchronize(stream));
    }
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
static int slow_host_pauses(int n)
{
    return host_pauses(n, 80e-6, false, 5e3);
}

/* Fast looks come each 20 us, or in the time of four ops. */
static int fast_host_pauses(int n)
{
    return host_pauses(n, 20e-6, false, 20e3);
}

/* Looks stay slow for a thread that sees nothing meanwhile. */
static int fast_host_sleeps(int n)
{
    return host_pauses(n, 20e-6, true, 5e3);
}

/* N steps of ten launches, 35 ms apart. */
static int slow_fill(int n)
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

/* Launches that the driver refuses in the call itself. */
static int refused(int n)
{
    start();
    steps(n);
    for (int i = 0; i < 3; i++) {
        step(0);
        printf("no arguments: %d\n",
               (int)cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
        printf("no grid: %d\n", (int)cuLaunchKernel(hash, 0, 1, 1, 1, 1, 1, 0, stream,
                                                    (void *[]){&data, &data}, NULL));
        CHECK(cuStreamSynchronize(stream));
    }
    return print_value();
}

static size_t free_memory(void)
{
    size_t bytes, total;
    CHECK(cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

enum { MIB = 1 << 20 };

/* How one asks for a MiB of device memory. */
static CUresult by_alloc(CUdeviceptr *p)
{
    return cuMemAlloc_v2(p, MIB);
}

static CUresult by_pitch(CUdeviceptr *p)
{
    size_t pitch;
    return cuMemAllocPitch_v2(p, &pitch, 1024, 1024, 4);
}

static CUresult managed(CUdeviceptr *p)
{
    return cuMemAllocManaged(p, MIB, CU_MEM_ATTACH_GLOBAL);
}

static CUresult in_stream(CUdeviceptr *p)
{
    return cuMemAllocAsync(p, MIB, stream);
}

static CUresult from_pool(CUdeviceptr *p)
{
    CUmemoryPool pool;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    return cuMemAllocFromPoolAsync(p, MIB, pool, stream);
}

/* A program that has left itself one MiB, and asks for it when its launches have repeated N times;
 * and again, by every way. */
static int last_mib(int n)
{
    static CUresult (*const ways[])(CUdeviceptr *) = {by_alloc, by_pitch, managed, in_stream,
                                                      from_pool};
    CUdeviceptr rest;
    start();
    CHECK(cuMemAlloc_v2(&rest, free_memory() - MIB));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        CUdeviceptr mib = 0, more = 1;
        steps(n);
        printf("way %zu: %d", i, (int)ways[i](&mib));
        printf(", and more: %d, %d\n", (int)ways[i](&more), (int)more);
        step(0);
        CHECK(cuCtxSynchronize());
        CHECK(cuMemFree_v2(mib));
    }
    steps(n);
    return print_value();
}

/* It takes what there is until there is no more, in ever smaller pieces; then gives all back. */
static int all_memory(int n)
{
    enum { MOST = 1000 };
    static CUdeviceptr pieces[MOST];
    size_t had = 0, count = 0;
    start();
    steps(n);
    for (size_t bytes = MIB; bytes >= 512; bytes /= 2)
        while (count < MOST && cuMemAlloc_v2(&pieces[count], bytes) == CUDA_SUCCESS) {
            had += bytes;
            count++;
        }
    printf("%zu bytes in %zu pieces\n", had, count);
    steps(2);
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemFree_v2(pieces[i]));
    steps(n);
    return print_value();
}

/* It takes 98 of 100 bytes that are free, in one piece, now and then. */
static int most_memory(int n)
{
    CUdeviceptr most;
    start();
    size_t bytes = free_memory() / 100 * 98;
    for (int i = 0; i < 5; i++) {
        CHECK(cuMemAlloc_v2(&most, i % 2 ? bytes : free_memory() / 100 * 98));
        steps(n);
        CHECK(cuMemFree_v2(most));
        steps(n);
    }
    return print_value();
}

/* As the first, while a host function waits for the program. */
static int last_mib_and_wait(int n)
{
    CUdeviceptr rest, mib = 1;
    start();
    uint32_t *flag = new_word();
    CHECK(cuMemAlloc_v2(&rest, free_memory() - MIB));
    steps(n);
    CHECK(cuLaunchHostFunc(stream, wait_in_function, flag));
    printf("waiting: %d\n", (int)cuMemAlloc_v2(&mib, MIB));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(stream));
    printf("not waiting: %d\n", (int)cuMemAlloc_v2(&mib, MIB));
    return print_value();
}

enum { ASKERS = 4 };

/* Steps of its own, between which it asks for more memory than there is. */
static void *ask_for_too_much(void *steps_wanted)
{
    CUstream own;
    CUdeviceptr p, x;
    static pthread_mutex_t one_by_one = PTHREAD_MUTEX_INITIALIZER;
    ag_prog_start();
    pthread_mutex_lock(&one_by_one); /* the fill is the legacy stream's */
    x = ag_prog_alloc(64);
    CHECK(cuCtxSynchronize());
    pthread_mutex_unlock(&one_by_one);
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < *(int *)steps_wanted; i++) {
        for (uint64_t k = 1; k <= STEP; k++)
            CHECK(cuLaunchKernel(hash, (unsigned int)k, 1, 1, 1, 1, 1, 0, own, (void *[]){&x, &k},
                                 NULL));
        if (i % 8 == 7)
            EXPECT(cuMemAlloc_v2(&p, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
        CHECK(cuStreamSynchronize(own));
    }
    CHECK(cuStreamDestroy_v2(own));
    uint64_t *value = malloc(sizeof *value);
    CHECK(cuMemcpyDtoH_v2(value, x, sizeof *value));
    return value;
}

/* Threads that launch and run out of memory, each for itself, N steps long. */
static int too_much(int n)
{
    pthread_t threads[ASKERS];
    void *value;
    start();
    for (int i = 0; i < ASKERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, ask_for_too_much, &n) == 0);
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(threads[i], &value);
        printf("thread %d: %llu\n", i, (unsigned long long)*(uint64_t *)value);
        free(value);
    }
    return 0;
}

/* Each call is refused once for lack of memory, when launches have repeated N times. */
static void without_memory(const char *call, int n)
{
    steps(n);
    REQUIRE(cuSimFail(call, 1, CUDA_ERROR_OUT_OF_MEMORY) == 0);
}

/* What is short is memory of the host: the program goes on with pageable memory. */
static int pinned_memory(int n)
{
    void *pinned;
    start();
    for (int i = 0; i < 3; i++) {
        without_memory("cuMemHostAlloc", n);
        printf("host alloc %d, ", (int)cuMemHostAlloc(&pinned, 4096, 0));
        without_memory("cuMemAllocHost_v2", n);
        printf("alloc host %d, ", (int)cuMemAllocHost_v2(&pinned, 4096));
        without_memory("cuMemHostRegister_v2", n);
        printf("register %d\n", (int)cuMemHostRegister_v2(&pinned, sizeof pinned, 0));
    }
    CHECK(cuStreamSynchronize(stream));
    return 0;
}

static int refused_once(int n)
{
    CUmodule other = NULL;
    CUlibrary library = NULL;
    CUfunction f = NULL;
    CUkernel k = NULL;
    CUstream s = NULL;
    CUgraph graph;
    CUgraphExec exec = NULL;
    uint64_t one = 1;
    start();
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    without_memory("cuModuleLoadData", n);
    printf("module %d, ", (int)cuModuleLoadData(&other, SIMCUDA_IMAGE_MAGIC));
    without_memory("cuModuleGetFunction", n);
    printf("function %d, ", (int)cuModuleGetFunction(&f, module, "add"));
    without_memory("cuLibraryGetKernel", n);
    printf("kernel %d, ", (int)cuLibraryGetKernel(&k, library, "add"));
    without_memory("cuStreamCreate", n);
    printf("stream %d, ", (int)cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    without_memory("cuGraphInstantiateWithFlags", n);
    printf("graph %d, ", (int)cuGraphInstantiateWithFlags(&exec, graph, 0));
    without_memory("cuLaunchKernel", n);
    printf("launch %d\n",
           (int)cuLaunchKernel(hash, 999, 1, 1, 1, 1, 1, 0, stream, (void *[]){&data, &one}, NULL));
    CHECK(cuStreamSynchronize(stream));
    return 0;
}

static const char *file_of(void *address)
{
    Dl_info info;
    const char *slash = dladdr(address, &info) ? strrchr(info.dli_fname, '/') : NULL;
    return slash ? slash + 1 : "nowhere";
}

/* Which library answers a look-up, by dlsym and by the driver's getter. */
static int hooks(int n)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW), *got = NULL;
    void *found = handle ? dlsym(handle, "cuLaunchKernel") : NULL;
    __typeof__(&cuGetProcAddress_v2) getter =
        handle ? (__typeof__(getter))dlsym(handle, "cuGetProcAddress_v2") : NULL;
    (void)n;
    if (!found || !getter || getter("cuLaunchKernel", &got, 12000, 0, NULL) != CUDA_SUCCESS)
        return 1;
    printf("dlsym %s, getter %s, getter's answer %s\n", file_of(found), file_of(*(void **)&getter),
           file_of(got));
    return 0;
}

/* The next thread of the library's among `tasks`, its name in `name`; NULL behind the last. */
static const char *next_thread(DIR *tasks, char name[32])
{
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *comm = fopen(path, "r");
        bool found = comm && fgets(name, 32, comm) && !strncmp(name, "autograph", 9);
        if (comm)
            fclose(comm);
        if (found)
            return task->d_name;
    }
    return NULL;
}

/* After N steps, the names of the threads that are not the program's. */
static int threads(int n)
{
    char name[32];
    start();
    steps(n);
    DIR *tasks = opendir("/proc/self/task");
    while (next_thread(tasks, name))
        printf("%s", name);
    if (tasks)
        closedir(tasks);
    return print_value();
}

/* How often the thread that builds has gone to sleep; -1: there is none. */
static long builder_sleeps(void)
{
    char name[32], path[300], line[80];
    long sleeps = -1;
    DIR *tasks = opendir("/proc/self/task");
    for (const char *id; (id = next_thread(tasks, name));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", id);
        FILE *status = strcmp(name, "autograph-build\n") ? NULL : fopen(path, "r");
        while (status && fgets(line, sizeof line, status))
            sscanf(line, "voluntary_ctxt_switches: %ld", &sleeps);
        if (status)
            fclose(status);
    }
    if (tasks)
        closedir(tasks);
    return sleeps;
}

static void CUDA_CB do_nothing(void *unused)
{
    (void)unused;
}

/* After 300 steps, N host functions, one after the other. */
static int wakes(int n)
{
    start();
    steps(300);
    long before = builder_sleeps();
    for (int i = 0; i < n; i++) {
        CHECK(cuLaunchHostFunc(stream, do_nothing, NULL));
        CHECK(cuStreamSynchronize(stream));
        usleep(50); /* for the thread to sleep again */
    }
    printf("builder's sleeps %ld and %ld more\n", before, builder_sleeps() - before);
    return print_value();
}

/* A library named as one of the driver's package takes N frames out of the program's stream. */
static int encode(int n)
{
    CUresult (*take)(CUdeviceptr, uint64_t *, CUstream);
    void *library = dlopen("libnvidia-encode.so.1", RTLD_NOW);
    REQUIRE(library);
    *(void **)&take = dlsym(library, "ag_test_encode");
    start();
    for (int i = 0; i < n; i++) {
        uint64_t frame;
        step(0);
        CHECK(take(data, &frame, stream));
        printf("frame %llu\n", (unsigned long long)frame);
    }
    return print_value();
}

static int constructor(int n)
{
    (void)n;
    REQUIRE(dlopen("libcommand_constructor.so", RTLD_NOW));
    return 0;
}

/* Captures that begin by an entry point of a newer driver, behind N steps of what they capture: by
 * one that the library knows, and by one that nobody knows. */
static int newer_capture(int n)
{
    CUresult (*begin)(CUstream, CUstreamCaptureMode, CUgraph, void *, void *);
    CUresult (*unknown)(CUstream);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUgraph graph;
    size_t nodes;
    start();
    *(void **)&begin = dlsym(driver, "cuStreamBeginRecaptureToGraph");
    *(void **)&unknown = dlsym(driver, "cuFutureBeginCapture");
    steps(n);
    for (int i = 0; i < 6; i++) {
        CHECK(i % 2 ? unknown(stream)
                    : begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, NULL, NULL, NULL));
        step(0);
        usleep(2000); /* for who would submit them too late */
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphGetNodes(graph, NULL, &nodes));
        printf("%zu nodes\n", nodes);
        CHECK(cuGraphDestroy(graph));
        steps(n);
    }
    EXPECT(begin(stream, (CUstreamCaptureMode)77, (CUgraph)8, NULL, NULL),
           CUDA_ERROR_INVALID_VALUE);
    steps(n);
    return print_value();
}

static void CUDA_CB heard(void *word, CUlogLevel level, char *message, size_t length)
{
    (void)level;
    printf("%s%.*s\n", (const char *)word, (int)length, message);
}

/* N steps of a program that has itself told of failed calls: kernels by either kind of handle, one
 * without parameters to spare, arguments that change, copies from host memory; then calls that
 * fail. */
static int error_log(int n)
{
    CUlogsCallbackHandle handle;
    char word[] = "heard ";
    CUlibrary library;
    CUdeviceptr other;
    uint64_t host = 1;
    CUevent event;
    CUgraph graph;
    CHECK(cuLogsRegisterCallback(heard, word, &handle));
    start();
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuMemAlloc_v2(&other, 8));
    for (int i = 0; i < n; i++) {
        step(0);
        CHECK(ag_prog_hash(hash, stream, data, (uint64_t)i));
        if (i == n / 2)
            hash = ag_prog_kernel(library, "hash");
        CHECK(cuMemcpyAsync(other, (CUdeviceptr)(uintptr_t)&host, 8, stream));
        CHECK(cuMemcpyAsync(other, data, 8, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    EXPECT(cuMemAlloc_v2(&other, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    EXPECT(cuStreamDestroy_v2((CUstream)event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuStreamEndCapture((CUstream)event, &graph), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuCtxSetLimit((CUlimit)77, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
    EXPECT(cuDevicePrimaryCtxRelease_v2(77), CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuLogsUnregisterCallback(handle));
    EXPECT(cuMemAlloc_v2(&other, 0), CUDA_ERROR_INVALID_VALUE);
    return print_value();
}

/* N steps, each of which sets what its context has already: a stack that the driver rounds, a
 * preference, and a size of banks that the driver does not keep. In the last of them there is
 * another stack. */
static int settings(int n)
{
    size_t stack;
    CUfunc_cache cache;
    start();
    for (int i = 0; i < n; i++) {
        CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, i < n - 1 ? 1000 : 2000));
        CHECK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_SHARED));
        CHECK(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
        step(0);
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
    CHECK(cuCtxGetCacheConfig(&cache));
    printf("stack %zu, cache %d\n", stack, (int)cache);
    return print_value();
}

/* N steps, in front of each of which something changes that graphs depend on. */
static int changing_attribute(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        CHECK(cuFuncSetAttribute(hash, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                 i % 2 * 50));
        steps(1);
    }
    return print_value();
}

static int changing_limit(int n)
{
    start();
    for (int i = 0; i < n; i++) {
        CHECK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, (1 << 20) + (size_t)(i % 2) * 4096));
        steps(1);
    }
    return print_value();
}

static _Atomic bool forked;

/* Look-ups of another thread, so that a fork comes in the middle of some. */
static void *look_up(void *driver)
{
    while (!forked)
        dlsym(driver, "cuMemAlloc_v2");
    return NULL;
}

/* The end of a child, as a number: what it computed. */
static int end_of(pid_t child)
{
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static int work(int n)
{
    start();
    steps(n);
    CHECK(cuStreamSynchronize(stream));
    return (int)(ag_prog_read64(data) % 200);
}

/*
 * A pre-fork server: the parent has loaded the driver and asked it for its version, three workers
 * are the first to initialise it, one of them with a worker of its own. Last the parent works too,
 * and what it forks from then on is refused by the driver.
 */
static int prefork(int n)
{
    int version;
    pthread_t thread;
    void *p, *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUresult (*ask)(int *);
    *(void **)&get = dlsym(driver, "cuGetProcAddress_v2");
    CHECK(get("cuLaunchKernel", &p, 12000, 0, NULL));
    CHECK(get("cuDriverGetVersion", (void **)&ask, 12000, 0, NULL));
    CHECK(ask(&version));
    REQUIRE(pthread_create(&thread, NULL, look_up, driver) == 0);
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            pid_t other = i == 1 ? fork() : -1;
            int value = work(n + i + (other == 0));
            if (other > 0)
                value = (value + end_of(other)) % 200;
            exit(value);
        }
        printf("worker: %d\n", end_of(child));
    }
    forked = true;
    pthread_join(thread, NULL);
    printf("the server itself: %d\n", work(n));
    fflush(stdout);
    pid_t late = fork();
    if (late == 0)
        exit(cuStreamSynchronize(stream));
    printf("too late: %d\n", end_of(late));
    return print_value();
}

/* A process whose files may have N bytes. It has a stream and no memory, which is a file of the
 * simulated driver. */
static int small_files(int n)
{
    const struct rlimit limit = {(rlim_t)n, RLIM_INFINITY};
    CUcontext context;
    CHECK(cuInit(0));
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamSynchronize(stream));
    puts("synchronized");
    return 0;
}

extern char **environ;

/* A program that shows its state as its title: it copies the environment, as is usual, and writes
 * over the old one, which lies behind its arguments. */
static int title(int n)
{
    int count = 0;
    start();
    while (environ[count])
        count++;
    char **copy = calloc((size_t)count + 1, sizeof *copy), **old = environ;
    for (int i = 0; i < count; i++)
        copy[i] = strdup(old[i]);
    environ = copy;
    for (int i = 0; i < count; i++)
        memset(old[i], 'z', strlen(old[i]));
    steps(n);
    return print_value();
}

/* The first file that it opens has the number of the standard error, which it was started without.
 */
static int own_file(int n)
{
    int fd = open("own", O_WRONLY | O_CREAT, 0600);
    start();
    steps(n);
    printf("file %d\n", fd);
    return print_value();
}

/* Behind each launch of N steps the program allocates two pieces of memory, as for an element of a
 * list: how many are as far from those before as these from theirs? Each step begins with a copy.
 */
static int heap(int n)
{
    uintptr_t last = 0, before = 0;
    int regular = 0;
    CUevent event;
    start();
    stream = CU_STREAM_LEGACY;
    for (int i = -1000; i < n; i++) { /* in the first 1000 the library learns them */
        uint64_t word = 5;
        CHECK(cuMemcpyHtoD_v2(data + 8, &word, sizeof(word)));
        for (uint64_t k = 0; k < 4; k++) {
            CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
            CHECK(cuEventRecord(event, stream));
            uintptr_t node = (uintptr_t)malloc(24), value = (uintptr_t)malloc(8);
            regular += i >= 0 && value && node - last == before;
            before = node - last;
            last = node;
            launch(1, k);
        }
    }
    printf("nearly all are regular: %s\n", regular > 4 * n - n / 5 ? "yes" : "no");
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int n);
} cases[] = {{"repeat", repeat},
             {"heap", heap},
             {"phases", phases},
             {"turns", turns},
             {"table", table},
             {"memory", memory},
             {"hooks", hooks},
             {"threads", threads},
             {"wakes", wakes},
             {"encode", encode},
             {"constructor", constructor},
             {"prefork", prefork},
             {"newer-capture", newer_capture},
             {"error-log", error_log},
             {"settings", settings},
             {"changing-attribute", changing_attribute},
             {"changing-limit", changing_limit},
             {"collective", collective},
             {"collective-busy", collective_busy},
             {"collective-dormant", collective_dormant},
             {"refused", refused},
             {"last-mib", last_mib},
             {"last-mib-and-wait", last_mib_and_wait},
             {"all-memory", all_memory},
             {"most-memory", most_memory},
             {"too-much", too_much},
             {"refused-once", refused_once},
             {"pinned-memory", pinned_memory},
             {"legacy", legacy},
             {"slow-host", slow_host},
             {"pauses-once", pauses_once},
             {"drops", drops},
             {"sixty-kinds", sixty_kinds},
             {"slow-fill", slow_fill},
             {"slow-host-pauses", slow_host_pauses},
             {"fast-host-pauses", fast_host_pauses},
             {"fast-host-sleeps", fast_host_sleeps},
             {"between", between},
             {"per-thread", per_thread},
             {"small-files", small_files},
             {"title", title},
             {"own-file", own_file},
             {"leaves", leaves},
             {"leaves-at-once", leaves_at_once},
             {"host-function", host_function},
             {"function-in-graph", function_in_graph},
             {"function-lost", function_lost},
             {"function-calls", function_calls},
             {"word", word},
             {"word-first", word_first},
             {"word-beside", word_beside},
             {"word-in-capture", word_in_capture},
             {"word-in-graph", word_in_graph},
             {"word-and-destroy", word_and_destroy},
             {"word-and-other", word_and_other}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            return cases[i].run(argc > 2 ? atoi(argv[2]) : 10);
    fprintf(stderr, "usage: cases NAME [N]\n");
    return 2;
}
