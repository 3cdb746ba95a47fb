/*
 * table.h - what the library knows about each entry point. Generated from entries.tbl.
 */
#pragma once

#include <stdint.h>
#include "driver/entries.h"

/* entries.tbl explains the classes. */
enum ag_class {
    AG_CLASS_PASS,
    AG_CLASS_OP,
    AG_CLASS_STREAM_BARRIER,
    AG_CLASS_BARRIER,
    AG_CLASS_TRACK,
    AG_CLASS_CAPTURE
};

enum ag_entry_flag {
    AG_ENTRY_BLOCKS = 1,          /* the host may wait for the GPU inside the call */
    AG_ENTRY_PTSZ = 2,            /* _ptsz or _ptds: stream 0 is the calling thread's */
    AG_ENTRY_KILLS_FUNCTIONS = 4, /* functions change their meaning */
    AG_ENTRY_PROMPT = 8,          /* returns at once, even if another thread waits in the driver */
    AG_ENTRY_HOOK = 32,           /* it has a hook in C instead of a stub */
    AG_ENTRY_KILLS_REPLAY = 16,   /* from here on, replaying might be wrong */
    AG_ENTRY_KILLS_MEMORY = 64,   /* an address may stop being plain device memory */
    AG_ENTRY_LEGACY = 256,   /* waits for no launch of another thread into a non-blocking stream */
    AG_ENTRY_BETWEEN = 1024, /* may copy between two devices, and then waits for every launch */
    AG_ENTRY_KILLS_MAPPED = 512, /* what the program maps may be no memory from here on */
    AG_ENTRY_KILLS_PEERS = 2048, /* kernels may get at memory of another device from here on */
    AG_ENTRY_KILLS_MODULE = 128  /* ends the first argument, its functions and variables */
};

struct ag_entry {
    const char *name;
    uint8_t cls;
    uint16_t flags;
    int8_t stream_arg; /* position of the first CUstream argument, or -1 */
};
extern const struct ag_entry ag_entries[AG_SYM_COUNT];
