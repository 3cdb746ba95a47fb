// The short kernel of the loop. Any grid covers all elements: the stride is the grid's size.
extern "C" __global__ void short_kernel(unsigned int *data, unsigned int mul, unsigned int add,
                                        int size)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        data[i] = mul * data[i] + add;
    }
}
