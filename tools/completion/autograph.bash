# Bash completion of autograph.
_autograph() {
    local verbs="run report timeline graphs html diff replay top env doctor help"
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=run options i
    case ${COMP_WORDS[1]-} in
    run | report | timeline | graphs | html | diff | replay | top | env | doctor) verb=${COMP_WORDS[1]} ;;
    esac
    if [[ ${COMP_WORDS[1]-} == help && $COMP_CWORD -eq 2 ]]; then
        COMPREPLY=($(compgen -W "$verbs" -- "$cur"))
        return
    fi
    # behind the program that is run, what is completed is that program's
    if [[ $verb == run ]]; then
        for ((i = 1; i < COMP_CWORD; i++)); do
            case ${COMP_WORDS[i]} in
            run) [[ $i -eq 1 ]] || break ;;
            -t | -e | -f | -o) ((i++)) ;;
            -*) ;;
            *) COMPREPLY=($(compgen -f -- "$cur")) && return ;;
            esac
        done
    fi
    case $prev in
    -f | --format)
        COMPREPLY=($(compgen -W "text csv json jsonl" -- "$cur"))
        return
        ;;
    -o | --output | -t | --trace | --library)
        COMPREPLY=($(compgen -f -- "$cur"))
        return
        ;;
    esac
    case $verb in
    run) options="--observe --compare --trace --quiet --set --format --output --library" ;;
    report) options="--top --format --table --output" ;;
    graphs) options="--graph --top --format --table --output" ;;
    diff) options="--top --after --fail --format --table --output" ;;
    replay) options="--min-repeats --min-ops --max-chunk --chunk --max-defer-us --memory-mb --profit --format --table --output" ;;
    top) options="--interval --count --format --table" ;;
    doctor) options="--library --format --table --output" ;;
    timeline) options="--from --to --output" ;;
    html) options="--output" ;;
    env) options="--format --table --output" ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options --help" -- "$cur"))
    elif [[ $verb == top ]]; then
        COMPREPLY=($(compgen -W "$(cd /proc && echo [0-9]*)" -- "$cur"))
    elif [[ $verb == run || $verb == doctor ]]; then
        COMPREPLY=($([[ $COMP_CWORD -eq 1 ]] && compgen -W "$verbs" -- "$cur") $(compgen -c -- "$cur"))
    else
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}
complete -o filenames -F _autograph autograph
