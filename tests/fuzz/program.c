/* program.c - the list of ops and its text form. */
#include "tests/fuzz/program.h"
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *args;
} kinds[FZ_KINDS] = {
#define FZ_OP(name, args) {#name, args},
#include "tests/fuzz/ops.def"
#undef FZ_OP
};

const char *fz_kind_name(unsigned int kind)
{
    return kinds[kind].name;
}

static unsigned int num_args(unsigned int kind)
{
    unsigned int n = kinds[kind].args[0] != '\0';
    for (const char *c = kinds[kind].args; *c; c++)
        n += *c == ' ';
    return n;
}

void fz_program_add(struct fz_program *p, const struct fz_op *op)
{
    if (p->count == p->capacity) {
        p->capacity = p->capacity ? p->capacity * 2 : 256;
        p->ops = realloc(p->ops, p->capacity * sizeof *p->ops);
        if (!p->ops)
            abort();
    }
    p->ops[p->count++] = *op;
    if (op->thread >= p->threads)
        p->threads = op->thread + 1u;
}

void fz_program_free(struct fz_program *p)
{
    free(p->ops);
    *p = (struct fz_program){0};
}

int fz_op_stream(const struct fz_op *op)
{
    switch (op->kind) {
    case FZ_launch:
    case FZ_slow:
    case FZ_fire:
    case FZ_fill:
    case FZ_copy:
    case FZ_upload:
    case FZ_read:
    case FZ_host:
    case FZ_wait:
    case FZ_flag:
    case FZ_gate:
    case FZ_jam:
    case FZ_ctxgate:
    case FZ_trap:
        return op->a[0];
    case FZ_record:
    case FZ_glaunch:
        return op->a[1];
    default:
        return -1;
    }
}

void fz_op_print(FILE *out, const struct fz_op *op)
{
    fprintf(out, "%u %s", op->thread, kinds[op->kind].name);
    for (unsigned int i = 0; i < num_args(op->kind); i++)
        fprintf(out, " %d", op->a[i]);
}

static bool parse(const char *line, struct fz_op *op)
{
    char name[16];
    int at;
    unsigned int thread;
    if (sscanf(line, "%u %15s%n", &thread, name, &at) != 2 || thread >= FZ_THREADS)
        return false;
    op->thread = (uint8_t)thread;
    for (op->kind = 0; op->kind < FZ_KINDS; op->kind++)
        if (!strcmp(name, kinds[op->kind].name))
            break;
    if (op->kind == FZ_KINDS)
        return false;
    for (unsigned int i = 0; i < num_args(op->kind); i++) {
        int used;
        if (sscanf(line + at, "%d%n", &op->a[i], &used) != 1)
            return false;
        at += used;
    }
    return true;
}

enum { MOST_NESTED = 8 };

/* Loops that have begun: where, and how often they are to run. */
struct loops {
    size_t from[MOST_NESTED];
    unsigned int times[MOST_NESTED], depth;
};

/* "repeat N" and "again". Whether it was one of them, in its place. */
static bool loop(const char *line, struct fz_program *p, struct loops *l)
{
    unsigned int times;
    if (sscanf(line, "repeat %u", &times) == 1 && l->depth < MOST_NESTED) {
        l->from[l->depth] = p->count;
        l->times[l->depth++] = times;
        return true;
    }
    if (strcmp(line, "again\n") != 0 || !l->depth)
        return false;
    size_t from = l->from[--l->depth], to = p->count;
    for (unsigned int n = 1; n < l->times[l->depth]; n++)
        for (size_t i = from; i < to; i++) {
            struct fz_op op = p->ops[i];
            fz_program_add(p, &op);
        }
    return true;
}

bool fz_program_read(FILE *in, const char *name, struct fz_program *p)
{
    char line[256];
    struct loops loops = {.depth = 0};
    for (unsigned int number = 1; fgets(line, sizeof line, in); number++) {
        struct fz_op op = {0};
        if (line[0] == '#' || line[0] == '\n' || loop(line, p, &loops))
            continue;
        if (!parse(line, &op)) {
            fprintf(stderr, "%s:%u: not an op: %s", name, number, line);
            return false;
        }
        fz_program_add(p, &op);
    }
    if (loops.depth)
        fprintf(stderr, "%s: a repeat without its again\n", name);
    return !loops.depth;
}
