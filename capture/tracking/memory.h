/* memory.h - see memory.c. */
#pragma once

#include "capture/tracking/stream.h"

/* Rises each time memory is freed or unmapped. */
extern _Atomic uint64_t ag_memory_epoch;
enum ag_memory {
    AG_MEMORY_PLAIN,   /* device memory of the stream's context: a graph may contain an op on it */
    AG_MEMORY_MOVABLE, /* of virtual memory management or a pool: it can be unmapped and mapped
                          again while graphs exist, so only a kernel's arguments may name it. The
                          stream's device has all of it, and may read and write it */
    AG_MEMORY_UNKNOWN, /* not one allocation, or its extent makes no sense */
    AG_MEMORY_MANAGED,
    AG_MEMORY_NO_CONTEXT, /* as AG_MEMORY_MOVABLE, but of another device, not to be written, or
                             perhaps a multicast object */
    AG_MEMORY_OTHER_CONTEXT,
    AG_MEMORY_SYNC, /* the program wants calls that take no stream to wait for the GPU there
                       (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_CTX_SYNC_MEMOPS) */
    AG_MEMORY_HOST,
};
/* What [address, address + bytes) is. What is found of an allocation is remembered until memory is
 * freed or unmapped. `is_sync`: for a call that takes no stream. */
enum ag_memory ag_memory_at(struct ag_stream *s, CUdeviceptr address, size_t bytes, bool is_sync);

/* Whether that is pinned memory of the host, of the stream's context, to which a kernel may write
 * by the same address. That is remembered as well. */
bool ag_memory_is_pinned(struct ag_stream *s, CUdeviceptr address, size_t bytes);

/* The driver looks at a copy's memory while it instantiates the copy's graph, and crashes if that
 * memory is freed meanwhile (580, on an H100, with the fuzzer). So a free waits until the hold is
 * released. ag_memory_hold() fails if anything was freed after `epoch`, when the addresses were
 * checked. */
bool ag_memory_hold(uint64_t epoch);
void ag_memory_release(void);

/* A graph of the program's is about to be launched, which may free memory. */
void ag_memory_graph_is_launched(void);

bool ag_memory_is_of_two_devices(CUdeviceptr a, CUdeviceptr b);
