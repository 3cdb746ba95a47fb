/*
 * stub_macros.h - what stubs are made of, for assembly. AG_FAST and AG_SLOW, which are instructions,
 * are each processor's own (stubs_*.S).
 */
#ifndef AG_STUB_MACROS_H
#define AG_STUB_MACROS_H

/* Where an indirect call may land. */
#if defined(__x86_64__)
#define AG_LANDING endbr64
#else
#define AG_LANDING hint #34 /* bti c */
#endif

/* Ends with the .cfi_endproc and the .size of whoever uses it. */
    .macro AG_ENTRY name
    .globl  \name
    .type   \name, %function
    .p2align 4
\name:
    .cfi_startproc
    AG_LANDING
    .endm

    .macro AG_STUB name, index
    AG_ENTRY \name
    AG_FAST \index
    AG_SLOW \index
    .size   \name, . - \name
    .endm

    /* A call that invalidates something is told of even when nothing is open. */
    .macro AG_STUB_TRACK name, index
    AG_ENTRY \name
    AG_SLOW \index
    .size   \name, . - \name
    .endm

    /* What it does is not known: told of always. */
    .macro AG_POOL_STUB slot, index
    .p2align 4
.Lag_pool_\slot:
    .cfi_startproc
    AG_LANDING
    AG_SLOW \index
    .endm

    .macro AG_TABLE name, section
    .section \section, "aw", %progbits
    .p2align 3
    .globl  \name
    .hidden \name
    .type   \name, %object
\name:
    .endm
    .macro AG_TABLE_END name
    .size   \name, . - \name
    .endm

#endif
