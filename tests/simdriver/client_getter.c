/*
 * client_getter.c - binds to the driver the way cudart 13 does, and uses what it got.
 *
 * dlopen("libcuda.so.1"), dlsym of cuGetProcAddress_v2, a probe with an empty name, then a getter
 * call for every entry point with the version that introduced its ABI, flags 0 or 2, symbolStatus
 * NULL. "cuGetProcAddress" is asked for at 11030 and at 12000 on the way, and the answer to the
 * latter is the getter from then on. Prints how many were asked for and answered, then launches
 * kernels through the pointers and prints what they computed. Linked against nothing of CUDA.
 */
#include <dlfcn.h>
#include "tests/simdriver/simprog.h"

typedef CUresult (*getter_v2)(const char *, void **, int, cuuint64_t,
                              CUdriverProcAddressQueryResult *);
typedef CUresult (*getter_v1)(const char *, void **, int, cuuint64_t);

static const struct {
    const char *base;
    int version;
    int per_thread;
} asked[] = {
#define SIM_SYMBOL(name, base, version, ptsz) {base, version, ptsz},
#include "symbols.def"
#undef SIM_SYMBOL
};

static getter_v2 get;

static void *need(const char *name, int version, cuuint64_t flags)
{
    void *p = NULL;
    CUresult r = get(name, &p, version, flags, NULL);
    if (r != CUDA_SUCCESS || !p) {
        fprintf(stderr, "%s at %d with flags %d: %d\n", name, version, (int)flags, (int)r);
        exit(1);
    }
    return p;
}

/* Newest ABI of each base name at most: what cudart would ask for. */
static int ask_everything(int driver_version, int *total)
{
    int answered = 0;
    *total = 0;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        void *p = NULL;
        cuuint64_t flags = asked[i].per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
        CUresult r = get(asked[i].base, &p, asked[i].version, flags, NULL);
        (*total)++;
        if (r == CUDA_SUCCESS && p)
            answered++;
        else if (asked[i].version <= driver_version || p || r != CUDA_ERROR_NOT_FOUND)
            REQUIRE(!"an entry point that the driver has must be answered, another not");
    }
    return answered;
}

static uint64_t compute(cuuint64_t flags)
{
    CUresult (*init)(unsigned int) = need("cuInit", 2000, 0);
    CUresult (*retain)(CUcontext *, CUdevice) = need("cuDevicePrimaryCtxRetain", 7000, 0);
    CUresult (*set_current)(CUcontext) = need("cuCtxSetCurrent", 4000, 0);
    CUresult (*alloc)(CUdeviceptr *, size_t) = need("cuMemAlloc", 3020, 0);
    CUresult (*load)(CUlibrary *, const void *, CUjit_option *, void **, unsigned int,
                     CUlibraryOption *, void **, unsigned int) =
        need("cuLibraryLoadData", 12000, 0);
    CUresult (*get_kernel)(CUkernel *, CUlibrary, const char *) =
        need("cuLibraryGetKernel", 12000, 0);
    CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
                       unsigned int, unsigned int, unsigned int, CUstream, void **, void **) =
        need("cuLaunchKernel", flags ? 7000 : 4000, flags);
    CUresult (*memset32)(CUdeviceptr, unsigned int, size_t, CUstream) =
        need("cuMemsetD32Async", flags ? 7000 : 3020, flags);
    CUresult (*sync)(CUstream) = need("cuStreamSynchronize", flags ? 7000 : 2000, flags);
    CUresult (*to_host)(void *, CUdeviceptr, size_t) =
        need("cuMemcpyDtoH", flags ? 7000 : 3020, flags);
    CUcontext ctx;
    CUdeviceptr x;
    CUlibrary library;
    CUkernel kernel;
    uint64_t value;
    CHECK(init(0));
    CHECK(retain(&ctx, 0));
    CHECK(set_current(ctx));
    CHECK(alloc(&x, 8));
    CHECK(load(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(get_kernel(&kernel, library, "hash"));
    CHECK(memset32(x, 0, 2, NULL));
    for (uint64_t k = 1; k <= 20; k++)
        CHECK(launch((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&x, &k}, NULL));
    CHECK(sync(NULL));
    CHECK(to_host(&value, x, sizeof value));
    return value;
}

int main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *p = (void *)1;
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    get = (getter_v2)dlsym(library, "cuGetProcAddress_v2");
    REQUIRE(get != NULL);
    /* cudart tells a stub library by this answer. */
    REQUIRE(get("", &p, 0, 0, NULL) != CUDA_ERROR_STUB_LIBRARY);

    CUresult (*driver_version)(int *) = need("cuDriverGetVersion", 2020, 0);
    int version, total;
    CHECK(driver_version(&version));
    getter_v1 old = (getter_v1)need("cuGetProcAddress", 11030, 0);
    CHECK(old("cuInit", &p, 2000, 0));
    REQUIRE(p != NULL);
    get = (getter_v2)need("cuGetProcAddress", 12000, 0);
    int answered = ask_everything(version, &total);

    CUdriverProcAddressQueryResult status;
    EXPECT(get("cuNoSuchThing", &p, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
    REQUIRE(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND && p == NULL);
    EXPECT(get("cuLaunchKernelEx", &p, 11000, 0, &status), CUDA_ERROR_NOT_FOUND);
    REQUIRE(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    REQUIRE(need("cuMemAlloc", 2000, 0) != need("cuMemAlloc", 13000, 0));
    REQUIRE(need("cuLaunchKernel", 13000, 0) != need("cuLaunchKernel", 13000, 2));
    REQUIRE(need("cuGraphInstantiate", 12000, 0) == need("cuGraphInstantiateWithFlags", 11040, 0));

    printf("asked %d answered %d\n", total, answered);
    uint64_t legacy = compute(0), per_thread = compute(2), expected = 0;
    for (uint64_t k = 1; k <= 20; k++)
        expected = expected * 31 + k;
    REQUIRE(legacy == expected && per_thread == expected);
    printf("result %llu\n", (unsigned long long)legacy);
    return 0;
}
