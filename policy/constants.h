/*
 * constants.h - the numbers that decide what becomes a graph, when it is submitted, and by whom.
 * Each says its unit and where its value comes from. *Measured* names a page in docs/, where "log"
 * is results-log.md and the words behind it the section there. *Chosen* means that nothing told
 * this value from its neighbours, and says what speaks for it. Sizes of tables stand with the
 * tables, and what locks and the clock need stands in capture/system/, which knows no policy.
 * Nothing in here knows CUDA.
 */
#pragma once

/* ---- what calls take ------------------------------------------------------------------------ */

enum {
    /* ns of the host for an eager launch, until one was timed. Measured: 2.5 to 4.3 us
     * (performance.md, "What the driver taught us"). */
    AG_CALL_ESTIMATE_NS = 2500,
    /* ns for handing an op over. Measured: log, "Who launches the graphs". */
    AG_HAND_NS = 100,
    /* A longer eager call loaded a kernel, or waited for room in a queue. Chosen: far above any
     * plain launch. */
    AG_LONGEST_CALL_NS = 50000,
    /* The clock takes up to 26 ns (performance.md, "The cost of a call"), a third of what an eager
     * op costs here. So every eighth call is timed at first, then one in 61: a prime, so that not
     * always the same ops of a loop are. The same holds for waits in a ring. */
    AG_TIMED_FIRST = 256,
    AG_TIMED_ONE_IN = 61,
    /* Whoever waits for another thread for long looks again so often. Chosen: without a finer timer
     * (PR_SET_TIMERSLACK) the kernel makes any sleep 50 us longer. */
    AG_LOOK_AGAIN_NS = 50000,
};

/* ---- the host's pace ------------------------------------------------------------------------ */

/* Chosen: a single pause must not count as the pace, and a slow host must soon be known as one. */
enum {
    AG_PACE_LEAST_NS = 100,    /* no gap counts as shorter: launch times are estimates */
    AG_PACE_OUTLIER_NS = 2000, /* a gap up to this counts in full, whatever was before it */
    AG_PACE_LONG_NS = 100000,  /* more counts only if it is the pace: ... */
    AG_PACE_LONG_GAPS = 4,     /* ... this many long gaps in a row */
    AG_PACE_MOST_NS = 1000000, /* the pace is never said to be slower */
    /* Visits of a sequence that is one chunk, of which one is timed from its first op: that takes
     * a reading of the clock more. */
    AG_PACE_FIRST_ONE_IN = 8,
};

/* ---- recognising sequences ------------------------------------------------------------------ */

/* Chosen. */
enum {
    AG_GRAM = 6,            /* ops that identify a place in the stream */
    AG_FIRST_EVIDENCE = 4,  /* ops of a sequence seen once that must agree before it is built */
    AG_REALIGN_WINDOW = 64, /* how far ahead in a sequence to look for a departed stream */
    AG_REALIGN_RUN = 3,     /* ops that must agree before the stream has rejoined the sequence */
    AG_REALIGN_OPS = 256,   /* ops after which the search ends */
    AG_CANDIDATES = 64,     /* sequences with one first key that a switch looks at */
    AG_LIKE_SHARE = 32,     /* one with a larger part of another's visits is in use beside it */
    AG_ODD_IN_A_ROW = 16,   /* a long loop goes on in spite of so many odd ops in a row, ... */
    AG_OPS_PER_ODD = 64,    /* ... and of one in so many */
    AG_OPS_PER_ODD_IN_STEP = 4, /* a step is a variation of another one in spite of one odd op in
                                   so many */
    AG_PART_OPS =
        3, /* ops between two new ones that show, if they come again, that these are odd */
    /* Chosen: segments for which it counts that one was another than the one before (learn.c). */
    AG_OTHER_SEGMENTS = 8,
    AG_ODD_KINDS = 4, /* odd keys whose first ops span one turn at least */
    AG_ODD_TURNS = 4, /* turns for which a key stays odd at most */
    AG_ODD_KEYS = 64,
    AG_ODD_ROWS = 8,      /* most places in a turn with rows of odd ops, of waits and of others */
    AG_ODD_BUILD = 32,    /* building graphs costs as much as so many eager ops; compared in the
                           log, "Behind 3d1cd487" */
    AG_ODD_TRUST = 16384, /* ops for which the stream is known to have odd ops */
    AG_LONG_OPS = 64,     /* from the second time on, longer segments are recognised by their ops */
    AG_LOOP_OPS = 512,    /* shorter segments get graphs as a whole even if they are mostly loop */
    AG_CYCLE_EVIDENCE = 8, /* pairs of ops with equal arguments that show the period of arguments */
    AG_SEEN_AGAIN_BONUS = 8, /* uses of other sequences, per sequence in a full table */
    /* Whether a stream mostly goes on to the sequence's end: by so many visits, of which one that
     * was left counts as several. */
    AG_KEPT_RECENTLY = 64,
    AG_KEPT_LEFT_WEIGHT = 4,
};

