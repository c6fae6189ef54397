//! Status of one instance as a tree, and of several as a table.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::{Summary, summary::ObjectSummary};
use crate::output::{
    message::{CHANGE, ERROR, WARNING, count, sanitize},
    table,
};

const HEALTHY: Style = AnsiColor::Green.on_default();
/// Maximum number of objects that are listed one by one.
const MAX_LISTED: usize = 40;
/// Maximum number of listed objects of one kind, if not all objects are listed.
const MAX_LISTED_PER_KIND: usize = 3;
/// Maximum length of a message in the table, in characters.
const MAX_MESSAGE_LEN: usize = 80;

/// A node of the tree.
struct TreeNode {
    text: String,
    children: Vec<TreeNode>,
}

impl TreeNode {
    fn leaf(text: String) -> Self {
        Self {
            text,
            children: Vec::new(),
        }
    }

    /// Creates a node from a text that may have several lines.
    fn multi_line(first: &str, text: &str) -> Self {
        let mut lines = text.lines().map(sanitize);
        let mut branch = Self::leaf(format!("{first}{}", lines.next().unwrap_or_default()));
        for line in lines {
            let _ = write!(branch.text, "\n{line}");
        }
        branch
    }

    fn draw(&self, indent: &str, out: &mut String) {
        let last = self.children.len().saturating_sub(1);
        for (at, branch) in self.children.iter().enumerate() {
            let (fork, rail) = if at == last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            let inner = format!("{indent}{rail}");
            let mut lines = branch.text.lines();
            let _ = writeln!(out, "{indent}{fork}{}", lines.next().unwrap_or_default());
            let rail = if branch.children.is_empty() {
                inner.clone()
            } else {
                format!("{inner}│  ")
            };
            for line in lines {
                let _ = writeln!(out, "{rail}{line}");
            }
            branch.draw(&inner, out);
        }
    }
}

/// Formats a tree of the instance, its problem, its Bundles and its objects.
pub(super) fn tree(summary: &Summary, all: bool) -> String {
    let mut root = TreeNode::leaf(head(summary));
    if let Some(problem) = &summary.problem {
        let style = if problem.reason == "UnpackPending" || problem.reason == "Paused" {
            WARNING
        } else {
            ERROR
        };
        let first = format!("{style}{}{style:#}: ", sanitize(&problem.reason));
        root.children
            .push(TreeNode::multi_line(&first, &problem.message));
    }
    if let Some(rollout) = &summary.rollout {
        let mut branch = TreeNode::leaf(sanitize(&rollout.title()));
        let is_repeated = |awaited: &&String| {
            let problem = summary.problem.as_ref();
            problem.is_some_and(|problem| problem.message.contains(awaited.as_str()))
        };
        let awaited = rollout.awaited.as_ref();
        let lines = awaited.filter(|awaited| !is_repeated(awaited)).into_iter();
        let lines = lines.map(|awaited| format!("awaited: {awaited}"));
        let lines = lines.chain(rollout.deadline());
        branch.children = lines.map(|line| TreeNode::leaf(sanitize(&line))).collect();
        root.children.push(branch);
    }
    for bundle in &summary.bundles {
        let is_installed = summary.installed_bundle.as_ref() == Some(&bundle.name);
        let mark = if is_installed { ", installed" } else { "" };
        let version = bundle.version.as_deref().unwrap_or_default();
        let mut branch = TreeNode::leaf(
            sanitize(&format!(
                "Bundle {} {version} {}{mark}",
                bundle.name, bundle.phase
            ))
            .replace("  ", " "),
        );
        if let Some(source) = &bundle.source {
            branch
                .children
                .push(TreeNode::leaf(sanitize(&format!("from {source}"))));
        }
        let is_repeated = |message: &&String| {
            let problem = summary.problem.as_ref();
            !problem.is_some_and(|problem| problem.message.contains(message.as_str()))
        };
        if let Some(message) = bundle.message.as_ref().filter(is_repeated) {
            branch.children.push(TreeNode::multi_line("", message));
        }
        root.children.push(branch);
    }
    root.children.extend(objects(summary, all));
    for (title, lines) in [
        ("waiting for APIs", &summary.waiting),
        ("kept in the cluster", &summary.released),
    ] {
        if !lines.is_empty() {
            let mut branch = TreeNode::leaf(format!("{} {title}", count(lines.len(), "object")));
            branch.children = list(lines.iter().map(|line| sanitize(line)).collect(), all);
            root.children.push(branch);
        }
    }
    let mut text = format!("{}\n", root.text);
    root.draw("", &mut text);
    text
}

