// The kernels of the loop. Any grid covers all elements: the stride is the grid's size.
extern "C" __global__ void short_kernel(unsigned int *data, unsigned int mul, unsigned int add,
                                        int size)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        data[i] = mul * data[i] + add;
    }
}

// The same, with `add` from memory that a memset filled; `words` of it.
extern "C" __global__ void filled_kernel(unsigned int *data, unsigned int mul,
                                         const unsigned int *add, int size, int words)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        data[i] = mul * data[i] + add[i % words];
    }
}

// The short kernel, and then the GPU stays busy for so many of its clock cycles.
extern "C" __global__ void busy_kernel(unsigned int *data, unsigned int mul, unsigned int add,
                                       int size, long long cycles)
{
    long long start = clock64();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        data[i] = mul * data[i] + add;
    }
    while (clock64() - start < cycles) {
    }
}