/* Loops of few ops are repeated until one graph is worth its launch (log, "Loops without a sync,
 * cut and whole": 64 ops are near the best, and more leave more to submit singly at the end). */
enum {
    AG_MERGE_STREAK = 8,   /* repetitions in a row before several are merged into one sequence */
    AG_MERGE_OPS = 64,     /* most ops in a merged sequence */
    AG_MERGE_LONG_RUN = 4, /* a long run of repetitions, in merged sequences */
    AG_MERGE_SHORT_PERIOD = 8, /* shorter ones are repeated to at least this length at once */
};

/* ---- where nothing repeats ------------------------------------------------------------------ */

/* Looking costs 55 to 60 ns an op, a new key 0.2 us (performance.md, "The cost of a call"). Chosen:
 * a program that never repeats has 0.98 to 1.00 of eager (performance.md). */
enum {
    AG_AWAKE_OPS = 40960, /* ops without a repetition before a stream goes dormant: more than two of
                             the longest sequences */
    AG_FIRST_DORMANT = 8192, /* ops; each dormant time is twice as long as the one before ... */
    AG_LONGEST_DORMANT = 262144,
    AG_AWAKE_SHARE = 6, /* ... and then the policy looks for one sixth of that */
    /* Once there are more new keys than any program has kinds of ops, each counts as so many ops
     * without a repetition. */
    AG_MOST_KINDS = 2048,
    AG_FRESH_OPS = 16,
    AG_MOST_NEW = 512, /* new sequences without a repetition before the stream goes dormant */
    /* A stream stays awake where one op in so many is handed over, and fewer than one in so many is
     * new: looking then costs less than launching. */
    AG_AWAKE_HANDED_ONE_IN = 4,
    AG_AWAKE_NEW_ONE_IN = 8,
};

/* ---- plans ---------------------------------------------------------------------------------- */

enum {
    /* Longest time for which the GPU may wait for a chunk to fill. Measured: performance.md,
     * "Plans"; at most 7 % from the best fixed size in 36 cells. */
    AG_PLAN_HOLD_NS = 12000,
    /* Of AUTOGRAPH_MAX_DEFER_US: no chunk is planned to take longer to fill. The rest is for pauses
     * of the host. Chosen. */
    AG_PLAN_HELD_THOUSANDTHS = 600,
    /* First chunk of a segment: the GPU is likely to be idle, and waits no longer than this.
     * Measured: log, "The first chunk of a step with a sync": 2 to 12 ops are about as good. */
    AG_PLAN_FIRST_CHUNK = 4,
    AG_PLAN_FIRST_NS = 4000,
    /* A loop that keeps repeating is no longer cut if the host issues all of it in that time: the
     * GPU still has earlier turns to do. Measured: log, "Loops without a sync, cut and whole"; a
     * kernel takes 0.85 us in graphs of 60, 0.88 us in graphs of 20. A new plan costs 130 launches
     * outside graphs, which pays off after 10,000: so many visits, and so many full ones for each
     * that was left half way. */
    AG_PLAN_STEADY_NS = 48000,
    AG_PLAN_STEADY_VISITS = 512,
    AG_PLAN_STEADY_TURNS = 16,
    /* A host that takes that long between two ops is slow. One that takes less launches graphs
     * faster than it hands them over (measured: log, "Who launches the graphs"). Of a slow one the
     * GPU waits in a loop anyway, and a chunk there has more than four ops (measured: log, "Behind
     * d98de5eb"). A new plan pays off after a thousand launches. */
    AG_SLOW_HOST_NS = 3000,
    AG_PLAN_SLOW_LOOP_CHUNK = 8,
    AG_PLAN_SLOW_LOOP_VISITS = 64,
    /* Visits whose pace asks for a new plan, less those whose pace does not, until the first; four
     * times as many until each further one. Chosen: a new plan means new graphs, and the pace of a
     * slow host may halve and double from step to step. */
    AG_PLAN_NEW_VISITS = 8,
    AG_PLAN_MOST_NEW = 6,
};

