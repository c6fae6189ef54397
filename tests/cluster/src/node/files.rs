//! The configuration files of the node's programs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{ADDRESS, DNS_PORT, NAME, PAUSE, PROXY_HEALTH_PORT, REGISTRY, registries};
use crate::binaries::Tools;
use crate::control_plane::KUBECONFIG;
use crate::sandbox;
use crate::{Error, Result, pki};

pub(super) struct Files {
    pub(super) containerd: PathBuf,
    pub(super) corefile: PathBuf,
    pub(super) kubelet: PathBuf,
    pub(super) proxy: PathBuf,
    pub(super) registry: PathBuf,
}

pub(super) fn write(dir: &Path, machine: &Path, runtime: &Tools) -> Result<Files> {
    let save = |path: PathBuf, text: String| {
        let saved = path.parent().map_or(Ok(()), fs::create_dir_all);
        let saved = saved.and_then(|()| fs::write(&path, text));
        saved.map_err(Error::io(format!("write {}", path.display())))?;
        Ok::<_, Error>(path)
    };
    // JSON is YAML.
    let json = |name: &str, value: Value| save(dir.join(name), format!("{value:#}\n"));
    json("cni/cluster.conflist", cni())?;
    // The default for all registries without a separate configuration.
    let default_hosts = registries(machine).join("_default/hosts.toml");
    save(default_hosts, format!("server = \"http://{REGISTRY}\"\n"))?;
    let containerd = containerd(dir, machine, runtime)?;
    Ok(Files {
        containerd: save(dir.join("containerd.toml"), containerd)?,
        corefile: save(dir.join("Corefile"), corefile(dir))?,
        kubelet: json("kubelet.yaml", kubelet(dir, machine))?,
        proxy: json("kube-proxy.yaml", proxy(dir))?,
        registry: json("registry.yaml", registry(dir))?,
    })
}

fn cni() -> Value {
    json!({"cniVersion": "1.0.0", "name": "cluster", "plugins": [
        {
            "type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "hairpinMode": true,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": sandbox::PODS}]]},
        },
        {"type": "portmap", "capabilities": {"portMappings": true}},
    ]})
}

fn containerd(dir: &Path, machine: &Path, runtime: &Tools) -> Result<String> {
    let dir = dir.display();
    let plugins = sandbox::plugins().unwrap_or_default();
    let [runc, shim] = ["runc", "containerd-shim-runc-v2"].map(|name| runtime.path(name));
    let (runc, shim) = (runc?, shim?);
    // Lowering a process's score needs CAP_SYS_RESOURCE, and runc does not report the error.
    Ok(format!(
        r#"version = 3
root = "{dir}/containerd/root"
state = "{dir}/containerd/state"

[grpc]
address = "{socket}"

[ttrpc]
address = "{socket}.ttrpc"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"

[plugins."io.containerd.cri.v1.images".registry]
config_path = "{registries}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{plugins}"]
conf_dir = "{dir}/cni"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{shim}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
"#,
        socket = machine.join("containerd.sock").display(),
        registries = registries(machine).display(),
        runc = runc.display(),
        shim = shim.display(),
    ))
}

fn corefile(dir: &Path) -> String {
    let kubeconfig = dir.join(KUBECONFIG);
    format!(
        ".:{DNS_PORT} {{\n\
         \x20   bind {ADDRESS}\n\
         \x20   errors\n\
         \x20   kubernetes cluster.local {{\n\
         \x20       kubeconfig {} cluster\n\
         \x20       ttl 0\n\
         \x20   }}\n\
         }}\n",
        kubeconfig.display()
    )
}

fn kubelet(dir: &Path, machine: &Path) -> Value {
    let file = |name: &str| dir.join(name).display().to_string();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "authentication": {"anonymous": {"enabled": false}, "x509": {"clientCAFile": file(pki::CA)}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs", "cgroupRoot": sandbox::group(machine),
        "clusterDNS": [ADDRESS], "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": format!("unix://{}", machine.join("containerd.sock").display()),
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "64Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "failCgroupV1": false, "failSwapOn": false, "imageMaximumGCAge": "0s",
        "nodeStatusUpdateFrequency": "5s", "syncFrequency": "10s", "registerNode": true, "resolvConf": "",
        "podLogsDir": file("pods"), "volumePluginDir": file("plugins"),
    })
}

fn proxy(dir: &Path) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": dir.join(KUBECONFIG)},
        "bindAddress": ADDRESS, "healthzBindAddress": format!("{ADDRESS}:{PROXY_HEALTH_PORT}"),
        "clusterCIDR": sandbox::PODS, "hostnameOverride": NAME, "conntrack": {"maxPerCore": 0, "min": 0},
        // Responses between pods return through the machine, not directly over the bridge.
        "iptables": {"masqueradeAll": true, "minSyncPeriod": "100ms"},
        "mode": "iptables",
    })
}

fn registry(dir: &Path) -> Value {
    json!({
        "version": "0.1", "log": {"level": "info", "accesslog": {"disabled": true}},
        "storage": {"filesystem": {"rootdirectory": dir.join("registry")}, "delete": {"enabled": true}},
        "http": {"addr": REGISTRY, "secret": "tests"},
    })
}
