/*
 * cases_process.c - cases of cases.c about the process: how it loads the library and ends, its
 * threads and forks, and what else it has of its own, from its title to its heap.
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
#include <unistd.h>

/* Leaves without running what was registered for the end. */
int leaves(int n)
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
int leaves_at_once(int n)
{
    start();
    steps(n);
    _exit(3);
}

/* ---- the library in the process ------------------------------------------------------------ */

static const char *file_of(void *address)
{
    Dl_info info;
    const char *slash = dladdr(address, &info) ? strrchr(info.dli_fname, '/') : NULL;
    return slash ? slash + 1 : "nowhere";
}

/* Which library answers a look-up, by dlsym and by the driver's getter. */
int hooks(int n)
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
int threads(int n)
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
int wakes(int n)
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

int constructor(int n)
{
    (void)n;
    REQUIRE(dlopen("libcommand_constructor.so", RTLD_NOW));
    return 0;
}

/* ---- forks --------------------------------------------------------------------------------- */

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
int prefork(int n)
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

/* ---- what the process has of its own ------------------------------------------------------- */

/* A process whose files may have N bytes. It has a stream and no memory, which is a file of the
 * simulated driver. */
int small_files(int n)
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
int title(int n)
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
int own_file(int n)
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
int heap(int n)
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