/* Places where the program pauses. Measured in the model: log, "How long a place counts where the
 * program pauses". */
enum {
    AG_PAUSE_ENOUGH = 3,       /* at one place ... */
    AG_PAUSE_NEAR_VISITS = 16, /* ... with at most this many visits of its sequence between two */
    /* Visits for which the first cut stays. Three waits of 500 us take 2 % of the time of that many
     * steps of 20 us. A program that polls after each step rarely has shorter ones. */
    AG_PAUSE_FIRST_CUT = 4096,
    AG_PAUSE_SILENT = 12, /* a visit without a pause counts as so many */
    /* Of these visits, as a power of two, each time the cut is made again so soon after it went. */
    AG_PAUSE_GROWTH = 2,
    AG_PAUSE_SOON = 256, /* visits */
    AG_PAUSE_MOST_TIMES = 8,
};

/* ---- chunks that fail ----------------------------------------------------------------------- */

/* Chosen. */
enum {
    AG_FAILS_MIN = 4,          /* failures before the policy rests a chunk that fails often */
    AG_FAILS_COOL_VISITS = 64, /* visits of its sequence for which it rests */
    AG_RETRY_FIRST = 16,       /* visits until a failed build is tried again; this doubles ... */
    AG_RETRY_MOST_SHIFT = 8,   /* ... with each failure, at most this many times */
};

/* ---- trials of longer and shorter chunks (tune.c) -------------------------------------------- */

/* Plans take turns because virtual processors run at two speeds (log, under that name). The times
 * are chosen; tests/policy/test_tune.c plays them to a model of host and GPU. */
enum {
    AG_TUNE_SAMPLES = 47,        /* most pairs of turns */
    AG_TUNE_SETTLED = 48,        /* fully replayed visits before a trial */
    AG_TUNE_WARM_UP = 2,         /* visits of a trial that are not counted */
    AG_TUNE_TURN_VISITS = 2,     /* counted visits of a turn, after its first */
    AG_TUNE_FEW = 9,             /* pairs of turns that may decide; if they do not, it goes on */
    AG_TUNE_AT_ONCE = 3,         /* pairs that end a trial if the new plan ... */
    AG_TUNE_FAR_SLOWER = 1050,   /* ... took more than so much of the other's time in each */
    AG_TUNE_LOOKS = 4,           /* more pairs of turns before each further decision */
    AG_TUNE_PATIENCE = 256,      /* visits by which a trial must have that few: graphs must exist */
    AG_TUNE_LONGEST_TRIAL = 512, /* visits */
    AG_TUNE_MOST_UP = 2,         /* times chunks are made longer, each time four times as long */
    AG_TUNE_MOST_DOWN = 2,       /* times they are made shorter */
    AG_TUNE_END_SHARE = 50,      /* chunks of less than 1/50 of a sequence cannot keep it waiting */
    AG_TUNE_SLOW_HOST_NS = 2000, /* between two ops: about the GPU's time for a small kernel */
    AG_TUNE_EQUAL = 1000,        /* thousandths of the time with the plan before: no gain */
    AG_TUNE_FASTER = 993,        /* at most this much, to win */
    AG_TUNE_FIRST_REST = 2048,   /* visits */
    AG_TUNE_LONGEST_REST = 65536,
    AG_TUNE_GROWTH = 4,
    AG_TUNE_MOST_FAILS = 3,
    /* Visits for one that is left half way, with chunks made longer once; longer again, a failure
     * costs four times as much. Reckoned: it sends some eight ops one by one, 20 us; chunks of
     * sixteen in place of four spare twelve launches, 24 us, in each visit of 64 ops. */
    AG_TUNE_VISITS_A_FAIL = 8,
};

