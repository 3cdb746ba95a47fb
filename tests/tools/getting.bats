#!/usr/bin/env bats
# Getting it built on machines of all kinds: what is said where something is missing, and folders that were built in before.

load common.bash

setup() {
    cd "$AG_SOURCE"
    bare=$BATS_TEST_TMPDIR
}

# A machine without apt-get, and without what stands in $1.
without_apt() { # COMMAND...
    local file
    mkdir "$bare/bin"
    for file in /usr/bin/* /bin/*; do
        ln -sf "$file" "$bare/bin/"
    done
    rm "$bare/bin/apt-get" "$bare/bin/ninja"
    PATH=$bare/bin run "$@"
    echo "$output"
}

@test "without apt-get the packages are named as dnf and conda know them" {
    without_apt bash -c 'source tools/needs.bash; is_there() { [ "$1" != uthash.h ] && command -v "$1"; }; need gcc ninja uthash.h'
    [ "$status" -eq 1 ]
    [[ "$output" == *"missing, and no apt-get to install it with: ninja uthash.h"* ]]
    [[ "$output" == *"dnf install ninja-build uthash-devel"* ]]
    [[ "$output" == *"conda install -c conda-forge ninja"$'\n'* ]]
    [[ "$output" == *".deps/include"* ]]
}

@test "every header that the scripts ask for is found where its package is installed, and only there" {
    source tools/needs.bash
    for header in stdlib.h uthash.h jansson.h zlib.h cmocka.h; do
        grep -q "^$header " tools/needs.bash
    done
    is_there stdlib.h
    no is_there no_such_header.h
    mkdir "$bare/include"
    touch "$bare/include/no_such_header.h"
    CONDA_PREFIX=$bare is_there no_such_header.h
}

@test "with cuda.h alone the library is built; what needs more says so in a line each" {
    mkdir "$bare/include"
    cuda_h=$(sed -n 's/^AG_CUDA_INCLUDE_DIR:PATH=//p' "$AG_BUILD/CMakeCache.txt")/cuda.h
    cp "$cuda_h" "$bare/include/"
    cmake -S . -B "$bare/build" -DAG_CUDA_INCLUDE_DIR="$bare/include" -DAG_NVCC= -DAG_CUDA_STUB= -DAG_BUILD_TOOLS=OFF -DAG_WERROR=ON \
        -DCMAKE_BUILD_TYPE=Debug >"$bare/log" 2>&1 || { cat "$bare/log"; false; }
    no grep -i warning "$bare/log"
    for line in 'nvcc was not found: memsets' 'nvcc was not found: no examples' 'The tests are not built: ' 'no driver-API examples'; do
        grep -q "^-- .*$line" "$bare/log"
    done
    cmake --build "$bare/build" --parallel 2 >>"$bare/log" 2>&1 || { tail -n 30 "$bare/log"; false; }
    run env LD_PRELOAD="$bare/build/preload/libautograph.so" AUTOGRAPH_STATS=1 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 "$AG_BUILD/examples/loop_driver" --steps=100 --reps=2
    echo "$output"
    [[ "$output" == *": replayed "[1-9]* ]]
}

@test "a build folder keeps its generator, whoever configures it" {
    source tools/needs.bash
    for generator in "Unix Makefiles" Ninja; do
        folder=$bare/${generator%% *}
        cmake -S . -B "$folder" -G "$generator" -DAG_BUILD_TESTS=OFF -DAG_BUILD_EXAMPLES=OFF -DAG_FILL_ARCHS=80 >"$bare/log"
        configure "$folder" >>"$bare/log" 2>&1 || { tail -n 30 "$bare/log"; false; }
        cmake --build "$folder" --target autograph_manual ag_version_header
        grep -q "^CMAKE_GENERATOR:INTERNAL=$generator" "$folder/CMakeCache.txt"
    done
    for script in examples/run tests/run; do
        no grep -n 'cmake .*-G\|^[^#]*ninja -[jC]' "$script"
    done
}

@test "what a library is called is never assumed: the linker gets the file that cmake found" {
    run grep -rnE '(target_link_libraries\(.*[ )]|-l)(cmocka|jansson|z)([ )]|$)' "$AG_SOURCE" --include=CMakeLists.txt
    echo "$output"
    [ "$status" -eq 1 ]
}
