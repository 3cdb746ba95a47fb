/*
 * dlsym_x86_64.S - dlsym(handle, name) as programs call it.
 *
 * glibc takes the meaning of RTLD_NEXT and RTLD_DEFAULT from the return address of its caller. So
 * everything but a name cu[A-Z]* with an explicit handle is a tail jump: the next dlsym finds the
 * program's return address on the stack and never knows that this was here.
 */
    .text
    .globl  dlsym
    .type   dlsym, @function
    .p2align 4
dlsym:
    .cfi_startproc
    endbr64
    leaq    1(%rdi), %rax               /* RTLD_NEXT is -1, RTLD_DEFAULT is 0 */
    cmpq    $1, %rax
    jbe     .Lpass
    testq   %rsi, %rsi
    jz      .Lpass
    cmpb    $'c', (%rsi)
    jne     .Lpass
    cmpb    $'u', 1(%rsi)
    jne     .Lpass
    movzbl  2(%rsi), %eax
    subl    $'A', %eax
    cmpl    $25, %eax
    ja      .Lpass
    movq    (%rsp), %rdx
    jmp     ag_dlsym_cuda
.Lpass:
    movq    ag_next_dlsym(%rip), %rax
    testq   %rax, %rax
    jz      .Lfind
    jmp     *%rax
.Lfind:
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    call    ag_find_next_dlsym
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    jmp     *%rax
    .cfi_endproc
    .size   dlsym, . - dlsym
    .hidden ag_dlsym_cuda
    .hidden ag_find_next_dlsym
    .hidden ag_next_dlsym
    .section .note.GNU-stack, "", @progbits
