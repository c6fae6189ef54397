# Cleans up after a run whose own process cannot, because the process was killed or keeps the run in a static, which is never
# dropped. Reads the process IDs of the run from stdin, one per line. stdin ends when the process of the run ends.
directory=$1
trap '' HUP INT TERM

processes=
while read -r process; do processes="$processes $process"; done

for attempt in 1 2 3 4 5 6 7 8 9 10; do
	alive=
	for process in $processes; do
		# Another program may have the process ID now. Processes of the run have its directory among their arguments.
		if grep -qsF -- "$directory" "/proc/$process/cmdline"; then
			kill -KILL "$process"
			alive=yes
		fi
	done
	# A terminating process may still write files.
	rm -rf -- "$directory" && [ -z "$alive" ] && break
	sleep 0.1
done
