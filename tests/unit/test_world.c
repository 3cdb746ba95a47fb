/* test_world.c - a stream whose numbers contradict each other submits what it holds to the driver,
 * and nothing is deferred in it again. tests/policy/test_engine.c has the engine's own checks. */
#include "tests/unit/unit.h"
#include "capture/graphs/budget.h"
#include "driver/call.h"
#include "capture/system/clock.h"
#include "capture/tracking/count.h"
#include "capture/core/deferral.h"
#include "capture/core/flush.h"
#include "capture/core/submitter.h"
#include "capture/core/watchdog.h"
#include "capture/core/world.h"
#include "capture/report/stats.h"
#include "capture/tracking/signature.h"
#include "capture/tracking/state.h"
#include "capture/tracking/stream.h"
#include "capture/settings/options.h"
#include "capture/graphs/graph.h"
#include "driver/entries.h"
#include "tests/policy/made.h"
#include <linux/futex.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

static CUdeviceptr copied[8];
static unsigned int copies;
static int home;

static CUresult CUDAAPI get_current(CUcontext *ctx)
{
    *ctx = (CUcontext)(void *)&home;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    (void)src;
    (void)bytes;
    (void)stream;
    copied[copies++ % 8] = dst;
    return CUDA_SUCCESS;
}

static struct ag_signature signature = {
    .kind = AG_OP_COPY, .width = 8, .layout.recorded_bytes = 16};
static struct ag_context context;

static void record(struct ag_stream *s, uint64_t dst, enum ag_do what)
{
    struct ag_verdict v = {.what = what};
    uint8_t *room = ag_engine_record(&s->engine, ag_signature_key(&signature), 16, &v);
    memcpy(room, &dst, sizeof(dst));
    ag_engine_recorded(&s->engine, &v, 0);
}

/* Three copies deferred, as their launches leave them; the policy knows of none. */
static struct ag_stream *make(void)
{
    struct ag_policy_config config;
    struct ag_stream *s = aligned_alloc(_Alignof(struct ag_stream), sizeof(*s));
    memset(s, 0, sizeof(*s));
    ag_policy_defaults(&config);
    ag_real[AG_SYM_cuCtxGetCurrent] = (void *)get_current;
    ag_real[AG_SYM_cuMemcpyDtoDAsync_v2] = (void *)copy;
    atomic_store(&ag_watchdog_state, AG_WATCHDOG_AWAKE);
    context.handle = (CUcontext)(void *)&home;
    s->context = &context;
    s->blocking = true;
    copies = 0;
    assert_false(ag_engine_open(&s->engine, &config, &ag_graphs_policy_hooks, &ag_driver_world));
    return s;
}

static struct ag_stream *make_deferring(void)
{
    struct ag_stream *s = make();
    for (uint64_t i = 0; i < 3; i++)
        record(s, 100 + i, AG_DO_DEFER);
    assert_true(s->deferring);
    assert_int_equal(context.blocking_held, 1);
    assert_int_equal(copies, 0);
    return s;
}

static void drop(struct ag_stream *s)
{
    ag_engine_free(&s->engine);
    free(s);
}

static void is_submitted_and_eager(const struct ag_stream *s, uint64_t mistakes_before,
                                   unsigned int ops)
{
    assert_int_equal(copies, ops);
    for (unsigned int i = 0; i < ops; i++)
        assert_int_equal(copied[i], 100 + i);
    assert_true(s->not_understood);
    assert_false(s->deferring);
    assert_int_equal(ag_engine_state(&s->engine), AG_ENGINE_BYPASSED);
    assert_int_equal(ag_engine_content(&s->engine).num_ops, 0);
    assert_int_equal(context.blocking_held, 0);
    assert_int_equal(ag_counts[AG_COUNT_UNEXPECTED], mistakes_before + 1);
}

static void what_holds_changes_nothing(void **state)
{
    (void)state;
    struct ag_stream *s = make();
    record(s, 100, AG_DO_RECORD);
    ag_stream_end_segment(s);
    assert_int_equal(copies, 0);
    assert_false(s->not_understood);
    assert_int_equal(ag_counts[AG_COUNT_UNEXPECTED], 0);
    drop(s);
}