fn head(summary: &Summary) -> String {
    let mut head = format!("BundleInstance {}", sanitize(&summary.name));
    if let Some(version) = &summary.version {
        let _ = write!(head, " {}", sanitize(version));
    }
    if let Some(namespace) = &summary.install_namespace {
        let _ = write!(head, " in {}", sanitize(namespace));
    }
    let style = match (summary.healthy, &summary.problem) {
        (Some(true), None) => HEALTHY,
        (_, None) => CHANGE,
        (_, Some(_)) => ERROR,
    };
    let _ = write!(head, ": {style}{}{style:#}", summary.phase);
    if !summary.state.eq_ignore_ascii_case(&summary.phase) {
        let _ = write!(head, ", {}", sanitize(&summary.state));
    }
    let health = match summary.healthy {
        _ if !summary.installed => "no objects in the cluster",
        Some(true) => "healthy",
        Some(false) => "not healthy",
        None => "health unknown",
    };
    let _ = write!(head, ", {health}");
    head
}

fn objects(summary: &Summary, all: bool) -> Option<TreeNode> {
    let total = summary.object_count;
    if total == 0 {
        return None;
    }
    let unhealthy = summary
        .objects
        .iter()
        .filter(|object| object.healthy == Some(false));
    let unhealthy = unhealthy.count();
    let mut title = count(total, "object");
    if unhealthy > 0 {
        let _ = write!(title, ", {unhealthy} unhealthy");
    }
    let mut branch = TreeNode::leaf(title);
    // Unhealthy objects come first, so that they are easy to find.
    let mut members: Vec<&ObjectSummary> = summary.objects.iter().collect();
    members.sort_by_key(|member| member.healthy != Some(false));
    let is_long = !all && members.len() > MAX_LISTED;
    let mut at = 0;
    while let Some(first) = members.get(at) {
        let same = |member: &&&ObjectSummary| {
            member.identity.kind == first.identity.kind
                && member.identity.group == first.identity.group
                && member.healthy == first.healthy
        };
        let run = members.iter().skip(at).take_while(same).count();
        if is_long && run > MAX_LISTED_PER_KIND && first.healthy != Some(false) {
            let kind = sanitize(&first.identity.kind);
            branch
                .children
                .push(TreeNode::leaf(format!("{} {kind}: {run}", mark(first))));
        } else {
            let some = members.iter().skip(at).take(run);
            branch.children.extend(some.map(|member| leaf(member)));
        }
        at += run.max(1);
    }
    let more = total.saturating_sub(members.len());
    if more > 0 {
        let name = crate::args::name();
        let more = format!(
            "and {more} more: {name} status {} --all",
            sanitize(&summary.name)
        );
        branch.children.push(TreeNode::leaf(more));
    }
    Some(branch)
}

fn leaf(member: &ObjectSummary) -> TreeNode {
    let first = format!(
        "{} {}",
        mark(member),
        sanitize(&member.identity.to_string())
    );
    match &member.message {
        Some(message) => TreeNode::multi_line(&format!("{first}: "), message),
        None => TreeNode::leaf(first),
    }
}

fn mark(member: &ObjectSummary) -> String {
    match member.healthy {
        Some(true) => format!("{HEALTHY}✓{HEALTHY:#}"),
        Some(false) => format!("{ERROR}✗{ERROR:#}"),
        None => "?".to_owned(),
    }
}

/// Returns a node per line, limited unless `all` is set, and one with the number of omitted lines.
fn list(mut lines: Vec<String>, all: bool) -> Vec<TreeNode> {
    let more = lines.len().saturating_sub(MAX_LISTED);
    if more > 0 && !all {
        lines.truncate(MAX_LISTED);
        lines.push(format!("and {more} more"));
    }
    lines.into_iter().map(TreeNode::leaf).collect()
}

/// Formats a table of instances.
pub(super) fn table(summaries: &[Summary]) -> String {
    let header = [
        "NAME", "VERSION", "PHASE", "STATE", "HEALTHY", "BUNDLE", "PROBLEM",
    ];
    let rows: Vec<[String; 7]> = summaries.iter().map(row).collect();
    table::render(Some(header), &rows, 0)
}

