#!/usr/bin/env bats
# What the documentation says of the source, compared with the source.

setup() { : "${AG_SOURCE:=$BATS_TEST_DIRNAME/../..}"; }

@test "the two tables of docs/settings.md together are the library's" {
    [ "$(grep -c '^| variable | default | range | meaning |$' "$AG_SOURCE/docs/settings.md")" -eq 2 ]
    diff <(grep '^| `AUTOGRAPH' "$AG_SOURCE/docs/settings.md" | sort) <("$OPTION_TABLE" | grep '^| `' | sort)
}

@test "README and every page under docs/ link only to what exists" {
    cd "$AG_SOURCE"
    for page in README.md docs/*.md tests/fuzz/README.md tests/gpu/README.md; do
        for link in $(grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -v '://'); do
            [ -e "$(dirname "$page")/$link" ] || { echo "$page links to $link"; missing=yes; }
        done
    done
    [ -z "$missing" ]
}

@test "README answers on one screen: 45 lines of 80 columns" {
    first=$(sed '/^## Read on/,$d' "$AG_SOURCE/README.md" | head -n 45)
    for heading in "Does it work with what I use?" "Try it in one minute" "What to expect" "When not to use it"; do
        grep -qxF "## $heading" <<<"$first" || { echo "no $heading"; missing=yes; }
    done
    awk 'length > 80 { print "too long: " $0; long = 1 } END { exit long }' <<<"$(head -n 44 <<<"$first")"
    [ -z "$missing" ]
}

@test "files that the documentation names exist" {
    cd "$AG_SOURCE"
    for page in README.md docs/*.md; do
        for name in $(grep -oE '`[a-z./_-]*/[A-Za-z0-9_./-]*`|\]\([A-Za-z0-9_./-]*\)' "$page" | sed 's/^](\(.*\))$/\1/; s/`//g'); do
            case "$name" in
            /* | http* | build*) continue ;;
            esac
            [ -e "$name" ] || [ -e "docs/$name" ] || { echo "$page names $name"; missing=yes; }
        done
    done
    [ -z "$missing" ]
}

@test "variables that the documentation names exist" {
    cd "$AG_SOURCE"
    known=$("$OPTION_TABLE" | grep -o 'AUTOGRAPH[A-Z_]*')
    for name in $(grep -ohE '\bAUTOGRAPH(_[A-Z_]+)?\b' README.md docs/*.md | sort -u); do
        grep -qx "$name" <<<"$known" || { echo "$name is no variable"; false; }
    done
}
