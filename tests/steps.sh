# Sourced by the scripts of this directory: prints the name of each step, and at the end the duration of each step.

steps=()
step() { # name
	end_step
	step_name=$*
	step_start=$(date +%s)
	printf '\n== %s\n' "$*" >&2
}
end_step() {
	[ -z "${step_name:-}" ] || steps+=("$(($(date +%s) - step_start)) $step_name")
	step_name=
}
print_steps() {
	end_step
	[ "${#steps[@]}" = 0 ] || {
		printf '\n== time of each step\n'
		printf '%s\n' "${steps[@]}" | awk '{ s = $1; $1 = ""; total += s; printf "%4d min %02d s %s\n", s / 60, s % 60, $0 }
			END { printf "%4d min %02d s  total\n", total / 60, total % 60 }'
	} >&2
	steps=()
}
