/* test_standing.c - which streams seem to have a kernel that waits for the program, on a clock of
 * the test's own. */
#include "tests/unit/unit.h"
#include "tests/unit/streams.h"
#include "capture/tracking/standing.h"
#include "capture/tracking/streams.h"
#include <pthread.h>
#include <time.h>

enum { BLOCKING = 0x100, APART = 0x200 };

static uint64_t now_ns = 5000000000;
static int queries;

/* Which streams have work; what the driver says of all. */
static bool legacy_works, blocking_works, apart_works, captures;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){(time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000)};
    return 0;
}

static CUresult CUDAAPI get_flags(CUstream s, unsigned int *flags)
{
    *flags = s == (CUstream)APART ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_ctx(CUstream s, CUcontext *ctx)
{
    (void)s;
    *ctx = (CUcontext)0x10;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_current(CUcontext *ctx)
{
    return get_ctx(NULL, ctx);
}

static CUresult CUDAAPI mode(CUstreamCaptureMode *m)
{
    (void)m;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI is_capturing(CUstream s, CUstreamCaptureStatus *status)
{
    (void)s;
    *status = captures ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

/* The legacy stream is not ready while a blocking one works. */
static CUresult CUDAAPI query(CUstream s)
{
    assert_false(captures);
    queries++;
    bool works = s == (CUstream)APART      ? apart_works
                 : s == (CUstream)BLOCKING ? blocking_works
                                           : legacy_works || blocking_works;
    return works ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static int start(void **state)
{
    (void)state;
    ag_real[AG_SYM_cuCtxGetCurrent] = (void *)get_current;
    ag_real[AG_SYM_cuThreadExchangeStreamCaptureMode] = (void *)mode;
    ag_real[AG_SYM_cuStreamIsCapturing] = (void *)is_capturing;
    ag_real[AG_SYM_cuStreamQuery] = (void *)query;
    unit_streams_start(get_flags, get_ctx);
    return 0;
}

static uint64_t next_ns; /* until the next look */

/* So much later, the streams that are named having got something. */
static bool stand_after(uint64_t ns, struct ag_stream *first, struct ag_stream *second)
{
    now_ns += ns;
    if (first)
        first->unrecorded++;
    if (second)
        second->unrecorded++;
    uint64_t wait = ag_streams_stand();
    next_ns = wait ? wait : AG_STANDS_FIRST_NS;
    return wait > 0;
}

/* By the next look. */
static bool stand(struct ag_stream *first, struct ag_stream *second)
{
    return stand_after(next_ns, first, second);
}

static struct ag_stream *legacy, *blocking, *apart;

/* All streams are ready, and a look has seen it. */
static int settle(void **state)
{
    (void)state;
    legacy = ag_stream_get(NULL, false);
    blocking = ag_stream_get((CUstream)BLOCKING, false);
    apart = ag_stream_get((CUstream)APART, false);
    legacy_works = blocking_works = apart_works = captures = false;
    assert_false(stand_after(10 * AG_STANDS_NS, NULL, NULL));
    queries = 0;
    return 0;
}

static void a_stream_that_works_and_gets_nothing_stands(void **state)
{
    (void)state;
    apart_works = true;
    assert_false(stand(apart, NULL)); /* it has just got that */
    assert_true(stand(NULL, NULL));
    assert_true(stand(blocking, NULL)); /* the other one goes on */
    assert_false(stand(apart, NULL));
    assert_true(stand(NULL, NULL));
    apart_works = false;
    assert_false(stand(NULL, NULL));
}

static void when_it_got_something_is_not_known_of_long_ago(void **state)
{
    (void)state;
    apart_works = true;
    assert_true(stand_after(AG_STANDS_RECENTLY * AG_STANDS_FIRST_NS, apart, NULL));
    assert_false(stand(apart, NULL));
}

static void a_stream_that_is_ready_is_asked_once(void **state)
{
    (void)state;
    assert_false(stand(apart, NULL));
    assert_int_equal(queries, 0);
    for (int i = 0; i < 5; i++)
        assert_false(stand(NULL, NULL));
    assert_int_equal(queries, 1);
}

static void it_looks_once_in_that_time(void **state)
{
    (void)state;
    apart_works = true;
    assert_false(stand(apart, NULL));
    assert_false(stand_after(AG_STANDS_FIRST_NS - 1, NULL, NULL));
    assert_int_equal(queries, 0);
    assert_true(stand_after(1, NULL, NULL));
    assert_true(stand_after(AG_STANDS_FIRST_NS - 1, apart, NULL));
    assert_int_equal(next_ns, 1);
    assert_false(stand(NULL, NULL));
}

/* And begin anew when nothing was due for long. */
static void looks_get_further_apart(void **state)
{
    (void)state;
    apart_works = true;
    assert_false(stand(apart, NULL));
    assert_true(stand(NULL, NULL));
    for (uint64_t ns = 2 * AG_STANDS_FIRST_NS; ns < AG_STANDS_NS; ns *= 2) {
        assert_true(stand(NULL, NULL));
        assert_int_equal(next_ns, ns);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(stand(NULL, NULL));
        assert_int_equal(next_ns, AG_STANDS_NS);
    }
    assert_true(stand_after(AG_STANDS_RECENTLY * AG_STANDS_NS, NULL, NULL));
    assert_int_equal(next_ns, AG_STANDS_FIRST_NS);
}

/* A host on which threads wake up late needs looks that are further apart. */
static void looks_that_come_late_get_further_apart(void **state)
{
    (void)state;
    apart_works = true;
    assert_false(stand(apart, NULL));
    assert_true(stand(NULL, NULL));
    int late = 0;
    while (stand_after(AG_STANDS_NS, apart, NULL))
        late++;
    assert_in_range(late, 1, 3);
}

static void the_legacy_stream_stands_if_no_blocking_one_goes_on(void **state)
{
    (void)state;
    blocking_works = true;
    assert_false(stand(blocking, legacy));
    assert_false(stand(blocking, NULL));
    assert_false(stand(blocking, NULL));
    blocking_works = false;
    legacy_works = true;
    assert_false(stand(blocking, NULL)); /* it is seen only behind that */
    assert_true(stand(apart, NULL));
}

static void a_stream_that_captures_is_not_asked(void **state)
{
    (void)state;
    captures = true;
    assert_true(stand_after(10 * AG_STANDS_NS, apart, NULL));
    assert_int_equal(queries, 0);
}

static pthread_barrier_t barrier;

/* Is in the driver with a stream, from the first barrier to the second. */
static void *submits(void *stream)
{
    struct ag_stream *s = stream;
    ag_lock(&s->lock, AG_RANK_STREAM);
    atomic_store(&s->in_driver, true);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    atomic_store(&s->in_driver, false);
    ag_unlock(&s->lock);
    return NULL;
}

/* The thread may wait for room in its queue, behind such a kernel. */
static void a_stream_with_a_thread_in_the_driver_stands(void **state)
{
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, submits, apart), 0);
    pthread_barrier_wait(&barrier);
    assert_true(stand(NULL, NULL));
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    assert_false(stand(NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_stream_that_works_and_gets_nothing_stands, settle),
        cmocka_unit_test_setup(when_it_got_something_is_not_known_of_long_ago, settle),
        cmocka_unit_test_setup(a_stream_that_is_ready_is_asked_once, settle),
        cmocka_unit_test_setup(it_looks_once_in_that_time, settle),
        cmocka_unit_test_setup(looks_get_further_apart, settle),
        cmocka_unit_test_setup(looks_that_come_late_get_further_apart, settle),
        cmocka_unit_test_setup(the_legacy_stream_stands_if_no_blocking_one_goes_on, settle),
        cmocka_unit_test_setup(a_stream_that_captures_is_not_asked, settle),
        cmocka_unit_test_setup(a_stream_with_a_thread_in_the_driver_stands, settle),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
