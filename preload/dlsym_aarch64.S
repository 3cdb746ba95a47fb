/*
 * dlsym_aarch64.S - dlsym(handle, name) as programs call it; dlsym_x86_64.S says why it is assembly.
 */
    .text
    .globl  dlsym
    .type   dlsym, %function
    .p2align 4
dlsym:
    .cfi_startproc
    hint    #34                         /* bti c */
    add     x16, x0, #1                 /* RTLD_NEXT is -1, RTLD_DEFAULT is 0 */
    cmp     x16, #1
    b.ls    .Lpass
    cbz     x1, .Lpass
    ldrb    w16, [x1]
    cmp     w16, #'c'
    b.ne    .Lpass
    ldrb    w16, [x1, #1]
    cmp     w16, #'u'
    b.ne    .Lpass
    ldrb    w16, [x1, #2]
    sub     w16, w16, #'A'
    cmp     w16, #25
    b.hi    .Lpass
    mov     x2, x30
    b       ag_dlsym_cuda
.Lpass:
    adrp    x16, ag_next_dlsym
    ldr     x16, [x16, :lo12:ag_next_dlsym]
    cbz     x16, .Lfind
    br      x16
.Lfind:
    stp     x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    stp     x0, x1, [sp, #16]
    bl      ag_find_next_dlsym
    mov     x16, x0
    ldp     x0, x1, [sp, #16]
    ldp     x29, x30, [sp], #32
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    br      x16
    .cfi_endproc
    .size   dlsym, . - dlsym
    .hidden ag_dlsym_cuda
    .hidden ag_find_next_dlsym
    .hidden ag_next_dlsym
    .section .note.GNU-stack, "", %progbits