/* ---- the profitability check (profit.c) ------------------------------------------------------ */

/* The early look was measured (log, "A very slow host"). The others are chosen: a preempted thread
 * or a slow sync must not decide, and trials must cost next to nothing. tests/policy/test_profit.c
 * plays them to a model of host and GPU. */
enum {
    AG_PROFIT_SAMPLES = 7,
    AG_PROFIT_SOON = 128, /* visits until replay is compared with what is known, or after a doubt */
    AG_PROFIT_FIRST_INTERVAL = 1024, /* visits */
    AG_PROFIT_LONGEST_INTERVAL = 16384,
    AG_PROFIT_GROWTH = 4,      /* growth of the interval when the answer stays the same */
    AG_PROFIT_WARM_UP = 1,     /* visits of a trial that are not counted */
    AG_PROFIT_PATIENCE = 4,    /* times a sequence may be followed for each visit that is wanted */
    AG_PROFIT_FASTER = 98,     /* percent of the other's time, at most */
    AG_PROFIT_CLEARLY = 66,    /* the same, so that no trial is needed at first */
    AG_PROFIT_FAR_FASTER = 95, /* the same, at an early look */
    AG_PROFIT_SLOW_HOST_NS = 9000,       /* between two ops: the GPU waits long even for four */
    AG_PROFIT_VERY_SLOW_HOST_NS = 20000, /* between two ops: 1024 visits are a long time */
    AG_PROFIT_SLOWER = 102,  /* percent of the fastest visit before graphs: worth a look at once */
    AG_PROFIT_LOOK = 48,     /* visits until the early look, in any case: most looks take four */
    AG_PROFIT_LAUNCHES = 64, /* of a sequence of graphs of one op, until their gain is looked at */
};

/* ---- comparisons of two ways, by how fast the whole program gets on (pairs.c) ------------- */

/* Chosen: measured comparisons had spans of 25 to 37 ms, of which half of the pairs lay within 10
 * to 20 % (log, "Who launches the graphs"), so the median of nine must win by 3 %. */
enum {
    AG_PAIRS = 9, /* pairs of spans; an odd number */
    AG_PAIRS_SPAN_NS = 16000000,
    AG_PAIRS_LOOK_NS = AG_PAIRS_SPAN_NS / 16, /* between two looks whether a span has ended */
    AG_PAIRS_WARM_ONE_IN = 4, /* of a span is not counted: the other way's work is under way */
    AG_PAIRS_LONGEST = 3,     /* times as long: a longer one has a pause in it */
    AG_PAIRS_LONGER = 8,      /* times as long, where a way is that slow */
    AG_PAIRS_FEWEST_OPS = 64,
    AG_PAIRS_WINS = 1030,     /* thousandths of the first way's speed */
    AG_PAIRS_AT_ONCE = 3,     /* pairs that end a comparison if the second way won none of them */
    AG_PAIRS_SELDOM = 9,      /* spans, until it is asked whether a way is too slow for them */
    AG_PAIRS_MOST = 64,       /* spans of a comparison */
    AG_PAIRS_BEGINS = 16,     /* comparisons begin at multiples of so many spans */
    AG_PAIRS_BEFORE_MS = 250, /* a program that begins is still warming up */
    AG_PAIRS_FIRST_INTERVAL_MS = 2000, /* the same answer doubles it */
    AG_PAIRS_LONGEST_INTERVAL_MS = 64000,
};

/* Streams that may get on faster without graphs (capture/core/weigh.h). Chosen: a look costs far
 * less than the ops between two of them. */
