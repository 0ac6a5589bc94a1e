#!/bin/sh
# A study from its table to its report, as one would type it.
#
# The people are the 1,629 smokers of NHEFS, interviewed in 1971. Some of them quit.
# How much weight does a person gain because of that?
# A visit in 1982 shows a person's weight, but visits cost money and some fail.
# Each of 5 rounds visits 40 people.
#
# Usage: sh examples/nhefs.sh [FOLDER]     FOLDER gets all files; the default is a new temporary folder.
set -eu

folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"

# Show a command and run it.
type_in() {
    printf '\n$ %s\n' "$*"
    "$@"
}

type_in causalbald datasets table nhefs -o people.csv
type_in causalbald campaign new study.db --yes \
    --pool people.csv --id seqn --treatment smoking --control continued --outcome wt82_71 --better lower \
    --budget 300 --protected sex --protected race --audit 0.2

for round in 1 2 3 4 5; do
    type_in causalbald campaign ask study.db -n 40 -o "batch-$round.csv"
    # In a real study, weeks pass here. This looks up what the visits of 1982 found.
    type_in causalbald datasets measure nhefs "batch-$round.csv" -o "results-$round.csv" --failed "failed-$round.csv"
    type_in causalbald campaign tell study.db "results-$round.csv"
    if [ "$(wc -l <"failed-$round.csv")" -gt 1 ]; then
        type_in causalbald campaign fail study.db --from "failed-$round.csv" --reason not-weighed
    fi
done

type_in causalbald campaign status study.db
type_in causalbald campaign ate study.db
type_in causalbald campaign advice study.db -n 40
type_in causalbald campaign effects study.db -o effects.csv
type_in causalbald campaign report study.db -o report.html
