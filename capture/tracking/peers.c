/*
 * peers.c - whether the program has kernels that wait for peers. Until it has found one, launches
 * on dormant streams need not be checked for them.
 */
#include "capture/tracking/peers.h"
#include "capture/capture.h"
#include "capture/tracking/function.h"
#include "capture/tracking/dormant.h"

_Atomic bool ag_peers_are_known;

/* The program cannot launch the kernel before this call. The new generation voids what threads
 * remember of dormant streams, so each thread's next launch is checked. */
void ag_core_kernel_found(const char *name)
{
    if (ag_name_is_of_peers(name) && !atomic_exchange(&ag_peers_are_known, true))
        atomic_fetch_add(&ag_stream_generation, 1);
}

void ag_core_kernels_found(const CUkernel *kernels, unsigned int n)
{
    for (unsigned int i = 0; i < n && !atomic_load(&ag_peers_are_known); i++)
        ag_core_kernel_found(ag_function_name((CUfunction)kernels[i]));
}

void ag_core_functions_found(const CUfunction *functions, unsigned int n)
{
    for (unsigned int i = 0; i < n && !atomic_load(&ag_peers_are_known); i++)
        ag_core_kernel_found(ag_function_name(functions[i]));
}
