# A few faults at random moments of a real training run; rank_campaign.sh by hand has more, and is strict about seconds. Argument: the folder of the built programs.
exec "$(dirname "$0")/rank_campaign.sh" "$1" --repetitions 1 --ranks 3 --kinds "kill stop hang exit3 config" --limit 120
