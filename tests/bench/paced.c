/*
 * paced.c - nanoseconds an op of a loop over the simulated driver at a given pace (SIMCUDA_PACE),
 * for tests/bench/pace.
 *
 *   paced WARM MEASURED GAP_NS OPS SYNC
 *   paced WARM MEASURED SEED
 *
 * GAP_NS is what the host works behind each launch, OPS are launches a step. SYNC: 1 ends each step
 * by a sync, 0 does not, and -1 makes each launch unlike all others as well. SEED draws a program
 * of one to five kinds of steps instead. WARM is not measured and MEASURED is: milliseconds ("50"),
 * or turns of the program ("50t"), which are the same launches in each run. Prints nanoseconds a
 * launch, and how many turns were not measured and were.
 */
#include "tests/simdriver/simprog.h"
#include <stdbool.h>

enum { MOST_STEPS = 5, NEVER = 0 };

/* One kind of step. */
struct step {
    int ops;
    uint64_t gap_ns;
    int syncs;       /* percent of the steps that end in a sync */
    int first_grid;  /* of its kernels, which differ by it */
    int new_grids;   /* percent of the launches that are unlike all before */
    int args_period; /* steps until an argument is the same again; NEVER: it never is */
    int skips;       /* percent of the launches that are left out */
    int times;       /* it comes so often in a row, at most */
};

struct program {
    struct step steps[MOST_STEPS];
    int num_steps;
    int shuffled; /* the steps come in any order */
    CUfunction kernel;
    CUdeviceptr x;
    CUstream stream;
    uint64_t random, new, turn, launches;
};

static uint64_t now_ns(void)
{
    return (uint64_t)(ag_prog_seconds() * 1e9);
}

static void host_works(uint64_t ns)
{
    for (uint64_t until = now_ns() + ns; ns && now_ns() < until;)
        ;
}

static int draw(struct program *p, int n)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((p->random >> 33) % (uint64_t)n);
}

static int one_of(struct program *p, const int *list, int n)
{
    return list[draw(p, n)];
}
#define ONE_OF(p, ...)                                                                             \
    one_of(p, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static void draw_program(struct program *p, uint64_t seed)
{
    p->random = seed * 0x9e3779b97f4a7c15u + 1;
    p->num_steps = 1 + draw(p, MOST_STEPS);
    p->shuffled = draw(p, 2);
    for (int i = 0; i < p->num_steps; i++)
        p->steps[i] = (struct step){
            .ops = 1 + draw(p, ONE_OF(p, 4, 12, 40, 120)),
            .gap_ns = (uint64_t)ONE_OF(p, 0, 0, 300, 1000, 3000, 10000, 30000),
            .syncs = ONE_OF(p, 0, 10, 100, 100),
            .first_grid = 1 + 1000 * (draw(p, 3) ? i : 0),
            .new_grids = ONE_OF(p, 0, 0, 0, 1, 5, 30),
            .args_period = ONE_OF(p, 1, 1, 2, 7, NEVER),
            .skips = ONE_OF(p, 0, 0, 0, 1, 10),
            .times = ONE_OF(p, 1, 1, 3, 50),
        };
}

static void run_step(struct program *p, const struct step *step)
{
    p->turn++;
    for (int k = 0; k < step->ops; k++) {
        if (step->skips && draw(p, 100) < step->skips)
            continue;
        bool is_new = step->new_grids && draw(p, 100) < step->new_grids;
        unsigned int grid = (unsigned int)(is_new ? 100000 + p->new ++ % 1000003
                                                  : (uint64_t)(step->first_grid + k % 23));
        uint64_t salt = step->args_period ? p->turn % (uint64_t)step->args_period : p->turn;
        void *params[] = {&p->x, &salt};
        CHECK(cuLaunchKernel(p->kernel, grid, 1, 1, 32, 1, 1, 0, p->stream, params, NULL));
        p->launches++;
        host_works(step->gap_ns);
    }
    if (draw(p, 100) < step->syncs)
        CHECK(cuStreamSynchronize(p->stream));
}

static void run_turn(struct program *p)
{
    for (int i = 0; i < p->num_steps; i++) {
        const struct step *step = &p->steps[p->shuffled ? draw(p, p->num_steps) : i];
        for (int n = 1 + draw(p, step->times); n; n--)
            run_step(p, step);
    }
}

/* Runs so many milliseconds or turns, as `text` says. Returns how many turns. */
static long run(struct program *p, const char *text)
{
    char *unit;
    double most = strtod(text, &unit), passed = 0;
    uint64_t began = now_ns();
    long turns = 0;
    while (passed < most) {
        run_turn(p);
        turns++;
        passed = *unit == 't' ? (double)turns : (double)(now_ns() - began) / 1e6;
    }
    return turns;
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 6)
        return 2;
    struct program p = {.num_steps = 1};
    if (argc == 4)
        draw_program(&p, strtoull(argv[3], NULL, 10));
    else
        p.steps[0] = (struct step){.ops = atoi(argv[4]),
                                   .gap_ns = strtoull(argv[3], NULL, 10),
                                   .syncs = atoi(argv[5]) ? 100 : 0,
                                   .first_grid = 1,
                                   .new_grids = atoi(argv[5]) < 0 ? 100 : 0,
                                   .args_period = 1,
                                   .times = 1};
    ag_prog_start();
    p.kernel = ag_prog_function(ag_prog_module(), "hash");
    p.x = ag_prog_alloc(8);
    CHECK(cuStreamCreate(&p.stream, CU_STREAM_NON_BLOCKING));
    long warm = run(&p, argv[1]);
    uint64_t before = p.launches, began = now_ns();
    long turns = run(&p, argv[2]);
    CHECK(cuStreamSynchronize(p.stream));
    printf("NS %.0f %ld %ld\n", (double)(now_ns() - began) / (double)(p.launches - before + 1),
           warm, turns);
    return 0;
}
