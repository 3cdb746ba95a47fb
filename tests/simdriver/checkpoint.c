/* checkpoint.c - while the process is locked for a checkpoint, every other call waits (cuda.h,
 * cuCheckpointProcessLock). Of these calls it knows those that lock, unlock and ask, for this
 * process. */
#include "sim.h"
#include <unistd.h>

void sim_checkpoint_wait(enum sim_symbol symbol)
{
    bool passes = symbol == SIM_cuCheckpointProcessLock ||
                  symbol == SIM_cuCheckpointProcessUnlock ||
                  symbol == SIM_cuCheckpointProcessGetState;
    for (unsigned int n = 0; !passes && atomic_load(&sim_attention) & SIM_ATTEND_LOCKED; n++)
        sim_look_later(n);
}

SIM_API(cuCheckpointProcessLock, (int pid, CUcheckpointLockArgs *args), (pid, args))
{
    (void)args;
    if (pid != getpid())
        return CUDA_ERROR_NOT_SUPPORTED;
    return atomic_fetch_or(&sim_attention, SIM_ATTEND_LOCKED) & SIM_ATTEND_LOCKED
               ? CUDA_ERROR_ILLEGAL_STATE
               : CUDA_SUCCESS;
}

SIM_API(cuCheckpointProcessUnlock, (int pid, CUcheckpointUnlockArgs *args), (pid, args))
{
    (void)args;
    if (pid != getpid())
        return CUDA_ERROR_NOT_SUPPORTED;
    return atomic_fetch_and(&sim_attention, ~(unsigned int)SIM_ATTEND_LOCKED) & SIM_ATTEND_LOCKED
               ? CUDA_SUCCESS
               : CUDA_ERROR_ILLEGAL_STATE;
}

SIM_API(cuCheckpointProcessGetState, (int pid, CUprocessState *state), (pid, state))
{
    if (pid != getpid() || !state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = atomic_load(&sim_attention) & SIM_ATTEND_LOCKED ? CU_PROCESS_STATE_LOCKED
                                                             : CU_PROCESS_STATE_RUNNING;
    return CUDA_SUCCESS;
}
