# What examples/run and tests/run need of others: sourced by both, from the top folder.
# A command or a header, and its package in Debian, Fedora (dnf) and conda-forge; -: there is none, or it is not known.
needs='
cmake           cmake           cmake            cmake
ninja           ninja-build     ninja-build      ninja
gcc             gcc             gcc              gcc
g++             g++             gcc-c++          gxx
python3         python3         python3          python
bats            bats            bats             -
pkill           procps          procps-ng        procps-ng
xz              xz-utils        xz               xz
nm              binutils        binutils         binutils
dot             graphviz        graphviz         graphviz
clang-format-14 clang-format-14 -                -
clang-tidy-14   clang-tidy-14   -                -
cppcheck        cppcheck        cppcheck         cppcheck
valgrind        valgrind        valgrind         valgrind
stdlib.h        libc6-dev       glibc-devel      -
uthash.h        uthash-dev      uthash-devel     -
jansson.h       libjansson-dev  jansson-devel    jansson
zlib.h          zlib1g-dev      zlib-devel       zlib
cmocka.h        libcmocka-dev   libcmocka-devel  cmocka
'

is_there() { # COMMAND-OR-HEADER; a header is there where the compiler finds it
    case $1 in
    *.h) gcc -E -x c -I.deps/include ${CONDA_PREFIX:+"-I$CONDA_PREFIX/include"} - <<<"#include <$1>" >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

apt_install() { # PACKAGE...
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    echo "installing $*"
    "${as_root[@]}" apt-get update -qq || echo "apt-get update failed" >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# need COMMAND-OR-HEADER...: installs what of these is missing. Where there is no apt-get, says what the packages are called
# elsewhere, and status 1.
need() {
    local what debian fedora conda missing=" " for_apt=() for_dnf=() for_conda=() by_hand=()
    for what in "$@"; do
        is_there "$what" || missing+="$what "
    done
    while read -r what debian fedora conda; do
        [ -n "$what" ] && [[ "$missing" == *" $what "* ]] || continue
        for_apt+=("$debian")
        [ "$fedora" = - ] || for_dnf+=("$fedora")
        if [ "$conda" = - ]; then by_hand+=("$what"); else for_conda+=("$conda"); fi
    done <<<"$needs"
    [ ${#for_apt[@]} -gt 0 ] || return 0
    if command -v apt-get >/dev/null; then
        apt_install "${for_apt[@]}"
        return
    fi
    {
        echo "missing, and no apt-get to install it with:$missing"
        [ ${#for_dnf[@]} = 0 ] || echo "Fedora and the like: dnf install ${for_dnf[*]}"
        [ ${#for_conda[@]} = 0 ] || echo "conda: conda install -c conda-forge ${for_conda[*]}"
        [ ${#by_hand[@]} = 0 ] || echo "not in conda, as far as is known: ${by_hand[*]}"
        [[ "$missing" != *" uthash.h "* ]] || echo "uthash.h is one file of https://troydhanson.github.io/uthash: put it into .deps/include"
    } >&2
    return 1
}

find_toolkit() {
    local place
    for place in "${CUDA_HOME-}" "${CUDA_PATH-}" /usr/local/cuda; do
        [ -z "$place" ] || [ ! -e "$place/include/cuda.h" ] || return 0
    done
    command -v nvcc >/dev/null || [ -e /usr/include/cuda.h ] || [ -e "${CONDA_PREFIX-}/targets/x86_64-linux/include/cuda.h" ] || {
        echo "the CUDA Toolkit (12.4 or newer) is missing: get it from https://developer.nvidia.com/cuda-downloads, or set CUDA_HOME to where include/cuda.h is" >&2
        return 1
    }
}

# configure FOLDER CMAKE-ARGUMENT...: a folder keeps the generator that it was first made with; a new one gets Ninja.
configure() {
    local folder=$1 generator=()
    shift
    [ -e "$folder/CMakeCache.txt" ] || generator=(-G Ninja)
    cmake -S . -B "$folder" "${generator[@]}" "$@"
}