enum {
    AG_WEIGH_LOOKS = 64,       /* syncs, or chunks where nothing was expected, between two looks */
    AG_WEIGH_DOUBT_OPS = 4096, /* for which a stream's gain is looked at */
    /* One that gains less of an op is compared. To look at an op takes 30 to 60 ns, and up to 600
     * where a program goes on in ever other ways (log, "Behind 6dd8057"). */
    AG_WEIGH_GAIN_NS = 500,
    AG_WEIGH_OPS_A_TIE = 128, /* most ops for each tie, on a stream that counts as tied. A wait
                                 right behind a record is not seen, as nothing is held back there */
    AG_WEIGH_TRY_OPS = 64,    /* dormant ops until the stream looks again, in a comparison */
    AG_WEIGH_REST_OPS = 1024, /* the same between two comparisons */
};

/* AUTOGRAPH_COMPARE_MS (capture/report/compare.h). No decision depends on it. Chosen.
 * What makes pairs uneven: log, "Commits 5adf4e9 and bccd748". */
enum {
    AG_COMPARE_MOST_REST = 128, /* dormant ops until the stream checks whether the span has ended */
    AG_COMPARE_LEAST_REST = 4,
    AG_COMPARE_REST_SHARE = 16, /* rest for at most 1/16 of the ops of the last span, to end in
                                   time */
    AG_COMPARE_FEWEST_OPS = 32, /* a span with fewer ops says nothing */
    AG_COMPARE_UNEVEN = 2,      /* times: if half of the pairs lie further apart, their middle says
                                   nothing */
    AG_COMPARE_WEIGHED_NS = 50000000, /* a tied stream that was not compared for so long is not
                                         compared any more */
};

/* ---- programs that measure their launches (capture/core/measure.c) ------------------------ */

/* Autotuners' own figures: Triton's do_bench and inductor's take 25 ms to warm up and 100 ms to
 * measure a candidate; XLA and callers of cuDNN and cuBLASLt take a few launches. */
enum {
    AG_MEASURE_ASKED_NS = 500000000, /* a program counts as measuring so long after it got a time */
    AG_MEASURE_OPS =
        256, /* behind a sync point. A candidate has fewer, a loop that is timed more */
    AG_MEASURE_LONGEST_NS = 200000000, /* a step that is measured for longer is real work */
};

/* ---- the submitter --------------------------------------------------------------------------- */

enum {
    AG_SUBMIT_ASKS_WANTED = 16, /* single ops between two looks whether to ask again */
    /* Measured: log, "Naps instead of wake-ups". A wake-up costs the program 2 to 7 us, a nap of
     * 20 us lasts 26 to 28. */
    AG_SUBMIT_SPIN_NS = 30000, /* if chunks come more often, it looks for them all the time */
    AG_SUBMIT_NAP_NS = 20000,  /* the first nap */
    /* Chosen: no chunk is planned to be held back for longer. Behind a chunk naps stay short for so
     * long, and the thread looks all the time for the one behind which the program waits. */
    AG_SUBMIT_BUSY_NS = 300000,
    AG_SUBMIT_LONGEST_NAP_NS = 110000, /* in place of a longer one it sleeps until it is woken */
    /* Chunks behind the one that comes: launching fewer costs the program less than a wake-up. */
    AG_SUBMIT_WORTH_WAKING = 2,
    AG_SUBMIT_LOOKS = 32, /* looks between two readings of the clock */
    /* Chosen: what may wait for the end of a nap; one more wakes the thread. */
    AG_SUBMIT_MOST_WAIT = 4,
    AG_SUBMIT_MOST_SINGLES = 16, /* the same for single ops */
    AG_WORK_OF_CHUNK = 4,        /* updating and launching a graph, in single launches */
    /* Chosen: if the thread has been at one stream for longer, others do not wait for it. */
    AG_SUBMIT_LONG_NS = 20000,
    AG_SUBMIT_YIELDS = 1024,       /* looks for the role, until a waiting thread yields */
    AG_SUBMIT_PATIENCE = 1 << 16,  /* looks for the role, until a waiting thread rests in between */
    AG_SUBMIT_TELLS_NS = 10000000, /* between two events of its processor time in a dump. Chosen: as
                                      often as the dump is written; it takes a system call */
    AG_THREAD_RETRY = 4096, /* chunks until a thread that could not be started is tried again */
    /* A launch queue holds about 1000 launches or graphs. The ring adds a quarter as many ops. */
    AG_RING_SLOTS = 256,
    AG_RING_CREDIT = 256,
    AG_RING_FETCHED = 12, /* cache lines of arguments. Chosen */
    /* Before a build, what is in rings is waited for (capture/tracking/waits.c). Chosen: longer
     * than a full ring takes, and a build may come later. */
    AG_RINGS_MOST_NS = 10000000,
    AG_RINGS_STUCK_NS = 1000000, /* a thread that launches nothing for so long waits in the driver,
                                    and would do so without a build */
    AG_RINGS_LOOKS = 64,         /* looks between two readings of the clock */
    /* What begins to wait lets a per-thread default stream submit what it holds back for so long
     * (capture/core/wait.c). Chosen: many times what that takes; behind it the thread waits for
     * room in a full queue. */
    AG_PASS_MOST_NS = 100000000,
    /* A call that lacks device memory waits for whoever is in the driver with a stream's graphs for
     * so long (capture/core/shortage.c). Chosen: many times what a launch takes. */
    AG_GIVE_MOST_NS = 2000000,
    AG_GIVE_TRIES = 4, /* of that call. Chosen: the budget is a sixteenth by then */
};

