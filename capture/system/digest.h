/* digest.h - hashes of bytes. Compare them only within one process. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t ag_digest_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 29);
}

/* Hashes `n` bytes, continuing from `hash`. */
static inline uint64_t ag_digest(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *at = data;
    uint64_t word = 0;
    for (; n >= 8; n -= 8, at += 8) {
        memcpy(&word, at, 8);
        hash = ag_digest_word(hash, word);
    }
    word = 0;
    memcpy(&word, at, n);
    return n ? ag_digest_word(hash, word) : hash;
}
