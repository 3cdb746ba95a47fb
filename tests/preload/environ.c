/* environ.c - a program's own variable of this name, to which the C library never writes. */
extern char **environ;
__attribute__((visibility("default"))) char **environ;
