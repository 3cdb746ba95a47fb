/*
 * kernels.c - the registry of kernels and the built-in ones.
 *
 * A built-in kernel computes what its CUDA twin would, all threads of the grid one after the other,
 * in an order that does not depend on how it was submitted: results can be compared bit for bit.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static struct sim_code *codes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const struct sim_code *sim_code_find(const char *name)
{
    pthread_mutex_lock(&lock);
    struct sim_code *c = codes;
    while (c && strcmp(c->name, name))
        c = c->next;
    pthread_mutex_unlock(&lock);
    return c;
}

SIM_EXPORT int cuSimRegisterKernel(const char *name, cuSimKernelFn fn, unsigned int nparams,
                                   const size_t *offsets, const size_t *sizes, unsigned int flags)
{
    struct sim_code *c = calloc(1, sizeof *c);
    if (!c || strlen(name) >= sizeof c->name)
        return free(c), -1;
    strcpy(c->name, name);
    c->fn = fn;
    c->flags = flags;
    c->nparams = nparams;
    c->offsets = calloc(nparams + 1, sizeof *c->offsets);
    c->sizes = calloc(nparams + 1, sizeof *c->sizes);
    if (!c->offsets || !c->sizes)
        return free(c->offsets), free(c->sizes), free(c), -1;
    for (unsigned int i = 0; i < nparams; i++) {
        size_t align = sizes[i] >= 8 ? 8 : sizes[i] >= 4 ? 4 : sizes[i] >= 2 ? 2 : 1;
        c->sizes[i] = sizes[i];
        c->offsets[i] = offsets ? offsets[i] : (c->bytes + align - 1) / align * align;
        if (c->offsets[i] + sizes[i] > c->bytes)
            c->bytes = c->offsets[i] + sizes[i];
    }
    /* In front: it hides an older one of that name, whose handles stay valid. */
    pthread_mutex_lock(&lock);
    c->next = codes;
    codes = c;
    pthread_mutex_unlock(&lock);
    return 0;
}

#define ARG(type, i) (*(type const *)l->params[i])

/* The number of elements that the launched threads reach, as in `i < n` guards of CUDA kernels. */
static size_t reached(const struct cuSimLaunch *l, int n)
{
    uint64_t threads = (uint64_t)l->grid[0] * l->block[0];
    return n < 0 ? 0 : (uint64_t)n < threads ? (size_t)n : (size_t)threads;
}

static void k_empty(const struct cuSimLaunch *l)
{
    (void)l;
}

/* fill(float *x, float value, int n) */
static void k_fill(const struct cuSimLaunch *l)
{
    float *x = ARG(float *, 0), value = ARG(float, 1);
    size_t n = reached(l, ARG(int, 2));
    if (cuSimCheck(x, n * sizeof *x))
        for (size_t i = 0; i < n; i++)
            x[i] = value;
}

/* scale(float *x, float factor, int n) */
static void k_scale(const struct cuSimLaunch *l)
{
    float *x = ARG(float *, 0), factor = ARG(float, 1);
    size_t n = reached(l, ARG(int, 2));
    if (cuSimCheck(x, n * sizeof *x))
        for (size_t i = 0; i < n; i++)
            x[i] *= factor;
}

/* axpy(float *y, const float *x, float a, int n) */
static void k_axpy(const struct cuSimLaunch *l)
{
    float *y = ARG(float *, 0), *x = ARG(float *, 1), a = ARG(float, 2);
    size_t n = reached(l, ARG(int, 3));
    if (cuSimCheck(y, n * sizeof *y) && cuSimCheck(x, n * sizeof *x))
        for (size_t i = 0; i < n; i++)
            y[i] += a * x[i];
}

/* add(float *out, const float *a, const float *b, int n) */
static void k_add(const struct cuSimLaunch *l)
{
    float *out = ARG(float *, 0), *a = ARG(float *, 1), *b = ARG(float *, 2);
    size_t n = reached(l, ARG(int, 3));
    if (cuSimCheck(out, n * sizeof *out) && cuSimCheck(a, n * sizeof *a) &&
        cuSimCheck(b, n * sizeof *b))
        for (size_t i = 0; i < n; i++)
            out[i] = a[i] + b[i];
}

/* hash(uint64_t *x, uint64_t k): the result tells the order in which launches ran */
static void k_hash(const struct cuSimLaunch *l)
{
    uint64_t *x = ARG(uint64_t *, 0), k = ARG(uint64_t, 1);
    if (cuSimCheck(x, sizeof *x))
        *x = *x * 31 + k;
}

