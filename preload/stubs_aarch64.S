/*
 * stubs_aarch64.S - the entry points that need no argument understood; stubs_x86_64.S explains them.
 */
#include "preload/exporttable.h"
#include "preload/stub_macros.inc"

    .macro AG_FAST index
    adrp    x16, ag_open_streams
    ldr     w16, [x16, :lo12:ag_open_streams]
    cbnz    w16, 1f
    adrp    x16, ag_target + 8 * \index
    ldr     x16, [x16, :lo12:ag_target + 8 * \index]
    br      x16
1:
    .endm

    .macro AG_SLOW index
    mov     w17, #\index
    b       ag_stub_common
    .cfi_endproc
    .endm

    .macro AG_TABLE_STUBS first, count
    .p2align 4
    .globl  ag_table_stubs
    .hidden ag_table_stubs
    .type   ag_table_stubs, %function
ag_table_stubs:
    .cfi_startproc
    .set    .Lnumber, \first
    .rept   \count
    AG_LANDING
    mov     w17, #.Lnumber
    b       ag_stub_common
    .set    .Lnumber, .Lnumber + 1
    .org    ag_table_stubs + (.Lnumber - \first) * AG_TABLE_STUB_BYTES
    .endr
    .cfi_endproc
    .size   ag_table_stubs, . - ag_table_stubs
    .endm

    .text
    .type   ag_stub_common, %function
    .p2align 4
ag_stub_common:                         /* w17: the symbol's number */
    .cfi_startproc
    stp     x29, x30, [sp, #-224]!
    .cfi_def_cfa_offset 224
    .cfi_offset 29, -224
    .cfi_offset 30, -216
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    stp     x2, x3, [sp, #32]
    stp     x4, x5, [sp, #48]
    stp     x6, x7, [sp, #64]
    str     x8, [sp, #80]
    stp     q0, q1, [sp, #96]
    stp     q2, q3, [sp, #128]
    stp     q4, q5, [sp, #160]
    stp     q6, q7, [sp, #192]
    mov     w0, w17
    add     x1, sp, #16
    add     x2, sp, #224                /* the arguments beyond the registers */
    bl      ag_stub_slow
    mov     x16, x0
    ldp     x0, x1, [sp, #16]
    ldp     x2, x3, [sp, #32]
    ldp     x4, x5, [sp, #48]
    ldp     x6, x7, [sp, #64]
    ldr     x8, [sp, #80]
    ldp     q0, q1, [sp, #96]
    ldp     q2, q3, [sp, #128]
    ldp     q4, q5, [sp, #160]
    ldp     q6, q7, [sp, #192]
    ldp     x29, x30, [sp], #224
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    br      x16
    .cfi_endproc
    .size   ag_stub_common, . - ag_stub_common

#include "driver/generated/stubs.inc"
#include "driver/generated/addresses.inc"

    .hidden ag_open_streams
    .hidden ag_target
    .hidden ag_stub_slow
    .section .note.GNU-stack, "", %progbits
