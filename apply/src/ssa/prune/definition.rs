//! What becomes of a definition, by policy and by what is left of its kind.

use std::time::Duration;

use kube::{
    api::{GetParams, ListParams, ObjectList},
    core::Request,
};
use manifests::{
    api::labels,
    object::{Identity, shortened, text},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Fate, Prune};
use crate::{
    discovery::{Kind, definition::Definition},
    plan::{DefinitionPolicy, is_kept},
    ssa::{
        Failure, failure,
        object::Partial,
        request::{Address, Trouble, collection, send},
    },
};

/// How many custom resources are named.
const NAMED: usize = 5;
/// How many are deleted with one request for them.
const PAGE: u32 = 500;
/// How many pages are deleted before others have their turn.
const PAGES: usize = 20;
/// A definition without custom resources is gone at once, which spares a second look.
const LOOKS: u32 = 8;

/// Custom resources, metadata only.
type Page = ObjectList<Partial>;

impl Prune<'_> {
    pub(super) async fn definition(
        &self,
        address: &Address,
        metadata: &Value,
    ) -> Result<Fate, Trouble> {
        if self.policy == DefinitionPolicy::Retain {
            let why = "is kept by spec.crdDeletionPolicy Retain; delete it if nobody needs it";
            return self.release(address, metadata, why.to_owned()).await;
        }
        let request = || address.collection.get(&address.name, &GetParams::default());
        let definition: Definition = send(self.apply.client, request).await?;
        let kind = definition
            .spec
            .listed()
            .map(|version| definition.spec.kind(version));
        match (self.policy, kind) {
            (DefinitionPolicy::Delete, Some(kind)) => match self.clear(&kind).await? {
                Cleared::Nothing => {}
                Cleared::Going(what) => return Ok(Fate::Going(what)),
                Cleared::Kept(why) => return self.release(address, metadata, why).await,
                Cleared::Failed(failure) => return Ok(Fate::Failed(failure)),
            },
            (DefinitionPolicy::Delete, None) => {}
            (_, Some(kind)) => match self.used(&kind).await {
                Ok(Used::No) => {}
                Ok(Used::Going(what)) => return Ok(Fate::Going(what)),
                // None would need no conversion. Who converts them may have gone with the rest of the bundle.
                Err(Trouble::Status(status)) if failure::is_conversion(&status) => {
                    let why = format!(
                        "custom resources are left, which cannot be read: {}; repair the conversion webhook of its \
                         spec.conversion, delete them and then it",
                        shortened(&status.message, 1024)
                    );
                    return self.release(address, metadata, why).await;
                }
                Err(trouble) => return Err(trouble),
                Ok(Used::Yes(what)) => {
                    let why = format!(
                        "{what}; delete them and then it, or set spec.crdDeletionPolicy to Delete before the \
                         BundleInstance goes"
                    );
                    return self.release(address, metadata, why).await;
                }
            },
            (_, None) => {
                let why = "none of its versions is served, so that nobody can tell whether there are custom resources; \
                           delete it if nobody needs it";
                return self.release(address, metadata, why.to_owned()).await;
            }
        }
        let fate = self.delete(address, metadata).await?;
        self.apply.kinds.forget(&definition.spec.group);
        if matches!(fate, Fate::Going(_)) {
            return self.vanished(address, fate).await;
        }
        Ok(fate)
    }

    /// Looks for a moment whether it goes.
    async fn vanished(&self, address: &Address, fate: Fate) -> Result<Fate, Trouble> {
        let mut wait = Duration::from_millis(20);
        for _ in 0..LOOKS {
            sleep(wait).await;
            wait *= 2;
            address.metadata(self.apply.client).await?;
        }
        Ok(fate)
    }

    /// Reports whether there are custom resources, besides those that are on their way out.
    async fn used(&self, kind: &Kind) -> Result<Used, Trouble> {
        // More than are named: many that are being deleted may hide one that is not.
        let page = self.page(&collection(kind, None), None).await?;
        let Some(page) = page else {
            return Ok(Used::No);
        };
        let rest = page.metadata.remaining_item_count;
        let rest = rest.and_then(|rest| rest.try_into().ok()).unwrap_or(0);
        let (going, left): (Vec<_>, Vec<_>) = page
            .items
            .iter()
            .map(|item| &item.metadata)
            .partition(|metadata| metadata.get("deletionTimestamp").is_some());
        Ok(if left.is_empty() && rest == 0 {
            if going.is_empty() {
                Used::No
            } else {
                Used::Going(going_on(&going))
            }
        } else {
            let named = if left.is_empty() { &going } else { &left };
            Used::Yes(told(left.len() + rest, named, "left"))
        })
    }

    /// Deletes all custom resources but those that are to be kept.
    async fn clear(&self, kind: &Kind) -> Result<Cleared, Trouble> {
        let all = collection(kind, None);
        let mut token = None;
        let mut kept: Vec<Value> = Vec::new();
        let mut going: Vec<Value> = Vec::new();
        for _ in 0..PAGES {
            let Some(page) = self.page(&all, token.as_deref()).await? else {
                break;
            };
            token = page.metadata.continue_.filter(|token| !token.is_empty());
            let items: Vec<Value> = page.items.into_iter().map(|item| item.metadata).collect();
            let (mut keep, items): (Vec<_>, Vec<_>) = items.into_iter().partition(|metadata| {
                is_kept(&json!({"metadata": {"annotations": metadata.get("annotations")}}))
            });
            kept.append(&mut keep);
            let each: Vec<&Value> = items.iter().collect();
            let outcomes = self
                .apply
                .each(&each, |metadata| self.remove(kind, metadata))
                .await;
            for (metadata, outcome) in items.into_iter().zip(outcomes) {
                match outcome {
                    Some(Ok(true)) => {}
                    Some(Ok(false)) | None => going.push(metadata),
                    Some(Err(failure)) => return Ok(Cleared::Failed(failure)),
                }
            }
            if token.is_none() {
                break;
            }
        }
        Ok(if token.is_some() {
            Cleared::Going("very many custom resources, which are being deleted".to_owned())
        } else if !kept.is_empty() {
            let kept: Vec<_> = kept.iter().collect();
            Cleared::Kept(format!(
                "{}, as their annotation {} says; delete them and then it",
                told(kept.len(), &kept, "left"),
                labels::KEEP
            ))
        } else if !going.is_empty() {
            let going: Vec<_> = going.iter().collect();
            Cleared::Going(going_on(&going))
        } else {
            Cleared::Nothing
        })
    }

    /// Deletes one custom resource. Whether it is gone.
    async fn remove(&self, kind: &Kind, metadata: &Value) -> Result<bool, Failure> {
        let field = |name| text(metadata, &[name]).unwrap_or_default().to_owned();
        let identity = Identity {
            group: kind.resource.group.clone(),
            kind: kind.resource.kind.clone(),
            namespace: field("namespace"),
            name: field("name"),
        };
        if metadata.get("deletionTimestamp").is_some() {
            return Ok(false);
        }
        let outcome = match Address::of(kind, &identity) {
            Ok(address) => self.delete(&address, metadata).await,
            Err(trouble) => Err(trouble),
        };
        match outcome {
            Ok(fate) => Ok(matches!(fate, Fate::Deleted)),
            Err(trouble) if trouble.code() == Some(404) => Ok(true),
            // Another one has its name now; the next look finds it.
            Err(trouble) if trouble.code() == Some(409) => Ok(false),
            Err(trouble) => Err(failure::of(identity, &trouble)),
        }
    }

    /// Some of the objects of a kind; `None` when it is not served (any more).
    async fn page(&self, all: &Request, token: Option<&str>) -> Result<Option<Page>, Trouble> {
        let mut params = ListParams::default().limit(PAGE);
        if let Some(token) = token {
            params = params.continue_token(token);
        }
        match send(self.apply.client, || all.list_metadata(&params)).await {
            Ok(page) => Ok(Some(page)),
            Err(trouble) if trouble.code() == Some(404) => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }
}

