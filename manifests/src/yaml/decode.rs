//! Second half of the complete parser: converts nodes to a value, like go-yaml's decoder and `sigs.k8s.io/yaml`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    Limits, cost,
    error::DocumentError,
    node::{Id, Kind, Tree, too_deep},
    scalar::Scalar,
    tagged,
};

/// Returns the value of a whole document; null if it is empty. Deducts from [`Limits::text`].
pub(super) fn value(tree: &Tree, limits: &mut Limits) -> Result<Value, DocumentError> {
    let mut decoder = Decoder {
        tree,
        memory: limits.memory.saturating_sub(tree.memory),
        limits,
        decoded: 1,
        aliased: 0,
        open_aliases: HashSet::new(),
    };
    match tree.root {
        Some(root) => decoder.value(root, 0),
        None => Ok(Value::Null),
    }
}

/// Reports whether a key is `<<`, the merge key of YAML 1.1.
pub(super) fn is_merge(tree: &Tree, key: Id) -> bool {
    let Ok(node) = tree.node(key) else {
        return false;
    };
    match &node.kind {
        Kind::Scalar {
            tag,
            text,
            implicit,
            ..
        } => text == "<<" && (*implicit || tag.as_deref() == Some("tag:yaml.org,2002:merge")),
        _ => false,
    }
}

/// State of the decoder, with the counters of go-yaml's decoder.
struct Decoder<'a> {
    tree: &'a Tree,
    limits: &'a mut Limits,
    /// Remaining memory for the value besides the tree, in bytes.
    memory: usize,
    decoded: usize,
    aliased: usize,
    open_aliases: HashSet<Id>,
}

impl<'a> Decoder<'a> {
    fn value(&mut self, id: Id, depth: usize) -> Result<Value, DocumentError> {
        let node = self.enter(id)?;
        match &node.kind {
            Kind::Scalar { .. } => scalar(self.tree, id)?.value().ok_or_else(|| {
                DocumentError::new(node.start, "infinity and NaN have no JSON value")
            }),
            Kind::Sequence(items) => {
                self.check_depth(depth, node.start)?;
                let mut values = Vec::new();
                for item in items {
                    let value = self.value(*item, depth + 1)?;
                    self.spend(cost::item(values.len()), &value, node.start)?;
                    values.push(value);
                }
                Ok(Value::Array(values))
            }
            Kind::Mapping(_) => {
                let mut map = Map::new();
                self.fill(id, &mut map, depth)?;
                Ok(Value::Object(map))
            }
            Kind::Alias(target) => self.aliased(id, |decoder| decoder.value(*target, depth)),
        }
    }

    /// Adds the entries of a mapping to `map`. Duplicates and merges overwrite existing entries in document order.
    fn fill(
        &mut self,
        id: Id,
        map: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), DocumentError> {
        let node = self.tree.node(id)?;
        let Kind::Mapping(entries) = &node.kind else {
            return Err(DocumentError::new(
                node.start,
                "map merge requires map or sequence of maps as the value",
            ));
        };
        self.check_depth(depth, node.start)?;
        for (key, value) in entries {
            if is_merge(self.tree, *key) {
                self.merge_all(*value, map, depth)?;
            } else {
                let key = self.key(*key)?;
                let value = self.value(*value, depth + 1)?;
                self.spend(cost::entry(map.len(), &key), &value, node.start)?;
                map.insert(key, value);
            }
        }
        Ok(())
    }

    fn merge_all(
        &mut self,
        id: Id,
        map: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), DocumentError> {
        match &self.tree.node(id)?.kind {
            // In reverse order, because earlier mappings take precedence.
            Kind::Sequence(items) => items
                .iter()
                .rev()
                .try_for_each(|item| self.merge(*item, map, depth)),
            _ => self.merge(id, map, depth),
        }
    }

    fn merge(
        &mut self,
        id: Id,
        map: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), DocumentError> {
        match self.enter(id)?.kind {
            Kind::Alias(target) => self.aliased(id, |decoder| {
                decoder.enter(target)?;
                decoder.fill(target, map, depth + 1)
            }),
            _ => self.fill(id, map, depth + 1),
        }
    }

