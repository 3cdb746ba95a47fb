/* launch_stub.h - what launch_x86_64.S must know about capture/tracking/dormant.h and
 * capture/system/current.h. hooks_launch.c checks these values. */
#pragma once

#define AG_LAUNCH_MULTIPLIER 0x9E3779B97F4A7C15
#define AG_LAUNCH_PER_THREAD 2  /* CU_STREAM_PER_THREAD, a cast that no static assertion takes */
#define AG_LAUNCH_GENERATION 8  /* struct ag_thread */
#define AG_LAUNCH_SLOTS      64 /* struct ag_thread */
#define AG_LAUNCH_SLOT_SIZE  24 /* three times eight */
#define AG_LAUNCH_STREAM     0  /* struct ag_dormant_slot */
#define AG_LAUNCH_DORMANT    8  /* struct ag_dormant_slot */
#define AG_LAUNCH_HELD       16 /* struct ag_dormant_slot */
#define AG_LAUNCH_ACTIVE     0  /* struct ag_dormant */
#define AG_LAUNCH_LEFT       4  /* struct ag_dormant */
