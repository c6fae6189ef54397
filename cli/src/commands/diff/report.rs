//! Report of `rukpak diff`: permissions first, then a unified diff of YAML for people, without fields that the API server
//! sets, and without values of Secrets.

use std::fmt::{self, Write};

use anstyle::{AnsiColor, Style};
use manifests::{
    api::{labels::OBJECT_HASH, owner_metadata::SERVER_SET_FIELDS},
    object::{Identity, mapping},
    yaml,
};
use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

use super::permissions::PermissionChanges;
use crate::output::message::{count, sanitize};

const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const HUNK: Style = AnsiColor::Cyan.on_default();
const HEAD: Style = Style::new().bold();

/// Number of context lines around a change.
const CONTEXT_LINES: usize = 3;

/// Annotation with the whole object as text, which may be a Secret.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The origin of the desired objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A bundle that is converted.
    Bundle,
    /// The record of the revision with this number.
    Revision(i64),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bundle => f.write_str("bundle"),
            Self::Revision(number) => write!(f, "revision {number}"),
        }
    }
}

/// An object that is created, changed or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    identity: Identity,
    before: Option<String>,
    after: Option<String>,
}

impl Change {
    /// Compares two forms of an object; `None` if they do not differ.
    pub(crate) fn between(
        identity: Identity,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Option<Self> {
        let mut before = before.map(normalize);
        let mut after = after.map(normalize);
        if is_secret(&identity) {
            mask(before.as_mut(), after.as_mut());
        }
        if before == after {
            return None;
        }
        let text = |value: Value| yaml::to_string(&value).unwrap_or_default(); // JSON can always be written
        Some(Self {
            identity,
            before: before.map(text),
            after: after.map(text),
        })
    }

    /// Writes a unified diff.
    pub(crate) fn unified(&self, origin: Origin, text: &mut String) {
        let identity = sanitize(&self.identity.to_string());
        let before = self.before.as_deref().unwrap_or_default();
        let after = self.after.as_deref().unwrap_or_default();
        let side = |side: &str, exists| {
            if exists {
                side.to_owned()
            } else {
                "nothing".to_owned()
            }
        };
        let _ = writeln!(
            text,
            "{HEAD}--- {} {identity}\n+++ {} {identity}{HEAD:#}",
            side("cluster", self.before.is_some()),
            side(&origin.to_string(), self.after.is_some())
        );
        let diff = TextDiff::from_lines(before, after);
        for group in diff
            .unified_diff()
            .context_radius(CONTEXT_LINES)
            .iter_hunks()
        {
            let _ = writeln!(text, "{HUNK}{}{HUNK:#}", group.header());
            for line in group.iter_changes() {
                let (sign, style) = match line.tag() {
                    ChangeTag::Insert => ('+', ADDED),
                    ChangeTag::Delete => ('-', REMOVED),
                    ChangeTag::Equal => (' ', Style::new()),
                };
                let value = sanitize(line.value().trim_end_matches('\n'));
                let _ = writeln!(text, "{style}{sign}{value}{style:#}");
            }
        }
    }
}

/// Returns the object without the fields that are not compared.
fn normalize(object: &Value) -> Value {
    let mut object = object.clone();
    let map = mapping(&mut object);
    map.remove("status");
    if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
        for field in SERVER_SET_FIELDS {
            metadata.remove(*field);
        }
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
            annotations.remove(OBJECT_HASH); // derived from the object
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

/// Masks the values of a Secret.
pub(crate) fn mask_secret(object: &mut Value) {
    for field in ["data", "stringData"] {
        mask_secret_values(object, field, |_, _| "***");
    }
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
    }
}

/// Reports whether an object is a Secret.
pub(crate) fn is_secret(identity: &Identity) -> bool {
    identity.kind == "Secret" && identity.group.is_empty()
}

/// Masks the values of a Secret, and marks values that differ.
fn mask(before: Option<&mut Value>, after: Option<&mut Value>) {
    let mut before = before;
    let mut after = after;
    for field in ["data", "stringData"] {
        let had = entries(before.as_deref(), field);
        if let Some(before) = before.as_deref_mut() {
            mask_secret_values(before, field, |_, _| "***");
        }
        if let Some(after) = after.as_deref_mut() {
            mask_secret_values(after, field, |key, value| match had.get(key) {
                Some(old) if old != value => "*** (changed)",
                _ => "***",
            });
        }
    }
}

fn entries(object: Option<&Value>, field: &str) -> Map<String, Value> {
    let entries = object.and_then(|object| object.get(field)?.as_object());
    entries.cloned().unwrap_or_default()
}

fn mask_secret_values(
    object: &mut Value,
    field: &str,
    show: impl Fn(&str, &Value) -> &'static str,
) {
    let Some(value) = object.get_mut(field) else {
        return;
    };
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let masked = show(key, value);
                *value = masked.into();
            }
        }
        other => *other = "***".into(),
    }
}

