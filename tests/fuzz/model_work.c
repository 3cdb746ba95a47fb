/* model_work.c - ops that put work into a stream, and the host's own accesses to memory. */
#include "tests/fuzz/model_step.h"
#include <string.h>

enum fz_legal fz_do_launch(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream kernel module how shape buf off buf2 off2 k */
    if (!in_range(a[1], FZ_KERNELS) || !module_usable(s, a[2]) || !in_range(a[3], FZ_HOWS) ||
        !in_range(a[4], FZ_SHAPES + FZ_GRIDS))
        return FZ_ILLEGAL;
    if (s->m->capturing[s->thread] && a[3] > FZ_EX)
        return FZ_ILLEGAL;
    struct fz_access list[2];
    unsigned int n = 0;
    if (a[1] != FZ_NONE) {
        if (!buf_usable(s, a[5], a[6], a[1] == FZ_SPAN ? 8 : 1))
            return FZ_ILLEGAL;
        list[n++] = (struct fz_access){(uint8_t)a[5], true};
    }
    if (a[1] == FZ_JOIN) {
        if (!buf_usable(s, a[7], a[8], 1))
            return FZ_ILLEGAL;
        list[n++] = (struct fz_access){(uint8_t)a[7], false};
    }
    return fz_work(s, a[0], list, n, a[2]);
}

enum fz_legal fz_do_slow(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream module us */
    if (s->m->capturing[s->thread] || !module_usable(s, a[1]) || !in_range(a[2], 2001))
        return FZ_ILLEGAL;
    return fz_work(s, a[0], NULL, 0, a[1]);
}

enum fz_legal fz_do_bad(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream what module */
    if (fz_limits.real && (a[1] == 3 || a[1] == 5 || a[1] == 7))
        return FZ_ILLEGAL; /* may run with whatever its parameters were, or end the context */
    if (s->m->capturing[s->thread] || !stream_usable(s, a[0]) || !in_range(a[1], FZ_BADS) ||
        !module_usable(s, a[2]))
        return FZ_ILLEGAL;
    s->m->toucher[clock_of(s->m, s->thread, a[0])] = (uint8_t)(s->thread + 1);
    return FZ_OK;
}

enum fz_legal fz_do_stale(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream words how good */
    if (s->m->capturing[s->thread] || a[1] < 1 || a[1] > FZ_MAX_WORDS || !in_range(a[2], 3) ||
        (fz_limits.real && (!a[3] || a[1] < 2)) || !fz_take_phase(s))
        return FZ_ILLEGAL;
    enum fz_legal r = fz_work(s, a[0], NULL, 0, -1);
    if (r == FZ_OK && !fz_limits.real)
        fz_host_knows_all(s); /* freeing waits */
    return r;
}

enum fz_legal fz_do_fill(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream elem buf off width height value how */
    if ((a[1] != 1 && a[1] != 2 && a[1] != 4) || a[3] < 0 || a[4] < 1 || a[5] < 1 || a[5] > 16 ||
        a[3] > 8 * FZ_MAX_WORDS || a[4] > 8 * FZ_MAX_WORDS || !in_range(a[7], 2))
        return FZ_ILLEGAL;
    /* rows are four elements apart where there are several */
    int bytes = (a[4] * a[5] + 4 * (a[5] - 1)) * a[1];
    if (!buf_usable(s, a[2], 0, (a[3] * a[1] + bytes + 7) / 8))
        return FZ_ILLEGAL;
    if (a[7] && (s->m->capturing[s->thread] || (a[0] != 0 && a[0] != 2)))
        return FZ_ILLEGAL; /* the synchronous form has no stream argument */
    return fz_work(s, a[0], &(struct fz_access){(uint8_t)a[2], true}, 1, -1);
}

/* Whether what an access must be ordered behind is in the same stream or known to be over. */
static bool surely_ordered(const struct fz_step *s, unsigned int c, int buf, bool write)
{
    uint32_t clock[FZ_CLOCKS];
    memcpy(clock, s->m->host[s->thread], sizeof clock);
    clock[c] = s->m->clock[c][c];
    return fz_ordered(s, clock, buf, write);
}

/* A copy from memory of the host in a stream that the legacy stream and it wait for each other: on
 * an H200 it did not wait for what another such stream was still writing there (docs/proof.md). */
