/* test_signature.c - signatures, argument layout and kernel settings, over a driver of a few
 * functions. */
#include "tests/unit/unit.h"
#include "capture/settings/options.h"
#include "driver/call.h"
#include "capture/tracking/function.h"
#include "capture/tracking/signature.h"
#include "driver/entries.h"
#include <malloc.h>
#include <time.h>

/* Kernels of this driver. Handles are addresses of these; `is_kernel` ones are CUkernel handles. */
struct fake {
    const char *name;
    bool is_kernel;
    CUresult layout; /* of the first parameter, where it is not simply told */
    size_t num_params;
    size_t offsets[4], sizes[4];
    void *owner; /* its module or library, which the driver tells if there is one */
};

static struct fake plain = {"plain", false, CUDA_SUCCESS, 3, {0, 8, 16}, {8, 4, 12}, NULL};
static struct fake library = {"library", true, CUDA_SUCCESS, 2, {0, 8}, {8, 8}, NULL};
static struct fake other_handle = {"library", false, CUDA_SUCCESS, 2, {0, 8}, {8, 8}, NULL};
static struct fake bare = {"bare", false, CUDA_SUCCESS, 0, {0}, {0}, NULL};
static struct fake dark = {"dark", false, CUDA_ERROR_NOT_SUPPORTED, 1, {0}, {8}, NULL};
static struct fake wide = {"wide", false,        CUDA_SUCCESS, AG_MOST_PARAMS + 1,
                           {0},    {8, 8, 8, 8}, NULL};
static struct fake peers = {"ncclDevKernel_Something", false, CUDA_SUCCESS, 1, {0}, {8}, NULL};
static struct fake symmetric = {"nvshmemi_barrier", false, CUDA_SUCCESS, 1, {0}, {8}, NULL};
static struct fake on_stream = {"_Z36barrier_on_stream_kernel_threadgroupIL13threadgroup_t1EEvii",
                                false,
                                CUDA_SUCCESS,
                                1,
                                {0},
                                {8},
                                NULL};
static int layouts_asked;

