#!/usr/bin/env bats
# What users install: the wheel, the archive and the Debian package of tools/package, and `cmake --install`. Each is installed
# as its users would, and the command run from there.

load common.bash

# All three, once for this file. Their build folder stays, beside the build that is tested.
setup_file() {
    export OUT=$BATS_FILE_TMPDIR/out LOG=$BATS_FILE_TMPDIR/log
    [ -z "$AG_RUNTIME" ] || skip "packages hold no sanitizer"
    command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] || skip "no nvcc, which packages need"
    BUILD=$AG_BUILD/package "$AG_SOURCE/tools/package" "$OUT" >"$LOG" 2>&1 || { cat "$LOG" >&2; false; }
}

# The command at this path finds its own library, not another's, and replays with it.
works() { # COMMAND LIBRARY
    run "$1" -q sh -c 'echo "$LD_PRELOAD"'
    echo "$output"
    [ "$output" = "$2" ]
    # Built inline: a thread that builds may get no processor before the end.
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 run "$1" "$AG_BUILD/examples/loop_driver" --steps=100 --reps=2
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"check=ok"* ]]
    [[ "$output" =~ ": replayed "([0-9]+)" of "([0-9]+)" ops" ]]
    [ "${BASH_REMATCH[1]}" -gt $((BASH_REMATCH[2] / 2)) ]
}

# No file asks for a newer glibc than this one, or for a library that not every Linux has.
needs_little() { # GLIBC FILE...
    local promised=$1 file newest
    shift
    for file in "$@"; do
        newest=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sed s/GLIBC_// | sort -uV | tail -n 1)
        echo "$file needs glibc $newest"
        [ -n "$newest" ]
        [ "$(printf '%s\n' "$newest" "$promised" | sort -V | tail -n 1)" = "$promised" ]
        no grep -Ev 'lib(c|m|dl|pthread)\.so|ld-linux' <(readelf -dW "$file" | grep NEEDED)
    done
}

# Every relative link of every page leads to a file that is installed too.
links_lead_somewhere() { # FOLDER
    python3 - "$1" <<'CHECK'
import pathlib, re, sys
folder = pathlib.Path(sys.argv[1])
pages = list(folder.rglob("*.md"))
broken = [f"{page}: {link}" for page in pages for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
          if "://" not in link and not (page.parent / link).exists()]
print(len(pages), "pages", *broken, sep="\n")
sys.exit(bool(broken) or len(pages) < 10)
CHECK
}

@test "the wheel: installed by pip without a network, autograph replays" {
    python3 -m venv "$BATS_TEST_TMPDIR/env" || skip "python3 makes no environment here (Debian: python3-venv)"
    environment=$(realpath "$BATS_TEST_TMPDIR/env")
    wheel=$(ls "$OUT"/*.whl)
    [[ "$wheel" == */libautograph-*-py3-none-manylinux_2_34_"$(uname -m)".whl ]]
    "$environment/bin/pip" install --no-index --disable-pip-version-check "$wheel"
    works "$environment/bin/autograph" "$environment/lib/libautograph.so"
    needs_little 2.34 "$environment/bin/autograph" "$environment/lib/libautograph.so"
    links_lead_somewhere "$environment/share/doc/libautograph"
    "$environment/bin/pip" check
    "$environment/bin/pip" uninstall -y libautograph
    [ ! -e "$environment/bin/autograph" ]
    [ ! -e "$environment/lib/libautograph.so" ]
}

@test "the archive: unpacked anywhere, autograph replays" {
    mkdir "$BATS_TEST_TMPDIR/place"
    tar -xzf "$OUT"/libautograph-*-linux-"$(uname -m)".tar.gz -C "$BATS_TEST_TMPDIR/place"
    place=$(realpath "$BATS_TEST_TMPDIR"/place/libautograph-*)
    works "$place/bin/autograph" "$place/lib/libautograph.so"
    needs_little 2.34 "$place/bin/autograph" "$place/lib/libautograph.so"
    links_lead_somewhere "$place/share/doc/libautograph"
    grep -q Jansson "$place/share/doc/libautograph/third-party.txt"
}

