/* execute_launch.c - ops: launches. */
#include "tests/fuzz/execute_op.h"
#include "tests/fuzz/model.h"

struct shape {
    unsigned int grid[3], block[3], shared;
};

static struct shape shape_of(int number)
{
    static const struct shape shapes[FZ_SHAPES] = {
        {{1, 1, 1}, {1, 1, 1}, 0},  {{1, 1, 1}, {32, 1, 1}, 0},   {{4, 1, 1}, {32, 2, 1}, 0},
        {{2, 3, 1}, {8, 2, 2}, 64}, {{4, 1, 1}, {32, 2, 1}, 128}, {{16, 2, 2}, {64, 1, 1}, 1024},
    };
    unsigned int n = (unsigned int)(number - FZ_SHAPES);
    if (number < FZ_SHAPES)
        return shapes[number];
    return (struct shape){{n / 2 % 24 + 1, n / 48 + 1, 1}, {n % 2 ? 64 : 32, 1, 1}, 0};
}

static void pack(struct fz_arguments *g, const void *bytes, size_t n)
{
    memcpy(&g->packed, bytes, n);
    g->packed_bytes = n;
}

void fz_make_arguments(struct fz_arguments *g, int kernel)
{
    switch (kernel) {
    case FZ_MIX:
        g->params[0] = &g->x;
        g->params[1] = &g->k;
        pack(g, (uint64_t[]){g->x, g->k}, 16);
        break;
    case FZ_JOIN:
        g->params[0] = &g->x;
        g->params[1] = &g->y;
        g->params[2] = &g->k;
        pack(g, (uint64_t[]){g->x, g->y, g->k}, 24);
        break;
    case FZ_SPAN:
        g->n = 8;
        g->params[0] = &g->x;
        g->params[1] = &g->n;
        g->params[2] = &g->k;
        g->packed.words[0] = g->x;
        memcpy(&g->packed.words[1], &g->n, sizeof g->n); /* and a gap of four bytes */
        g->packed.words[2] = g->k;
        g->packed_bytes = 24;
        break;
    case FZ_BIG:
        for (unsigned int i = 0; i < 512; i++)
            g->big.word[i] = g->k * (i + 1);
        g->params[0] = &g->x;
        g->params[1] = &g->big;
        g->packed.big.x = g->x;
        g->packed.big.big = g->big;
        g->packed_bytes = sizeof g->packed.big;
        break;
    case FZ_ODD:
        poison(&g->odd, sizeof g->odd);
        memset(g->odd.e, (int)(g->k & 0x7f), sizeof g->odd.e);
        g->odd.a = (uint8_t)g->k;
        g->odd.b = (uint16_t)(g->k * 3);
        g->odd.x = g->x;
        g->odd.c = (uint8_t)(g->k * 5);
        g->odd.d = (float)(g->k & 0xff);
        g->params[0] = &g->odd.a;
        g->params[1] = &g->odd.b;
        g->params[2] = &g->odd.x;
        g->params[3] = &g->odd.c;
        g->params[4] = &g->odd.d;
        g->params[5] = &g->odd.e;
        pack(g, &g->odd, offsetof(struct fz_odd, e) + sizeof g->odd.e);
        break;
    default:
        g->packed_bytes = 0;
        break;
    }
    g->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    g->extra[1] = &g->packed;
    g->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    g->extra[3] = &g->packed_bytes;
    g->extra[4] = CU_LAUNCH_PARAM_END;
}

