/*
 * launch_x86_64.S - the hooks of cuLaunchKernel: ag_dormant_passes() (capture/tracking/dormant.h),
 * then a jump to the driver or to the rest (hooks_launch.c), all arguments where they are. Five of
 * them lie on the stack, which compilers load and store again around the jump: 4 ns of every launch.
 */
#include "preload/launch_stub.h"
#include "preload/stub_macros.inc"

    /* `per_thread`: a stream of NULL is the thread's own default stream. */
    .macro AG_LAUNCH_STUB name, index, per_thread
    AG_ENTRY \name
    movq    24(%rsp), %r10 /* the stream */
    .if \per_thread
    movl    $AG_LAUNCH_PER_THREAD, %eax
    testq   %r10, %r10
    cmoveq  %rax, %r10
    .endif
    movq    ag_thread@gottpoff(%rip), %r11
    movabsq $AG_LAUNCH_MULTIPLIER, %rax
    imulq   %r10, %rax
    shrq    $62, %rax
    leaq    (%rax, %rax, 2), %rax
    leaq    AG_LAUNCH_SLOTS(%r11, %rax, 8), %rax
    cmpq    %r10, %fs:AG_LAUNCH_STREAM(%rax)
    je      2f
1:
    jmp     ag_core_\name
2:
    movq    %fs:AG_LAUNCH_GENERATION(%r11), %r11
    cmpq    %r11, ag_stream_generation(%rip)
    jne     1b
    movq    %fs:AG_LAUNCH_HELD(%rax), %r11
    movq    %fs:AG_LAUNCH_DORMANT(%rax), %rax
    cmpl    $0, AG_LAUNCH_ACTIVE(%rax)
    je      1b
    cmpl    $0, (%r11)
    jne     1b
    movl    AG_LAUNCH_LEFT(%rax), %r11d
    subl    $1, %r11d
    jc      1b
    movl    %r11d, AG_LAUNCH_LEFT(%rax)
    jmp     *ag_real + 8 * \index(%rip)
    .cfi_endproc
    .size   \name, . - \name
    .endm

    .section .text.hot, "ax", @progbits
#include "driver/generated/launch.inc"

    .hidden ag_thread
    .hidden ag_stream_generation
    .hidden ag_real
    .hidden ag_core_cuLaunchKernel
    .hidden ag_core_cuLaunchKernel_ptsz
    .section .note.GNU-stack, "", %progbits
