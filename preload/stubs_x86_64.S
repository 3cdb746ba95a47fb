/*
 * stubs_x86_64.S - the entry points that need no argument understood: barriers of all kinds.
 *
 * A stub knows no signature. If no stream is open (none has seen an op since its last sync point), it
 * is one compare and a jump to the driver. Otherwise it saves every argument register and calls
 * ag_stub_slow() with the call's number and the place of its arguments. Then it restores everything
 * and jumps to the driver, which sees the caller's stack.
 */
#include "preload/exporttable.h"
#include "preload/stub_macros.inc"

    .macro AG_FAST index
    cmpl    $0, ag_open_streams(%rip)
    jne     1f
    jmp     *ag_target + 8 * \index(%rip)
1:
    .endm

    .macro AG_SLOW index
    movl    $\index, %r11d
    jmp     ag_stub_common
    .cfi_endproc
    .endm

    /* Stubs of AG_TABLE_STUB_BYTES each, one behind the other: no table of their addresses. */
    .macro AG_TABLE_STUBS first, count
    .p2align 4
    .globl  ag_table_stubs
    .hidden ag_table_stubs
    .type   ag_table_stubs, @function
ag_table_stubs:
    .cfi_startproc
    .set    .Lnumber, \first
    .rept   \count
    AG_LANDING
    movl    $.Lnumber, %r11d
    jmp     ag_stub_common
    .set    .Lnumber, .Lnumber + 1
    .org    ag_table_stubs + (.Lnumber - \first) * AG_TABLE_STUB_BYTES, 0xcc
    .endr
    .cfi_endproc
    .size   ag_table_stubs, . - ag_table_stubs
    .endm

    .text
    .type   ag_stub_common, @function
    .p2align 4
ag_stub_common:                         /* r11: the symbol's number */
    .cfi_startproc
    pushq   %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq    %rsp, %rbp
    .cfi_def_cfa_register %rbp
    andq    $-16, %rsp
    subq    $192, %rsp
    movq    %rdi, 0(%rsp)
    movq    %rsi, 8(%rsp)
    movq    %rdx, 16(%rsp)
    movq    %rcx, 24(%rsp)
    movq    %r8, 32(%rsp)
    movq    %r9, 40(%rsp)
    movq    %rax, 48(%rsp)
    movups  %xmm0, 64(%rsp)
    movups  %xmm1, 80(%rsp)
    movups  %xmm2, 96(%rsp)
    movups  %xmm3, 112(%rsp)
    movups  %xmm4, 128(%rsp)
    movups  %xmm5, 144(%rsp)
    movups  %xmm6, 160(%rsp)
    movups  %xmm7, 176(%rsp)
    movl    %r11d, %edi
    movq    %rsp, %rsi
    leaq    16(%rbp), %rdx              /* the arguments beyond the registers */
    call    ag_stub_slow
    movq    %rax, %r11
    movq    0(%rsp), %rdi
    movq    8(%rsp), %rsi
    movq    16(%rsp), %rdx
    movq    24(%rsp), %rcx
    movq    32(%rsp), %r8
    movq    40(%rsp), %r9
    movq    48(%rsp), %rax
    movups  64(%rsp), %xmm0
    movups  80(%rsp), %xmm1
    movups  96(%rsp), %xmm2
    movups  112(%rsp), %xmm3
    movups  128(%rsp), %xmm4
    movups  144(%rsp), %xmm5
    movups  160(%rsp), %xmm6
    movups  176(%rsp), %xmm7
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    jmp     *%r11
    .cfi_endproc
    .size   ag_stub_common, . - ag_stub_common

#include "driver/generated/stubs.inc"
#include "driver/generated/addresses.inc"

    .hidden ag_open_streams
    .hidden ag_target
    .hidden ag_stub_slow
    .section .note.GNU-stack, "", @progbits