/* The policy knows of fewer ops than the stream holds: none may be lost, or come twice. */
static void a_sync_point_that_knows_of_none(void **state)
{
    (void)state;
    uint64_t before = ag_counts[AG_COUNT_UNEXPECTED];
    struct ag_stream *s = make_deferring();
    ag_stream_end_segment(s);
    is_submitted_and_eager(s, before, 3);
    drop(s);
}

static void a_watchdog_that_knows_of_none(void **state)
{
    (void)state;
    uint64_t before = ag_counts[AG_COUNT_UNEXPECTED];
    struct ag_stream *s = make_deferring();
    ag_stream_break(s);
    is_submitted_and_eager(s, before, 3);
    drop(s);
}

static void deferral_while_hooks_see_nothing(void **state)
{
    (void)state;
    uint64_t before = ag_counts[AG_COUNT_UNEXPECTED];
    struct ag_stream *s = make();
    ag_state_set(AG_EAGER_CAPTURE);
    record(s, 100, AG_DO_DEFER);
    is_submitted_and_eager(s, before, 1);
    ag_state_leave(AG_EAGER_CAPTURE);
    drop(s);
}

static void a_counter_below_nothing(void **state)
{
    (void)state;
    uint64_t before = ag_counts[AG_COUNT_UNEXPECTED];
    struct ag_stream *s = make_deferring();
    atomic_store(&context.blocking_held, 0);
    ag_engine_enter(&s->engine, AG_ENGINE_RECORDING);
    assert_false(s->deferring);
    copies = 0;
    is_submitted_and_eager(s, before, 0);
    drop(s);
}

/* ---- chunks that the submitter launches
 * ------------------------------------------------------------- */

static _Atomic uint32_t graph_launches;

static CUresult CUDAAPI exchange_mode(CUstreamCaptureMode *mode)
{
    (void)mode;
    return CUDA_SUCCESS;
}

/* The stream whose queue is full; and that somebody waits there. */
static CUstream _Atomic full_stream;
static _Atomic bool waits_for_room;

/* Of the submitter's first nap behind a launch; 0: it has not begun. */
static _Atomic uint64_t nap_began_ns;

static CUresult CUDAAPI launch_graph(CUgraphExec exec, CUstream stream)
{
    (void)exec;
    atomic_store(&nap_began_ns, 0);
    while (stream && atomic_load(&full_stream) == stream) {
        atomic_store(&waits_for_room, true);
        sched_yield();
    }
    atomic_fetch_add(&graph_launches, 1);
    return CUDA_SUCCESS;
}

/* A chunk with a graph, in a stream that hands chunks over. */
/* Whatever machine this is. */
bool __wrap_ag_thread_may_spin(void);
bool __wrap_ag_thread_may_spin(void)
{
    return true;
}

struct handing {
    struct ag_stream *s;
    struct ag_chunk *chunk;
    struct ag_graphs graphs;
    struct ag_variant variant;
    uint8_t bytes[16];
};

static struct handing *make_handing(void)
{
    struct handing *h = calloc(1, sizeof(*h));
    h->s = make();
    ag_real[AG_SYM_cuThreadExchangeStreamCaptureMode] = (void *)exchange_mode;
    ag_real[AG_SYM_cuGraphLaunch] = (void *)launch_graph;
    ag_options.submit = AG_SUBMIT_THREAD;
    h->variant.bytes = h->bytes;
    h->graphs.context = &context;
    h->graphs.chunks = h->graphs.count = h->graphs.num_variants = 1;
    h->graphs.num_bytes = sizeof(h->bytes);
    h->graphs.variants[0] = &h->variant;
    h->graphs.look_at = UINT64_MAX;
    h->chunk = made_chunk(&h->graphs, 1);
    return h;
}

static void drop_handing(struct handing *h)
{
    ag_stream_end_segment(h->s);
    drop(h->s);
    free(h->chunk);
    free(h);
}

static void wait_for_submitter(const struct ag_stream *s)
{
    while (!ag_stream_ring_is_at_rest(s))
        sched_yield();
}

/* Launches the chunk. Returns whether it was handed over. */
static bool begin_chunk(struct handing *h)
{
    assert_true(ag_driver_world.launch(&h->s->engine, h->chunk, h->bytes, ag_clock_ns()));
    ag_driver_world.launched(&h->s->engine, h->chunk, 0);
    return h->s->handed;
}

