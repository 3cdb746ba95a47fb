/*
 * lower.c - fills and copies as launches of the library's own kernels.
 *
 * A graph of kernels alone launches fastest. And the driver keeps nothing of a kernel's arguments:
 * it looks at no address, neither while it builds a graph nor when it updates a node. So memory
 * that may be unmapped or moved while a graph exists can be an argument of a kernel, but not what a
 * memset or memcpy node is made of.
 */
#include "capture/graphs/lower.h"
#include "capture/graphs/ownkernels.h"

enum { MOST_BLOCKS_YZ = 65535 }; /* CUDA's limit */

CUfunction ag_lowering(const struct ag_context *context, const struct ag_signature *signature)
{
    if (signature->kind == AG_OP_MEMSET)
        return ag_own_kernel(context, AG_OWN_FILL);
    if (signature->kind == AG_OP_COPY && signature->movable)
        return ag_own_kernel(context, AG_OWN_COPY);
    return NULL;
}

static unsigned int up_to(uint64_t blocks, unsigned int most)
{
    return blocks < most ? (unsigned int)blocks : most;
}

/* One thread for each slot, up to a number of blocks that fills any GPU. The kernels stride over
 * what the grid does not reach. Of short rows, a block has several. */
static void set_grid(CUDA_KERNEL_NODE_PARAMS *launch, uint64_t slots, uint64_t rows, uint64_t depth)
{
    unsigned int threads = AG_OWN_THREADS, least = 16; /* ownkernels.cu */
    while (rows > 1 && threads > least && threads / 2 >= slots)
        threads /= 2;
    launch->blockDimX = threads;
    launch->blockDimY = AG_OWN_THREADS / threads;
    launch->blockDimZ = 1;
    launch->gridDimX = up_to((slots + threads - 1) / threads, AG_OWN_MOST_BLOCKS);
    launch->gridDimY = up_to((rows + launch->blockDimY - 1) / launch->blockDimY, MOST_BLOCKS_YZ);
    launch->gridDimZ = up_to(depth, MOST_BLOCKS_YZ);
}

static void lower_fill(const struct ag_signature *signature, const uint8_t *recorded,
                       struct ag_lowered *out)
{
    struct ag_recorded_fill args;
    memcpy(&args, recorded, sizeof(args));
    enum { SLOT = 16 };
    uint32_t element = (uint32_t)args.value;
    if (signature->elem_size == 1)
        element = (element & 0xff) * 0x01010101u;
    else if (signature->elem_size == 2)
        element = (element & 0xffff) * 0x00010001u;
    out->dst = args.dst;
    out->pitch = signature->rows.dst_pitch;
    out->width = signature->width * signature->elem_size;
    out->height = signature->rows.height;
    out->pattern = element;
    out->params[0] = &out->dst;
    out->params[1] = &out->pitch;
    out->params[2] = &out->width;
    out->params[3] = &out->height;
    out->params[4] = &out->pattern;
    /* A row that does not begin at a multiple of 16 takes one slot more. */
    set_grid(&out->launch, out->width / SLOT + 2, out->height, 1);
}

static void lower_copy(const struct ag_signature *signature, const uint8_t *recorded,
                       struct ag_lowered *out)
{
    struct ag_recorded_copy args;
    memcpy(&args, recorded, sizeof(args));
    out->dst = args.dst;
    out->src = args.src;
    out->width = signature->width;
    out->rows = signature->rows.depth ? signature->rows : (struct ag_rows){1, 1, 0, 0, 0, 0};
    out->params[0] = &out->dst;
    out->params[1] = &out->src;
    out->params[2] = &out->width;
    out->params[3] = &out->rows.height;
    out->params[4] = &out->rows.depth;
    out->params[5] = &out->rows.dst_pitch;
    out->params[6] = &out->rows.src_pitch;
    out->params[7] = &out->rows.dst_slice;
    out->params[8] = &out->rows.src_slice;
    /* The kernel copies the widest words, of at most 16 bytes, that are aligned on both sides at
     * once. */
    uint64_t apart = (args.dst - args.src) | 16;
    set_grid(&out->launch, out->width / (apart & -apart) + 1, out->rows.height, out->rows.depth);
    if (signature->reads) /* a few bytes: it is to fit wherever the kernel before it did */
        out->launch.blockDimX = 32;
}

void ag_lower(const struct ag_signature *signature, const uint8_t *recorded, CUfunction kernel,
              struct ag_lowered *out)
{
    memset(&out->launch, 0, sizeof(out->launch));
    out->launch.func = kernel;
    out->launch.kernelParams = out->params;
    if (signature->kind == AG_OP_MEMSET)
        lower_fill(signature, recorded, out);
    else
        lower_copy(signature, recorded, out);
}
