//! A replacement for the kubelet of unpack Jobs, in clusters without nodes. It creates the pod's token, runs the pod's
//! command with the files of an image, and reports the result. The sender is the one of the real program.

use std::{fs, path::Path, sync::Arc, time::Duration};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod, ServiceAccount},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use manifests::{content::Content, error::chain};
use serde_json::{Value, json};
use tempfile::TempDir;
use unpacker::{
    Options, Selection,
    job::{self, Payload, Receiver, SendReport},
};

use super::{SYSTEM, found, merge_status};

pub(crate) struct Kubelet {
    client: Client,
    /// The port of the content service, which the cluster DNS name stands for.
    port: String,
}

impl Kubelet {
    /// Creates a kubelet for the pods of a provisioner's Jobs; `content` is the address of the content service.
    pub(crate) fn new(client: Client, content: &str) -> Self {
        let port = content.rsplit(':').next().unwrap().to_owned();
        Self { client, port }
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), SYSTEM)
    }

    pub(crate) fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.client.clone(), SYSTEM)
    }

    pub(crate) async fn find_job(&self, bundle: &str) -> Option<Job> {
        let listed = self.jobs().list(&pods_of_bundle(bundle)).await.unwrap();
        assert!(listed.items.len() <= 1, "{:?}", listed.items);
        listed.items.into_iter().next()
    }

    pub(crate) async fn job(&self, bundle: &str) -> Job {
        let find = async || self.find_job(bundle).await;
        found(&format!("Job of {bundle}"), find).await
    }

    /// Waits for the unfinished pod of a Bundle's Job, and returns it.
    pub(crate) async fn pod(&self, bundle: &str) -> Pod {
        found(&format!("pod of {bundle}"), async || {
            let listed = self.pods().list(&pods_of_bundle(bundle)).await.unwrap();
            listed.items.into_iter().find(|pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
                pod.metadata.deletion_timestamp.is_none()
                    && phase.is_none_or(|phase| phase == "Pending")
            })
        })
        .await
    }

    pub(crate) async fn token(&self, pod: &Pod) -> String {
        let volumes = pod.spec.as_ref().unwrap().volumes.iter().flatten();
        let projected = volumes.filter_map(|volume| volume.projected.as_ref()?.sources.clone());
        let sources = projected.flatten();
        let mut tokens = sources.filter_map(|source| source.service_account_token);
        let audience = tokens.next().unwrap().audience;
        self.token_for(pod, audience.into_iter().collect()).await
    }

    pub(crate) async fn token_for(&self, pod: &Pod, audiences: Vec<String>) -> String {
        let account = pod.spec.as_ref().unwrap().service_account_name.clone();
        let bound =
            json!({"apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid()});
        let spec =
            json!({"audiences": audiences, "expirationSeconds": 600, "boundObjectRef": bound});
        let request = serde_json::from_value(json!({"spec": spec})).unwrap();
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), SYSTEM);
        let account = account.unwrap();
        let params = PostParams::default();
        let answer = api.create_token_request(&account, &params, &request).await;
        answer.unwrap().status.unwrap().token.unwrap()
    }

    /// Runs the pod with an image of these files, and reports the result.
    pub(crate) async fn run(&self, pod: &Pod, content: &Content) -> Result<SendReport, job::Error> {
        self.run_folder(pod, image(content).path()).await
    }

    /// Like [`Kubelet::run`], with the files of a directory.
    pub(crate) async fn run_folder(&self, pod: &Pod, dir: &Path) -> Result<SendReport, job::Error> {
        self.report(pod, "Running", &json!({"running": {}})).await;
        let sent = self.hand_over(pod, dir).await;
        match &sent {
            Ok(_) => {
                let completed = ended(0, "Completed", "");
                self.report(pod, "Succeeded", &completed).await;
            }
            Err(error) => {
                let failed = ended(1, "Error", &format!("{}: {}", error.reason(), chain(error)));
                self.report(pod, "Failed", &failed).await;
            }
        }
        sent
    }

    /// Does the work of the program in the pod.
    pub(crate) async fn send(&self, pod: &Pod, files: &Content) -> Result<SendReport, job::Error> {
        self.hand_over(pod, image(files).path()).await
    }

    async fn hand_over(&self, pod: &Pod, root: &Path) -> Result<SendReport, job::Error> {
        let dir = tempfile::tempdir().unwrap();
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), SYSTEM);
        let map = maps.get("rukpak-ca").await.unwrap().data.unwrap();
        let (token, ca) = (dir.path().join("token"), dir.path().join("ca.crt"));
        fs::write(&ca, &map["ca.crt"]).unwrap();
        fs::write(&token, self.token(pod).await).unwrap();
        let spec = pod.spec.as_ref().unwrap();
        let container = spec.containers.iter().find(|one| one.name == "unpack");
        let args = container.unwrap().args.clone().unwrap();
        let argument = |flag: &str| {
            let flag = format!("--{flag}=");
            let found = args.iter().find_map(|arg| arg.strip_prefix(&flag));
            found.unwrap_or_else(|| panic!("{flag} is missing: {args:?}"))
        };
        let selected = ["manifests", "metadata", "tests"].map(str::to_owned);
        let mut options = tests::with!(Options, select: Selection::Only(selected.to_vec()));
        options.limits.total = argument("max-size").parse().unwrap();
        options.limits.file = argument("max-file-size").parse().unwrap();
        let address = format!("localhost:{}", self.port);
        let to = argument("to").replace(&format!("core.{SYSTEM}.svc"), &address);
        let receiver = Receiver {
            address: to.parse().unwrap(),
            token_file: Some(token),
            ca_file: Some(ca),
            attempts: 5,
            total: Duration::from_secs(30),
            idle: Duration::from_secs(10),
        };
        let load = Arc::new(Payload::new(root, &options)?);
        job::send(&load, &receiver, |_, _, _| {}).await
    }

    /// Reports the state of the delivering container, and the pod's phase.
    pub(crate) async fn report(&self, pod: &Pod, phase: &str, state: &Value) {
        let status = json!({"phase": phase, "containerStatuses": [container("unpack", state)]});
        self.status(pod, status).await;
    }

    pub(crate) async fn status(&self, pod: &Pod, status: Value) {
        merge_status(&self.pods(), &pod.name_any(), &json!({"status": status})).await;
    }
}

fn image(content: &Content) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, file) in content.files() {
        tests::write(dir.path(), path, &file.bytes);
    }
    dir
}

pub(crate) fn container(name: &str, state: &Value) -> Value {
    json!({"name": name, "image": "image", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

pub(crate) fn ended(code: i32, reason: &str, message: &str) -> Value {
    let now = k8s_openapi::jiff::Timestamp::now();
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({"terminated": {"exitCode": code, "reason": reason, "message": message, "startedAt": now, "finishedAt": now}})
}

pub(crate) fn waits(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

fn pods_of_bundle(bundle: &str) -> ListParams {
    let owner = format!("core.rukpak.io/owner-kind=Bundle,core.rukpak.io/owner-name={bundle}");
    ListParams::default().labels(&owner)
}