static CUresult info(const struct fake *f, bool is_kernel, size_t i, size_t *offset, size_t *size)
{
    layouts_asked++;
    if (f->is_kernel != is_kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    if (f->layout != CUDA_SUCCESS)
        return f->layout;
    if (i >= f->num_params)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = i < 4 ? f->offsets[i] : 8 * i;
    *size = f->sizes[i % 4];
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI func_info(CUfunction f, size_t i, size_t *offset, size_t *size)
{
    return info((const struct fake *)f, false, i, offset, size);
}

static CUresult CUDAAPI kernel_info(CUkernel k, size_t i, size_t *offset, size_t *size)
{
    return info((const struct fake *)k, true, i, offset, size);
}

static CUresult CUDAAPI func_name(const char **name, CUfunction f)
{
    *name = ((const struct fake *)f)->name;
    return ((const struct fake *)f)->is_kernel ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult CUDAAPI kernel_name(const char **name, CUkernel k)
{
    *name = ((const struct fake *)k)->name;
    return CUDA_SUCCESS;
}

static int clusters;

static CUresult CUDAAPI func_attribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
    (void)f;
    assert_int_equal(attribute, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
    *value = clusters;
    return CUDA_SUCCESS;
}

static CUresult owner_of(void **owner, const struct fake *f, bool is_kernel)
{
    *owner = f->owner;
    return f->owner && f->is_kernel == is_kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult CUDAAPI func_module(CUmodule *module, CUfunction f)
{
    return owner_of((void **)module, (const struct fake *)f, false);
}

static CUresult CUDAAPI kernel_library(CUlibrary *of, CUkernel k)
{
    return owner_of((void **)of, (const struct fake *)k, true);
}

static struct ag_signature_cache cache;

static CUresult CUDAAPI current(CUcontext *ctx)
{
    *ctx = (CUcontext)0x10;
    return CUDA_SUCCESS;
}

static int invalidate_all(void **state)
{
    (void)state;
    memset(&cache, 0, sizeof cache);
    struct ag_signature_tables old = ag_signatures_detach();
    ag_signatures_destroy(&old);
    layouts_asked = 0;
    ag_options.grids = 1000;
    ag_real[AG_SYM_cuCtxGetCurrent] = (void *)current;
    ag_real[AG_SYM_cuFuncGetParamInfo] = (void *)func_info;
    ag_real[AG_SYM_cuKernelGetParamInfo] = (void *)kernel_info;
    ag_real[AG_SYM_cuFuncGetName] = (void *)func_name;
    ag_real[AG_SYM_cuFuncGetAttribute] = (void *)func_attribute;
    ag_real[AG_SYM_cuKernelGetName] = (void *)kernel_name;
    ag_real[AG_SYM_cuFuncGetModule] = (void *)func_module;
    ag_real[AG_SYM_cuKernelGetLibrary] = (void *)kernel_library;
    return 0;
}

static struct ag_launch launch_of(struct fake *f, void **params)
{
    return (struct ag_launch){.sym = AG_SYM_cuLaunchKernel,
                              .func = (CUfunction)f,
                              .dims = {1, 1, 1, 32, 1, 1},
                              .params = params};
}

static uint64_t a = 0x1122334455667788, b = 7;
static uint32_t c = 9, d[3] = {1, 2, 3};
static void *three[] = {&a, &c, &d}, *two[] = {&a, &b};

static struct ag_signature *signature_of(const struct ag_launch *l)
{
    const char *why = "";
    return ag_signature_of(&cache, &(struct ag_incoming){.kind = AG_OP_LAUNCH, .launch = l}, &why);
}

static void test_equal_launches_share_a_signature(void **state)
{
    struct ag_launch one = launch_of(&plain, three), again = one;
    (void)state;
    struct ag_signature *s = signature_of(&one);
    assert_non_null(s);
    int asked = layouts_asked;
    uint64_t other = 5;
    again.params = (void *[]){&other, &c, &d}; /* arguments are no part of a signature */
    again.stream = (CUstream)&other;
    assert_ptr_equal(signature_of(&again), s);
    memset(&cache, 0, sizeof cache); /* by the table, not by the cache alone */
    assert_ptr_equal(signature_of(&again), s);
    assert_int_equal(layouts_asked, asked); /* once per handle */
    assert_true(ag_signature_is_launch(s, &again, 0));
}

static void test_whatever_differs_makes_another_signature(void **state)
{
    struct ag_launch l = launch_of(&plain, three);
    struct ag_signature *first = signature_of(&l);
    unsigned int *dims = l.dims;
    (void)state;
    for (int i = 0; i < 7; i++) {
        dims[i]++;
        assert_false(ag_signature_is_launch(first, &l, 0));
        assert_ptr_not_equal(signature_of(&l), first);
        dims[i]--;
    }
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 1};
    l.attrs = &attribute;
    l.num_attrs = 1;
    assert_false(ag_signature_is_launch(first, &l, 0));
    struct ag_signature *second = signature_of(&l);
    assert_non_null(second);
    assert_ptr_not_equal(second, first);
    attribute.value.priority = 2;
    assert_false(ag_signature_is_launch(second, &l, 0));
    l.num_attrs = 0;
    l.attrs = NULL;
    assert_ptr_equal(signature_of(&l), first);
}

enum { HERE = 1, ELSEWHERE = 2 }; /* contexts */

/* Whether a launch that is met now counts as one whose like was launched. */
static bool is_alike(const struct ag_launch *l)
{
    struct ag_signature *s = signature_of(l);
    assert_non_null(s);
    assert_false(ag_signature_is_proven(s, ELSEWHERE));
    return ag_signature_is_proven(s, HERE);
}

static void test_the_like_of_a_launch_differs_in_the_grid_alone(void **state)
{
    struct ag_launch l = launch_of(&plain, three), other = l;
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 1};
    (void)state;
    l.dims[AG_DIM_SHARED] = other.dims[AG_DIM_SHARED] = 64;
    assert_false(is_alike(&l));
    other.dims[0] = 2;
    assert_false(is_alike(&other)); /* the first was not launched either */
    struct ag_signature *s = signature_of(&l);
    ag_signature_prove(s, HERE);
    assert_true(is_alike(&l));
    for (unsigned int n = 3; n < 40; n++) {
        other.dims[0] = n;
        assert_true(is_alike(&other));
    }
    s = signature_of(&other);
    ag_signature_prove(s, HERE);
    static const struct {
        unsigned int dims[7];
        bool alike;
    } others[] = {
        {{7, 8, 9, 32, 1, 1, 64}, true},           {{1, 1, 1, 32, 1, 1, 63}, true},
        {{1, 1, 1, 32, 1, 1, 65}, false},          {{1, 1, 1, 33, 1, 1, 64}, false},
        {{1, 1, 1, 32, 2, 1, 64}, false},          {{1, 1, 1, 32, 1, 2, 64}, false},
        {{0, 1, 1, 32, 1, 1, 64}, false},          {{1, 0, 1, 32, 1, 1, 64}, false},
        {{1, 1, 0, 32, 1, 1, 64}, false},          {{0x7fffffff, 65535, 65535, 32, 1, 1, 64}, true},
        {{0x80000000, 1, 1, 32, 1, 1, 64}, false}, {{1, 65536, 1, 32, 1, 1, 64}, false},
        {{1, 1, 65536, 32, 1, 1, 64}, false},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        memcpy(other.dims, others[i].dims, sizeof other.dims);
        assert_int_equal(is_alike(&other), others[i].alike);
        if (i % 3 == 2) { /* so that it stays one of the latest */
            other.dims[0] = 100 + (unsigned int)i;
            memcpy(other.dims + 1, (unsigned int[]){1, 1, 32, 1, 1, 64}, 24);
            ag_signature_prove(signature_of(&other), HERE);
        }
    }
    other = l;
    other.dims[0] = 1000;
    other.attrs = &attribute;
    other.num_attrs = 1;
    assert_false(is_alike(&other));
    for (s = signature_of(&l)->function->signatures; s; s = s->sibling)
        ag_signature_refused(s, CUDA_ERROR_INVALID_VALUE);
    other.num_attrs = 0;
    assert_false(is_alike(&other)); /* the driver has refused all of them */
    ag_signature_prove(signature_of(&other), HERE | ELSEWHERE);
    ag_signatures_disprove(HERE);
    assert_true(ag_signature_is_proven(signature_of(&other), ELSEWHERE));
    assert_false(ag_signature_is_proven(signature_of(&other), HERE));
}

static void test_no_launch_is_like_another_if_there_are_clusters(void **state)
{
    struct ag_launch l = launch_of(&plain, three);
    const struct ag_kernel *kernel;
    (void)state;
    for (clusters = 0; clusters < 2; clusters++) {
        invalidate_all(NULL);
        l.dims[0] = 1;
        ag_signature_prove(signature_of(&l), HERE);
        l.dims[0] = 2;
        assert_int_equal(is_alike(&l), !clusters);
    }
    clusters = 0;
    invalidate_all(NULL);
    ag_signature_prove(signature_of(&l), HERE);
    assert_true(is_alike(&l));
    /* what was proven may be refused after another setting */
    assert_int_equal(ag_function_setting_begins((CUfunction)&plain,
                                                CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                                1, 0, &kernel),
                     AG_CHANGES_GRAPHS);
    assert_false(is_alike(&l));
    ag_signature_prove(signature_of(&l), HERE);
    l.dims[0] = 3;
    assert_true(is_alike(&l));
    /* clusters may be set for a kernel that was compiled without */
    uint32_t before = ag_disproofs;
    ag_function_disprove((CUfunction)&plain, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
    assert_int_equal(ag_disproofs, before + 1);
    ag_signature_prove(signature_of(&l), HERE);
    l.dims[0] = 4;
    assert_false(is_alike(&l));
}

enum { MANY = 9 }; /* grids, until they become an argument */

/* Launches the function with so many grids, the last of them new to it. */
static struct ag_signature *with_grids(struct ag_launch *l, unsigned int n)
{
    struct ag_signature *s = NULL;
    ag_options.grids = MANY;
    for (l->dims[0] = 1; l->dims[0] <= n; l->dims[0]++)
        s = signature_of(l);
    l->dims[0] = n;
    return s;
}

static void test_ever_new_grids_become_an_argument(void **state)
{
    struct ag_launch l = launch_of(&plain, three), other = l;
    (void)state;
    other.dims[0] = 5;
    struct ag_signature *before = signature_of(&other);
    assert_false(with_grids(&l, MANY)->layout.has_grid); /* one of them was known */
    ag_signature_prove(before, HERE);
    l.dims[0]++;
    struct ag_signature *any = signature_of(&l);
    assert_true(any->any_grid && any->layout.has_grid);
    for (int i = 0; i < 3; i++) {
        l.dims[i] += 7;
        assert_ptr_equal(signature_of(&l), any);
        assert_ptr_equal(signature_of(&l), any);
        assert_false(ag_signature_is_launch(any, &l, 0)); /* this may be a known one */
        assert_true(ag_signature_takes(any, any));
    }
    /* a known grid has a signature of its own, but records the grid, too */
    assert_int_equal(ag_signature_bad(before), AG_SIGNATURE_INVALID);
    struct ag_signature *known = signature_of(&other);
    assert_false(known == before || known->any_grid || !known->layout.has_grid);
    assert_ptr_equal(signature_of(&other), known);
    assert_false(ag_signature_is_launch(known, &l, 0));
    assert_true(ag_signature_is_launch(known, &other, 0) && ag_signature_takes(known, any));
    assert_false(ag_signature_takes(any, known) || ag_signature_takes(before, any));
    /* whatever else differs makes another signature */
    for (int i = 3; i < AG_DIMS; i++) {
        other = l;
        other.dims[i]++;
        assert_ptr_not_equal(signature_of(&other), any);
        assert_false(ag_signature_takes(signature_of(&other), any));
    }
    other = launch_of(&library, two);
    assert_false(signature_of(&other)->layout.has_grid ||
                 ag_signature_takes(signature_of(&other), any));
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 1};
    other = l;
    other.attrs = &attribute;
    other.num_attrs = 1;
    assert_false(ag_signature_is_launch(any, &other, 0) || signature_of(&other)->layout.has_grid);
}

/* The driver refuses such a launch, and the program must hear of that from the launch. */
static void test_no_signature_stands_for_an_impossible_grid(void **state)
{
    static const unsigned int grids[][3] = {{0, 1, 1},    {1, 0, 1},          {1, 1, 0},
                                            {0, 0, 0},    {0x80000000, 1, 1}, {1, 65536, 1},
                                            {1, 1, 65536}};
    struct ag_launch l = launch_of(&plain, three);
    (void)state;
    struct ag_signature *any = with_grids(&l, MANY + 1);
    assert_true(any->any_grid);
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        memcpy(l.dims, grids[i], sizeof grids[i]);
        assert_false(ag_signature_is_launch(any, &l, 0));
        assert_false(signature_of(&l)->any_grid);
    }
    memcpy(l.dims, (unsigned int[]){0x7fffffff, 65535, 65535}, 12);
    assert_ptr_equal(signature_of(&l), any);
    /* with clusters not every grid is possible */
    ag_function_disprove((CUfunction)&plain, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
    assert_int_equal(ag_signature_bad(any), AG_SIGNATURE_INVALID);
    assert_false(signature_of(&l)->any_grid);
}

static void test_a_grid_is_recorded_behind_the_arguments(void **state)
{
    struct fake *functions[] = {&plain, &other_handle, &bare};
    void **params[] = {three, two, NULL};
    (void)state;
    for (int i = 0; i < 3; i++) {
        uint8_t one[64], other[64];
        unsigned int dims[3];
        struct ag_launch l = launch_of(functions[i], params[i]);
        struct ag_signature *without = signature_of(&l), *any = with_grids(&l, MANY + 1);
        uint32_t n = without->layout.recorded_bytes;
        assert_int_equal(any->layout.recorded_bytes, n + 16);
        memset(one, 0xa5, sizeof one);
        memset(other, 0x5a, sizeof other);
        memcpy(l.dims, (unsigned int[]){6, 5, 4}, 12);
        ag_record_launch(one, &any->layout, &l);
        ag_record_launch(other, &any->layout, &l);
        assert_memory_equal(one, other, n + 16);
        ag_record_launch(other, &without->layout, &l);
        assert_memory_equal(one, other, n + 16); /* the arguments lie where they did */
        ag_signature_grid(any, one, dims);
        assert_memory_equal(dims, l.dims, 12);
        ag_signature_grid(without, one, dims);
        assert_int_equal(dims[0], 1);
        l.dims[2]++;
        ag_record_launch(other, &any->layout, &l);
        assert_memory_equal(one, other, n);
        assert_memory_not_equal(one, other, n + 16);
    }
}

/* By id: what of a value means something (cuda.h), as ranges of bytes from its beginning. */
#define MEMBER(name)                                                                               \
    {                                                                                              \
        offsetof(CUlaunchAttributeValue, name), sizeof(((CUlaunchAttributeValue *)0)->name)        \
    }
#define IN_WINDOW(name)                                                                            \
    {                                                                                              \
        offsetof(CUlaunchAttributeValue, accessPolicyWindow.name),                                 \
            sizeof(((CUaccessPolicyWindow *)0)->name)                                              \
    }
static const struct {
    unsigned int id;
    struct {
        size_t offset, bytes;
    } parts[5];
} meanings[] = {
    {CU_LAUNCH_ATTRIBUTE_IGNORE, {{0, 0}}},
    {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
     {IN_WINDOW(base_ptr), IN_WINDOW(num_bytes), IN_WINDOW(hitRatio), IN_WINDOW(hitProp),
      IN_WINDOW(missProp)}},
    {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, {MEMBER(cooperative)}},
    {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, {MEMBER(clusterDim)}},
    {CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
     {MEMBER(clusterSchedulingPolicyPreference)}},
    {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
     {MEMBER(programmaticStreamSerializationAllowed)}},
    {CU_LAUNCH_ATTRIBUTE_PRIORITY, {MEMBER(priority)}},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, {MEMBER(memSyncDomainMap)}},
    {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, {MEMBER(memSyncDomain)}},
    {11, {{0, 12}}}, /* the preferred dimension of a cluster */
    {14, {{0, 4}}},  /* the preferred share of shared memory */
    {16, {{0, 4}}},  /* scheduling around NVLink */
};

/* An attribute with 0 where bytes mean something, and `poison` everywhere else. */
static CUlaunchAttribute poisoned(size_t which, int poison)
{
    CUlaunchAttribute made;
    memset(&made, poison, sizeof made);
    made.id = (CUlaunchAttributeID)meanings[which].id;
    for (size_t i = 0; i < 5; i++)
        memset((char *)&made.value + meanings[which].parts[i].offset, 0,
               meanings[which].parts[i].bytes);
    return made;
}

static struct ag_signature *with_attribute(struct ag_launch *l, CUlaunchAttribute *attribute)
{
    l->attrs = attribute;
    l->num_attrs = 1;
    memset(&cache, 0, sizeof cache); /* by the table, not by the cache alone */
    return signature_of(l);
}

static void test_of_an_attribute_only_what_its_id_defines_counts(void **state)
{
    struct ag_launch l = launch_of(&plain, three);
    unsigned int known = 0;
    (void)state;
    for (size_t which = 0; which < sizeof meanings / sizeof *meanings; which++) {
        CUlaunchAttribute clean = poisoned(which, 0), one = poisoned(which, 0x5a),
                          other = poisoned(which, 0xff);
        struct ag_signature *signature = with_attribute(&l, &one);
        assert_non_null(signature);
        assert_ptr_equal(with_attribute(&l, &other), signature);
        assert_true(ag_signature_is_launch(signature, &l, 0));
        assert_ptr_equal(with_attribute(&l, &clean), signature);
        for (size_t i = 0; i < 5; i++)
            for (size_t at = 0; at < meanings[which].parts[i].bytes; at++) {
                unsigned char *byte =
                    (unsigned char *)&other.value + meanings[which].parts[i].offset + at;
                *byte = 1;
                l.attrs = &other;
                assert_false(ag_signature_is_launch(signature, &l, 0));
                assert_ptr_not_equal(with_attribute(&l, &other), signature);
                *byte = 0;
            }
        known |= 1u << meanings[which].id;
    }
    /* no other may be recorded */
    for (unsigned int id = 0; id < 32; id++)
        if (!(known >> id & 1)) {
            CUlaunchAttribute made;
            memset(&made, 0, sizeof made);
            made.id = (CUlaunchAttributeID)id;
            assert_null(with_attribute(&l, &made));
        }
}

static void test_a_refused_signature_is_never_expected(void **state)
{
    struct ag_launch l = launch_of(&plain, three);
    (void)state;
    struct ag_signature *s = signature_of(&l);
    atomic_store(&s->bad, true);
    assert_false(ag_signature_is_launch(s, &l, 0));
    assert_ptr_equal(signature_of(&l), s); /* and found again, as what it is */
}

static void test_both_kinds_of_handle(void **state)
{
    struct ag_launch l = launch_of(&library, two);
    (void)state;
    struct ag_signature *s = signature_of(&l);
    assert_non_null(s);
    assert_true(s->function->is_kernel);
    assert_int_equal(s->layout.num_params, 2);
    l = launch_of(&plain, three);
    assert_false(signature_of(&l)->function->is_kernel);
}

static void test_what_cannot_be_recorded(void **state)
{
    const char *why;
    struct ag_launch l = launch_of(&dark, two);
    (void)state;
    assert_null(
        ag_signature_of(&cache, &(struct ag_incoming){.kind = AG_OP_LAUNCH, .launch = &l}, &why));
    assert_string_equal(why, "kernel of unknown or too many parameters");
    l = launch_of(&wide, two); /* its arguments are not looked at */
    assert_null(
        ag_signature_of(&cache, &(struct ag_incoming){.kind = AG_OP_LAUNCH, .launch = &l}, &why));
    assert_string_equal(why, "kernel of unknown or too many parameters");
    l = launch_of(&peers, two);
    assert_null(
        ag_signature_of(&cache, &(struct ag_incoming){.kind = AG_OP_LAUNCH, .launch = &l}, &why));
    assert_string_equal(why, "collective kernel");
    l = launch_of(&symmetric, two);
    assert_null(
        ag_signature_of(&cache, &(struct ag_incoming){.kind = AG_OP_LAUNCH, .launch = &l}, &why));
    assert_string_equal(why, "collective kernel");
    l = launch_of(&on_stream, two);
    assert_null(
        ag_signature_of(&cache, &(struct ag_incoming){.kind = AG_OP_LAUNCH, .launch = &l}, &why));
    assert_string_equal(why, "collective kernel");
    l = launch_of(&plain, NULL);
    assert_null(
        ag_signature_of(&cache, &(struct ag_incoming){.kind = AG_OP_LAUNCH, .launch = &l}, &why));
    assert_string_equal(why, "launch without arguments");
    l = launch_of(&plain, three);
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    l.attrs = &attribute;
    l.num_attrs = 1;
    assert_null(
        ag_signature_of(&cache, &(struct ag_incoming){.kind = AG_OP_LAUNCH, .launch = &l}, &why));
    assert_string_equal(why, "launch attribute");
    attribute.id = (CUlaunchAttributeID)60; /* of a driver to come */
    assert_null(
        ag_signature_of(&cache, &(struct ag_incoming){.kind = AG_OP_LAUNCH, .launch = &l}, &why));
}

/* A program may load, launch and unload such kernels again and again, each by another name. */
static void test_what_cannot_be_recorded_leaves_nothing(void **state)
{
    enum { ROUNDS = 2000 };
    char name[64];
    struct fake passing = peers;
    size_t before = 0;
    (void)state;
    passing.name = name;
    for (int i = 0; i < ROUNDS; i++) {
        if (i == ROUNDS / 2)
            before = mallinfo2().uordblks;
        snprintf(name, sizeof name, "ncclDevKernel_%d", i);
        struct ag_launch l = launch_of(&passing, two);
        assert_null(signature_of(&l));
        assert_false(ag_signatures_invalidate(AG_OF_CONTEXT, (CUcontext)0x10));
    }
    assert_true(mallinfo2().uordblks < before + ROUNDS / 2);
}

static void test_arguments_are_recorded_without_holes(void **state)
{
    struct ag_launch l = launch_of(&plain, three);
    uint8_t recorded[24], wanted[24] = {0};
    (void)state;
    struct ag_signature *s = signature_of(&l);
    assert_int_equal(s->layout.recorded_bytes, 24); /* 8 + 4 + 12 */
    memset(recorded, 0xee, sizeof recorded);
    ag_record_launch(recorded, &s->layout, &l);
    memcpy(wanted, &a, 8);
    memcpy(wanted + 8, &c, 4);
    memcpy(wanted + 12, d, 12);
    assert_memory_equal(recorded, wanted, sizeof recorded);
}

static void test_packed_arguments(void **state)
{
    uint8_t buffer[28] = {0}, recorded[24], from_params[24];
    size_t size = sizeof buffer;
    memcpy(buffer, &a, 8);
    memcpy(buffer + 8, &c, 4);
    memcpy(buffer + 16, d, 12);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    struct ag_launch packed = launch_of(&plain, NULL), l = launch_of(&plain, three);
    (void)state;
    packed.extra = extra;
    struct ag_signature *s = signature_of(&l);
    assert_ptr_equal(signature_of(&packed), s);
    assert_true(ag_launch_has_arguments(&packed, &s->layout));
    ag_record_launch(from_params, &s->layout, &l);
    ag_record_launch(recorded, &s->layout, &packed);
    assert_memory_equal(recorded, from_params, sizeof recorded);
    size = 27; /* too short for the last parameter: the driver's to refuse */
    assert_false(ag_launch_has_arguments(&packed, &s->layout));
    size = 28;
    packed.params = three; /* both ways at once: the driver's too */
    assert_false(ag_launch_has_arguments(&packed, &s->layout));
    packed.params = NULL;
    extra[2] = (void *)77; /* a key that nobody knows */
    assert_false(ag_launch_has_arguments(&packed, &s->layout));
}

static void test_a_kernel_without_parameters(void **state)
{
    struct ag_launch l = launch_of(&bare, NULL);
    uint8_t untouched = 0x5a;
    (void)state;
    struct ag_signature *s = signature_of(&l);
    assert_non_null(s);
    assert_int_equal(s->layout.recorded_bytes, 0);
    ag_record_launch(&untouched, &s->layout, &l);
    assert_int_equal(untouched, 0x5a);
}

static struct ag_signature *of(const struct ag_incoming *in)
{
    const char *why;
    return ag_signature_of(&cache, in, &why);
}

static void test_fills_and_copies(void **state)
{
    struct ag_memset fill = {
        .sym = AG_SYM_cuMemsetD32Async, .elem_size = 4, .width = 8, .height = 1};
    struct ag_copy copy = {.sym = AG_SYM_cuMemcpyDtoDAsync_v2, .bytes = 8};
    struct ag_incoming fills = {.kind = AG_OP_MEMSET, .fill = &fill};
    struct ag_incoming copies = {.kind = AG_OP_COPY, .copy = &copy}, movable = copies;
    (void)state;
    struct ag_signature *f = of(&fills), *k = of(&copies);
    assert_ptr_not_equal(f, k);
    fill.value = 5;
    fill.dst = 4096;
    fill.pitch = 77; /* means nothing in one row */
    assert_ptr_equal(of(&fills), f);
    fills.movable = true;
    assert_ptr_not_equal(of(&fills), f);
    fills.movable = false;
    fill.height = 2;
    assert_ptr_not_equal(of(&fills), f);
    copy.src = 4096;
    assert_ptr_equal(of(&copies), k);
    movable.movable = true;
    assert_ptr_not_equal(of(&movable), k);
    copy.bytes = 9;
    assert_ptr_not_equal(of(&copies), k);
}

/* Records and waits, and what goes to another stream of a fork. */
static void test_events_and_branches(void **state)
{
    struct ag_event_call call = {.sym = AG_SYM_cuEventRecord};
    struct ag_incoming record = {.kind = AG_OP_RECORD, .event = &call};
    struct ag_incoming wait = {.kind = AG_OP_WAIT, .event = &call, .distance = 1};
    struct ag_launch l = launch_of(&plain, three);
    struct ag_incoming launch = {.kind = AG_OP_LAUNCH, .launch = &l};
    (void)state;
    struct ag_signature *r = of(&record), *w = of(&wait), *k = of(&launch);
    assert_true(ag_signature_is_event(r) && ag_signature_is_event(w));
    assert_false(ag_signature_is_event(k));
    assert_ptr_not_equal(r, w);
    call.event = (CUevent)8; /* an argument */
    assert_ptr_equal(of(&record), r);
    assert_ptr_equal(of(&wait), w);
    wait.distance = 2;
    assert_ptr_not_equal(of(&wait), w);
    record.branch = launch.branch = 1;
    assert_ptr_not_equal(of(&record), r);
    assert_ptr_not_equal(of(&launch), k);
    assert_true(ag_signature_is_launch(of(&launch), &l, 1));
    assert_false(ag_signature_is_launch(of(&launch), &l, 0));
}

enum { LIMIT = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CARVEOUT = 9 };

static enum ag_change set_on(CUfunction f, int attribute, int value, int device)
{
    const struct ag_kernel *kernel;
    enum ag_change change = ag_function_setting_begins(f, attribute, value, device, &kernel);
    assert_int_equal(kernel != NULL, change == AG_CHANGES_GRAPHS);
    ag_function_setting_ends(f, attribute, value, device, true);
    return change;
}

static void test_settings(void **state)
{
    CUfunction f = (CUfunction)&library, alias = (CUfunction)&other_handle;
    struct ag_launch l = launch_of(&library, two);
    (void)state;
    assert_int_equal(set_on(f, CARVEOUT, 10, 0), AG_CHANGES_NOTHING); /* never launched */
    signature_of(&l);
    assert_int_equal(set_on(f, CARVEOUT, 10, 0), AG_CHANGES_GRAPHS);
    assert_int_equal(set_on(f, CARVEOUT, 10, 0), AG_CHANGES_NOTHING);
    /* through another handle: it may be another kernel of that name, with graphs of its own */
    assert_int_equal(set_on(alias, CARVEOUT, 10, 0), AG_CHANGES_GRAPHS);
    assert_int_equal(set_on(alias, CARVEOUT, 10, 0), AG_CHANGES_NOTHING);
    assert_int_equal(set_on(f, CARVEOUT, 10, 0), AG_CHANGES_NOTHING);
    assert_int_equal(set_on(alias, CARVEOUT, 0, 0), AG_CHANGES_GRAPHS);
    assert_int_equal(set_on(f, CARVEOUT, 10, 0), AG_CHANGES_GRAPHS);
    assert_int_equal(set_on(f, 13, 10, 0), AG_CHANGES_GRAPHS);
    assert_int_equal(set_on(f, CARVEOUT, 10, 1), AG_CHANGES_GRAPHS); /* another device */
}

/* How many of three rounds change something, in which two handles get values of their own. */
static int changes(struct fake *first, struct fake *second, int device)
{
    int n = 0;
    for (int i = 0; i < 3; i++) {
        n += set_on((CUfunction)first, CARVEOUT, 10, device) != AG_CHANGES_NOTHING;
        n += set_on((CUfunction)second, CARVEOUT, 20, device) != AG_CHANGES_NOTHING;
    }
    return n;
}

static void test_settings_of_kernels_of_one_name(void **state)
{
    struct fake functions[3], kernels[2];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct ag_launch l = launch_of(&functions[i], two);
        functions[i] = other_handle;
        functions[i].owner = &functions[i / 2]; /* the first two of one module */
        signature_of(&l);
    }
    /* of two handles of one module nobody knows whether they mean the same kernel */
    assert_int_equal(changes(&functions[0], &functions[1], AG_ANY_DEVICE), 6);
    assert_int_equal(changes(&functions[0], &functions[2], AG_ANY_DEVICE), 2);
    assert_int_equal(changes(&functions[0], &functions[2], AG_ANY_DEVICE), 0);
    for (size_t i = 0; i < 2; i++) {
        struct ag_launch l = launch_of(&kernels[i], two);
        kernels[i] = library;
        kernels[i].owner = &kernels[i];
        signature_of(&l);
    }
    /* now there are handles of both kinds */
    assert_int_equal(changes(&functions[0], &functions[2], AG_ANY_DEVICE), 6);
    assert_int_equal(changes(&kernels[0], &kernels[1], 0), 6);
    invalidate_all(NULL);
    for (size_t i = 0; i < 2; i++) {
        struct ag_launch l = launch_of(&kernels[i], two);
        signature_of(&l);
    }
    assert_int_equal(changes(&kernels[0], &kernels[1], 0), 2);
    /* a CUfunction that was not launched may be another handle of either */
    assert_int_equal(set_on((CUfunction)&functions[0], CARVEOUT, 30, AG_ANY_DEVICE),
                     AG_CHANGES_GRAPHS);
    assert_int_equal(changes(&kernels[0], &kernels[1], 0), 2);
    invalidate_all(NULL);
}

