# What a node finds of its own when it starts: the first process of namespaces that machine.rs has made for it.
set -eu
folder=$1 address=$2 services=$3
shift 3

# Files: in memory, as are those of programs that write where they please. A root that is an overlay itself, as in a
# container, could not carry the overlays of containers.
mount -t tmpfs -o mode=755 machine "$folder"
mkdir "$folder/tmp" "$folder/var" "$folder/work"
mount -t tmpfs -o mode=755 run /run
mount -t overlay -o "lowerdir=/var,upperdir=$folder/var,workdir=$folder/work" var /var

# Settings of the kernel are the whole machine's, save those of the network. The kubelet wants some of its own, and finds
# files that have them already.
set_apart() { # setting, value
	[ -e "/proc/sys/$1" ] || return 0
	mkdir -p "$folder/settings/${1%/*}"
	echo "$2" >"$folder/settings/$1"
	mount --bind "$folder/settings/$1" "/proc/sys/$1"
}
mount --bind /proc/sys /proc/sys
set_apart vm/overcommit_memory 1
set_apart vm/panic_on_oom 0
set_apart kernel/panic 10
set_apart kernel/panic_on_oops 1
set_apart kernel/keys/root_maxkeys 1000000
set_apart kernel/keys/root_maxbytes 25000000
mount -o remount,bind,ro /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,rw /proc/sys/net

# A bridge for the pods. Addresses of Services are nowhere, but without a way to them nothing would rewrite them.
ip link set lo up
ip link add cni0 type bridge
ip address add "$address" dev cni0
ip link set cni0 up
ip route add "$services" dev cni0

# Not exec: a first process has to bury what dies below it, and a shell does.
export TMPDIR="$folder/tmp" CLUSTER_MACHINE="$folder" CLUSTER_ADDRESS="${address%/*}"
"$@"
exit $?
