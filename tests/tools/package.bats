#!/usr/bin/env bats
# The Debian package: built, unpacked into a folder of its own, and the command run from there.

load common.bash

@test "the package holds the command, the library, the manual and the completion, and works from there" {
    command -v dpkg-deb >/dev/null || skip "dpkg-deb is not installed"
    cd "$BATS_TEST_TMPDIR"
    (cd "$AG_BUILD" && cpack -G DEB -B "$BATS_TEST_TMPDIR/deb") > cpack.log || { cat cpack.log; false; }
    deb=$(ls deb/*.deb)
    dpkg-deb --info "$deb" | grep -q '^ Package: libautograph'
    dpkg-deb -x "$deb" root
    [ -x root/usr/bin/autograph ]
    [ -s root/usr/lib/libautograph.so ]
    [ -s root/usr/share/bash-completion/completions/autograph ]
    ls root/usr/share/man/man1/autograph.1*
    for page in README.md copyright docs/limits.md; do
        [ -s "root/usr/share/doc/libautograph/$page" ]
    done
    run root/usr/bin/autograph --version
    [ "$status" -eq 0 ]
    run root/usr/bin/autograph "$AG_BUILD/examples/loop_driver" --steps=20 --reps=1
    [ "$status" -eq 0 ]
    [[ "$output" == *": replayed "* ]]
    run root/usr/bin/autograph -q sh -c 'echo "$LD_PRELOAD"'
    [ "$output" = "$PWD/root/usr/lib/libautograph.so" ]
}

# A root folder that holds nothing but what is copied here: PROGRAMS, and the libraries that they and what is
# in /usr of it ask for.
furnish() { # ROOT PROGRAM...
    local root=$1 file
    shift
    mkdir -p "$root"/{bin,lib64,proc,dev,tmp,opt}
    cp /bin/dash "$root/bin/sh"
    cp "$@" "$root/opt/"
    for file in /bin/dash "$@" "$root"/usr/bin/autograph "$root"/usr/lib/libautograph.so; do
        LD_LIBRARY_PATH='' ldd "$file" | grep -o '/[^ )]*' | grep -v '^/.*libautograph'
    done | sort -u | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
}

@test "installed by dpkg in a clean root, the command runs a program from there" {
    [ "$(id -u)" -eq 0 ] || skip "chroot needs root"
    command -v dpkg >/dev/null || skip "dpkg is not installed"
    cd "$BATS_TEST_TMPDIR"
    (cd "$AG_BUILD" && cpack -G DEB -B "$BATS_TEST_TMPDIR/deb") > cpack.log
    root=$PWD/root
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
    touch "$root/var/lib/dpkg/status"
    dpkg --root="$root" --force-depends --force-script-chrootless --log=/dev/null -i deb/*.deb
    dpkg --root="$root" -s libautograph | grep -q '^Status: install ok installed'
    furnish "$root" "$AG_BUILD/examples/loop_driver" "$AG_BUILD/tests/simdriver/libcuda.so.1"
    cp "$AG_BUILD"/examples/*.fatbin "$root/opt/"
    inside() {
        env -i unshare --mount sh -c 'mount -t proc proc "$0/proc" &&
            exec env PATH=/usr/bin:/bin LD_LIBRARY_PATH=/opt /usr/sbin/chroot "$0" "$@"' "$root" "$@"
    }
    inside sh -c : || skip "no mounting here"
    run inside autograph --trace=/tmp/dump /opt/loop_driver --steps=100 --reps=2
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *": replayed "* ]]
    [[ "$output" == *"check=ok"* ]]
    inside autograph report /tmp/dump | grep -q short_kernel
    inside autograph doctor /opt/loop_driver -f json | holds "not any(f['state'] == 'BAD' for f in d['findings'])"
    dpkg --root="$root" --log=/dev/null --force-script-chrootless -r libautograph
    [ ! -e "$root/usr/bin/autograph" ]
    [ ! -e "$root/usr/lib/libautograph.so" ]
}

@test "the manual names every verb and every option, and no other" {
    manual=$AG_SOURCE/tools/man/autograph.1
    for verb in run report timeline graphs html diff replay top env doctor; do
        grep -Eq "^\.(SS|TP|B|BR).*\b$verb\b|^\.B $verb" "$manual"
        for option in $(autograph "$verb" --help | grep -o -- ' --[a-z-]*' | sort -u); do
            case $option in --help | --usage | --version) continue ;; esac
            grep -q -- "$(sed 's/-/\\\\-/g' <<<"$option")" "$manual" || { echo "$verb $option"; false; }
        done
    done
}

@test "the completion knows every verb and options of each" {
    source "$AG_SOURCE/tools/completion/autograph.bash"
    complete_line() {
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        COMPREPLY=()
        _autograph
        echo "${COMPREPLY[*]}"
    }
    for verb in run report timeline graphs html diff replay top env doctor; do
        [[ " $(complete_line autograph "${verb:0:2}") " == *" $verb "* ]]
    done
    [[ " $(complete_line autograph help re) " == " report replay " ]]
    [[ " $(complete_line autograph report --) " == *" --format "* ]]
    [[ " $(complete_line autograph report --format '') " == *" jsonl "* ]]
    [[ " $(complete_line autograph --) " == *" --observe "* ]]
}
