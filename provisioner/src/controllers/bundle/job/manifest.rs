//! Manifest of an unpack Job. With image volumes, no program of the bundle image runs. Otherwise the unpack program is
//! copied into a container of that image. The pod runs as an unprivileged user without permissions, and its token is valid
//! only for uploading the content.

use k8s_openapi::api::batch::v1::Job;
use kube::{Resource, ResourceExt};
use manifests::api::{bundle::Bundle, labels};
use serde_json::{Value, json};
use unpacker::{Digest, source::Image};

use crate::{
    controllers::bundle::{source, uid},
    runtime::{
        settings::{Settings, UnpackMode},
        tls::CONTENT_CA,
    },
};

/// ServiceAccount of the pods. It has no permissions.
pub(crate) const ACCOUNT: &str = "unpack";
/// Audience of the tokens, which only the content service accepts.
pub(crate) const AUDIENCE: &str = "unpack.core.rukpak.io";
/// Name of the container that uploads the content.
pub(super) const CONTAINER: &str = "unpack";
/// Name of the volume with the bundle image.
pub(super) const BUNDLE: &str = "bundle";
/// User id for images without a user database.
const RUN_AS_USER: u32 = 65532;
/// Directory with the token and the CA of the content service.
const READ_MODE: &str = "/var/run/rukpak";
/// Directory in the bundle image that the program is copied to.
const PROGRAM: &str = "/.rukpak";
/// Lifetime of a token in seconds: the minimum of the API server. The kubelet renews the token.
const TOKEN_LIFETIME: u32 = 600;
/// Seconds for which a finished Job remains for inspection. Longer than the maximum back-off before the next Job.
const TTL_AFTER_FINISHED: u32 = 900;
/// Maximum number of pods that fail for other reasons than an exit code of the program.
const BACKOFF_LIMIT: u32 = 2;
/// Architecture of this process in Kubernetes. The unpack image is often built for one architecture only.
const ARCHITECTURE: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "amd64",
    b"aarch64" => "arm64",
    _ => std::env::consts::ARCH,
};
/// Number of hexadecimal digits of a hash that make collisions unlikely.
const HASH_DIGITS: usize = 8;

/// Returns the name of the Job of a Bundle. A later Bundle of the same name has a Job of another name.
pub(crate) fn name(bundle: &Bundle) -> String {
    format!(
        "{}-{}",
        bundle.name_any(),
        digits(uid(bundle).as_bytes(), HASH_DIGITS)
    )
}

/// Returns the name of the Bundle that a Job of this name would belong to.
pub(crate) fn bundle_of(job: &str) -> Option<&str> {
    let (bundle, _) = job.rsplit_once('-')?;
    Some(bundle)
}

/// Returns the image that a Job was created for. Read from its annotation, because admission may replace the image of the
/// pods by a mirror.
pub(super) fn image(job: &Job, requested: &Image) -> Image {
    let annotation = job.annotations().get(labels::IMAGE);
    let reference = annotation.and_then(|annotation| annotation.parse().ok());
    Image {
        reference: reference.unwrap_or_else(|| requested.reference.clone()),
        platform: None,
    }
}

/// Returns the Job that unpacks an image for a Bundle.
pub(super) fn build_job(
    bundle: &Bundle,
    image: &Image,
    mode: UnpackMode,
    settings: &Settings,
) -> serde_json::Result<Job> {
    let owner = json!({
        "apiVersion": Bundle::api_version(&()),
        "kind": Bundle::kind(&()),
        "name": bundle.name_any(),
        "uid": uid(bundle),
        "controller": true,
    });
    let labels = json!({
        labels::OWNER_KIND: "Bundle",
        labels::OWNER_NAME: bundle.name_any(),
        "app.kubernetes.io/part-of": "rukpak",
    });
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name(bundle),
            "namespace": settings.system_namespace,
            "labels": labels,
            "annotations": {labels::IMAGE: image.reference.to_string()},
            "ownerReferences": [owner],
        },
        "spec": {
            "activeDeadlineSeconds": settings.jobs.deadline.as_secs(),
            "backoffLimit": BACKOFF_LIMIT,
            "ttlSecondsAfterFinished": TTL_AFTER_FINISHED,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [
                // Disruptions such as evictions are unrelated to the bundle. The deadline limits them.
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                // The program has already retried, and reports the reason.
                {"action": "FailJob", "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [1, 2]}},
            ]},
            "template": {"metadata": {"labels": labels}, "spec": pod(bundle, image, mode, settings)},
        },
    });
    let hash = digits(&serde_json::to_vec(&job)?, 2 * HASH_DIGITS);
    let mut job: Job = serde_json::from_value(job)?;
    let annotations = job.annotations_mut();
    annotations.insert(labels::SPEC_HASH.to_owned(), hash);
    Ok(job)
}

