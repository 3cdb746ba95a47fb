/* no_driver.c - a program that asks for CUDA as cudart does, and goes on without it. */
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    printf("driver: %s\n", driver ? "there" : "not there");
    if (driver)
        printf("cuInit: %s\n", dlsym(driver, "cuInit") ? "there" : "not there");
    return 0;
}