/* The same, and waits until that has been done. */
static bool launch_chunk(struct handing *h)
{
    bool handed = begin_chunk(h);
    wait_for_submitter(h->s);
    return handed;
}

/* In the place of the system's. */
static _Atomic int class_of_threads = SCHED_OTHER;
int sched_getscheduler(pid_t pid)
{
    (void)pid;
    return class_of_threads;
}

struct trial {
    struct handing *h;
    uint32_t handed;
};

static void *launch_some(void *trial)
{
    struct trial *t = trial;
    for (int i = 0; i < 3; i++) {
        t->handed += launch_chunk(t->h);
        while (!ag_stream_ring_is_at_rest(t->h->s)) /* or the next may be kept from it */
            sched_yield();
    }
    return NULL;
}

/* How many of three chunks a thread of this class hands over, where that is known to be faster. */
static uint32_t handed_by(int class)
{
    struct trial t = {.h = make_handing()};
    pthread_t thread;
    ag_options.submit = AG_SUBMIT_AUTO;
    made_gap(ag_engine_policy(&t.h->s->engine), 100000);
    t.h->s->pairs = (struct ag_pairs){.second = true, .next_ns = UINT64_MAX};
    class_of_threads = class;
    assert_int_equal(pthread_create(&thread, NULL, launch_some, &t), 0);
    pthread_join(thread, NULL);
    class_of_threads = SCHED_OTHER;
    drop_handing(t.h);
    return t.handed;
}

/* The submitter is not of its class, and a real-time thread may keep it from running. On a busy
 * machine an ordinary one may find the submitter at another stream. */
static void a_real_time_thread_launches_itself(void **state)
{
    (void)state;
    assert_in_range(handed_by(SCHED_OTHER), 1, 3);
    assert_in_range(handed_by(SCHED_BATCH), 1, 3);
    assert_in_range(handed_by(SCHED_OTHER | SCHED_RESET_ON_FORK), 1, 3);
    assert_int_equal(handed_by(SCHED_FIFO), 0);
    assert_int_equal(handed_by(SCHED_RR), 0);
    assert_int_equal(handed_by(SCHED_RR | SCHED_RESET_ON_FORK), 0);
    assert_int_equal(handed_by(SCHED_DEADLINE), 0);
}

/* Naps of the submitter last as long as the test wants, or until it is woken. */
static _Atomic bool holds_naps, naps;
/* Whether a nap that began earlier than then was a long one. */
static _Atomic uint64_t busy_until_ns;
static _Atomic bool napped_long;
static _Atomic uint32_t wakes; /* calls of the program's threads */
static __thread bool is_program;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, void *a, long b, long c, void *d, void *e, long f);
long __wrap_syscall(long number, void *a, long b, long c, void *d, void *e, long f)
{
    char name[16] = "";
    if (number == SYS_futex && b == FUTEX_WAKE_PRIVATE && is_program)
        wakes++;
    if (number != SYS_futex || b != FUTEX_WAIT_PRIVATE || !d ||
        pthread_getname_np(pthread_self(), name, sizeof(name)) || strcmp(name, "autograph-send"))
        return __real_syscall(number, a, b, c, d, e, f);
    const struct timespec *t = d;
    uint64_t now = ag_clock_ns(), none = 0;
    atomic_compare_exchange_strong(&nap_began_ns, &none, now);
    if (t->tv_nsec > AG_SUBMIT_NAP_NS && now < busy_until_ns)
        napped_long = true;
    if (!holds_naps)
        return __real_syscall(number, a, b, c, d, e, f);
    naps = true;
    while (holds_naps && __atomic_load_n((uint32_t *)a, __ATOMIC_SEQ_CST) == (uint32_t)c)
        sched_yield();
    naps = false;
    return 0;
}

static int end_naps(void **state)
{
    (void)state;
    atomic_store(&holds_naps, false);
    is_program = false;
    return 0;
}