/* ---- the watchdog ---------------------------------------------------------------------------- */

enum {
    /* Of AUTOGRAPH_MAX_DEFER_US: a launch that has been deferred for so long goes. The rest is for
     * the watchdog to wake. Chosen. */
    AG_WATCHDOG_DUE_THOUSANDTHS = 900,
    AG_WATCHDOG_IDLE_LOOKS = 200, /* in a row without a deferral before it sleeps */
    /* Looks are fast for a while once a stream had to wait for a slow one: a program that has
     * polled memory does so again. Measured: log, "A word that a program polls". Chosen: so many
     * looks that those programs wait for a slow one 0.5 % of their time. */
    AG_WATCHDOG_FAST_NS = 20000,
    AG_WATCHDOG_FAST_LOOKS = 4000,
    /* Chosen: if no op has come since an earlier look, and the host could have issued so many, it
     * has paused. Where that may soon be so, the next look comes then. Measured: log, "Early looks
     * of the watchdog". */
    AG_WATCHDOG_FAST_OPS = 8,
    /* Looks are fast only if the program's thread has run for three quarters of the time between
     * two: one that polls has nearly all. Measured: log, "Behind fe58d9a". */
    AG_WATCHDOG_RUNS_QUARTERS = 3,
    AG_WATCHDOG_COUNTS = 256, /* looks between two system calls for the thread's processor time */
    AG_WATCHDOG_ASKS_NS = 1000000000, /* between two counts of processors. Chosen */
    /* Chosen: a call in a host function looks so often whether the watchdog has submitted what must
     * go first, and goes on behind so long: the watchdog may be in a queue that is full because of
     * the host function. */
    AG_AWAIT_LOOK_NS = 50000,
    AG_AWAIT_MOST_NS = 1000000000,
    /* Chosen: the process's end waits for so many looks of the watchdog, 10 ms at most, where a
     * thread is about to submit something itself, and a second at most for what has been handed
     * over, and for the watchdog's end. */
    AG_END_LOOKS = 4,
    AG_END_WATCHED_NS = 10000000,
    AG_END_MOST_NS = 1000000000,
};

/* ---- graphs ---------------------------------------------------------------------------------- */

/* A launch takes the graph of a chunk whose arguments are all right, or else the one with the
 * fewest nodes to update. Measured: an update costs 0.35 to 0.55 us (performance.md), and log,
 * "Choosing among graphs". */
