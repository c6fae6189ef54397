module cluster/pods

go 1.26.0

tool (
	cluster/pods/pause
	cluster/pods/tidewatch
)