/* Until the submitter naps, and its nap does not end. */
static void holds_a_nap(struct handing *h)
{
    enum { LOOKS = 100 };
    const struct timespec some = {.tv_nsec = 20000};
    while (!atomic_load(&naps)) { /* it may sleep, or take a nap of the system's, which ends */
        atomic_store(&holds_naps, false);
        launch_chunk(h);
        atomic_store(&holds_naps, true);
        for (int i = 0; i < LOOKS && !atomic_load(&naps); i++)
            nanosleep(&some, NULL);
    }
    atomic_store(&wakes, 0);
}

/* To wake a thread takes a system call. A chunk leaves that out while the submitter naps, until
 * several wait. */
static void chunks_wait_for_the_end_of_a_nap(void **state)
{
    enum { WAIT = 4 };
    (void)state;
    struct handing *h = make_handing();
    is_program = true;
    holds_a_nap(h);
    uint32_t before = atomic_load(&graph_launches);
    for (int i = 0; i < WAIT; i++)
        assert_true(begin_chunk(h));
    assert_int_equal(atomic_load(&wakes), 0);
    assert_int_equal(atomic_load(&graph_launches), before);
    assert_true(begin_chunk(h));
    assert_int_equal(atomic_load(&wakes), 1);
    wait_for_submitter(h->s);
    assert_int_equal(atomic_load(&graph_launches), before + WAIT + 1);
    while (!atomic_load(&naps))
        sched_yield();
    assert_true(begin_chunk(h));
    atomic_store(&holds_naps, false); /* the nap ends */
    wait_for_submitter(h->s);
    assert_int_equal(atomic_load(&graph_launches), before + WAIT + 2);
    assert_int_equal(atomic_load(&wakes), 1);
    drop_handing(h);
}

/* By default, the host being slow enough for it. */
static void chooses_the_submitter(struct handing *h)
{
    ag_options.submit = AG_SUBMIT_AUTO;
    made_gap(ag_engine_policy(&h->s->engine), 100000);
    h->s->pairs = (struct ag_pairs){.second = true, .next_ns = UINT64_MAX};
}

static struct ag_chunk *swap_chunk(struct handing *h, struct ag_chunk *chunk)
{
    struct ag_chunk *before = h->chunk;
    h->chunk = chunk;
    return before;
}

/* To wake the submitter, or to launch the chunk, takes the program more than the GPU loses. But
 * where nothing else comes before the program waits, it would wait for the end of the nap. */
static void a_first_chunk_waits_for_the_end_of_a_nap(void **state)
{
    (void)state;
    struct handing *h = make_handing();
    struct ag_chunk *first = made_chunk(&h->graphs, 0), *only = made_chunk(&h->graphs, 0);
    made_chunks(only, 1);
    is_program = true;
    holds_a_nap(h);
    chooses_the_submitter(h);
    uint32_t before = atomic_load(&graph_launches);
    struct ag_chunk *later = swap_chunk(h, only);
    assert_false(begin_chunk(h));
    assert_int_equal(atomic_load(&graph_launches), before + 1);
    h->chunk = first;
    assert_true(begin_chunk(h));
    assert_int_equal(atomic_load(&graph_launches), before + 1);
    assert_int_equal(atomic_load(&wakes), 0);
    atomic_store(&holds_naps, false);
    wait_for_submitter(h->s);
    assert_int_equal(atomic_load(&graph_launches), before + 2);
    h->chunk = later;
    free(first);
    free(only);
    drop_handing(h);
}

static void a_first_chunk_wakes_a_submitter_that_sleeps(void **state)
{
    enum { TRIES = 2000 }; /* until the submitter was asleep */
    (void)state;
    struct handing *h = make_handing();
    struct ag_chunk *first = made_chunk(&h->graphs, 0), *later = swap_chunk(h, first);
    const struct timespec nap = {.tv_nsec = 2000000};
    chooses_the_submitter(h);
    is_program = true;
    atomic_store(&wakes, 0);
    bool handed = false;
    for (int i = 0; !atomic_load(&wakes) && i < TRIES; i++) {
        nanosleep(&nap, NULL);
        handed = launch_chunk(h);
    }
    assert_int_equal(atomic_load(&wakes), 1);
    assert_true(handed);
    h->chunk = later;
    free(first);
    drop_handing(h);
}

/* The program will wait for the chunk behind this one, and would launch it itself if the submitter
 * napped. */
