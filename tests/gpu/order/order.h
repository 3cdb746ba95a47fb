/*
 * order.h - what the cases of `order` share: memory that launches map, and what it must hold.
 *
 * Each launch maps all elements alike, and no two maps commute, so that one number on the CPU
 * follows the memory exactly.
 */
#pragma once

#include "tests/gpu/faults/faults.h"

#include <stdbool.h>

#define ROUNDS  300
#define THREADS 4

/* A loop and the element that its memory must hold once everything submitted has run. */
struct lane {
    struct fault_loop loop;
    uint32_t expected;
};

/* Launches number `from` to `to` of a step. */
void order_launches(struct lane *lane, CUstream stream, int from, int to);

/* Whether the memory is what it has to be; says where it first is not. Waits for nothing but the
 * legacy stream. */
bool order_memory_holds(const struct lane *lane, int round);

CUstream order_stream(unsigned int flags);

/* Memory and events of two processes (order_ipc.c); `order ipc-peer` is the other process. */
bool order_ipc(struct lane *lanes);
int order_ipc_peer(void);

/* A limit of shared memory that goes to and fro (order_limits.c). */
bool order_limits(struct lane *lanes);
