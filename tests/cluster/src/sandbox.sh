# Prepares a sandbox, as the first process in the namespaces that sandbox.rs has created. Then runs the command.
set -eu
directory=$1 address=$2 services=$3
shift 3

# Files are in memory, including those that programs write to fixed paths. If the root is an overlay, as in a container,
# overlays of containers would not work on top of it.
mount -t tmpfs -o mode=755 machine "$directory"
mkdir "$directory/tmp" "$directory/var" "$directory/work"
mount -t tmpfs -o mode=755 run /run
mount -t overlay -o "lowerdir=/var,upperdir=$directory/var,workdir=$directory/work" var /var

# Kernel settings apply to the whole machine, except those of the network. The kubelet requires some values, so files with
# these values are mounted over the settings.
mount_setting() { # setting, value
	[ -e "/proc/sys/$1" ] || return 0
	mkdir -p "$directory/settings/${1%/*}"
	echo "$2" >"$directory/settings/$1"
	mount --bind "$directory/settings/$1" "/proc/sys/$1"
}
mount --bind /proc/sys /proc/sys
mount_setting vm/overcommit_memory 1
mount_setting vm/panic_on_oom 0
mount_setting kernel/panic 10
mount_setting kernel/panic_on_oops 1
mount_setting kernel/keys/root_maxkeys 1000000
mount_setting kernel/keys/root_maxbytes 25000000
mount -o remount,bind,ro /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,rw /proc/sys/net

# Bridge for the pods. No interface has the addresses of Services, but without a route kube-proxy's rules would not apply.
ip link set lo up
ip link add cni0 type bridge
ip address add "$address" dev cni0
ip link set cni0 up
ip route add "$services" dev cni0

# No exec: the first process has to reap orphaned processes, which a shell does.
export TMPDIR="$directory/tmp" CLUSTER_MACHINE="$directory" CLUSTER_ADDRESS="${address%/*}"
"$@"
exit $?
