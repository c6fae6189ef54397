//! How objects are named in messages.

use manifests::object::Identity;

use crate::discovery::Kind;

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
