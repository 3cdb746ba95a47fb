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
    run root/usr/bin/autograph --version
    [ "$status" -eq 0 ]
    run root/usr/bin/autograph "$AG_BUILD/examples/loop_driver" --steps=20 --reps=1
    [ "$status" -eq 0 ]
    [[ "$output" == *"autograph: replayed "* ]]
    run root/usr/bin/autograph -q sh -c 'echo "$LD_PRELOAD"'
    [ "$output" = "$PWD/root/usr/lib/libautograph.so" ]
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
    [[ " $(complete_line autograph report --) " == *" --format "* ]]
    [[ " $(complete_line autograph report --format '') " == *" jsonl "* ]]
    [[ " $(complete_line autograph --) " == *" --observe "* ]]
}
