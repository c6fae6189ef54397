//! How objects are named in messages.

use std::fmt::Display;

use manifests::object::Identity;

use crate::discovery::Kind;

/// The first few, and how many more there are.
pub(super) fn some<T: Display>(all: &[T]) -> String {
    const FEW: usize = 3;
    let few: Vec<String> = all.iter().take(FEW).map(ToString::to_string).collect();
    match all.len().saturating_sub(FEW) {
        0 => few.join(", "),
        more => format!("{} and {more} more", few.join(", ")),
    }
}

/// An object as kubectl takes it: `deployments.apps/etcd -n operators`.
pub(super) fn address(kind: &Kind, identity: &Identity) -> String {
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

/// At most so many bytes of a text.
pub(super) fn cut(text: &mut String, most: usize) {
    const MORE: &str = " …";
    if text.len() > most {
        let mut end = most.saturating_sub(MORE.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MORE);
    }
}