/// Formats the report: permissions first, then the changed objects.
pub(super) fn report(
    permissions: &PermissionChanges,
    changes: &[Change],
    origin: Origin,
) -> String {
    let mut text = String::new();
    for (title, style, permissions) in [
        ("Permissions gained", REMOVED, &permissions.gained),
        ("Permissions lost", ADDED, &permissions.lost),
    ] {
        if permissions.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{HEAD}{title}:{HEAD:#}");
        for (holder, rules) in permissions {
            let _ = writeln!(text, "  {}:", sanitize(holder));
            for rule in rules {
                let _ = writeln!(text, "    {style}{}{style:#}", sanitize(rule));
            }
        }
        text.push('\n');
    }
    if changes.is_empty() {
        return text;
    }
    let number = |is: &dyn Fn(&Change) -> bool| changes.iter().filter(|change| is(change)).count();
    let _ = writeln!(
        text,
        "{HEAD}{} to create, {} to change, {} {}:{HEAD:#}",
        count(number(&|change| change.before.is_none()), "object"),
        number(&|change| change.before.is_some() && change.after.is_some()),
        number(&|change| change.after.is_none()),
        match origin {
            Origin::Bundle => "to prune".to_owned(),
            Origin::Revision(number) => format!("not in revision {number}"),
        },
    );
    for change in changes {
        let (sign, style) = match (&change.before, &change.after) {
            (None, _) => ('+', ADDED),
            (_, None) => ('-', REMOVED),
            _ => ('~', HUNK),
        };
        let identity = sanitize(&change.identity.to_string());
        let _ = writeln!(text, "  {style}{sign} {identity}{style:#}");
    }
    for change in changes {
        text.push('\n');
        change.unified(origin, &mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(kind: &str) -> Identity {
        crate::testing::identity("", kind, "high")
    }

    #[test]
    fn fields_written_by_servers_are_no_difference() {
        let before = json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "1", "managedFields": []}, "status": 1});
        let after = json!({"kind": "ConfigMap", "metadata": {"name": "a", "annotations": {LAST_APPLIED: "x"}}});
        ::tests::assert_rows!(Change::between(identity("ConfigMap"), Some(&before), Some(&after)) => None);
    }

    #[test]
    fn secret_values_are_not_printed() {
        let secret = |value: &str, more: &str| {
            json!({
                "kind": "Secret", "metadata": {"name": "a", "annotations": {LAST_APPLIED: format!("{{\"data\": \"{value}\"}}")}},
                "data": {"same": "c2FtZQ==", "other": value, more: value}, "stringData": {"text": value},
            })
        };
        let before = secret("b2xk", "removed");
        let after = secret("bmV3", "new");
        for (before, after) in [
            (Some(&before), Some(&after)),
            (None, Some(&after)),
            (Some(&before), None),
        ] {
            let change = Change::between(identity("Secret"), before, after).unwrap();
            let mut text = String::new();
            change.unified(Origin::Bundle, &mut text);
            for word in ["b2xk", "bmV3", "c2FtZQ"] {
                assert!(!text.contains(word), "{text}");
            }
        }
        let change = Change::between(identity("Secret"), Some(&before), Some(&after)).unwrap();
        ::tests::assert_has(change.after.unwrap(), "*** (changed)");
        ::tests::assert_rows!(Change::between(identity("Secret"), Some(&before), Some(&before)) => None);
    }

    #[test]
    fn change_is_a_unified_diff_without_control_characters() {
        let object = |text: &str| json!({"data": {"a": "1", "b": text}});
        let before = object("old\u{1b}[2J");
        let change = Change::between(identity("ConfigMap"), Some(&before), Some(&object("new")));
        let right = |place: &str, rule: &str| vec![(place.to_owned(), vec![rule.to_owned()])];
        let permissions = PermissionChanges {
            gained: right("ann, in tides", "- a"),
            lost: right("bea, in tides", "- b"),
        };
        let report = report(&permissions, &[change.unwrap()], Origin::Bundle);
        let plain = anstream::adapter::strip_str(&report).to_string();
        let expected = "Permissions gained:\n  ann, in tides:\n    - a\n\nPermissions lost:\n  bea, in tides:\n    - b\n\n0 \
                        objects to create, 1 to change, 0 to prune:\n  ~ ConfigMap tides/high\n*--- cluster ConfigMap \
                        tides/high\n+++ bundle ConfigMap tides/high\n@@ *+  b: new\n*";
        assert!(::tests::table::matches(expected, &plain), "{plain}");
        assert!(!plain.contains('\u{1b}'), "{plain}");
    }
}