fn pod(bundle: &Bundle, image: &Image, mode: UnpackMode, settings: &Settings) -> Value {
    let spec_reference = bundle
        .spec
        .source
        .image
        .as_ref()
        .map(|image| image.reference.trim());
    // A pinned image does not change. For a tag, the node may have an outdated image and its own resolution of short names.
    let (reference, policy) = match spec_reference {
        Some(spec_reference) if !image.reference.is_pinned() => {
            (spec_reference.to_owned(), "Always")
        }
        _ => (image.reference.to_string(), "IfNotPresent"),
    };
    let secrets: Vec<Value> = source::secret(&bundle.spec.source)
        .map(|name| json!({"name": name}))
        .into_iter()
        .collect();
    let access = json!({"name": "access", "projected": {"sources": [
        {"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": TOKEN_LIFETIME, "path": "token"}},
        // Optional: without the CA the program reports the problem, whereas the pod would wait without an end.
        {"configMap": {"name": CONTENT_CA, "optional": true, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]}});
    let (containers, init, volume) = match mode {
        UnpackMode::InitContainer => {
            let mount = json!({"name": "program", "mountPath": PROGRAM});
            let install = json!({
                "name": "install",
                "image": settings.jobs.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/unpack", "--install", PROGRAM],
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "resources": resources(),
                "securityContext": security(),
                "volumeMounts": [mount],
            });
            let program = format!("{PROGRAM}/unpack");
            let main = container(bundle, settings, &program, "/", &reference, policy, &mount);
            let volume = json!({"name": "program", "emptyDir": {"sizeLimit": "64Mi"}});
            (main, vec![install], volume)
        }
        UnpackMode::Auto | UnpackMode::ImageVolume => {
            let mount = json!({"name": BUNDLE, "mountPath": "/bundle", "readOnly": true});
            let unpack_image = settings.jobs.image.as_str();
            let main = container(
                bundle,
                settings,
                "/unpack",
                "/bundle",
                unpack_image,
                "IfNotPresent",
                &mount,
            );
            let volume =
                json!({"name": BUNDLE, "image": {"reference": reference, "pullPolicy": policy}});
            (main, Vec::new(), volume)
        }
    };
    json!({
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": tolerations(settings),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "imagePullSecrets": secrets,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": RUN_AS_USER,
            "runAsGroup": RUN_AS_USER,
            "fsGroup": RUN_AS_USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": init,
        "containers": [containers],
        "volumes": [access, volume],
    })
}

/// Returns the toleration for the taint of nodes of this architecture. Pods of the release payload run on control plane nodes
/// too, like the provisioner: a cluster may have no other nodes yet.
fn tolerations(settings: &Settings) -> Vec<Value> {
    let architecture =
        json!({"key": "kubernetes.io/arch", "operator": "Equal", "value": ARCHITECTURE});
    let control_plane = |key| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let mut tolerations = vec![architecture];
    if settings.release_payload {
        let keys = [
            "node-role.kubernetes.io/master",
            "node-role.kubernetes.io/control-plane",
        ];
        tolerations.extend(keys.map(control_plane));
    }
    tolerations
}

fn container(
    bundle: &Bundle,
    settings: &Settings,
    program: &str,
    directory: &str,
    image: &str,
    policy: &str,
    mount: &Value,
) -> Value {
    let limits = &settings.unpack.limits;
    let address = settings.content_address.trim_end_matches('/');
    // The timeout of the program ends before the deadline of the Job, because the program can report the reason.
    let timeout = settings.jobs.deadline.as_secs() / 2;
    json!({
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": policy,
        "command": [program],
        "args": [
            format!("--bundle-dir={directory}"),
            format!("--to={address}/unpack/{}.tgz", bundle.name_any()),
            format!("--token-file={READ_MODE}/token"),
            format!("--ca-file={READ_MODE}/ca.crt"),
            "--tries=1000",
            format!("--timeout={}", timeout.max(1)),
            format!("--max-size={}", limits.total),
            format!("--max-file-size={}", limits.file),
            format!("--max-entries={}", limits.entries),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": resources(),
        "securityContext": security(),
        "volumeMounts": [{"name": "access", "mountPath": READ_MODE, "readOnly": true}, mount],
    })
}

/// Returns the resources of a container. The program streams, so they do not depend on the size of the image.
fn resources() -> Value {
    json!({
        "requests": {"cpu": "10m", "memory": "16Mi", "ephemeral-storage": "64Mi"},
        "limits": {"cpu": "1", "memory": "128Mi", "ephemeral-storage": "256Mi"},
    })
}

fn security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    })
}