/* heat2d(float *out, const float *in, int nx, int ny, float c) */
static void k_heat2d(const struct cuSimLaunch *l)
{
    float *out = ARG(float *, 0), *in = ARG(float *, 1), c = ARG(float, 4);
    int nx = ARG(int, 2), ny = ARG(int, 3);
    size_t bytes = (size_t)nx * (size_t)ny * sizeof(float);
    if (!cuSimCheck(out, bytes) || !cuSimCheck(in, bytes))
        return;
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            int i = y * nx + x;
            if (x == 0 || y == 0 || x == nx - 1 || y == ny - 1)
                out[i] = in[i];
            else
                out[i] = in[i] + c * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] - 4 * in[i]);
        }
}

/* dot(float *out, const float *x, const float *y, int n) */
static void k_dot(const struct cuSimLaunch *l)
{
    float *out = ARG(float *, 0), *x = ARG(float *, 1), *y = ARG(float *, 2), sum = 0;
    size_t n = (size_t)ARG(int, 3);
    if (!cuSimCheck(out, sizeof *out) || !cuSimCheck(x, n * sizeof *x) ||
        !cuSimCheck(y, n * sizeof *y))
        return;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    *out = sum;
}

/* residual(float *out, const float *a, const float *b, int n): the sum of squared differences */
static void k_residual(const struct cuSimLaunch *l)
{
    float *out = ARG(float *, 0), *a = ARG(float *, 1), *b = ARG(float *, 2), sum = 0;
    size_t n = (size_t)ARG(int, 3);
    if (!cuSimCheck(out, sizeof *out) || !cuSimCheck(a, n * sizeof *a) ||
        !cuSimCheck(b, n * sizeof *b))
        return;
    for (size_t i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    *out = sum;
}

/* copy_bytes(void *dst, const void *src, size_t n) */
static void k_copy_bytes(const struct cuSimLaunch *l)
{
    void *dst = ARG(void *, 0), *src = ARG(void *, 1);
    size_t n = ARG(size_t, 2);
    if (cuSimCheck(dst, n) && cuSimCheck(src, n))
        sim_move(dst, src, n);
}

/* spin_us(unsigned int us) */
static void k_spin_us(const struct cuSimLaunch *l)
{
    uint64_t end = sim_now_ns() + (uint64_t)ARG(unsigned int, 0) * 1000;
    for (unsigned int n = 0; sim_now_ns() < end; n++)
        sim_look_later(n);
}

/* trap(int error): the context is lost with that error (719 launch failed, 700 illegal address) */
static void k_trap(const struct cuSimLaunch *l)
{
    cuSimRaise(ARG(int, 0));
}

/* poll(const unsigned int *flag, unsigned int value, unsigned int *out): waits for the host */
static void k_poll(const struct cuSimLaunch *l)
{
    unsigned int *flag = ARG(unsigned int *, 0), *out = ARG(unsigned int *, 2);
    if (!cuSimCheck(flag, sizeof *flag))
        return;
    for (unsigned int n = 0; __atomic_load_n(flag, __ATOMIC_ACQUIRE) != ARG(unsigned int, 1); n++)
        sim_look_later(n);
    if (out && cuSimCheck(out, sizeof *out))
        __atomic_store_n(out, ARG(unsigned int, 1), __ATOMIC_RELEASE);
}

/* publish(unsigned int *flag, unsigned int value): what a host that polls mapped memory sees */
static void k_publish(const struct cuSimLaunch *l)
{
    unsigned int *flag = ARG(unsigned int *, 0);
    if (cuSimCheck(flag, sizeof *flag)) {
        sim_word_shows(flag);
        __atomic_store_n(flag, ARG(unsigned int, 1), __ATOMIC_RELEASE);
    }
}

/* write_late(unsigned int *word, unsigned int value): in a graph it shows behind a fence only */
static void k_write_late(const struct cuSimLaunch *l)
{
    unsigned int *word = ARG(unsigned int *, 0);
    if (cuSimCheck(word, sizeof *word))
        sim_write_late(word, ARG(unsigned int, 1));
}

/* write_late_before(unsigned int *end, unsigned int value): the same of the word in front */
static void k_write_late_before(const struct cuSimLaunch *l)
{
    unsigned int *word = ARG(unsigned int *, 0) - 1;
    if (cuSimCheck(word, sizeof *word))
        sim_write_late(word, ARG(unsigned int, 1));
}

/* big_struct(uint64_t *out, struct { uint64_t word[512]; } s): hashes all 4 KB into *out */
static void k_big_struct(const struct cuSimLaunch *l)
{
    uint64_t *out = ARG(uint64_t *, 0), word, sum;
    if (!cuSimCheck(out, sizeof *out))
        return;
    sum = *out;
    for (size_t i = 0; i < 512; i++) {
        memcpy(&word, (const char *)l->params[1] + i * 8, 8);
        sum = sum * 31 + word;
    }
    *out = sum;
}

/* What the library's own kernels are for is memory of their own device; what else an op may name is
 * the driver's business. */
static bool is_here(const void *address, size_t bytes)
{
    struct sim_allocation a;
    if (!sim_mem_find((uintptr_t)address, &a) || a.device == sim_running->ctx->device)
        return cuSimCheck(address, bytes);
    sim_misuse("a kernel of the library touches memory of device %d", a.device);
    return false;
}

/* The library's own: ag_fill(unsigned char *dst, uint64_t pitch, width, height, uint32_t pattern),
 * four bytes that are repeated in each row. */
static void k_ag_fill(const struct cuSimLaunch *l)
{
    unsigned char *dst = ARG(unsigned char *, 0);
    uint64_t pitch = ARG(uint64_t, 1), width = ARG(uint64_t, 2), height = ARG(uint64_t, 3);
    uint32_t pattern = ARG(uint32_t, 4);
    for (uint64_t row = 0; row < height; row++) {
        unsigned char *begin = dst + row * pitch;
        if (!is_here(begin, width))
            return;
        for (uint64_t i = 0; i < width; i++)
            begin[i] = (unsigned char)(pattern >> (8 * (i & 3)));
    }
}

/* And ag_copy(unsigned char *dst, const unsigned char *src, uint64_t bytes, height, depth,
 * dst_pitch, src_pitch, dst_slice, src_slice); no row may overlap with itself. */
static void k_ag_copy(const struct cuSimLaunch *l)
{
    unsigned char *dst = ARG(unsigned char *, 0), *src = ARG(unsigned char *, 1);
    uint64_t n = ARG(uint64_t, 2), height = ARG(uint64_t, 3), depth = ARG(uint64_t, 4);
    for (uint64_t row = 0; row < height * depth; row++) {
        uint64_t y = row % height, z = row / height;
        unsigned char *to = dst + z * ARG(uint64_t, 7) + y * ARG(uint64_t, 5);
        unsigned char *from = src + z * ARG(uint64_t, 8) + y * ARG(uint64_t, 6);
        if (to < from + n && from < to + n)
            sim_misuse("the library's copy kernel copies what overlaps");
        if (!is_here(to, n) || !is_here(from, n))
            return;
        sim_word_shows(to);
        sim_move(to, from, n);
    }
}

/* And ag_fence(): what was written late shows now. */
static void k_ag_fence(const struct cuSimLaunch *l)
{
    (void)l;
    sim_show_late_writes();
}

void sim_code_builtin(void)
{
    enum { P = sizeof(void *), F = sizeof(float), I = sizeof(int) };
    static const struct {
        const char *name;
        cuSimKernelFn fn;
        unsigned int nparams;
        size_t sizes[9];
        unsigned int flags;
    } builtin[] = {
        {"empty", k_empty, 0, {0}, 0},
        {"fill", k_fill, 3, {P, F, I}, 0},
        {"scale", k_scale, 3, {P, F, I}, 0},
        {"axpy", k_axpy, 4, {P, P, F, I}, 0},
        {"add", k_add, 4, {P, P, P, I}, 0},
        {"hash", k_hash, 2, {P, 8}, 0},
        {"heat2d", k_heat2d, 5, {P, P, I, I, F}, 0},
        {"dot", k_dot, 4, {P, P, P, I}, 0},
        {"residual", k_residual, 4, {P, P, P, I}, 0},
        {"copy_bytes", k_copy_bytes, 3, {P, P, sizeof(size_t)}, 0},
        {"spin_us", k_spin_us, 1, {I}, 0},
        {"trap", k_trap, 1, {I}, 0},
        {"poll", k_poll, 3, {P, I, P}, CUSIM_MAY_BLOCK},
        {"publish", k_publish, 2, {P, I}, 0},
        {"write_late", k_write_late, 2, {P, I}, 0},
        {"write_late_before", k_write_late_before, 2, {P, I}, 0},
        {"big_struct", k_big_struct, 2, {P, 4096}, 0},
        {"ag_fill", k_ag_fill, 5, {P, 8, 8, 8, 4}, 0},
        {"ag_copy", k_ag_copy, 9, {P, P, 8, 8, 8, 8, 8, 8, 8}, 0},
        {"ag_fence", k_ag_fence, 0, {0}, 0},
        {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", k_add, 4, {P, P, P, I}, 0},
        {"ncclDevKernel_SendRecv", k_copy_bytes, 3, {P, P, sizeof(size_t)}, 0},
    };
    static _Atomic bool done;
    if (atomic_exchange(&done, true))
        return;
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
        if (!sim_code_find(builtin[i].name)) /* the program's own of that name stays */
            cuSimRegisterKernel(builtin[i].name, builtin[i].fn, builtin[i].nparams, NULL,
                                builtin[i].sizes, builtin[i].flags);
}
