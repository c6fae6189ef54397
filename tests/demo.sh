#!/usr/bin/env bash
# Installs, upgrades, repairs and uninstalls an operator on a new cluster. `make demo` runs this script.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

say() { printf '\n\033[1m%s\033[0m\n' "$*" >&2; }
[ -t 2 ] || say() { printf '\n%s\n' "$*" >&2; }
# Prints a command and runs it.
run() {
	say "\$ $*"
	"$@"
}

# The first run builds everything. The printed times were measured on two processors (CONTRIBUTING.md).
if [ -z "${RUKPAK_DEMO:-}" ]; then
	if [ -n "${NODE:-}" ]; then
		say "This demo converts a bundle, and then installs an operator on a Kubernetes cluster with a real node. The first
run takes about 13 minutes on two processors, the next ones less than a minute."
		needs=node
		builds=4
		programs="tools node runtime pods"
		commands="rukpak and cluster-up"
		binaries="--bin rukpak --bin cluster-up"
		kubernetes="etcd, Kubernetes and the programs of a node (4 more minutes the first time)"
	else
		say "This demo converts a bundle, and then installs an operator on a Kubernetes control plane with a stand-in node, which
runs no containers. The first run takes about 8 minutes on two processors, the next ones less than a minute."
		needs=registry
		builds=3
		programs=tools
		commands="rukpak, the provisioner and cluster-up"
		binaries="--bin rukpak --bin cluster-up --bin provisioner"
		kubernetes="etcd and Kubernetes (3 more minutes the first time)"
	fi
	. tests/needs.sh $needs
	log=$(mktemp)
	# Go prints each package that it compiles.
	GOFLAGS="$(go env GOFLAGS) -v" tests/programs.sh $programs >"$log" 2>&1 &
	go=$!
	trap 'kill "$go" 2>/dev/null || true; rm -f "$log"' EXIT
	built() { # since, what
		say "$2: $(($(date +%s) - $1)) s"
	}
	say "Building 1 of $builds: the library that converts bundles (30 seconds the first time; Go builds Kubernetes at the same time)"
	start=$(date +%s)
	# Without the features of the workspace, the library depends on few crates.
	$cargo build --locked --package convert --bin bundle-objects
	built "$start" "the library is built"
	bin=$($cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug
	export PATH=$bin:$PATH
	say "Convert a bundle to Kubernetes objects, without a cluster"
	run bundle-objects examples/bundles/tidewatch

	say "Building 2 of $builds: $commands (5 minutes the first time; cluster-up starts the cluster)"
	start=$(date +%s)
	# All later builds select the same features, so that Cargo compiles shared dependencies once.
	# shellcheck disable=SC2086 # several words
	$cargo build --locked --workspace $binaries
	built "$start" "the commands are built"
	[ -z "${NODE:-}" ] || RUST_BACKTRACE=0 cluster-up --node --check
	run rukpak inspect examples/bundles/tidewatch

	say "Building 3 of $builds: $kubernetes"
	start=$(date +%s)
	tail --lines 1 --follow --pid "$go" "$log" >&2
	wait "$go" || {
		cat "$log" >&2
		exit 1
	}
	built "$start" "Kubernetes is built"
	trap - EXIT
	rm -f "$log"
	if [ -n "${NODE:-}" ]; then
		say "Building 4 of $builds: the image of the provisioner (4 minutes the first time)"
		start=$(date +%s)
		RUKPAK_IMAGE_PROFILE=ci image/build.sh >/dev/null
		built "$start" "the image is built"
		export RUKPAK_DEMO=node
		exec cluster-up --node -- tests/demo.sh
	fi
	say "The cluster has a real control plane. Its node is a stand-in that reports pods as Ready and runs no containers.
Run \"make demo NODE=1\" for a real node, with the image of the provisioner and running pods."
	export RUKPAK_DEMO=stand-in
	exec cluster-up --stand-in-node -- tests/demo.sh
fi
. tests/needs.sh registry

# --- Programs that run until this script ends, even if the script is killed: each reads from a pipe that the script holds.

tmp=$(mktemp -d)
export KUBECACHEDIR=$tmp/kubectl # the discovery cache of kubectl is invalid for the next cluster at this port
mkfifo "$tmp/alive"
exec 9<>"$tmp/alive"
run_in_background() { # log, program, arguments
	(
		exec 9<&- >"$1" 2>&1
		shift
		"$@" &
		program=$!
		read -r _ <"$tmp/alive" || true
		kill "$program" || true
		wait
		rm -rf "$tmp" # the script cannot if it was killed
	) &
}
finish() {
	status=$?
	if [ "$status" != 0 ]; then
		tail -n 20 "$tmp"/*.log >&2 || kubectl -n rukpak-system logs deployment/core --tail 20 >&2 || true
		kubectl describe bundleinstances --request-timeout 5s >&2 || true
	fi
	exec 9<&-
	wait
	rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits for a matching line in a log and prints the match.
logged() { # log, sed script
	for _ in $(seq 300); do
		found=$(sed -n "$2" "$1" 2>/dev/null | head -n 1)
		[ -z "$found" ] || { printf '%s\n' "$found"; return; }
		sleep 0.1
	done
	echo "demo: no line of $1 matches $2 after 30 s" >&2
	return 1
}

# Runs the provisioner on this machine, because its pod cannot run on the stand-in node.
run_provisioner() {
	say "The stand-in node does not run the pod of the provisioner. Therefore, the provisioner runs on this machine, with the
ServiceAccount and the permissions of the install file."
	account=$tmp/provisioner.kubeconfig
	kubectl config view --raw --minify --flatten >"$account"
	kubectl --kubeconfig "$account" config set-credentials provisioner \
		--token "$(kubectl -n rukpak-system create token provisioner)" >/dev/null
	kubectl --kubeconfig "$account" config set-context --current --user provisioner >/dev/null
	kubectl --kubeconfig "$account" config delete-user admin >/dev/null
	run kubectl --kubeconfig "$account" auth whoami
	run_in_background "$tmp/provisioner.log" provisioner --kubeconfig "$account" --storage-dir "$tmp/store" --leader-elect --log-format json \
		--health-probe-bind-address 127.0.0.1:0 --metrics-bind-address 0 --admin-bind-address 0 --content-bind-address 127.0.0.1:0
	probes=$(logged "$tmp/provisioner.log" 's/.*"service":"probes","address":"\([^"]*\)".*/\1/p')
	for _ in $(seq 300); do
		ready=$(kubectl --kubeconfig /dev/null --server "http://$probes" get --raw /readyz 2>&1) && break
		sleep 0.1
	done
	echo "provisioner: $ready"
	[ "$ready" = ok ]
}

# A registry, unless the cluster has one, and two versions of an operator. The second one has other images and lacks a
# ConfigMap.
if [ "$RUKPAK_DEMO" = node ]; then
	registry=$CLUSTER_ADDRESS:5000
	tests/publish.sh
else
	cat >"$tmp/registry.yml" <<-YAML
		version: 0.1
		storage: {filesystem: {rootdirectory: $tmp/registry}}
		http: {addr: "127.0.0.1:0", secret: demo}
	YAML
	run_in_background "$tmp/registry.log" docker-registry serve "$tmp/registry.yml"
	registry=$(logged "$tmp/registry.log" 's/.*listening on \(127\.0\.0\.1:[0-9]*\).*/\1/p')
fi
cp -R examples/bundles/tidewatch "$tmp/next"
sed -i 's/tidewatch\.v1\.3\.2/tidewatch.v1.4.0/; t; s/1\.4\.0/1.5.0/' "$tmp/next/manifests/tidewatch.clusterserviceversion.yaml"
rm "$tmp/next/manifests/tidewatch-harbours_v1_configmap.yaml"

say "A Kubernetes cluster with one node"
run kubectl get nodes -o wide

say "1. Install rukpak"
run kubectl apply --server-side -f manifests/install/rukpak.yaml
run kubectl wait --for condition=Established --timeout 60s crd/bundles.core.rukpak.io crd/bundleinstances.core.rukpak.io

if [ "$RUKPAK_DEMO" = node ]; then
	run kubectl -n rukpak-system rollout status deployment/core --timeout 120s
	run kubectl -n rukpak-system get pods
else
	run_provisioner
fi

say "2. Publish two versions of an operator bundle"
run rukpak push --quiet --tls-verify=false examples/bundles/tidewatch "$registry/tidewatch:v1.4.0"
run rukpak push --quiet --tls-verify=false "$tmp/next" "$registry/tidewatch:v1.5.0"

say "3. Install the operator"
cat >"$tmp/tidewatch.yaml" <<-YAML
	apiVersion: core.rukpak.io/v1alpha1
	kind: BundleInstance
	metadata:
	  name: tidewatch
	spec:
	  provisionerClassName: core-rukpak-io-registry
	  template:
	    spec:
	      source:
	        type: image
	        image:
	          ref: $registry/tidewatch:v1.4.0
	          insecureSkipTLSVerify: true
YAML
run cat "$tmp/tidewatch.yaml"
run kubectl apply -f "$tmp/tidewatch.yaml"
run kubectl wait --for condition=Installed --timeout 60s bi/tidewatch
run kubectl wait --for condition=Healthy --timeout 60s bi/tidewatch
run kubectl get bundleinstances,bundles
run kubectl -n tidewatch get deployments,serviceaccounts,configmaps,services,pdb -l core.rukpak.io/owner-name=tidewatch
run kubectl -n tidewatch rollout status deployment/tidewatch-operator --timeout 60s
run kubectl -n tidewatch get pods

say "4. Upgrade the operator. The custom resource of version 1.4.0 is kept. The ConfigMap that 1.5.0 lacks is deleted."
printf 'apiVersion: tidewatch.example.com/v1\nkind: Station\nmetadata: {name: harbour, namespace: default}\nspec: {place: harbour, gauges: 2}\n' |
	run kubectl apply -f -
run kubectl patch bi tidewatch --type merge \
	--patch "{\"spec\":{\"template\":{\"spec\":{\"source\":{\"image\":{\"ref\":\"$registry/tidewatch:v1.5.0\"}}}}}}"
run kubectl wait --for jsonpath='{.status.version}'=1.5.0 --timeout 60s bi/tidewatch
run kubectl wait --for condition=Healthy --timeout 60s bi/tidewatch
run kubectl -n tidewatch rollout status deployment/tidewatch-operator --timeout 60s
run kubectl -n tidewatch get deployments -o wide
run kubectl -n tidewatch wait --for delete --timeout 60s configmap/tidewatch-harbours
run kubectl get bundleinstances,bundles
run kubectl get station harbour

say "5. Change the Deployment and delete the ServiceAccount. The provisioner repairs both."
run kubectl -n tidewatch set image deployment/tidewatch-operator manager=example.com/other/image:latest
run kubectl -n tidewatch wait --timeout 60s deployment/tidewatch-operator \
	--for jsonpath='{.spec.template.spec.containers[0].image}'=quay.io/tidewatch/operator:v1.5.0
run kubectl -n tidewatch delete serviceaccount tidewatch-operator
run kubectl -n tidewatch wait --for create --timeout 60s serviceaccount/tidewatch-operator
for _ in $(seq 300); do # an Event is written shortly after the repair
	notes=$(kubectl get events --field-selector reason=Repaired -o custom-columns=NOTE:.message)
	case $notes in *Deployment*ServiceAccount* | *ServiceAccount*Deployment*) break ;; esac
	sleep 0.1
done
run kubectl get events --field-selector reason=Repaired -o custom-columns=REASON:.reason,NOTE:.message

say "6. Uninstall the operator. The CRD of stations is kept, because a station exists. The Namespace is kept, too."
run kubectl delete bi tidewatch --timeout 60s
run kubectl wait --for delete --timeout 60s bundles --all
run kubectl -n tidewatch wait --for delete --timeout 60s pods --all
# Kubernetes copies the labels of a Service to its EndpointSlices, and deletes these shortly after the Service.
kinds=$(kubectl api-resources --verbs list -o name | grep -vE '^(events|endpoints|componentstatuses)' | paste -sd ,)
for _ in $(seq 100); do
	left=$(kubectl get "$kinds" --all-namespaces -l core.rukpak.io/owner-name=tidewatch -o name)
	[ -n "$left" ] || break
	sleep 0.1
done
say "\$ kubectl get (all kinds) --all-namespaces -l core.rukpak.io/owner-name=tidewatch"
echo "${left:-No resources found}"
[ -z "$left" ]
run kubectl get crd/stations.tidewatch.example.com station/harbour namespace/tidewatch

say "The operator was installed, upgraded, repaired and uninstalled. The cluster stops now."
