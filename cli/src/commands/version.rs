//! `rukpak version` and `rukpak completion`.

use manifests::version::KubeVersion;
use serde::Serialize;

use crate::{
    ExitStatus,
    args::{self, CompletionArgs, VersionArgs},
    output,
};

/// Version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Serialize)]
struct VersionInfo {
    version: &'static str,
    /// Commit of the build; `None` if the build did not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
    /// Newest Kubernetes release whose APIs are known.
    kubernetes: String,
}

pub(crate) fn run(args: &VersionArgs) -> anyhow::Result<ExitStatus> {
    let info = VersionInfo {
        version: VERSION,
        commit: option_env!("RUKPAK_COMMIT").filter(|commit| !commit.is_empty()),
        kubernetes: KubeVersion::NEWEST.to_string(),
    };
    let text = output::described(&info, args.output)?.unwrap_or_else(|| {
        let VersionInfo {
            version,
            commit,
            kubernetes,
        } = info;
        let commit = commit
            .map(|commit| format!(" ({commit})"))
            .unwrap_or_default();
        format!("rukpak {version}{commit}, knows Kubernetes APIs up to {kubernetes}\n")
    });
    output::print(&text)?;
    Ok(ExitStatus::Done)
}

pub(crate) fn completion(args: &CompletionArgs) -> anyhow::Result<ExitStatus> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut args::command(),
        args::file_name(),
        &mut script,
    );
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitStatus::Done)
}
