/*
 * stub_slow.c - the C side of the assembly stubs.
 */
#include <stddef.h>
#include <string.h>

#include "capture/capture.h"
#include "preload/generated/entries_check.h"
#include "preload/hook.h"

#if defined(__x86_64__)
enum { INTEGER_REGISTERS = 6 };
#elif defined(__aarch64__)
enum { INTEGER_REGISTERS = 8 };
#else
#error "an architecture whose calling convention is not described here"
#endif

void *ag_stub_slow(uint32_t number, const uint64_t *registers, const uint64_t *stack);

static CUresult no_such_function(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

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
        ag_capture_barrier_quiet(sym);
        return;
    }
    ag_capture_stream_boundary_quiet((CUstream)argument(entry->stream_arg, registers, stack),
                                     entry->flags & AG_ENTRY_PTSZ, sym,
                                     entry->flags & AG_ENTRY_BLOCKS);
}

static void tell(enum ag_sym sym, const uint64_t *registers, const uint64_t *stack)
{
    const struct ag_entry *entry = &ag_entries[sym];
    if (entry->flags & AG_ENTRY_KILLS_FUNCTIONS)
        ag_capture_functions_die(sym);
    if (entry->flags & AG_ENTRY_KILLS_MODULE)
        ag_capture_module_dies((void *)argument(0, registers, stack), sym);
    if (entry->flags & AG_ENTRY_KILLS_CONTEXTS)
        ag_capture_context_dies(NULL, sym);
    if (entry->flags & AG_ENTRY_KILLS_REPLAY)
        ag_capture_observe_only(entry->name);
    flush_for(sym, entry, registers, stack);
    if (entry->flags & AG_ENTRY_KILLS_MEMORY)
        ag_capture_memory_goes(); /* last: nothing that is submitted before looks at it again */
}

/*
 * Called with the arguments of the program's call saved: `registers` are the integer argument
 * registers, `stack` what lies above the return address. Answers where the call goes on.
 */
void *ag_stub_slow(uint32_t number, const uint64_t *registers, const uint64_t *stack)
{
    if (number >= AG_SYM_COUNT) { /* nobody knows what it does: it may unmap what an op names */
        if (ag_hooked()) {
            ag_capture_barrier_quiet(AG_SYM_COUNT);
            ag_capture_memory_goes();
        }
        return ag_target[number];
    }
    if (ag_hooked() && ag_capture_active())
        tell((enum ag_sym)number, registers, stack);
    return ag_real[number] ? ag_real[number] : (void *)no_such_function;
}