static bool overtakes(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream dst doff src soff words how */
    if (!fz_limits.real || s->m->buf[a[3]].kind == FZ_DEVICE || !stream_usable(s, a[0]))
        return false;
    unsigned int c = clock_of(s->m, s->thread, a[0]);
    if (a[0] >= FZ_FIRST_STREAM && !s->m->blocking[c])
        return false;
    return !surely_ordered(s, c, a[3], false) || !surely_ordered(s, c, a[1], true);
}

enum fz_legal fz_do_copy(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream dst doff src soff words how */
    const struct fz_model *m = s->m;
    if (!buf_usable(s, a[1], a[2], a[5]) || !buf_usable(s, a[3], a[4], a[5]) ||
        !in_range(a[6], FZ_COPIES))
        return FZ_ILLEGAL;
    if ((a[6] == FZ_HTOD && (m->buf[a[3]].kind != FZ_PINNED || m->buf[a[1]].kind != FZ_DEVICE)) ||
        (a[6] == FZ_DTOH && (m->buf[a[1]].kind != FZ_PINNED || m->buf[a[3]].kind != FZ_DEVICE)))
        return FZ_ILLEGAL;
    if (a[6] == FZ_DTOD_SYNC && (m->capturing[s->thread] || (a[0] != 0 && a[0] != 2)))
        return FZ_ILLEGAL;
    /* Two-dimensional and peer copies want device memory here; a synchronous one would wait for
     * pinned memory, but not for device memory. */
    if ((a[6] == FZ_DTOD || a[6] == FZ_DTOD_SYNC || a[6] == FZ_2D || a[6] == FZ_3D ||
         a[6] == FZ_PEER) &&
        (m->buf[a[1]].kind != FZ_DEVICE || m->buf[a[3]].kind != FZ_DEVICE))
        return FZ_ILLEGAL;
    if (m->capturing[s->thread] && a[6] >= FZ_DTOD_SYNC)
        return FZ_ILLEGAL;
    if (fz_limits.real && a[1] == a[3] && a[2] < a[4] + a[5] && a[4] < a[2] + a[5])
        return FZ_ILLEGAL; /* what a copy onto itself leaves is not defined */
    if (overtakes(s))
        return FZ_ILLEGAL;
    return fz_work(
        s, a[0], (struct fz_access[]){{(uint8_t)a[1], true}, {(uint8_t)a[3], a[1] == a[3]}}, 2, -1);
}

enum fz_legal fz_do_upload(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream buf off words k how */
    if (s->m->capturing[s->thread] || !buf_usable(s, a[1], a[2], a[3]) || !in_range(a[5], 3) ||
        (a[5] == 1 && a[0] != 0 && a[0] != 2) || s->m->buf[a[1]].kind == FZ_PINNED)
        return FZ_ILLEGAL;
    enum fz_legal r = fz_work(s, a[0], &(struct fz_access){(uint8_t)a[1], true}, 1, -1);
    if (r == FZ_OK && a[5] == 1 && !fz_limits.real) /* a real one may return before the end */
        fz_host_knows(s, clock_of(s->m, s->thread, a[0]));
    return r;
}

enum fz_legal fz_do_read(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream buf off words how */
    if (s->m->capturing[s->thread] || !buf_usable(s, a[1], a[2], a[3]) || !in_range(a[4], 3) ||
        (a[4] == 1 && a[0] != 0 && a[0] != 2) || s->m->buf[a[1]].kind == FZ_PINNED)
        return FZ_ILLEGAL;
    enum fz_legal r = fz_work(s, a[0], &(struct fz_access){(uint8_t)a[1], false}, 1, -1);
    if (r == FZ_OK)
        fz_host_knows(s, clock_of(s->m, s->thread, a[0]));
    return r;
}

/* The host's own access to mapped memory. */
enum fz_legal fz_do_host_access(const struct fz_step *s, bool write)
{
    struct fz_model *m = s->m;
    int buf = s->op->a[0];
    if (!buf_usable(s, buf, 0, 1) || (m->buf[buf].kind == FZ_DEVICE && s->op->kind != FZ_context))
        return FZ_ILLEGAL;
    if (!fz_ordered(s, m->host[s->thread], buf, write))
        return FZ_RACE;
    m->buf[buf].toucher = (uint8_t)(s->thread + 1);
    return FZ_OK;
}

enum fz_legal fz_do_host(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* stream buf off k how */
    if (!buf_usable(s, a[1], a[2], 1) || s->m->buf[a[1]].kind != FZ_PINNED || !in_range(a[4], 2) ||
        (a[4] && s->m->capturing[s->thread]))
        return FZ_ILLEGAL;
    return fz_work(s, a[0], &(struct fz_access){(uint8_t)a[1], true}, 1, -1);
}
