//! Requests of a program, from the audit log of the API server: other clients send requests at the same time.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead as _, BufReader, Seek as _, SeekFrom},
    path::PathBuf,
};

use jiff::Timestamp;
use serde_json::Value;
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

/// Users that are not the provisioner. rukpak's provisioner has several names, one of them Helm's.
const OTHERS: &[&str] = &["bench", "kube-apiserver", "kube-controller-manager"];

/// The audit log, in a temporary directory that is removed with it.
pub(crate) struct Audit {
    dir: TempDir,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(u64);

/// Numbers of requests by verb and resource: `patch configmaps`.
#[derive(Debug, Default)]
pub(crate) struct Calls(pub(crate) BTreeMap<String, usize>);

impl Audit {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("audit-").tempdir().unwrap();
        fs::write(dir.path().join("policy.yaml"), POLICY).unwrap();
        Self { dir }
    }

    /// Returns the flags of the API server that enable the log.
    pub(crate) fn flags(&self) -> Vec<String> {
        let path = |name| self.dir.path().join(name).display().to_string();
        vec![
            format!("--audit-policy-file={}", path("policy.yaml")),
            format!("--audit-log-path={}", path("log")),
        ]
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(fs::metadata(self.log()).map_or(0, |log| log.len()))
    }

    /// Returns the requests of the provisioner between a mark and a time. Watches count when they begin.
    pub(crate) fn since(&self, mark: Mark, until: Timestamp) -> Calls {
        let mut file = File::open(self.log()).unwrap();
        file.seek(SeekFrom::Start(mark.0)).unwrap();
        let mut calls = Calls::default();
        for text in BufReader::new(file).lines() {
            // The last line may be incomplete.
            let Ok(line) = serde_json::from_str::<Value>(&text.unwrap()) else {
                continue;
            };
            let field = |name: &str| line[name].as_str().unwrap_or_default();
            let stage = match field("verb") {
                "watch" => "ResponseStarted",
                _ => "ResponseComplete",
            };
            let agent = field("userAgent");
            let received: Timestamp = field("requestReceivedTimestamp").parse().unwrap();
            let counts = field("stage") == stage
                && !OTHERS.iter().any(|other| agent.starts_with(other))
                && !agent.is_empty()
                && received <= until;
            if counts {
                *calls.0.entry(request(&line)).or_default() += 1;
            }
        }
        calls
    }
}

/// Returns the verb and the resource of a line.
fn request(line: &Value) -> String {
    let text = |path: &str| line.pointer(path)?.as_str().filter(|text| !text.is_empty());
    let uri = text("/requestURI").unwrap_or_default();
    let target = match (text("/objectRef/resource"), text("/objectRef/subresource")) {
        (Some(resource), Some(subresource)) => format!("{resource}/{subresource}"),
        (Some(resource), None) => resource.to_owned(),
        (None, _) => uri.split('?').next().unwrap_or_default().to_owned(),
    };
    format!("{} {target}", text("/verb").unwrap_or_default())
}

impl Calls {
    pub(crate) fn count(&self) -> usize {
        self.0.values().sum()
    }

    /// Counts the requests that match a predicate.
    pub(crate) fn count_if(&self, concerns: impl Fn(&str) -> bool) -> usize {
        let matching = self.0.iter().filter(|(request, _)| concerns(request));
        matching.map(|(_, count)| count).sum()
    }

    /// Formats the requests, the most frequent ones first.
    pub(crate) fn lines(&self) -> String {
        let mut calls: Vec<_> = self.0.iter().collect();
        calls.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let lines = calls.iter();
        let lines = lines.map(|(request, count)| format!("{count:6} {request}\n"));
        lines.collect()
    }
}
