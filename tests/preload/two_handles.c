/*
 * two_handles.c - a kernel that is launched by its CUkernel has its attributes set through that
 * handle and through the CUfunction of it. Five of the calls change something. Runs under the whole
 * library on the simulated driver.
 */
#include "tests/simdriver/simprog.h"

int main(void)
{
    ag_prog_start();
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "hash"));
    CHECK(cuKernelGetFunction(&function, kernel));
    CUdeviceptr x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize()); /* it is filled in the legacy stream, for which nobody waits here */
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUfunction_attribute carveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    CHECK(cuFuncSetAttribute(function, carveout, 10)); /* not launched yet */
    CHECK(ag_prog_hash((CUfunction)kernel, stream, x, 1));
    CHECK(cuFuncSetAttribute(function, carveout, 20)); /* a change */
    CHECK(cuFuncSetAttribute(function, carveout, 20));
    CHECK(cuKernelSetAttribute(carveout, 30, kernel, 0)); /* a change */
    CHECK(cuFuncSetAttribute(function, carveout, 20));    /* a change */
    CHECK(cuKernelSetAttribute(carveout, 30, kernel, 0)); /* a change */
    CHECK(cuKernelSetAttribute(carveout, 30, kernel, 0));
    CHECK(cuKernelSetAttribute(carveout, 30, kernel, 1)); /* a change, of the other device */
    CHECK(cuKernelSetAttribute(carveout, 30, kernel, 0));
    return 0;
}
