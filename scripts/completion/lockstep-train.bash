# lockstep-train.bash - completion for bash: source this file. It asks the program itself, by `lockstep-train help complete`, so it offers
# what the installed version takes.

# Files of the suffixes $1 (/: none; *: all) that begin as $2, and folders.
_lockstep-train_files() {
  local suffix IFS=' '
  compgen -d -- "$2"
  set -f
  for suffix in $1; do
    case $suffix in
    /) ;;
    '*') compgen -f -- "$2" ;;
    *) compgen -f -X "!*.$suffix" -- "$2" ;;
    esac
  done
}

_lockstep-train() {
  local words=() word line i
  for ((i = 1; i <= COMP_CWORD; i++)); do # bash has cut them at =
    word=${COMP_WORDS[i]}
    if ((${#words[@]})) && [[ $word == '='* || ${words[-1]} == *= ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
  done
  word=${words[-1]}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
    :nospace) compopt -o nospace 2>/dev/null ;;
    ':files '*)
      compopt -o filenames 2>/dev/null
      [[ $word == -*=* ]] && word=${word#*=}
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(_lockstep-train_files "${line#:files }" "$word" | sort -u) ;;
    *)
      line=${line%%$'\t'*}
      [[ $COMP_WORDBREAKS == *=* && $word == *=* ]] && line=${line#"${word%=*}="}
      COMPREPLY+=("$line") ;;
    esac
  done < <("${COMP_WORDS[0]}" help complete -- "${words[@]}" 2>/dev/null)
}
complete -F _lockstep-train lockstep-train train