enum {
    AG_MAX_VARIANTS = 16,
    AG_HISTORY = 4,
    AG_DIGESTS = 16,
    /* After so many fruitless misses, search for other graphs in only 24 of every 128. 24 in a row
     * is more than there are digests, so argument sets that take turns are met again. */
    AG_PATIENCE = 64,
    AG_LOOK_FOR = 24,
    AG_LOOK_EVERY = 128,
    AG_NODE_BYTES = 10752, /* host and device memory of a node. Measured: 7.7 and 2.8 KB */
    /* Bytes. Up to here copies of movable memory are launches of the copy kernel, which takes a
     * tenth longer than a memcpy node if both addresses are aligned, and twice as long if not;
     * above, it falls behind. Measured: log, "Copies by a kernel". */
    AG_MOST_COPIED = 1 << 20,
    AG_MOST_PARKED = 32, /* streams that were destroyed whose graphs wait for the next ones. Chosen:
                            as many as a program is likely to have at a time */
    AG_STAGING_BYTES = 256, /* longest copy to the host that is an op. Chosen: a few words */
};

/* How far graphs may be ahead of the GPU (capture/graphs/ahead.h). Measured: a queue holds 1,021
 * eager launches (log, "Behind 86391d68"). */
enum {
    AG_AHEAD_MOST = 1024,          /* ops behind an event, with which a launch waits for that ... */
    AG_AHEAD_MOST_NS = 1000000000, /* ... for so long */
    /* Most ops by graphs between two events: three graphs of 60 ops, which last longer than a rest.
     * Measured: log, "Behind 87a8aed3"; with 96 the events cost up to 0.6 %. So a program is at
     * most 1,267 launches ahead: 1,023 behind an event, a graph of 64, and 180 in front of it. */
    AG_AHEAD_SPACING = 180,
    AG_AHEAD_EVENTS = 2 * AG_AHEAD_MOST / AG_AHEAD_SPACING + 2, /* more than half as far apart */
};

/* Chosen, among the graphs of a chunk. */
enum {
    AG_VARIANT_NEARER = 2,  /* times fewer updates, where a search was worth it */
    AG_VARIANT_REPEATS = 2, /* launches in a row that one more graph would have helped, until it is
                               built */
    AG_LEAST_COVERED = 2,   /* ops: a flush looks for a graph of no fewer, as a launch of one saves
                               least */
    AG_GRAPH_WAITED = 2,    /* times an eager call's time: a graph launch that took longer may have
                               waited for the GPU, as eager launches would */
    AG_LEAST_BUDGET = 1 << 20, /* bytes: where memory is short, the budget for graphs is halved down
                                  to this */
    AG_SIGNATURES_SHARE = 8,   /* signatures take 1/8 of that budget at most */
    AG_SIGNATURES_LATEST = 8,  /* of a function that is launched with new dimensions each time, only
                                  the latest are looked at */
    /* The library's own kernels: so many blocks fill any GPU, and their threads stride over what
     * the grid does not reach. Measured with these: log, "Copies by a kernel". */
    AG_OWN_THREADS = 256,
    AG_OWN_MOST_BLOCKS = 2048,
};

/* Building stalls the program nearly one to one (performance.md, "What the driver taught us"): a
 * decode loop that kept building lost 10 %. The shares are chosen. */
