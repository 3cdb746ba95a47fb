/*
 * trace_define.h - whether a dump is written, and the definitions that it needs. The dump must
 * define signatures, streams and texts before an event names them. They wait here until the writer
 * takes them.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern _Atomic bool ag_tracing;
static inline bool ag_trace_on(void)
{
    return __builtin_expect(atomic_load_explicit(&ag_tracing, memory_order_relaxed), 0);
}
/* Accepts no more events: the dump is full or broken. */
void ag_trace_give_up(void);

/* Any thread may call it. */
void ag_trace_define(uint32_t type, const void *head, size_t head_size, const void *body,
                     size_t body_size);
/* The id of a text. A new text is defined first. */
uint32_t ag_trace_string(const char *text);
/* Passes the waiting definitions to `take`, in order. Only the writer calls it. */
void ag_trace_definitions_take(void (*take)(uint32_t type, const void *bytes, size_t size));
