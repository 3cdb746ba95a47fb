/* sim_symbols.h - one number for each exported symbol, from symbols.def and newer.def. */
#pragma once

enum sim_symbol {
#define SIM_SYMBOL(name, base, version, ptsz) SIM_##name,
#include "symbols.def"
    SIM_SORTED_COUNT, /* symbols.def is sorted by name */
    SIM_SORTED_LAST = SIM_SORTED_COUNT - 1,
#include "newer.def"
#undef SIM_SYMBOL
    SIM_SYMBOL_COUNT
};

struct sim_symbol_info {
    const char *name;
    const char *base;
    int version;
    int ptsz;
    int (*address)(void);
};
extern const struct sim_symbol_info sim_symbol_table[SIM_SYMBOL_COUNT];

/* What a symbol answers that has no body of its own. */
int sim_unsupported(enum sim_symbol symbol);