enum {
    AG_BUILD_ALLOWANCE_NS = 20000000, /* for the start */
    AG_BUILD_FEW_OPS = 4,             /* in proportion to its ops for a graph of fewer */
    AG_BUILD_GAIN_SHARE = 4,          /* then a quarter of what replaying has gained */
    AG_DEBT_LAPSES_ONE_IN = 100,      /* of the time that passes is taken off what is owed */
    /* Of debt: one visit more until a sequence is built. Measured: log, "The price of a build". */
    AG_BUILD_NS_A_VISIT = 250000,
    AG_BUILD_FIRST_PRICE = 3,
    AG_BUILD_HIGHEST_PRICE = 64,
    AG_BUILD_LONGEST_DELAY = 8, /* visits until the next check: the price may have fallen */
    AG_BUILD_FIRST_LOOK = 32,   /* launches until the period of arguments is first looked for */
    AG_BUILD_LOOK_GROWTH = 4,   /* times as many until each further look */
    /* So many graphs of a context, and so many nodes, need no more memory of the driver's than it
     * has at first, so no build waits for the GPU. Measured: 33 and some 4,000 (log, "Behind
     * 2e8f28e6"). */
    AG_ROOM_GRAPHS = 32,
    AG_ROOM_NODES = 3900,
    /* Beyond these nothing is built while a stream has work and has got nothing new since the look
     * before. Chosen: many times what lies between two launches where launching is the limit. Of
     * looks that come AG_STANDS_RECENTLY times as late nobody knows when the stream got something.
     */
    AG_STANDS_FIRST_NS = 125000, /* between the first two looks; then twice as long each time ... */
    AG_STANDS_NS = 8 * AG_STANDS_FIRST_NS, /* ... up to this */
    AG_STANDS_RECENTLY = 4,
    /* Destroying a graph takes the driver's locks for 30 us (log, "What graph builds wait for").
     * Beside other processes it may take longer. */
    AG_DESTROY_REST = 32, /* times as long, between two graphs, if there are few */
    AG_DESTROY_LEAST_REST_NS = 1000000,
    AG_DESTROY_LONGEST_REST_NS = 1000000000, /* the process may have been stopped meanwhile */
    AG_DESTROY_FEW = 32,
    AG_DESTROY_CROWD = 256, /* if this many wait, they go before the next build */
};

/* ---- streams that fork, and quiet ones ------------------------------------------------------- */

enum {
    AG_FORK_PROMPT = 64, /* times AUTOGRAPH_TEST_JOIN: records that are not kept back at first, and
                            after an ask. Chosen: what waits for the program asks again soon */
    AG_FORK_YOUNG = 64,  /* graphs that wait for a new branch anew. Chosen: each takes the host 2 us
                            longer, and a call of another thread is on its way for less */
    AG_FORK_TURN = 16,   /* ops between two threads' turns at a fork: with fewer it ends */
    /* capture/core/quiet.h. Chosen: an event that is asked for in time costs a few records, one
     * that a program may be waiting for costs thousands. */
    AG_QUIET_MOST = 2,      /* times AUTOGRAPH_TEST_JOIN: the highest count */
    AG_QUIET_AT_END = 4,    /* an ask right behind the record counts as so many quiet records */
    AG_QUIET_EARLY = -4096, /* one behind further ops: quiet records until it is tried again */
    AG_QUIET_FAR = 64,      /* ops behind a record from which on one query is no ask for it */
    AG_QUIET_RESTS = 256,   /* records that do not count after something else has ended the fork */
    /* capture/core/passing.c: ops of a per-thread default stream between two questions whether
     * waits for the program are over. Chosen: a question takes some calls of the driver. */
    AG_PASSED_BEHIND_WAITS = 64,
};

/* ---- reporting ------------------------------------------------------------------------------- */

/* No graph depends on these. Chosen. */
enum {
    AG_SHORTFALL_FEWEST_OPS = 1000, /* a program with fewer is not worth a line */
    AG_SHORTFALL_LITTLE = 10,       /* percent: less counts as nothing */
    AG_SHORTFALL_ENOUGH = 95,       /* percent: more needs no reason */
    AG_SHORTFALL_OFTEN = 64, /* times that what was learnt ended: fewer are no reason by themselves
                                ... */
    AG_SHORTFALL_RARE_OPS = 256, /* ... nor is one in more eager ops than these */
    AG_STATS_TRIES = 20,         /* looks for a stream's lock, until its last figures serve */
    /* The dump's writer looks at the rings so often; rarely after so many looks that found nothing.
     * A thread's ring of 32,768 events holds what it tells in 10 ms at 300 ns each. */
    AG_TRACE_LOOK_NS = 10000000,
    AG_TRACE_IDLE_LOOK_NS = 200000000,
    AG_TRACE_IDLE_LOOKS = 100,
    /* Call sites, of each thread. Unwinding takes 1 or 2 us. */
    AG_TRACE_SITES_FIRST = 256, /* calls that all get one; then ... */
    AG_TRACE_SITES_ONE_IN = 16, /* ... one in so many does */
};