static struct ag_signature *with_shared(struct fake *func, unsigned int bytes)
{
    struct ag_launch l = launch_of(func, two);
    l.dims[AG_DIM_SHARED] = bytes;
    return signature_of(&l);
}

static void test_the_limit_of_shared_memory(void **state)
{
    CUfunction f = (CUfunction)&library;
    (void)state;
    struct ag_signature *large = with_shared(&library, 16384), *small = with_shared(&library, 4096);
    assert_int_equal(set_on(f, LIMIT, 16384, 0), AG_CHANGES_NOTHING);
    assert_int_equal(set_on(f, LIMIT, 4096, 0), AG_CHANGES_LIMIT);
    assert_int_equal(ag_signature_bad(large), AG_SIGNATURE_OVER_LIMIT);
    assert_int_equal(ag_signature_bad(small), 0);
    assert_int_equal(set_on(f, LIMIT, 4096, 0), AG_CHANGES_NOTHING);
    assert_int_equal(set_on(f, LIMIT, 20000, 0), AG_CHANGES_NOTHING);
    assert_int_equal(ag_signature_bad(large), 0);
    /* on one device it is too low, on another not */
    assert_int_equal(set_on(f, LIMIT, 8192, 1), AG_CHANGES_LIMIT);
    assert_int_equal(set_on(f, LIMIT, 30000, 0), AG_CHANGES_NOTHING);
    assert_int_equal(ag_signature_bad(large), AG_SIGNATURE_OVER_LIMIT);
    assert_int_equal(set_on(f, LIMIT, 16384, 1), AG_CHANGES_NOTHING);
    assert_int_equal(ag_signature_bad(large), 0);
}

