//! Which requests a program makes, as the apiserver's audit log tells: others make requests at the same time.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead as _, BufReader, Seek as _, SeekFrom},
    path::PathBuf,
};

use jiff::Timestamp;
use serde::Deserialize;
use tempfile::TempDir;

const POLICY: &str = r"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [system:apiserver]
- level: Metadata
";

/// Who else asks. rukpak's provisioner has several names, one of them Helm's.
const OTHERS: &[&str] = &["bench", "kube-apiserver", "kube-controller-manager"];

/// The log, in a folder that goes with it.
pub(crate) struct Audit {
    folder: TempDir,
}

/// A place in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(u64);

/// How often what was asked: `patch configmaps`.
#[derive(Debug, Default)]
pub(crate) struct Calls(pub(crate) BTreeMap<String, usize>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    verb: String,
    #[serde(default)]
    user_agent: String,
    #[serde(default, rename = "requestURI")]
    uri: String,
    request_received_timestamp: Timestamp,
    object_ref: Option<Object>,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
}

impl Audit {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("audit-").tempdir().unwrap();
        fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
        Self { folder }
    }

    /// What the apiserver has to be told.
    pub(crate) fn flags(&self) -> Vec<String> {
        let path = |name| self.folder.path().join(name).display().to_string();
        vec![
            format!("--audit-policy-file={}", path("policy.yaml")),
            format!("--audit-log-path={}", path("log")),
        ]
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Everything from now on.
    pub(crate) fn mark(&self) -> Mark {
        Mark(fs::metadata(self.log()).map_or(0, |log| log.len()))
    }

    /// What the provisioner has asked since, until then. Watches count when they begin.
    pub(crate) fn since(&self, mark: Mark, until: Timestamp) -> Calls {
        let mut file = File::open(self.log()).unwrap();
        file.seek(SeekFrom::Start(mark.0)).unwrap();
        let mut calls = Calls::default();
        for text in BufReader::new(file).lines() {
            // The last line may be in the writing.
            let Ok(line) = serde_json::from_str::<Line>(&text.unwrap()) else {
                continue;
            };
            let stage = match line.verb.as_str() {
                "watch" => "ResponseStarted",
                _ => "ResponseComplete",
            };
            let counts = line.stage == stage
                && !OTHERS
                    .iter()
                    .any(|agent| line.user_agent.starts_with(agent))
                && !line.user_agent.is_empty()
                && line.request_received_timestamp <= until;
            if counts {
                *calls.0.entry(line.what()).or_default() += 1;
            }
        }
        calls
    }
}

impl Line {
    fn what(&self) -> String {
        match &self.object_ref {
            Some(object) if object.subresource.is_empty() => {
                format!("{} {}", self.verb, object.resource)
            }
            Some(Object {
                resource,
                subresource,
            }) => format!("{} {resource}/{subresource}", self.verb),
            None => {
                let path = self.uri.split('?').next().unwrap_or_default();
                format!("{} {path}", self.verb)
            }
        }
    }
}

impl Calls {
    pub(crate) fn count(&self) -> usize {
        self.0.values().sum()
    }

    /// How many of them concern this.
    pub(crate) fn of(&self, concerns: impl Fn(&str) -> bool) -> usize {
        let those = self.0.iter().filter(|(what, _)| concerns(what));
        those.map(|(_, count)| count).sum()
    }

    /// The most frequent ones first.
    pub(crate) fn lines(&self) -> String {
        let mut calls: Vec<_> = self.0.iter().collect();
        calls.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let lines = calls
            .iter()
            .map(|(what, count)| format!("{count:6} {what}\n"));
        lines.collect()
    }
}
