/* environ.c - a program's own variable of this name, which is no list of the environment's. */
extern double environ;
__attribute__((visibility("default"))) double environ = 3;
