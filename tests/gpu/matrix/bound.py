"""What launches that cost nothing would give in a cell of the matrix. `free` holds microseconds an op of
loops whose ops do nothing (libautograph_free.so), by (gap, ops, sync): the host's own work, the hook and,
with sync, a wait for an idle GPU. The GPU's part is added here: its kernels take their time one after the other,
and with sync the last is seen `latency` later.
"""


def answer_us(launched_us, synced_us, kernel_us):
    """How long after its kernels have ended a program sees that: a step of one launch and a sync takes
    `synced_us`, a launch without sync `launched_us`."""
    return max(0.0, synced_us - launched_us - kernel_us)


def floor_us(cell, free, base_us, latency_us):
    """The least time an op in a cell."""
    kernel, gap, ops, sync = cell
    kernel = max(kernel, base_us)
    issue = free[gap, ops, 0]
    if not sync:
        return max(issue, kernel)
    # The GPU ends when it has run all kernels, and one after the last was issued.
    ended = max(ops * kernel, (ops - 1) * issue + kernel)
    return max(free[gap, ops, 1] * ops, ended + latency_us) / ops


def reached(pair, floor):
    """What is saved, of what could be; None where nothing could."""
    could = pair[0] - floor
    return (pair[0] - pair[1]) / could if could > 0 else None