/// Returns the first hexadecimal digits of a hash.
fn digits(bytes: &[u8], count: usize) -> String {
    let mut hex = Digest::sha256(bytes).hex();
    hex.truncate(count);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifests::api::bundle::PullMode;

    fn bundle(secret: Option<&str>) -> Bundle {
        object!({
            "metadata": {"name": "b", "uid": "u"},
            "spec": {"source": {
                "type": "image", "image": {"ref": "quay.io/a/b:v1", "pullSecret": secret, "pull": PullMode::Job},
            }},
        })
    }

    fn image_of(reference: &str) -> Image {
        Image {
            reference: reference.parse().unwrap(),
            platform: None,
        }
    }

    fn tag() -> Image {
        image_of("quay.io/a/b:v1")
    }

    fn pinned() -> Image {
        image_of(&format!("quay.io/a/b@{}", Digest::sha256(b"image")))
    }

    fn declared(bundle: &Bundle, image: &Image, mode: UnpackMode) -> Value {
        let job = build_job(bundle, image, mode, &Settings::default()).unwrap();
        serde_json::to_value(job).unwrap()
    }

    fn declared_with(settings: &Settings) -> Value {
        let job = build_job(&bundle(None), &tag(), UnpackMode::ImageVolume, settings).unwrap();
        serde_json::to_value(job).unwrap()
    }

    #[test]
    fn content_is_sent_to_the_service_in_the_cluster() {
        let default = Settings::default();
        let external = with!(Settings, external_address: "https://elsewhere.example".to_owned());
        let outside = with!(Settings, content_address: "https://192.0.2.1:8443".to_owned());
        let to = |settings: &Settings| {
            let job = declared_with(settings);
            let args = &job["spec"]["template"]["spec"]["containers"][0]["args"];
            let mut args = args.as_array().unwrap().iter().filter_map(Value::as_str);
            let to = args.find(|arg| arg.starts_with("--to=")).unwrap();
            to.to_owned()
        };
        assert_rows! {
            to(&default) => "--to=https://core.rukpak-system.svc/unpack/b.tgz";
            to(&external) => "--to=https://core.rukpak-system.svc/unpack/b.tgz";
            to(&outside) => "--to=https://192.0.2.1:8443/unpack/b.tgz";
            declared_with(&external) => declared_with(&default), "with the same hash";
        }
    }

    #[test]
    fn pods_run_on_linux_nodes_and_tolerate_own_architecture() {
        let keys = |settings: &Settings| {
            let pod = declared_with(settings)["spec"]["template"]["spec"].take();
            assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
            let tolerations = pod["tolerations"].as_array().unwrap().iter();
            let tolerated = tolerations.map(|toleration| {
                let value = toleration["value"].as_str().unwrap_or_default();
                format!("{}={value}", toleration["key"].as_str().unwrap())
            });
            tolerated.collect::<Vec<_>>()
        };
        let own = [format!("kubernetes.io/arch={ARCHITECTURE}")];
        let roles = ["master", "control-plane"];
        let roles = roles.map(|role| format!("node-role.kubernetes.io/{role}="));
        let payload = with!(Settings, release_payload: true);
        assert_rows! {
            ARCHITECTURE => if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
            keys(&Settings::default()) => own;
            keys(&payload) => [&own[..], &roles[..]].concat();
        }
    }

    #[test]
    fn only_the_init_container_mode_runs_the_image() {
        let pod = |secret, image: &Image, mode| {
            declared(&bundle(secret), image, mode)["spec"]["template"]["spec"].clone()
        };
        let volume = pod(Some("pull"), &pinned(), UnpackMode::ImageVolume);
        let init = pod(None, &tag(), UnpackMode::InitContainer);
        let program = Settings::default().jobs.image;
        assert_rows! {
            volume["imagePullSecrets"] => json!([{"name": "pull"}]);
            volume["containers"].as_array().unwrap().len() => 1;
            volume["containers"][0]["image"] => program;
            volume["initContainers"] => json!([]);
            volume["volumes"][1]["image"] => json!({"reference": pinned().reference.to_string(), "pullPolicy": "IfNotPresent"});
            volume["containers"][0]["volumeMounts"][1]["readOnly"] => true;
            init["initContainers"][0]["image"] => program;
            init["containers"][0]["image"] => "quay.io/a/b:v1";
            init["containers"][0]["imagePullPolicy"] => "Always";
            init["containers"][0]["command"] => json!(["/.rukpak/unpack"]);
            init["imagePullSecrets"] => json!([]);
        }
    }

    // parity: rukpak-45
    #[test]
    fn pods_have_no_token_and_no_privileges() {
        for mode in [UnpackMode::ImageVolume, UnpackMode::InitContainer] {
            let job = declared(&bundle(None), &tag(), mode);
            let pod = &job["spec"]["template"]["spec"];
            assert_eq!(pod["automountServiceAccountToken"], false);
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_rows!(pod["securityContext"]["seccompProfile"]["type"] => "RuntimeDefault");
            let all = ["initContainers", "containers"].map(|key| pod[key].as_array().unwrap());
            for container in all.into_iter().flatten() {
                let security = &container["securityContext"];
                assert_eq!(security["allowPrivilegeEscalation"], false);
                assert_eq!(security["readOnlyRootFilesystem"], true);
                assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
                let limits = &container["resources"]["limits"];
                assert_eq!(limits["memory"], "128Mi");
                assert_eq!(limits["ephemeral-storage"], "256Mi");
            }
        }
    }

    #[test]
    fn equal_jobs_have_equal_hashes() {
        let hash = |image: &Image, mode| {
            let job = declared(&bundle(None), image, mode);
            let hash = job["metadata"]["annotations"][labels::SPEC_HASH].as_str();
            hash.unwrap().to_owned()
        };
        let volume = hash(&tag(), UnpackMode::ImageVolume);
        assert_eq!(volume.len(), 16);
        assert_eq!(volume, hash(&tag(), UnpackMode::ImageVolume));
        assert_ne!(volume, hash(&tag(), UnpackMode::InitContainer));
        assert_ne!(volume, hash(&pinned(), UnpackMode::ImageVolume));
    }

    #[test]
    fn job_names_fit_into_labels_and_name_the_bundle() {
        let mut one = bundle(None);
        one.metadata.name = Some("b".repeat(52));
        let long = name(&one);
        assert!(long.len() <= 63, "{long}");
        assert_eq!(bundle_of(&long), one.metadata.name.as_deref());
        let before = long;
        one.metadata.uid = Some("another".to_owned());
        assert_ne!(before, name(&one));
        assert_eq!(bundle_of("nonsense"), None);
    }

    #[test]
    fn image_is_read_from_the_declared_job() {
        let settings = Settings::default();
        assert_rows!(image(&build_job(&bundle(None), &tag(), UnpackMode::ImageVolume, &settings).unwrap(), &pinned()) => tag());
    }
}
