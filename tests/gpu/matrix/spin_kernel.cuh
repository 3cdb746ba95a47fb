// One number changes, and the GPU stays busy for so many cycles of its clock.
extern "C" __global__ void spin_kernel(unsigned int *sum, unsigned int add, long long cycles)
{
    long long start = clock64();
    if (threadIdx.x == 0) {
        *sum += add;
    }
    while (clock64() - start < cycles) {
    }
}
