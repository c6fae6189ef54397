//! Scopes of the watches of CatalogSources.

use kube::{Api, Client, runtime::watcher};
use manifests::api::catalog_source::GROUP;

use super::{CatalogKey, tolerant::TolerantCatalogSource};
use crate::runtime::settings::{Namespaces, Settings};

/// Scope of one watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NamespaceScope {
    /// CatalogSources of a namespace from which platform operators choose.
    Selectable(String),
    /// CatalogSources of another namespace, which are only served.
    Served(String),
    /// CatalogSources of all other namespaces, which are only served. Contains the excluded namespaces.
    Other(Vec<String>),
}

/// Returns the scopes to watch: each namespace of selectable catalogs, and all other namespaces whose catalogs are served.
pub(super) fn scopes(settings: &Settings) -> Vec<NamespaceScope> {
    let selectable = settings.catalog_namespaces.iter().cloned();
    let served = match settings.serving.as_ref().map(|serving| &serving.namespaces) {
        None => Vec::new(),
        Some(Namespaces::All) => vec![NamespaceScope::Other(settings.catalog_namespaces.clone())],
        Some(Namespaces::Some(some)) => {
            let only_served = some
                .iter()
                .filter(|namespace| !settings.is_selectable_namespace(namespace));
            only_served.cloned().map(NamespaceScope::Served).collect()
        }
    };
    selectable
        .map(NamespaceScope::Selectable)
        .chain(served)
        .collect()
}

// === impl NamespaceScope ===

impl NamespaceScope {
    /// Returns the client and the configuration of the watch.
    pub(super) fn api_and_config(
        &self,
        client: &Client,
    ) -> (Api<TolerantCatalogSource>, watcher::Config) {
        let config = watcher::Config::default();
        match self {
            Self::Selectable(namespace) | Self::Served(namespace) => {
                (Api::namespaced(client.clone(), namespace), config)
            }
            Self::Other(namespaces) => {
                let excluded = namespaces
                    .iter()
                    .map(|namespace| format!("metadata.namespace!={namespace}"));
                let excluded = excluded.collect::<Vec<_>>().join(",");
                (Api::all(client.clone()), config.fields(&excluded))
            }
        }
    }

    /// Reports whether the watch covers a catalog.
    pub(super) fn contains(&self, key: &CatalogKey) -> bool {
        match self {
            Self::Selectable(namespace) | Self::Served(namespace) => *namespace == key.namespace,
            Self::Other(namespaces) => !namespaces.contains(&key.namespace),
        }
    }
}

/// Returns the message for a namespace where listing CatalogSources is forbidden, or `None` for another error. A forbidden
/// watch is followed by a list, which shows whether listing is forbidden too.
pub(super) fn forbidden_message(namespace: &str, error: &watcher::Error) -> Option<String> {
    let status = apply::api_error::status(error)?;
    if !matches!(error, watcher::Error::InitialListFailed(_)) {
        return None;
    }
    let message: String = status.message.chars().take(400).collect();
    matches!(status.code, 401 | 403).then(|| {
        format!(
            "failed to list CatalogSources: {message}; grant the provisioner's ServiceAccount list and watch on \
             catalogsources.{GROUP} in namespace {namespace}, or remove the namespace from --catalog-namespaces"
        )
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::runtime::settings::{NamespaceQuota, Ports, Serving};

    #[test]
    fn only_a_rejected_list_hides_the_catalogs_of_a_namespace() {
        let is_hidden = |error: fn(kube::Error) -> watcher::Error, code| {
            let status = Status::failure("no", "Any").with_code(code);
            let error = error(kube::Error::Api(Box::new(status)));
            forbidden_message("a", &error).is_some()
        };
        assert_rows! {
            is_hidden(watcher::Error::InitialListFailed, 403) => true;
            is_hidden(watcher::Error::InitialListFailed, 401) => true;
            is_hidden(watcher::Error::InitialListFailed, 503) => false;
            is_hidden(watcher::Error::WatchStartFailed, 403) => false;
            is_hidden(watcher::Error::WatchFailed, 403) => false;
        }
    }

    #[test]
    fn overlapping_namespaces_are_watched_once() {
        let counting = |name: &str| NamespaceScope::Selectable(name.to_owned());
        let served = |namespaces| {
            let serving = Some(Serving {
                address: [10, 0, 0, 1].into(),
                ports: Ports::Any,
                namespaces,
                pods: false,
                share: NamespaceQuota::default(),
            });
            let catalog_namespaces = vec!["b".to_owned(), "a".to_owned()];
            scopes(&with!(Settings, catalog_namespaces, serving))
        };
        let some =
            |names: &[&str]| Namespaces::Some(names.iter().map(|&name| name.to_owned()).collect());
        let both = [counting("b"), counting("a")];
        let others = NamespaceScope::Other(vec!["b".to_owned(), "a".to_owned()]);
        assert_rows! {
            served(some(&["a", "b"])) => both;
            served(some(&[])) => both;
            served(some(&["a", "c"])) => [&both[..], &[NamespaceScope::Served("c".to_owned())]].concat();
            served(Namespaces::All) => [&both[..], std::slice::from_ref(&others)].concat();
            ["a", "b", "c"].map(|namespace| others.contains(&CatalogKey::new(namespace, "mine"))) => [false, false, true];
        }
    }
}