    fn key(&mut self, id: Id) -> Result<String, DocumentError> {
        let node = self.enter(id)?;
        match &node.kind {
            Kind::Scalar { .. } => scalar(self.tree, id)?.key().ok_or_else(|| {
                DocumentError::new(
                    node.start,
                    "null and integers above 64 bits signed cannot be keys",
                )
            }),
            Kind::Alias(target) => self.aliased(id, |decoder| decoder.key(*target)),
            Kind::Sequence(_) | Kind::Mapping(_) => {
                // Usually a template that was never rendered: `{{ .Values.x }}`.
                Err(DocumentError::new(
                    node.start,
                    "a mapping or sequence cannot be a key; check that this is not an unrendered template",
                ))
            }
        }
    }

    /// Implements go-yaml's budget: the larger a document is, the smaller is the allowed share of aliases.
    fn enter(&mut self, id: Id) -> Result<&'a super::node::Node, DocumentError> {
        let node = self.tree.node(id)?;
        self.decoded += 1;
        // Keys are also nodes, so each entry of a mapping counts twice.
        if self.decoded > self.limits.values.saturating_mul(2).saturating_add(2) {
            return Err(DocumentError::too_many(Some(node.start), self.limits));
        }
        let mut over = false;
        if !self.open_aliases.is_empty() {
            self.aliased += 1;
            if let Kind::Scalar { text, .. } = &node.kind {
                match self.limits.text.checked_sub(text.len()) {
                    Some(remaining) => self.limits.text = remaining,
                    None => over = true,
                }
            }
        }
        over |= self.aliased > 100 && self.decoded > 1000 && {
            #[allow(clippy::cast_precision_loss)] // counts stay far below 2^52
            let (aliased, decoded) = (self.aliased as f64, self.decoded as f64);
            aliased / decoded > allowed_alias_ratio(decoded)
        };
        if over {
            return Err(DocumentError::new(
                node.start,
                "document contains excessive aliasing",
            ));
        }
        Ok(node)
    }

    /// Deducts the memory of an entry; `slot` is the memory of its slot and key.
    fn spend(&mut self, slot: usize, value: &Value, at: usize) -> Result<(), DocumentError> {
        match self.memory.checked_sub(slot + cost::scalar(value)) {
            Some(remaining) => self.memory = remaining,
            None => return Err(DocumentError::too_large(Some(at), self.limits)),
        }
        Ok(())
    }

    fn aliased<T>(
        &mut self,
        id: Id,
        decode: impl FnOnce(&mut Self) -> Result<T, DocumentError>,
    ) -> Result<T, DocumentError> {
        if !self.open_aliases.insert(id) {
            return Err(DocumentError::new(
                self.tree.node(id)?.start,
                "anchor value contains itself",
            ));
        }
        let decoded = decode(self);
        self.open_aliases.remove(&id);
        decoded
    }

    fn check_depth(&self, depth: usize, at: usize) -> Result<(), DocumentError> {
        if depth >= self.limits.depth {
            return Err(too_deep(at, self.limits));
        }
        Ok(())
    }
}

/// Resolves a scalar node.
pub(super) fn scalar(tree: &Tree, id: Id) -> Result<Scalar<'_>, DocumentError> {
    let node = tree.node(id)?;
    match &node.kind {
        Kind::Scalar {
            tag: Some(tag),
            text,
            ..
        } => tagged::resolve(tag, text).map_err(|message| DocumentError::new(node.start, message)),
        Kind::Scalar {
            text,
            implicit: true,
            ..
        } => Ok(Scalar::plain(text)),
        Kind::Scalar { text, .. } => Ok(Scalar::Text(text.into())),
        _ => Err(DocumentError::new(node.start, "expected a scalar")),
    }
}

fn allowed_alias_ratio(decoded: f64) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    0.99 - 0.89 * ((decoded - LOW) / (HIGH - LOW)).clamp(0.0, 1.0)
}
