"""Where the libraries are that programs load besides libautograph.so."""


def free_library(build):
    """libautograph_free.so, under which ops cost nothing, as tests/gpu/profile or tests/bench built it; may be
    missing."""
    place = build / "gpu" / "profile" / "libautograph_free.so"
    return place if place.exists() else build / "tests" / "bench" / "libautograph_free.so"
