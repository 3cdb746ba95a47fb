/* test_trace.c - the dump's end. On a full disk, what the threads did in one span of time is in it
 * as a whole, or not at all. What was lost is told. */
#include "tests/unit/unit.h"
#include "capture/system/thread.h"
#include "capture/trace/trace_define.h"
#include "capture/trace/trace_file.h"
#include "capture/trace/trace_ring.h"
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { EVENTS = 1000 };

static int writes_left; /* calls until the disk is full */

ssize_t __real_pwritev(int fd, const struct iovec *parts, int count, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *parts, int count, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    if (writes_left-- > 0)
        return __real_pwritev(fd, parts, count, at);
    errno = ENOSPC;
    return -1;
}

/* No thread writes: the test does, by draining. */
bool __wrap_ag_thread_start(pthread_t *thread, const char *name, void *(*run)(void *));
bool __wrap_ag_thread_start(pthread_t *thread, const char *name, void *(*run)(void *))
{
    (void)thread, (void)name, (void)run;
    return false;
}

static int events = EVENTS; /* of one thread */

static void *push(void *unused)
{
    static const struct ag_dump_event event = {.time = 1, .kind = AG_EVENT_OP};
    (void)unused;
    for (int i = 0; i < events; i++)
        ag_trace_push(&event);
    return NULL;
}

static off_t file_size(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void push_in_a_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, push, NULL);
    pthread_join(thread, NULL);
}

/* Writes one chunk of events of each of two threads; then a definition, and a chunk of a third
 * thread. The disk takes `writes` chunks, the file may have `limit` bytes. Returns how many chunks
 * of events the file then holds, and 10 more if it holds the definition. */
static int chunks_with(const char *path, int writes, uint64_t limit)
{
    enum { CHUNK = 16 + 8 + EVENTS * sizeof(struct ag_dump_event) };
    writes_left = 1;
    if (!ag_dump_open(path, limit))
        return -1;
    off_t header = file_size(path);
    writes_left = writes;
    push_in_a_thread();
    push_in_a_thread(); /* which has a ring of its own: the first is free after the next drain */
    ag_trace_drain();
    ag_trace_define(AG_DUMP_PROCESS, "a=b", 4, NULL, 0);
    push_in_a_thread();
    ag_trace_drain();
    assert_true(file_size(path) >= header);
    off_t size = file_size(path) - header;
    return (int)(size / CHUNK) + (size % CHUNK ? 10 : 0);
}

/* The same in a process of its own, as a file that is full stays full. */
static int chunks_of_child(int writes, uint64_t limit)
{
    char folder[] = "/tmp/trace.XXXXXX", path[64];
    int status;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/dump", folder);
    pid_t child = fork();
    if (!child)
        _exit(chunks_with(path, writes, limit));
    assert_int_equal(waitpid(child, &status, 0), child);
    unlink(path);
    rmdir(folder);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_full_disk(void **state)
{
    (void)state;
    assert_int_equal(chunks_of_child(0, 1 << 20), 0);
    assert_int_equal(chunks_of_child(1, 1 << 20), 0);
    assert_int_equal(chunks_of_child(2, 1 << 20), 2);
    assert_int_equal(chunks_of_child(3, 1 << 20), 12);
    assert_int_equal(chunks_of_child(4, 1 << 20), 13);
}

static void test_limit(void **state)
{
    (void)state;
    assert_int_equal(chunks_of_child(9, 120 << 10), 0); /* 64 KiB are reserved for the end */
    assert_int_equal(chunks_of_child(9, 150 << 10), 12);
    assert_int_equal(chunks_of_child(9, 180 << 10), 13);
}

/* A thread's last events do not fit into its ring: the dump tells how many, though nothing comes
 * behind them. The file ends with that event. */
static int lost_at_the_end(const char *path)
{
    struct ag_dump_event last = {0};
    writes_left = 1000;
    events = 40000;
    if (!ag_dump_open(path, 8 << 20))
        return 1;
    push(NULL);
    ag_trace_drain();
    FILE *f = fopen(path, "rb");
    bool told = f && fseek(f, -(long)sizeof(last), SEEK_END) == 0 &&
                fread(&last, sizeof(last), 1, f) == 1 && last.kind == AG_EVENT_LOST &&
                last.value == 40000 - 32768;
    if (f)
        fclose(f);
    return told ? 0 : 2;
}

static void test_lost(void **state)
{
    (void)state;
    char folder[] = "/tmp/trace.XXXXXX", path[64];
    int status;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/dump", folder);
    pid_t child = fork();
    if (!child)
        _exit(lost_at_the_end(path));
    assert_int_equal(waitpid(child, &status, 0), child);
    unlink(path);
    rmdir(folder);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