static void test_a_limit_that_is_refused(void **state)
{
    CUfunction f = (CUfunction)&library;
    const struct ag_kernel *kernel;
    (void)state;
    struct ag_signature *large = with_shared(&library, 16384);
    set_on(f, LIMIT, 16384, 0);
    assert_int_equal(ag_function_setting_begins(f, LIMIT, -5, 0, &kernel), AG_CHANGES_LIMIT);
    assert_int_equal(ag_signature_bad(large), AG_SIGNATURE_OVER_LIMIT);
    ag_function_setting_ends(f, LIMIT, -5, 0, false);
    assert_int_equal(ag_signature_bad(large), 0);
}

static void test_a_limit_set_through_another_handle(void **state)
{
    CUfunction f = (CUfunction)&library;
    (void)state;
    struct ag_signature *large = with_shared(&library, 16384);
    /* a CUkernel of the same name that was not launched is another kernel's, a CUfunction may be an
     * alias */
    assert_int_equal(set_on((CUfunction)&other_handle, LIMIT, 1024, 0), AG_CHANGES_NOTHING);
    assert_int_equal(set_on((CUfunction)&other_handle, LIMIT, 1024, AG_ANY_DEVICE),
                     AG_CHANGES_GRAPHS);
    assert_int_equal(ag_signature_bad(large), 0);
    assert_int_equal(set_on(f, LIMIT, 1024, AG_ANY_DEVICE), AG_CHANGES_GRAPHS);
    assert_int_equal(set_on(f, LIMIT, 1024, AG_ANY_DEVICE), AG_CHANGES_NOTHING);
    assert_int_equal(set_on(f, LIMIT, 1023, AG_ANY_DEVICE), AG_CHANGES_GRAPHS);
}

