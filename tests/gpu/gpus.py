#!/usr/bin/env python3
"""Prints how many GPUs the driver offers; 0 where there is no driver. A program of its own, so that
whoever asks stays free of CUDA."""

import ctypes


def count():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    found = ctypes.c_int(0)
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(found)) != 0:
        return 0
    return found.value


if __name__ == "__main__":
    print(count())
