/*
 * stub_slow.c - the C side of the assembly stubs.
 */
#include <string.h>

#include "capture/capture.h"
#include "preload/exporttable.h"
#include "driver/generated/entries_check.h"
#include "preload/hook.h"
#include "preload/substitute.h"

#if defined(__x86_64__)
enum { INTEGER_REGISTERS = 6 };
#define RETURN_ADDRESS(registers, stack) ((stack)[-1])
#elif defined(__aarch64__)
enum { INTEGER_REGISTERS = 8 };
#define RETURN_ADDRESS(registers, stack) ((registers)[-1])
#else
#error "an architecture whose calling convention is not described here"
#endif

void *ag_stub_slow(uint32_t number, const uint64_t *registers, const uint64_t *stack);

static uint64_t argument(int position, const uint64_t *registers, const uint64_t *stack)
{
    return position < INTEGER_REGISTERS ? registers[position] : stack[position - INTEGER_REGISTERS];
}

static void flush_for(enum ag_sym sym, const struct ag_entry *entry, const uint64_t *registers,
                      const uint64_t *stack)
{
    if (entry->cls == AG_CLASS_TRACK)
        return;
    if (entry->cls == AG_CLASS_BARRIER || entry->stream_arg < 0) {
        ag_core_barrier_quiet(sym);
        return;
    }
    ag_core_stream_sync_point_quiet((CUstream)argument(entry->stream_arg, registers, stack),
                                    entry->flags & AG_ENTRY_PTSZ, sym,
                                    entry->flags & AG_ENTRY_BLOCKS);
}

static void tell(enum ag_sym sym, const uint64_t *registers, const uint64_t *stack)
{
    const struct ag_entry *entry = &ag_entries[sym];
    if (entry->flags & AG_ENTRY_KILLS_FUNCTIONS)
        ag_core_invalidate_functions(sym);
    if (entry->flags & AG_ENTRY_KILLS_MODULE)
        ag_core_invalidate_module((void *)argument(0, registers, stack), sym);
    if (entry->flags & AG_ENTRY_KILLS_REPLAY)
        ag_core_observe_only(entry->name);
    flush_for(sym, entry, registers, stack);
    if (sym == AG_SYM_cuMemFreeAsync || sym == AG_SYM_cuMemFreeAsync_ptsz)
        ag_core_freed_in_stream();
    if (entry->flags & AG_ENTRY_KILLS_MEMORY)
        ag_core_invalidate_memory(); /* last: nothing that is submitted before this uses it again */
    if (entry->flags & AG_ENTRY_KILLS_MAPPED)
        ag_core_maps_multicast();
    if (entry->flags & AG_ENTRY_KILLS_PEERS)
        ag_core_peer_memory();
}

/*
 * Stream captures of an unknown kind. The library also has work to do after the real call, so it
 * makes the call from here. It passes integers and pointers only, as all capture calls have, and
 * more of them than any of these calls takes. Arguments that the program did not pass are read
 * from its stack and passed on as they are.
 */
#define CAPTURE_PARAMS                                                                             \
    uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,     \
        uint64_t a7, uint64_t a8, uint64_t a9, uint64_t a10, uint64_t a11
#define CAPTURE_ARGS a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11

static __thread uint32_t capture_slot; /* for the call that this thread makes next */

static CUresult capture_call(CAPTURE_PARAMS)
{
    const uint32_t slot = capture_slot;
    const enum ag_unknown kind = ag_unknown_kind(slot);
    CUresult (*real)(CAPTURE_PARAMS);
    *(void **)&real = ag_target[AG_SYM_COUNT + slot];
    if (kind == AG_UNKNOWN_BEGINS_CAPTURE)
        ag_core_capture_begins(AG_SYM_COUNT);
    else
        ag_core_barrier_quiet(AG_SYM_COUNT);
    uint32_t before = ag_core_streams_capturing();
    CUresult result = real(CAPTURE_ARGS);
    uint32_t after = ag_core_streams_capturing();
    if (kind == AG_UNKNOWN_BEGINS_CAPTURE) {
        ag_core_capture_began(NULL, NULL, result == CUDA_SUCCESS);
    } else if (kind == AG_UNKNOWN_ENDS_CAPTURE) {
        if (result == CUDA_SUCCESS || after < before)
            ag_core_capture_ended(NULL, NULL);
    } else if (after > before) {
        ag_core_capture_begins(AG_SYM_COUNT);
        ag_core_capture_began(NULL, NULL, true);
    }
    return result;
}

/* Nobody knows what the function does: it may unmap memory that an op uses. */
static void *unknown_call(uint32_t slot)
{
    if (!ag_hooked())
        return ag_target[AG_SYM_COUNT + slot];
    const enum ag_unknown kind = ag_unknown_kind(slot);
    if (kind != AG_UNKNOWN_CALL && kind != AG_UNKNOWN_CHANGES) {
        capture_slot = slot;
        return (void *)capture_call;
    }
    ag_core_barrier_quiet(AG_SYM_COUNT);
    ag_core_invalidate_memory();
    if (kind == AG_UNKNOWN_CHANGES)
        ag_core_observe_only("a newer driver's version of a call that the library must follow");
    return ag_target[AG_SYM_COUNT + slot];
}

/*
 * Called with the arguments of the program's call saved: `registers` are the integer argument
 * registers, `stack` is the memory above the return address. Returns the address at which the call
 * continues.
 */
void *ag_stub_slow(uint32_t number, const uint64_t *registers, const uint64_t *stack)
{
    if (number >= AG_SYM_COUNT + AG_POOL_SIZE)
        return ag_export_table_call(number - AG_SYM_COUNT - AG_POOL_SIZE,
                                    (const void *)RETURN_ADDRESS(registers, stack));
    if (number >= AG_SYM_COUNT)
        return unknown_call(number - AG_SYM_COUNT);
    if (ag_hooked() && ag_core_active())
        tell((enum ag_sym)number, registers, stack);
    return ag_real[number];
}
