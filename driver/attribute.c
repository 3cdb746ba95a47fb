/*
 * attribute.c - the table of launch attributes.
 *
 * The library records attributes whose meaning a graph node keeps (cuda.h: "Valid for graph nodes,
 * launches"). Programmatic serialization becomes a kind of edge of its own. Attributes that name
 * an event, and unknown ones, make a launch a sync point.
 */
#include "driver/attribute.h"

#define DEFINES(type) (1 + sizeof(type))
#define MEMBER(name)  DEFINES(((CUlaunchAttributeValue *)0)->name)

/* Without the padding at its end. */
#define WINDOW_BYTES                                                                               \
    (offsetof(CUaccessPolicyWindow, missProp) + sizeof(((CUaccessPolicyWindow *)0)->missProp))

/* Given by number if the headers of CUDA 12.4 lack the name. */
const unsigned char ag_attribute_bytes[AG_ATTRIBUTE_IDS] = {
    [CU_LAUNCH_ATTRIBUTE_IGNORE] = 1,
    [CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW] = 1 + WINDOW_BYTES,
    [CU_LAUNCH_ATTRIBUTE_COOPERATIVE] = MEMBER(cooperative),
    [CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION] = MEMBER(clusterDim),
    [CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE] =
        MEMBER(clusterSchedulingPolicyPreference),
    [CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION] =
        MEMBER(programmaticStreamSerializationAllowed),
    [CU_LAUNCH_ATTRIBUTE_PRIORITY] = MEMBER(priority),
    [CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP] = MEMBER(memSyncDomainMap),
    [CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN] = MEMBER(memSyncDomain),
    [11] = DEFINES(unsigned int[3]), /* PREFERRED_CLUSTER_DIMENSION, from 12.8 */
    [14] = DEFINES(unsigned int),    /* PREFERRED_SHARED_MEMORY_CARVEOUT, from 12.5 */
    [16] = DEFINES(unsigned int),    /* NVLINK_UTIL_CENTRIC_SCHEDULING, from 13.0 */
};
