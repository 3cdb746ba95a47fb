// A constant that copies.c writes by the library's copy kernel, and what reads it behind that.
__constant__ unsigned int word;

extern "C" __global__ void read_word(unsigned int *out)
{
    *out = word;
}