static void the_submitter_looks_for_a_last_chunk(void **state)
{
    (void)state;
    struct handing *h = make_handing();
    struct ag_chunk *first = made_chunk(&h->graphs, 0), *later = swap_chunk(h, first);
    made_chunks(first, 2);
    for (int i = 0; i < 10; i++) {
        uint64_t began = ag_clock_ns();
        while (!launch_chunk(h)) /* the submitter may seem to be at another test's stream */
            began = ag_clock_ns();
        while (!atomic_load(&nap_began_ns)) /* it naps before it sleeps */
            sched_yield();
        assert_true(atomic_load(&nap_began_ns) - began >= AG_SUBMIT_BUSY_NS);
    }
    h->chunk = later;
    free(first);
    drop_handing(h);
}

static void naps_stay_short_while_chunks_come(void **state)
{
    (void)state;
    struct handing *h = make_handing();
    const struct timespec pause = {.tv_nsec = 500000};
    for (int i = 0; i < 50; i++) {
        uint64_t began = ag_clock_ns();
        launch_chunk(h);
        atomic_store(&busy_until_ns, began + AG_SUBMIT_BUSY_NS);
        nanosleep(&pause, NULL);
    }
    assert_false(atomic_load(&napped_long));
    drop_handing(h);
}

/* The program is about to wait for what it launches: by then the submitter would hardly be awake.
 * Steps of one chunk would wake it in each. */
static void a_last_chunk_wakes_nobody(void **state)
{
    enum { TRIES = 2000 }; /* until the submitter was asleep */
    (void)state;
    for (uint32_t place = 0; place < 2; place++) {
        struct handing *h = make_handing();
        struct ag_chunk *many = h->chunk, *last = made_chunk(&h->graphs, place);
        const struct timespec nap = {.tv_nsec = 1000000};
        bool waits = true;
        chooses_the_submitter(h);
        made_chunks(last, 1);
        assert_true(launch_chunk(h)); /* the submitter runs */
        is_program = true;
        atomic_store(&wakes, 0);
        h->chunk = last;
        for (int i = 0; waits && i < TRIES; i++) {
            nanosleep(&nap, NULL);
            waits = launch_chunk(h);
        }
        assert_false(waits);
        assert_int_equal(atomic_load(&wakes), 0);
        is_program = false;
        free(last);
        h->chunk = many;
        drop_handing(h);
    }
}

/* The arguments of graphs are looked at now and then, whoever launches them. */
static void a_look_at_what_is_handed_over(void **state)
{
    (void)state;
    struct handing *h = make_handing();
    uint32_t before = atomic_load(&graph_launches), handed = 0;
    h->graphs.look_at = 32;
    for (int i = 0; i < 127; i++)
        handed += launch_chunk(h);
    assert_int_equal(h->graphs.look_at, 128);
    assert_int_equal(handed, 126);
    assert_int_equal(atomic_load(&graph_launches) - before, 127);
    ag_stream_end_segment(h->s);
    drop(h->s);
}

/* The first calls take several times as long as others. What was saved is known when more were
 * timed. */
static void what_is_saved_goes_by_what_calls_take_by_now(void **state)
{
    (void)state;
    struct handing *h = make_handing();
    struct ag_totals none, dear, cheap;
    ag_options.submit = AG_SUBMIT_INLINE;
    launch_chunk(h);
    ag_stats_collect(&none);
    atomic_store(&h->s->usual_ns, 40000);
    ag_stats_retire_stream(h->s);
    ag_stats_collect(&dear);
    atomic_store(&h->s->usual_ns, 1000);
    ag_stats_retire_stream(h->s);
    ag_stats_collect(&cheap);
    assert_int_equal((dear.gained_ns - none.gained_ns) - (cheap.gained_ns - dear.gained_ns), 39000);
    drop_handing(h);
}

/* The submitter waits for room in one stream's queue. What that stream waits for may be a chunk of
 * another stream, which nobody would launch before the watchdog does. */
