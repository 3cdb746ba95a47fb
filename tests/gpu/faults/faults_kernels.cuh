// The kernel of the fault programs: one affine map of each element, as in the published loop.
// `action` 1 traps; 2 raises *flag once the data is written.
extern "C" __global__ void fault_kernel(unsigned int *data, unsigned int mul, unsigned int add,
                                        int size, int action, volatile unsigned int *flag)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        data[i] = mul * data[i] + add;
    }
    if (action == 1) {
        __trap();
    }
    if (action == 2 && i == 0) {
        __threadfence_system();
        *flag = *flag + 1;
    }
}
