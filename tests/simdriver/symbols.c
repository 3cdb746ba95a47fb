/*
 * symbols.c - the static table of exports.
 *
 * Every symbol has a weak body that answers CUDA_ERROR_NOT_SUPPORTED; the file that simulates it
 * overrides the body. The addresses in the table are this library's own (-Bsymbolic), whatever a
 * preloaded library exports under the same names. cuda.h stays out: the types do not matter here.
 */

#include "sim_symbols.h"

#define SIM_SYMBOL(name, base, version, ptsz)                                                      \
    __attribute__((weak, visibility("default"))) int name(void);                                   \
    __attribute__((weak)) int name(void)                                                           \
    {                                                                                              \
        return sim_unsupported(SIM_##name);                                                        \
    }
#include "symbols.def"
#include "newer.def"
#undef SIM_SYMBOL

const struct sim_symbol_info sim_symbol_table[SIM_SYMBOL_COUNT] = {
#define SIM_SYMBOL(name, base, version, ptsz) {#name, base, version, ptsz, name},
#include "symbols.def"
#include "newer.def"
#undef SIM_SYMBOL
};
