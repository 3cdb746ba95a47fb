#!/usr/bin/env bats
# What the documentation says of the source, compared with the source.

setup() { : "${AG_SOURCE:=$BATS_TEST_DIRNAME/../..}"; }

@test "README's table of variables is the library's" {
    diff <(sed -n '/^| variable | default /,/^$/p' "$AG_SOURCE/README.md" | sed '/^$/d') <("$OPTION_TABLE")
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