static void a_submitter_that_waits_gets_nothing_else(void **state)
{
    (void)state;
    struct handing *a = make_handing(), *b = make_handing();
    a->s->handle = (CUstream)(void *)a;
    b->s->handle = (CUstream)(void *)b;
    assert_true(launch_chunk(b));
    atomic_store(&waits_for_room, false);
    atomic_store(&full_stream, a->s->handle);
    assert_true(begin_chunk(a));
    while (!atomic_load(&waits_for_room))
        sched_yield();
    for (uint64_t until = ag_clock_ns() + 1000000; ag_clock_ns() < until;)
        sched_yield();
    uint32_t before = atomic_load(&graph_launches);
    assert_false(begin_chunk(b));
    assert_int_equal(atomic_load(&graph_launches) - before, 1);
    assert_true(begin_chunk(a)); /* behind the first */
    atomic_store(&full_stream, NULL);
    wait_for_submitter(a->s);
    assert_int_equal(atomic_load(&graph_launches) - before, 3);
    while (!launch_chunk(b)) /* once the submitter has left the other ring */
        ;
    drop_handing(a);
    drop_handing(b);
}

/* A query does not wait for the submitter, and ends the segment all the same. What is held back
 * besides would have to wait, and so it stays. */
static void a_query_ends_the_segment(void **state)
{
    (void)state;
    struct handing *h = make_handing();
    const uint64_t *sync_points = &ag_policy_counts(ag_engine_policy(&h->s->engine))->sync_points;
    h->s->handle = (CUstream)(void *)h;
    atomic_store(&waits_for_room, false);
    atomic_store(&full_stream, h->s->handle);
    h->s->open = true;
    assert_true(begin_chunk(h));
    while (!atomic_load(&waits_for_room))
        sched_yield();
    assert_false(ag_stream_end_segment_if_prompt(h->s));
    assert_int_equal(*sync_points, 1);
    assert_true(h->s->open); /* other calls still look at it */
    record(h->s, 100, AG_DO_DEFER);
    assert_false(ag_stream_end_segment_if_prompt(h->s));
    assert_int_equal(*sync_points, 1);
    assert_int_equal(copies, 0);
    atomic_store(&full_stream, NULL);
    wait_for_submitter(h->s);
    assert_true(ag_stream_end_segment_if_prompt(h->s));
    assert_int_equal(*sync_points, 2);
    assert_int_equal(copies, 1);
    drop_handing(h);
}

/* Counted is what the submitter launches. Its owner may take a chunk back. */
/* The submitter counts behind its launches, when the ring is at rest already. */
static void await_submitted(uint64_t n)
{
    while (ag_counts[AG_COUNT_SUBMITTED] < n)
        sched_yield();
    assert_int_equal(ag_counts[AG_COUNT_SUBMITTED], n);
}

static void what_the_submitter_launches_is_counted(void **state)
{
    (void)state;
    struct handing *a = make_handing(), *b = make_handing();
    a->s->handle = (CUstream)(void *)a;
    uint64_t launched = ag_counts[AG_COUNT_SUBMITTED] + 1;
    assert_true(launch_chunk(b)); /* it is awake */
    await_submitted(launched);
    uint64_t handed = b->s->handed_chunks;
    assert_true(launch_chunk(b));
    assert_int_equal(b->s->handed_chunks - handed, 1);
    await_submitted(launched + 1);
    atomic_store(&waits_for_room, false);
    atomic_store(&full_stream, a->s->handle);
    assert_true(ag_ring_take_role(b->s->ring)); /* it may not launch this stream's next chunk */
    assert_true(begin_chunk(b));
    assert_true(begin_chunk(a));
    while (!atomic_load(&waits_for_room))
        sched_yield();
    ag_ring_give_role(b->s->ring);
    ag_stream_end_segment(b->s);
    assert_int_equal(a->s->handed_chunks + b->s->handed_chunks - handed, 3);
    assert_int_equal(ag_counts[AG_COUNT_SUBMITTED] - launched, 1);
    atomic_store(&full_stream, NULL);
    await_submitted(launched + 2);
    drop_handing(a);
    drop_handing(b);
}

/* What is held back may stay so for AUTOGRAPH_MAX_DEFER_US in all. In the ring it is no younger
 * than it was before. */
