/* device.c - devices and their attributes: a fixed model, the same for every device. */
#include "sim.h"
#include <stdio.h>
#include <string.h>

int sim_device_count(void)
{
    return sim_settings.devices;
}

static bool valid(CUdevice device)
{
    return device >= 0 && device < sim_settings.devices;
}

SIM_API(cuDeviceGetCount, (int *count), (count))
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim_settings.devices;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal))
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetName, (char *name, int length, CUdevice device), (name, length, device))
{
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "Simulated CUDA device %d", device);
    return CUDA_SUCCESS;
}

static CUresult uuid_of(CUuuid *uuid, CUdevice device)
{
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "simulated-device", 16);
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetUuid, (CUuuid * uuid, CUdevice device), (uuid, device))
{
    return uuid_of(uuid, device);
}

SIM_API(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device), (uuid, device))
{
    return uuid_of(uuid, device);
}

SIM_API(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device), (bytes, device))
{
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = sim_settings.memory;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceComputeCapability, (int *major, int *minor, CUdevice device),
        (major, minor, device))
{
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device),
        (value, attribute, device))
{
    static const int values[CU_DEVICE_ATTRIBUTE_MAX] = {
        [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024,
        [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X] = 1024,
        [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y] = 1024,
        [CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z] = 64,
        [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X] = 0x7fffffff,
        [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y] = 65535,
        [CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z] = 65535,
        [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] = 49152,
        [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] = 232448,
        [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] = 233472,
        [CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY] = 65536,
        [CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32,
        [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = 65536,
        [CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] = 65536,
        [CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1000000,
        [CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = 132,
        [CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY] = 1,
        [CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS] = 1,
        [CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT] = 3,
        [CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1,
        [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = 2048,
        [CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR] = 32,
        [CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9,
        [CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 0,
        [CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED] = 1,
        [CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1,
        [CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS] = 1,
        [CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS] = 0,
        [CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED] = 1,
        [CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM] = 1,
        [CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1,
        [CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED] = 1,
        [CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED] = 1,
        [CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH] = 1,
        [CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR] = 1,
        [CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS] = 1,
        [CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = 52428800,
        [CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] = 2619000,
        [CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH] = 5120,
        [CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT] = 512,
        [CU_DEVICE_ATTRIBUTE_MAX_PITCH] = 0x7fffffff,
    };
    if (!value || (int)attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? device + 1 : values[attribute];
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetPCIBusId, (char *id, int length, CUdevice device), (id, length, device))
{
    if (!id || length < 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, (size_t)length, "0000:%02x:00.0", (unsigned int)device + 1);
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetByPCIBusId, (CUdevice * device, const char *id), (device, id))
{
    unsigned int domain, bus;
    if (!device || !id)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(id, "%x:%x:", &domain, &bus) != 2 || domain != 0 || !valid((int)bus - 1))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = (int)bus - 1;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer), (can, device, peer))
{
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device) || !valid(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGetP2PAttribute,
        (int *value, CUdevice_P2PAttribute attribute, CUdevice a, CUdevice b),
        (value, attribute, a, b))
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(a) || !valid(b) || a == b)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    return CUDA_SUCCESS;
}