/* Once a CUkernel and a CUfunction of that name have been launched, each change drops graphs, and
 * marks go as they came. */
static void test_a_limit_of_a_kernel_that_stands_alone_no_more(void **state)
{
    CUfunction f = (CUfunction)&library;
    (void)state;
    struct ag_signature *large = with_shared(&library, 16384);
    assert_int_equal(set_on(f, LIMIT, 4096, 0), AG_CHANGES_LIMIT);
    struct ag_signature *alias = with_shared(&other_handle, 16384);
    assert_int_equal(ag_signature_bad(large), AG_SIGNATURE_OVER_LIMIT);
    assert_int_equal(set_on(f, LIMIT, 16384, 0), AG_CHANGES_GRAPHS);
    assert_int_equal(ag_signature_bad(large), 0);
    assert_int_equal(set_on(f, LIMIT, 4096, 0), AG_CHANGES_GRAPHS);
    assert_int_equal(ag_signature_bad(large), AG_SIGNATURE_OVER_LIMIT);
    assert_int_equal(ag_signature_bad(alias), 0);
    assert_int_equal(set_on(f, LIMIT, 16384, AG_ANY_DEVICE), AG_CHANGES_GRAPHS);
    assert_int_equal(ag_signature_bad(large), 0);
}

static double processor_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The fastest of a few times that the limit is set to what it is. */
static double set_again(CUfunction f)
{
    double best = 1e18;
    for (int i = 0; i < 20; i++) {
        double began = processor_ns();
        for (int k = 0; k < 10; k++)
            assert_int_equal(set_on(f, LIMIT, 16384, 0), AG_CHANGES_NOTHING);
        double took = processor_ns() - began;
        best = took < best ? took : best;
    }
    return best;
}