static void what_is_handed_over_gets_no_younger(void **state)
{
    (void)state;
    struct handing *h = make_handing();
    struct ag_engine *e = &h->s->engine;
    assert_true(launch_chunk(h)); /* there is a ring */
    assert_true(ag_ring_take_role(h->s->ring));
    ag_driver_world.deferring(e, true);
    uint64_t first = h->s->deferrals;
    assert_int_equal(ag_deferring_since(h->s), first);
    assert_true(begin_chunk(h));
    ag_driver_world.deferring(e, false);
    assert_int_equal(ag_deferring_since(h->s), first);
    ag_driver_world.deferring(e, true);
    assert_int_equal(h->s->deferrals, first + 1);
    assert_int_equal(ag_deferring_since(h->s), first);
    ag_ring_give_role(h->s->ring);
    ag_submitter_settle(
        h->s); /* the submitter may have gone to sleep: whoever has the role does the rest */
    assert_int_equal(ag_deferring_since(h->s), first + 1);
    ag_driver_world.deferring(e, false);
    assert_true(launch_chunk(h)); /* its only op comes with it */
    assert_int_equal(h->s->deferrals, first + 2);
    drop_handing(h);
}

/* Whether an op that is in no chunk is handed over. */
static bool hand_op(struct handing *h)
{
    struct ag_copy what = {.dst = 100, .src = 200, .bytes = 8};
    struct ag_incoming in = {.kind = AG_OP_COPY, .copy = &what};
    return ag_submitter_put_op(h->s, &signature, &in, true);
}

/* Another thread may have asked for that while the op was on its way, or a mistake was found. */
static void a_stream_that_is_bypassed_hands_nothing_over(void **state)
{
    (void)state;
    struct handing *h = make_handing();
    while (!hand_op(h)) /* the submitter may seem to be at another test's stream */
        ;
    ag_submitter_settle(h->s);
    assert_int_equal(copies, 1);
    assert_false(h->s->deferring);
    ag_engine_bypass(&h->s->engine);
    for (int i = 0; i < 100; i++)
        assert_false(hand_op(h));
    assert_false(h->s->deferring);
    assert_int_equal(copies, 1);
    drop_handing(h);
}

/* What is saved is told by this: a slow first call must not count a hundred times. */
static void what_a_call_usually_takes(void **state)
{
    (void)state;
    uint32_t ns = ag_usual_ns(0, 40000);
    assert_int_equal(ns, 40000);
    ns = ag_usual_ns(ns, 200);
    assert_in_range(ns, 200, 400);
    for (int i = 0; i < 20; i++)
        ns = ag_usual_ns(ns, i % 10 == 5 ? 30000 : 200);
    assert_in_range(ns, 200, 300);
    for (int i = 0; i < 40; i++)
        ns = ag_usual_ns(ns, 3000); /* what has really become slower is believed */
    assert_in_range(ns, 2900, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_holds_changes_nothing),
        cmocka_unit_test(what_is_handed_over_gets_no_younger),
        cmocka_unit_test(a_sync_point_that_knows_of_none),
        cmocka_unit_test(a_watchdog_that_knows_of_none),
        cmocka_unit_test(deferral_while_hooks_see_nothing),
        cmocka_unit_test(a_counter_below_nothing),
        cmocka_unit_test(a_look_at_what_is_handed_over),
        cmocka_unit_test(what_is_saved_goes_by_what_calls_take_by_now),
        cmocka_unit_test(a_real_time_thread_launches_itself),
        cmocka_unit_test_teardown(chunks_wait_for_the_end_of_a_nap, end_naps),
        cmocka_unit_test_teardown(a_first_chunk_waits_for_the_end_of_a_nap, end_naps),
        cmocka_unit_test_teardown(a_first_chunk_wakes_a_submitter_that_sleeps, end_naps),
        cmocka_unit_test(the_submitter_looks_for_a_last_chunk),
        cmocka_unit_test(naps_stay_short_while_chunks_come),
        cmocka_unit_test_teardown(a_last_chunk_wakes_nobody, end_naps),
        cmocka_unit_test(a_submitter_that_waits_gets_nothing_else),
        cmocka_unit_test(a_query_ends_the_segment),
        cmocka_unit_test(what_the_submitter_launches_is_counted),
        cmocka_unit_test(what_a_call_usually_takes),
        cmocka_unit_test(a_stream_that_is_bypassed_hands_nothing_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
