/*
 * entries.h - every entry point of the CUDA driver by number, and the driver's own functions.
 *
 * The numbers (enum ag_sym) stand for exported symbol names, not API names: in CUDA 13
 * `cuCtxCreate` means cuCtxCreate_v4, and a program may hold either. So this header includes
 * cuda.h with __CUDA_API_VERSION_INTERNAL, which leaves the names alone. Every file of the library
 * must get cuda.h from here.
 *
 * ag_real[] holds the addresses of the driver's own functions. It is filled once, before
 * ag_core_start(), and never changes again. An entry is NULL if this driver has no such symbol.
 */
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#if CUDA_VERSION < 12090 /* the hook of cuLogsRegisterCallback needs its types */
typedef enum { AG_NO_LOG_LEVEL } CUlogLevel;
typedef struct CUlogsCallbackEntry_st *CUlogsCallbackHandle;
typedef void(CUDA_CB *CUlogsCallback)(void *data, CUlogLevel level, char *message, size_t length);
#endif

#include "driver/generated/entries_enum.h"
#include "driver/generated/entries_pfn.h"

extern void *ag_real[AG_SYM_COUNT];

/* The driver's own function with its type. Only for symbols in typed.txt and those with a hook. */
#define AG_REAL(name) ((AG_PFN_##name)ag_real[AG_SYM_##name])
/* Whether this driver has the function. */
#define AG_HAVE(name) (ag_real[AG_SYM_##name] != NULL)

/* The exported name. AG_SYM_COUNT (an entry point of a newer driver, which has no number) and
 * anything else out of range give a text that says so. */
const char *ag_sym_name(enum ag_sym sym);