static unsigned int make_attributes(int how, CUlaunchAttribute *list)
{
    poison(list, 2 * sizeof *list);
    switch (how) {
    case FZ_EX_PRIORITY:
        list[0].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
        list[0].value.priority = -1;
        return 1;
    case FZ_EX_OVERLAP:
        list[0].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
        list[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        list[1].value.programmaticStreamSerializationAllowed = 1;
        return 2;
    case FZ_EX_COOP:
        list[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        list[0].value.cooperative = 1;
        return 1;
    case FZ_EX_CLUSTER:
        list[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        list[0].value.clusterDim.x = list[0].value.clusterDim.y = list[0].value.clusterDim.z = 1;
        return 1;
    case FZ_EX_DOMAIN:
        list[0].id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP;
        list[0].value.memSyncDomainMap.default_ = 0;
        list[0].value.memSyncDomainMap.remote = 1;
        list[1].id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
        list[1].value.accessPolicyWindow.base_ptr = NULL;
        list[1].value.accessPolicyWindow.num_bytes = 0;
        list[1].value.accessPolicyWindow.hitRatio = 0;
        list[1].value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_NORMAL;
        list[1].value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_NORMAL;
        return 2;
    default:
        return 0;
    }
}

void fz_launch(const struct fz_run *r, int slot, CUfunction f, int how, int shape,
               struct fz_arguments *g)
{
    const struct shape dims = shape_of(shape);
    const unsigned int *d = dims.grid, *b = dims.block;
    unsigned int shared = dims.shared;
    CUstream s = handle(r, slot);
    CUlaunchAttribute attributes[2];
    CUlaunchConfig config = {.gridDimX = d[0],
                             .gridDimY = d[1],
                             .gridDimZ = d[2],
                             .blockDimX = b[0],
                             .blockDimY = b[1],
                             .blockDimZ = b[2],
                             .sharedMemBytes = shared,
                             .hStream = s,
                             .attrs = attributes,
                             .numAttrs = make_attributes(how, attributes)};
    switch (how) {
    case FZ_PARAMS:
        check(r, ON(slot, cuLaunchKernel, f, d[0], d[1], d[2], b[0], b[1], b[2], shared, s,
                    g->params, NULL));
        break;
    case FZ_EXTRA:
        check(r, ON(slot, cuLaunchKernel, f, d[0], d[1], d[2], b[0], b[1], b[2], shared, s, NULL,
                    g->extra));
        break;
    case FZ_COOP:
        check(r, ON(slot, cuLaunchCooperativeKernel, f, d[0], d[1], d[2], b[0], b[1], b[2], shared,
                    s, g->params));
        break;
    default:
        check(r, ON(slot, cuLaunchKernelEx, &config, f, g->params, NULL));
        break;
    }
}

void fz_run_launch(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* stream kernel module how shape buf off buf2 off2 k */
    struct fz_arguments g;
    poison(&g, sizeof g);
    g.k = (uint64_t)a[9];
    if (a[1] != FZ_NONE)
        g.x = address(r, a[5], a[6]);
    if (a[1] == FZ_JOIN)
        g.y = address(r, a[7], a[8]);
    fz_make_arguments(&g, a[1]);
    fz_launch(r, a[0], r->h->module[a[2]].function[a[1]], a[3], a[4], &g);
    memset(&g, 0xee, sizeof g); /* the driver has copied them, and so must everybody else have */
}

void fz_run_slow(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* stream module us */
    uint32_t us = (uint32_t)a[2];
    struct fz_arguments g = {.params = {&us}};
    fz_launch(r, a[0], r->h->module[a[1]].function[FZ_SLOW], FZ_PARAMS, 0, &g);
}

void fz_run_fire(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* stream module buf event how k */
    CUlaunchAttribute attribute;
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, handle(r, a[0]), &attribute, 1};
    int kernel = a[2] < 0 ? FZ_NONE : FZ_MIX;
    struct fz_arguments g;
    poison(&attribute, sizeof attribute);
    if (a[4] == 2) {
        attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
        attribute.value.launchCompletionEvent.event = r->h->event[a[3]];
        attribute.value.launchCompletionEvent.flags = 0;
    } else {
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
        attribute.value.programmaticEvent.event = r->h->event[a[3]];
        attribute.value.programmaticEvent.flags = 0;
        attribute.value.programmaticEvent.triggerAtBlockStart = a[4];
    }
    g.x = a[2] < 0 ? 0 : address(r, a[2], 0);
    g.k = (uint64_t)a[5];
    fz_make_arguments(&g, kernel);
    check(r,
          ON(a[0], cuLaunchKernelEx, &config, r->h->module[a[1]].function[kernel], g.params, NULL));
    if (r->result->error != CUDA_SUCCESS) /* others rely on the event all the same */
        ON(a[0], cuEventRecord, r->h->event[a[3]], handle(r, a[0]));
}

void fz_run_bad(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* stream what module */
    CUstream s = handle(r, a[0]);
    CUfunction f = r->h->module[a[2]].function[FZ_MIX];
    /* should a driver run it all the same, it must do no harm */
    uint64_t x = fz_limits.real ? (uintptr_t)r->h->scratch : 0, k = 0;
    void *params[] = {&x, &k}, *none[] = {CU_LAUNCH_PARAM_END};
    CUlaunchAttribute unknown = {.id = (CUlaunchAttributeID)99};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, s, &unknown, 1};
    switch (a[1]) {
    case 0:
        check(r, ON(a[0], cuLaunchKernel, f, 0, 1, 1, 1, 1, 1, 0, s, params, NULL));
        break;
    case 1:
        check(r, ON(a[0], cuLaunchKernel, f, 1, 1, 1, 1025, 1, 1, 0, s, params, NULL));
        break;
    case 2:
        check(r, ON(a[0], cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
        break;
    case 3:
        check(r, ON(a[0], cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
        break;
    case 4:
        check(r, ON(a[0], cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 1 << 30, s, params, NULL));
        break;
    case 5:
        check(r, ON(a[0], cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, s, NULL, none));
        break;
    case 6:
        check(r, ON(a[0], cuLaunchKernelEx, &config, f, params, NULL));
        break;
    default:
        check(r, ON(a[0], cuMemsetD32Async, 4096, 1, 4, s));
        break;
    }
}

/* Memory is used twice and freed, the second time too late: what was known of the address no longer
 * holds. */
void fz_run_stale(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* stream words how good */
    size_t n = (size_t)a[1];
    CUstream s = handle(r, a[0]);
    CUdeviceptr p = 0;
    check(r, cuMemAlloc_v2(&p, 2 * n * 8));
    for (int i = 0; i < 2; i++) {
        CUresult e = a[2] == 0   ? ON(a[0], cuMemsetD32Async, p, 5, n, s)
                     : a[2] == 1 ? ON(a[0], cuMemsetD2D8Async, p, 16, 5, n, 2, s)
                                 : ON(a[0], cuMemcpyDtoDAsync_v2, p, p + n * 8, n * 8, s);
        if (i == (a[3] ? 1 : 0))
            check(r, cuMemFree_v2(p));
        check(r, e);
    }
}