/* Some programs set it before each launch. That takes no longer where the function has thousands of
 * signatures, of which only new ones are looked at. */
static void test_the_same_limit_again_and_again(void **state)
{
    CUfunction f = (CUfunction)&library;
    struct ag_launch l = launch_of(&library, two);
    (void)state;
    signature_of(&l);
    set_on(f, LIMIT, 16384, 0);
    double few = set_again(f);
    for (l.dims[3] = 1; l.dims[3] <= 1000; l.dims[3]++)
        for (l.dims[4] = 1; l.dims[4] <= 20; l.dims[4]++)
            signature_of(&l);
    set_on(f, LIMIT, 16384, 0);
    double many = set_again(f);
    if (many > few * 10)
        fail_msg("%.0f ns with one signature, %.0f ns with many", few / 10, many / 10);
    struct ag_signature *larger = with_shared(&library, 20000);
    assert_int_equal(set_on(f, LIMIT, 16384, 0), AG_CHANGES_LIMIT);
    assert_int_equal(ag_signature_bad(larger), AG_SIGNATURE_OVER_LIMIT);
    assert_int_equal(set_on(f, LIMIT, 20000, 0), AG_CHANGES_NOTHING);
    assert_int_equal(ag_signature_bad(larger), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_equal_launches_share_a_signature, invalidate_all),
        cmocka_unit_test_setup(test_whatever_differs_makes_another_signature, invalidate_all),
        cmocka_unit_test_setup(test_the_like_of_a_launch_differs_in_the_grid_alone, invalidate_all),
        cmocka_unit_test_setup(test_no_launch_is_like_another_if_there_are_clusters,
                               invalidate_all),
        cmocka_unit_test_setup(test_ever_new_grids_become_an_argument, invalidate_all),
        cmocka_unit_test_setup(test_no_signature_stands_for_an_impossible_grid, invalidate_all),
        cmocka_unit_test_setup(test_a_grid_is_recorded_behind_the_arguments, invalidate_all),
        cmocka_unit_test_setup(test_of_an_attribute_only_what_its_id_defines_counts,
                               invalidate_all),
        cmocka_unit_test_setup(test_a_refused_signature_is_never_expected, invalidate_all),
        cmocka_unit_test_setup(test_both_kinds_of_handle, invalidate_all),
        cmocka_unit_test_setup(test_what_cannot_be_recorded, invalidate_all),
        cmocka_unit_test_setup(test_what_cannot_be_recorded_leaves_nothing, invalidate_all),
        cmocka_unit_test_setup(test_arguments_are_recorded_without_holes, invalidate_all),
        cmocka_unit_test_setup(test_packed_arguments, invalidate_all),
        cmocka_unit_test_setup(test_a_kernel_without_parameters, invalidate_all),
        cmocka_unit_test_setup(test_fills_and_copies, invalidate_all),
        cmocka_unit_test_setup(test_events_and_branches, invalidate_all),
        cmocka_unit_test_setup(test_settings, invalidate_all),
        cmocka_unit_test_setup(test_settings_of_kernels_of_one_name, invalidate_all),
        cmocka_unit_test_setup(test_the_limit_of_shared_memory, invalidate_all),
        cmocka_unit_test_setup(test_a_limit_that_is_refused, invalidate_all),
        cmocka_unit_test_setup(test_the_same_limit_again_and_again, invalidate_all),
        cmocka_unit_test_setup(test_a_limit_of_a_kernel_that_stands_alone_no_more, invalidate_all),
        cmocka_unit_test_setup_teardown(test_a_limit_set_through_another_handle, invalidate_all,
                                        invalidate_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