@test "the modulefile of the archive: PATH and LIBAUTOGRAPH are those of where it lies" {
    modulecmd=$(command -v modulecmd.tcl || ls /usr/lib/*/modulecmd.tcl /usr/share/Modules/libexec/modulecmd.tcl 2>/dev/null |
        head -n 1) || true
    [ -n "$modulecmd" ] || skip "Environment Modules are not installed"
    tar -xzf "$OUT"/libautograph-*-linux-*.tar.gz -C "$BATS_TEST_TMPDIR"
    place=$(realpath "$BATS_TEST_TMPDIR"/libautograph-*)
    load="$(MODULEPATH=$place/share/modulefiles "$modulecmd" bash load libautograph)"
    echo "$load"
    run env -i PATH="$PATH" bash -c "$load"' >/dev/null 2>&1; command -v autograph; echo "$LIBAUTOGRAPH"'
    echo "$output"
    [ "${lines[0]}" = "$place/bin/autograph" ]
    [ "${lines[1]}" = "$place/lib/libautograph.so" ]
}

@test "the Debian package: unpacked, autograph replays; lintian finds no error" {
    command -v dpkg-shlibdeps >/dev/null || skip "no dpkg-dev here: no package was made"
    cd "$BATS_TEST_TMPDIR"
    deb=$(ls "$OUT"/*.deb)
    dpkg-deb -x "$deb" root
    works root/usr/bin/autograph "$(realpath root)/usr/lib/libautograph.so"
    links_lead_somewhere root/usr/share/doc/libautograph
    dpkg-deb --info "$deb" >info
    for field in '^ Package: libautograph$' '^ Maintainer: .* <.*@.*>$' '^ Depends: .*libjansson4' '^ Description: ' '^  [A-Z]'; do
        grep -q "$field" info
    done
    dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./triggers | grep -q '^activate-noawait ldconfig$'
    zcat root/usr/share/doc/libautograph/changelog.Debian.gz | grep -q '^libautograph ('
    gzip -t root/usr/share/man/man1/autograph.1.gz
    grep -q 'MIT License' root/usr/share/doc/libautograph/copyright
    command -v lintian >/dev/null || skip "all but lintian, which is not installed"
    run lintian --fail-on error "$deb"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "cmake --install: LIBDIR is honoured, and uninstall takes all of it away" {
    cd "$BATS_TEST_TMPDIR"
    cmake -S "$AG_SOURCE" -B build -DAG_BUILD_TESTS=OFF -DAG_BUILD_EXAMPLES=OFF -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_INSTALL_LIBDIR=lib64 -DCMAKE_INSTALL_PREFIX="$PWD/usr" -DAG_FILL_ARCHS=80 >log
    cmake --build build --parallel 2 --target install >>log 2>&1 || { tail -n 40 log; false; }
    mkdir -p usr/share/man/man1
    touch usr/share/man/man1/other.1
    works usr/bin/autograph "$(realpath usr)/lib64/libautograph.so"
    [ ! -e usr/lib ]
    [ -s usr/share/modulefiles/libautograph/0.1.0 ]
    grep -q 'lib64/libautograph.so' usr/share/modulefiles/libautograph/0.1.0
    cmake --build build --target uninstall
    [ "$(find usr ! -type d)" = usr/share/man/man1/other.1 ]
    [ ! -e usr/share/doc/libautograph ]
    no cmake --build build --target uninstall
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
    command -v dpkg-shlibdeps >/dev/null || skip "no dpkg-dev here: no package was made"
    cd "$BATS_TEST_TMPDIR"
    root=$PWD/root
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
    touch "$root/var/lib/dpkg/status"
    dpkg --root="$root" --force-depends --force-script-chrootless --log=/dev/null -i "$OUT"/*.deb
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
    cd "$BATS_TEST_TMPDIR"
    touch report-of-mine # a file by the name of a verb
    [[ " $(complete_line autograph help re) " == " report replay " ]]
    [[ " $(complete_line autograph report --) " == *" --format "* ]]
    [[ " $(complete_line autograph report --format '') " == *" jsonl "* ]]
    [[ " $(complete_line autograph --) " == *" --observe "* ]]
}
