//! Objects of a document: the document itself, or the items of a List, as in kubectl. Pure; no I/O.

use std::{mem, vec};

use manifests::path::Path;
use serde_json::Value;

/// Returns the items of a List, if an object is one. Items without a type get that of a typed list, such as a
/// CatalogSourceList: the API server does not repeat it.
pub(super) fn items_mut(object: &mut Value) -> Option<&mut Vec<Value>> {
    let kind = text(object, "kind").strip_suffix("List")?.to_owned();
    let version = text(object, "apiVersion").to_owned();
    let items = object.get_mut("items")?.as_array_mut()?;
    if !kind.is_empty() {
        for item in items.iter_mut() {
            let is_typed = ["apiVersion", "kind"].map(|field| !text(item, field).is_empty());
            if is_typed == [false, false]
                && let Value::Object(item) = item
            {
                item.insert("apiVersion".to_owned(), version.clone().into());
                item.insert("kind".to_owned(), kind.clone().into());
            }
        }
    }
    Some(items)
}

/// Returns a text of an object, or an empty one.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    let text = object.get(field).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Iterator over the objects of a document, including those in nested Lists.
pub(super) struct Objects {
    /// Lists that are being read, each with the number of its items that were returned. The first one is the document.
    open: Vec<(usize, vec::IntoIter<Value>)>,
}

impl Objects {
    pub(super) fn new(document: Value) -> Self {
        Self {
            open: vec![(0, vec![document].into_iter())],
        }
    }

    /// Returns the path of the object that was returned last.
    pub(super) fn path(&self) -> Path {
        let lists = self.open.iter().skip(1);
        lists.fold(Path::root(), |path, (returned, _)| {
            path.key("items").index(returned.saturating_sub(1))
        })
    }
}

impl Iterator for Objects {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        loop {
            let (returned, items) = self.open.last_mut()?;
            let Some(mut object) = items.next() else {
                self.open.pop();
                continue;
            };
            *returned += 1;
            match items_mut(&mut object) {
                Some(items) => {
                    let items = mem::take(items);
                    self.open.push((0, items.into_iter()));
                }
                None => return Some(object),
            }
        }
    }
}
