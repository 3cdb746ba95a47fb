/*
 * own_file.c - a program that closes all files that it does not know, as daemons do, and then opens
 * one of its own: before it uses CUDA, or `late`. Runs under the whole library on the simulated
 * driver.
 */
#include <fcntl.h>
#include <unistd.h>

#include "tests/simdriver/simprog.h"

enum { FILES = 256 };

static void use_cuda(void)
{
    ag_prog_start();
    CUdeviceptr x = ag_prog_alloc(8);
    CHECK(cuMemsetD8Async(x, 0, 8, NULL));
    CHECK(cuCtxSynchronize());
    REQUIRE(ag_prog_read64(x) == 0);
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    if (argc > 2)
        use_cuda();
    for (int fd = STDERR_FILENO + 1; fd < FILES; fd++)
        close(fd);
    int own = open(argv[1], O_WRONLY | O_CREAT, 0600);
    REQUIRE(own > STDERR_FILENO);
    for (int fd = own + 1; fd < FILES; fd++) /* whatever number the library's files had */
        REQUIRE(dup2(own, fd) == fd);
    use_cuda();
    for (int fd = own; fd < FILES; fd++)
        REQUIRE(fcntl(fd, F_GETFD) >= 0);
    return 0;
}
