/*
 * per_thread.h - default streams that belong to a thread.
 *
 * The handle of such a stream means another one in each thread, so only its own thread can put
 * anything into it. Whoever else has to submit what it holds back puts that into the legacy default
 * stream of the context: that goes behind all that the thread's stream has got, and before whatever
 * it gets later (CUDA Programming Guide, default stream). The stream has then *strayed*: a wait of
 * the host for it would not wait for that work, and a query would not see it, not even behind an
 * event record in the stream (H200, driver 580: tests/gpu/order/strayed.c). So an event is recorded
 * behind the work, and the stream waits for that before it gets anything else or is waited for.
 */
#pragma once

#include "capture/tracking/stream.h"

/* Whether there has been such a stream; how many have strayed. */
extern _Atomic bool ag_per_thread_any;
extern _Atomic uint32_t ag_per_thread_strays;

/* The handle that ag_stream.handle has for the calling thread's default stream. The driver knows no
 * such stream: it is odd, and handles are addresses of objects. */
CUstream ag_per_thread_name(void);
/* The calling thread has such a stream. When the thread ends, the next function finds it. */
void ag_per_thread_begins(void);
/* A stream of the context whose thread has ended, with a reference; NULL: there is none. Each is
 * returned once. */
struct ag_stream *ag_per_thread_ended(const struct ag_context *context);
/* A visit ends (ag_driver_leave()) in which something has strayed: from here on that can be waited
 * for. The caller holds the stream's lock. */
__attribute__((cold)) void ag_per_thread_strayed(struct ag_stream *s);
/* The handle by which the calling thread puts something into the stream, or asks for it. Call it
 * under the stream's lock, in a visit of the driver (ag_driver_enter()). */
__attribute__((cold)) CUstream ag_per_thread_handle(struct ag_stream *s);
static inline CUstream ag_stream_handle(struct ag_stream *s)
{
    bool named = __builtin_expect((uintptr_t)s->handle & 1 && s->handle != CU_STREAM_LEGACY, 0);
    return named ? ag_per_thread_handle(s) : s->handle; /* reads one cache line alone */
}
/* From here on the stream's work, and waits for it, come behind what has strayed. Does nothing in a
 * thread that is not the stream's. The caller holds the stream's lock. */
__attribute__((cold)) void ag_per_thread_gathers(struct ag_stream *s);
static inline void ag_per_thread_gather(struct ag_stream *s)
{
    if (__builtin_expect(atomic_load_explicit(&s->strayed, memory_order_relaxed), 0))
        ag_per_thread_gathers(s);
}
/* The same for the calling thread's default stream in the current context, without its lock. Call
 * it also where hooks bypass. */
__attribute__((cold)) void ag_per_thread_gathers_own(void);
static inline void ag_per_thread_gather_own(void)
{
    if (__builtin_expect(atomic_load_explicit(&ag_per_thread_strays, memory_order_relaxed), 0))
        ag_per_thread_gathers_own();
}
/* Nobody can wait for the stream any more. `ended`: its context has ended, and events with it. The
 * caller holds the stream's lock. */
void ag_per_thread_forget(struct ag_stream *s, bool ended);
