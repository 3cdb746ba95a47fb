/* test_streams.c - who is in the list of streams that barriers go through. */
#include "tests/unit/unit.h"
#include "tests/unit/streams.h"
#include "capture/tracking/streams.h"

enum { STREAMS = 1000, ROUNDS = 200000 };

static CUresult CUDAAPI get_flags(CUstream stream, unsigned int *flags)
{
    (void)stream;
    *flags = CU_STREAM_NON_BLOCKING;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_ctx(CUstream stream, CUcontext *ctx)
{
    (void)stream;
    *ctx = (CUcontext)0x10;
    return CUDA_SUCCESS;
}

static struct ag_stream *stream(size_t i)
{
    struct ag_stream *s = ag_stream_get((CUstream)(0x10000 + 0x100 * i), false);
    assert_non_null(s);
    return s;
}

static int make_all(void **state)
{
    (void)state;
    unit_streams_start(get_flags, get_ctx);
    for (size_t i = 0; i < STREAMS; i++)
        stream(i);
    return 0;
}

static void open_stream(struct ag_stream *s, bool open)
{
    ag_lock(&s->lock, AG_RANK_STREAM);
    if (open)
        ag_stream_open(s);
    else
        ag_stream_close(s);
    ag_unlock(&s->lock);
}

static bool is_busy(const struct ag_stream *s, size_t *n)
{
    bool is = false;
    struct ag_streams all = ag_streams_busy();
    *n = all.n;
    for (const struct ag_stream *other; (other = ag_streams_next(&all));)
        is |= other == s;
    return is;
}

static void test_idle_streams_cost_a_barrier_nothing(void **state)
{
    size_t n;
    (void)state;
    for (size_t i = 0; i < STREAMS; i++)
        open_stream(stream(i), true);
    assert_true(is_busy(stream(1), &n));
    assert_int_equal(n, STREAMS);
    for (size_t i = 0; i < STREAMS; i++)
        open_stream(stream(i), i == 5);
    assert_true(is_busy(stream(5), &n));
    assert_int_equal(n, 1);
    assert_int_equal(ag_stream_table.num_busy, 1); /* the next one looks at no other */
    assert_int_equal(ag_streams_count(), STREAMS);
    open_stream(stream(7), true); /* again */
    assert_true(is_busy(stream(7), &n));
    assert_int_equal(n, 2);
    open_stream(stream(5), false);
    open_stream(stream(7), false);
    assert_false(is_busy(stream(7), &n));
    assert_int_equal(n, 0);
}

static void test_a_short_list_takes_no_memory(void **state)
{
    (void)state;
    for (size_t few = 1; few <= AG_STREAMS_FEW + 1; few++) {
        open_stream(stream(few), true);
        struct ag_streams all = ag_streams_busy();
        assert_int_equal(all.n, few);
        assert_int_equal(all.more != NULL, few > AG_STREAMS_FEW);
        for (size_t i = 0; i < few; i++)
            assert_true(ag_streams_at(&all, i)->open);
        ag_streams_done(&all);
    }
    for (size_t few = 1; few <= AG_STREAMS_FEW + 1; few++)
        open_stream(stream(few), false);
}

static void test_what_else_makes_a_stream_busy(void **state)
{
    struct ag_stream *s = stream(3);
    size_t n;
    (void)state;
    atomic_store(&s->forks, true);
    ag_stream_becomes_busy(s);
    assert_true(is_busy(s, &n));
    atomic_store(&s->deferring, AG_DEFERS);
    atomic_store(&s->forks, false);
    assert_true(is_busy(s, &n));
    struct ag_streams all = ag_streams_deferring();
    assert_int_equal(all.n, 1);
    ag_streams_done(&all);
    atomic_store(&s->deferring, AG_DEFERS_NOTHING);
    assert_false(is_busy(s, &n));
}

static void test_a_stream_that_has_gone_is_listed_no_more(void **state)
{
    struct ag_stream *s = stream(STREAMS), *other = stream(STREAMS + 1);
    size_t n;
    (void)state;
    open_stream(s, true);
    assert_true(ag_stream_invalidate(s));
    assert_false(is_busy(s, &n));
    ag_stream_becomes_busy(s); /* by somebody who has found it before */
    assert_false(is_busy(s, &n));
    open_stream(s, false);
    ag_stream_release(s);
    assert_ptr_equal(stream(STREAMS + 2), s); /* its memory */
    open_stream(s, true);
    assert_true(is_busy(s, &n));
    open_stream(s, false);
    assert_true(ag_stream_invalidate(other));
    ag_stream_release(other);
}

static _Atomic bool missed, done;

/* While the stream is open everybody finds it. */
static void *opens_and_closes(void *s)
{
    size_t n;
    for (int i = 0; i < ROUNDS; i++) {
        open_stream(s, true);
        if (!is_busy(s, &n))
            atomic_store(&missed, true);
        open_stream(s, false);
    }
    atomic_store(&done, true);
    return NULL;
}

static void test_a_stream_opens_while_others_look(void **state)
{
    pthread_t thread;
    size_t n;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, opens_and_closes, stream(2)), 0);
    while (!atomic_load(&done))
        is_busy(NULL, &n);
    pthread_join(thread, NULL);
    assert_false(missed);
    assert_false(is_busy(stream(2), &n));
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_streams_cost_a_barrier_nothing),
        cmocka_unit_test(test_a_short_list_takes_no_memory),
        cmocka_unit_test(test_what_else_makes_a_stream_busy),
        cmocka_unit_test(test_a_stream_that_has_gone_is_listed_no_more),
        cmocka_unit_test(test_a_stream_opens_while_others_look),
    };
    return cmocka_run_group_tests(tests, make_all, NULL);
}
