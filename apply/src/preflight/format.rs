//! Formatting of objects in messages.

use manifests::object::Identity;

use crate::discovery::ApiKind;

/// Formats an object with the arguments of kubectl: `deployments.apps/etcd -n operators`.
pub(super) fn describe_object(kind: &ApiKind, identity: &Identity) -> String {
    let mut text = kind.resource.plural.clone();
    if !identity.group.is_empty() {
        text.push('.');
        text.push_str(&identity.group);
    }
    text.push('/');
    text.push_str(&identity.name);
    if !identity.namespace.is_empty() {
        text.push_str(" -n ");
        text.push_str(&identity.namespace);
    }
    text
}

/// Truncates a text to `max` bytes, with an ellipsis.
pub(super) fn truncate(text: &mut String, max: usize) {
    const ELLIPSIS: &str = " …";
    if text.len() > max {
        let mut end = max.saturating_sub(ELLIPSIS.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(ELLIPSIS);
    }
}
