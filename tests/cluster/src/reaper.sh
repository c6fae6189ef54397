# Cleans up after a run whose own process can no longer do it: because it was killed, or because it ended with the run in
# a static, which is never dropped. Reads the processes of the run from stdin, one number a line; stdin ends with its owner.
folder=$1
trap '' HUP INT TERM

processes=
while read -r process; do processes="$processes $process"; done

for attempt in 1 2 3 4 5 6 7 8 9 10; do
	alive=
	for process in $processes; do
		# A number can belong to a stranger by now. Ours have the run's folder among their arguments.
		if grep -qsF -- "$folder" "/proc/$process/cmdline"; then
			kill -KILL "$process"
			alive=yes
		fi
	done
	# A dying process can still write files for a moment.
	rm -rf -- "$folder" && [ -z "$alive" ] && break
	sleep 0.1
done
