//! Differences for people: unified, of YAML, without what only servers write, and without secrets.

use std::fmt::{self, Write};

use anstyle::{AnsiColor, Style};
use manifests::{
    api::{decorate::FOREIGN, labels::OBJECT_HASH},
    object::{Identity, mapping},
    yaml,
};
use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

use super::rights::Rights;
use crate::message::{clean, count};

const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const PLACE: Style = AnsiColor::Cyan.on_default();
const HEAD: Style = Style::new().bold();

/// Lines around a change.
const CONTEXT: usize = 3;

/// A whole object in a text, which may be a Secret.
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

/// An object that would be another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    identity: Identity,
    before: Option<String>,
    after: Option<String>,
}

impl Change {
    /// `None` if there is no difference.
    pub(crate) fn of(
        identity: Identity,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Option<Self> {
        let mut before = before.map(plain);
        let mut after = after.map(plain);
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

    /// The difference, with a few lines around it.
    pub(crate) fn unified(&self, origin: Origin, text: &mut String) {
        let identity = clean(&self.identity.to_string());
        let before = self.before.as_deref().unwrap_or_default();
        let after = self.after.as_deref().unwrap_or_default();
        let side = |side: &str, is_there| {
            if is_there {
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
        for group in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
            let _ = writeln!(text, "{PLACE}{}{PLACE:#}", group.header());
            for line in group.iter_changes() {
                let (sign, style) = match line.tag() {
                    ChangeTag::Insert => ('+', ADDED),
                    ChangeTag::Delete => ('-', REMOVED),
                    ChangeTag::Equal => (' ', Style::new()),
                };
                let value = clean(line.value().trim_end_matches('\n'));
                let _ = writeln!(text, "{style}{sign}{value}{style:#}");
            }
        }
    }
}

/// An object without what is no difference.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    let map = mapping(&mut object);
    map.remove("status");
    if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
        for field in FOREIGN {
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
        hide(object, field, |_, _| "***");
    }
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
    }
}

/// Reports whether an object is a Secret.
pub(crate) fn is_secret(identity: &Identity) -> bool {
    identity.kind == "Secret" && identity.group.is_empty()
}

/// Hides what is secret, and keeps whether it is another secret.
fn mask(before: Option<&mut Value>, after: Option<&mut Value>) {
    let mut before = before;
    let mut after = after;
    for field in ["data", "stringData"] {
        let had = entries(before.as_deref(), field);
        if let Some(before) = before.as_deref_mut() {
            hide(before, field, |_, _| "***");
        }
        if let Some(after) = after.as_deref_mut() {
            hide(after, field, |key, value| match had.get(key) {
                Some(old) if old != value => "*** (another one)",
                _ => "***",
            });
        }
    }
}

fn entries(object: Option<&Value>, field: &str) -> Map<String, Value> {
    let entries = object.and_then(|object| object.get(field)?.as_object());
    entries.cloned().unwrap_or_default()
}

fn hide(object: &mut Value, field: &str, show: impl Fn(&str, &Value) -> &'static str) {
    let Some(value) = object.get_mut(field) else {
        return;
    };
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let shown = show(key, value);
                *value = shown.into();
            }
        }
        other => *other = "***".into(),
    }
}

/// Rights first, then what changes.
pub(super) fn report(rights: &Rights, changes: &[Change], origin: Origin) -> String {
    let mut text = String::new();
    for (title, style, rights) in [
        ("Rights gained", REMOVED, &rights.gained),
        ("Rights lost", ADDED, &rights.lost),
    ] {
        if rights.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{HEAD}{title}:{HEAD:#}");
        for (holder, rules) in rights {
            let _ = writeln!(text, "  {}:", clean(holder));
            for rule in rules {
                let _ = writeln!(text, "    {style}{}{style:#}", clean(rule));
            }
        }
        text.push('\n');
    }
    if changes.is_empty() {
        return text;
    }
    let number = |is: &dyn Fn(&Change) -> bool| changes.iter().filter(|it| is(it)).count();
    let _ = writeln!(
        text,
        "{HEAD}{} new, {} changed, {} {}:{HEAD:#}",
        count(number(&|it| it.before.is_none()), "object"),
        number(&|it| it.before.is_some() && it.after.is_some()),
        number(&|it| it.after.is_none()),
        match origin {
            Origin::Bundle => "leave the bundle".to_owned(),
            Origin::Revision(number) => format!("not in revision {number}"),
        },
    );
    for change in changes {
        let (sign, style) = match (&change.before, &change.after) {
            (None, _) => ('+', ADDED),
            (_, None) => ('-', REMOVED),
            _ => ('~', PLACE),
        };
        let identity = clean(&change.identity.to_string());
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
        Identity {
            group: String::new(),
            kind: kind.to_owned(),
            namespace: "tides".to_owned(),
            name: "high".to_owned(),
        }
    }

    #[test]
    fn what_servers_write_is_no_difference() {
        let before = json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "1", "managedFields": []}, "status": 1});
        let after = json!({"kind": "ConfigMap", "metadata": {"name": "a", "annotations": {LAST_APPLIED: "x"}}});
        let change = Change::of(identity("ConfigMap"), Some(&before), Some(&after));
        assert_eq!(change, None);
    }

    #[test]
    fn no_secret_is_shown() {
        let secret = |value: &str, more: &str| {
            let applied = json!({LAST_APPLIED: format!("{{\"data\": \"{value}\"}}")});
            json!({
                "kind": "Secret", "metadata": {"name": "a", "annotations": applied},
                "data": {"same": "c2FtZQ==", "other": value, more: value}, "stringData": {"text": value},
            })
        };
        let before = secret("b2xk", "gone");
        let after = secret("bmV3", "new");
        for (before, after) in [
            (Some(&before), Some(&after)),
            (None, Some(&after)),
            (Some(&before), None),
        ] {
            let change = Change::of(identity("Secret"), before, after).unwrap();
            let mut text = String::new();
            change.unified(Origin::Bundle, &mut text);
            for word in ["b2xk", "bmV3", "c2FtZQ"] {
                assert!(!text.contains(word), "{text}");
            }
        }
        let change = Change::of(identity("Secret"), Some(&before), Some(&after)).unwrap();
        ::tests::assert_has(change.after.unwrap(), "*** (another one)");
        let same = Change::of(identity("Secret"), Some(&before), Some(&before));
        assert_eq!(same, None);
    }

    #[test]
    fn a_change_is_a_unified_diff_that_moves_no_cursor() {
        let object = |text: &str| json!({"data": {"a": "1", "b": text}});
        let before = object("old\u{1b}[2J");
        let change = Change::of(identity("ConfigMap"), Some(&before), Some(&object("new")));
        let right = |place: &str, rule: &str| vec![(place.to_owned(), vec![rule.to_owned()])];
        let rights = Rights {
            gained: right("ann, in tides", "- a"),
            lost: right("bea, in tides", "- b"),
        };
        let report = report(&rights, &[change.unwrap()], Origin::Bundle);
        let plain = anstream::adapter::strip_str(&report).to_string();
        let expected = "Rights gained:\n  ann, in tides:\n    - a\n\nRights lost:\n  bea, in tides:\n    - b\n\n\
                        0 objects new, 1 changed, 0 leave the bundle:\n  ~ ConfigMap tides/high\n*--- cluster ConfigMap \
                        tides/high\n+++ bundle ConfigMap tides/high\n@@ *+  b: new\n*";
        assert!(::tests::table::matches(expected, &plain), "{plain}");
        assert!(!plain.contains('\u{1b}'), "{plain}");
    }
}
