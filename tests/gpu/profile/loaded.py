"""Where the libraries are that programs load besides libautograph.so."""


def library_variant(build, name):
    """libautograph_NAME.so, as tests/gpu/profile or tests/bench built it; may be missing."""
    place = build / "gpu" / "profile" / f"libautograph_{name}.so"
    return place if place.exists() else build / "tests" / "bench" / f"libautograph_{name}.so"


def free_library(build):
    """libautograph_free.so, under which ops cost nothing."""
    return library_variant(build, "free")