/// Whether a definition is in use.
enum Used {
    No,
    /// Not for much longer: by what.
    Going(String),
    /// By what.
    Yes(String),
}

/// What became of all custom resources of a definition.
enum Cleared {
    Nothing,
    /// What is being deleted.
    Going(String),
    /// The reason why some stay.
    Kept(String),
    Failed(Failure),
}

/// Custom resources that are being deleted, and who can help when they stay.
fn going_on(going: &[&Value]) -> String {
    format!(
        "{}; see to it that whoever acts on their finalizers runs, or remove these",
        told(going.len(), going, "being deleted")
    )
}

/// `3 custom resources are left (a/x, a/y, b/z)`.
fn told(count: usize, some: &[&Value], how: &str) -> String {
    let mut names: Vec<_> = some
        .iter()
        .take(NAMED)
        .map(|metadata| {
            let field = |name| text(metadata, &[name]).unwrap_or_default();
            let slash = if field("namespace").is_empty() {
                ""
            } else {
                "/"
            };
            let name = format!("{}{slash}{}", field("namespace"), field("name"));
            let finalizers = failure::finalizers(metadata);
            let name = shortened(&name, 128);
            if finalizers.is_empty() {
                name
            } else {
                format!("{name} [finalizers: {finalizers}]")
            }
        })
        .collect();
    if count > names.len() {
        names.push("…".to_owned());
    }
    let (plural, are) = if count == 1 { ("", "is") } else { ("s", "are") };
    format!(
        "{count} custom resource{plural} {are} {how} ({})",
        names.join(", ")
    )
}
