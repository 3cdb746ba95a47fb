/*
 * hot.h - the variables of the process that each launch reads lie side by side, in one cache line.
 * current.h says why, and has those of the thread. None of them may change often.
 */
#pragma once

#define AG_HOT __attribute__((section("ag_hot")))