/// Formats an instance as one line.
pub(super) fn line(summary: &Summary) -> String {
    let row = row(summary);
    let cells = row.iter().filter(|cell| !cell.is_empty());
    let cells: Vec<String> = cells.map(|cell| sanitize(cell)).collect();
    format!("{}\n", cells.join("  "))
}

fn row(summary: &Summary) -> [String; 7] {
    let problem = summary.problem.as_ref();
    let message = problem.map_or("", |problem| {
        problem.message.lines().next().unwrap_or_default()
    });
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let healthy = match summary.healthy {
        _ if !summary.installed => "-",
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    [
        summary.name.clone(),
        or_dash(&summary.version),
        summary.phase.clone(),
        summary.state.clone(),
        healthy.to_owned(),
        or_dash(&summary.installed_bundle),
        manifests::object::truncate(message, MAX_MESSAGE_LEN),
    ]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{condition, instance};

    fn summary(conditions: &[(&str, &str, &str)], more: &Value) -> Summary {
        let conditions = conditions.iter();
        let conditions =
            conditions.map(|(type_, reason, message)| condition((type_, "False", reason, message)));
        let mut status = more.clone();
        status["conditions"] = conditions.collect();
        let instance = instance(&json!({"status": status}));
        Summary::new(&instance, &[], Vec::new(), Timestamp::UNIX_EPOCH)
    }

    /// Returns a text as a pipe gets it.
    fn without_styles(text: String) -> String {
        let styles = [HEALTHY, CHANGE, WARNING, ERROR];
        styles.into_iter().fold(text, |text, style| {
            text.replace(&style.render().to_string(), "")
                .replace(&style.render_reset().to_string(), "")
        })
    }

    #[test]
    fn text_of_a_cluster_loses_control_characters() {
        let evil = "\u{1b}[2J\u{7}\u{9b}31m evil\r\nsecond\u{8} line";
        let kinds =
            json!([{"apiVersion": "v1", "kind": "Config\u{1b}Map", "objects": ["a\u{1b}[1m/b"]}]);
        let summary = summary(
            &[
                ("Installed", "InstallFailed", evil),
                ("Healthy", "Unhealthy", "(v1, Kind=Pod)(a/b): \u{1b}[31m"),
            ],
            &json!({
                "version": evil, "installedBundleName": "x\u{1b}c", "installNamespace": evil, "waiting": [evil],
                "released": [evil], "inventory": {"count": 2, "kinds": kinds},
            }),
        );
        for text in [
            tree(&summary, false),
            tree(&summary, true),
            table(std::slice::from_ref(&summary)),
            line(&summary),
        ] {
            let text = without_styles(text);
            assert!(text.contains("evil"), "{text:?}");
            let is_bad = |letter: char| letter.is_control() && letter != '\n';
            assert!(!text.contains(is_bad), "{text:?}");
        }
        // Programs get every character.
        assert_eq!(serde_json::to_value(&summary).unwrap()["version"], evil);
    }

    #[test]
    fn huge_status_is_truncated_unless_all_is_requested() {
        let objects: Vec<String> = (0..4000).map(|at| format!("default/map-{at} -")).collect();
        let unwell = "(v1, Kind=ConfigMap)(default/map-77): is odd\nand 5 more objects";
        let kinds = json!([{"apiVersion": "v1", "kind": "ConfigMap", "objects": objects}]);
        let summary = summary(
            &[("Healthy", "Unhealthy", unwell)],
            &json!({
                "installedBundleName": "x", "inventory": {"count": 9000, "more": 2, "kinds": kinds},
                "waiting": vec!["Widget example.com/v1 a/b"; 500],
            }),
        );
        let text = without_styles(tree(&summary, false));
        assert!(text.lines().count() < 100, "{text}");
        ::tests::assert_has(&text, "✗ ConfigMap default/map-77: is odd");
        ::tests::assert_has(&text, "? ConfigMap: 3999");
        ::tests::assert_has(&text, "and 5000 more");
        assert!(tree(&summary, true).lines().count() > 4000);
        let objects = &serde_json::to_value(&summary).unwrap()["objects"];
        assert_eq!(objects.as_array().unwrap().len(), 4000);
    }
}
