/*
 * own_file.c - a program that first closes all files that it does not know, as daemons do, and then
 * opens one of its own. Runs under the whole library on the simulated driver.
 */
#include <fcntl.h>
#include <unistd.h>

#include "tests/simdriver/simprog.h"

int main(int argc, char **argv)
{
    REQUIRE(argc > 1);
    for (int fd = STDERR_FILENO + 1; fd < 64; fd++)
        close(fd);
    int own = open(argv[1], O_WRONLY | O_CREAT, 0600);
    REQUIRE(own > STDERR_FILENO);
    for (int fd = own + 1; fd < 64; fd++) /* whatever number the log had */
        REQUIRE(dup2(own, fd) == fd);
    ag_prog_start();
    CUdeviceptr x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    REQUIRE(ag_prog_read64(x) == 0);
    return 0;
}
