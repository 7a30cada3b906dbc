#!/bin/sh
# man_page.sh - prints the manual page, in the macros of man(7), from what `train help` prints.
#
#   man_page.sh TRAIN NAME     TRAIN: the program; NAME: what it is installed as
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$1" "$work/$2" # the program calls itself by the name that it is called by
train() { "$work/$name" "$@"; }
name=$2
commands=$(train help complete -- '' | sed -n '/^:/!s/\t.*//p')

# One screen of help as roff. usage=1: its first line heads a section.
roff() {
  awk -v usage="$1" '
    function text(t) {
      gsub(/\\/, "\\e", t)
      gsub(/-/, "\\-", t)
      return (t ~ /^[.\047]/ ? "\\&" : "") t
    }
    NR == 1 && usage { print ".SS " text($0); next }
    NR == 2 && usage { next }
    /^$/ { if (example) print ".EE"; example = 0; paragraph = 1; next }
    /^Examples?$/ { print ".PP\n" $0 "\n.PP\n.EX"; example = 1; next }
    { indent = match($0, /[^ ]/) - 1; $0 = substr($0, indent + 1) }
    example || indent > 3 { print text($0); next }
    indent > 0 { # two columns
      columns = match($0, /  +/)
      print ".TP\n.B " text(columns ? substr($0, 1, columns - 1) : $0)
      if (columns) print text(substr($0, columns + RLENGTH))
      next
    }
    { if (paragraph) print ".PP"; paragraph = 0; print text($0) }
    END { if (example) print ".EE" }'
}

printf '.TH %s 1 "" "Lockstep %s" Lockstep\n' "$(echo "$name" | tr '[:lower:]' '[:upper:]')" "$(train --version | sed -n '1s/^lockstep //p')"
printf '.SH NAME\n%s \\- train convolutional networks in step on many devices\n' "$name"
printf '.SH SYNOPSIS\n.nf\n'
for command in train $commands; do train help "$command" | sed -n '1{s/-/\\-/g;p}'; done
printf '.fi\n.SH DESCRIPTION\n'
train help | sed '/^$/,$d' | roff 0
printf '.SH COMMANDS\n'
for command in train $commands; do train help "$command" | roff 1; done
for topic in config:CONFIGURATION stopping:'STOPPING A RUN' exit-codes:'EXIT STATUS' environment:ENVIRONMENT; do
  printf '.SH %s\n' "${topic#*:}"
  train help "${topic%%:*}" | roff 0
done
