//! Locks of the objects that are being applied, by instance.
//!
//! An object that belongs to one bundle is not applied for another one. Two rollouts that check the owner at the same time
//! would both find the object free, and the later one would take it over with force.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use manifests::object::Identity;
use parking_lot::Mutex;

/// Locks by object: the name of the instance, and the number of its locks that include the object.
#[derive(Debug, Default)]
pub(crate) struct ApplyLocks(Mutex<HashMap<Identity, (String, usize)>>);

/// Locked objects of one instance; unlocked when dropped.
#[derive(Debug)]
pub(crate) struct ApplyLock {
    locks: Arc<ApplyLocks>,
    objects: Vec<Identity>,
}

impl ApplyLocks {
    /// Locks all of the objects, or none. An instance may lock an object more than once.
    ///
    /// # Errors
    /// Returns the objects that other instances have locked, with the names of these instances.
    pub(crate) fn try_lock(
        self: &Arc<Self>,
        instance: &str,
        objects: impl IntoIterator<Item = Identity>,
    ) -> Result<ApplyLock, BTreeMap<Identity, String>> {
        let objects: Vec<Identity> = objects.into_iter().collect();
        let mut all = self.0.lock();
        let others: BTreeMap<Identity, String> = objects
            .iter()
            .filter_map(|object| {
                let (name, _) = all.get(object).filter(|(name, _)| name != instance)?;
                Some((object.clone(), name.clone()))
            })
            .collect();
        if !others.is_empty() {
            return Err(others);
        }
        for object in &objects {
            let lock = all.entry(object.clone());
            lock.or_insert_with(|| (instance.to_owned(), 0)).1 += 1;
        }
        Ok(ApplyLock {
            locks: Arc::clone(self),
            objects,
        })
    }
}

impl Drop for ApplyLock {
    fn drop(&mut self) {
        let mut all = self.locks.0.lock();
        for object in &self.objects {
            if let Some((_, count)) = all.get_mut(object) {
                *count -= 1;
                if *count == 0 {
                    all.remove(object);
                }
            }
        }
    }
}

/// Returns the message about objects that other instances have locked, one line per object.
pub(crate) fn conflict_message(others: &BTreeMap<Identity, String>) -> String {
    const MAX_NAMED: usize = 20;
    let mut lines: Vec<String> = others
        .iter()
        .take(MAX_NAMED)
        .map(|(object, instance)| {
            format!(
                "{object} is being applied by BundleInstance {instance}; delete that BundleInstance, or remove the \
                 object from one of the two bundles"
            )
        })
        .collect();
    if others.len() > MAX_NAMED {
        lines.push(format!("and {} more like these", others.len() - MAX_NAMED));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Identity {
        crate::fixtures::identity("", "ConfigMap", "default", name)
    }

    #[test]
    fn locks_are_atomic_and_held_until_dropped() {
        let claims = Arc::new(ApplyLocks::default());
        let lock =
            |owner, names: &[&str]| claims.try_lock(owner, names.iter().map(|name| object(name)));
        let first = lock("one", &["a", "b"]).unwrap();
        let others = lock("two", &["b", "c"]).unwrap_err();
        assert_rows! {
            others => BTreeMap::from([(object("b"), "one".to_owned())]);
            conflict_message(&others).starts_with("ConfigMap default/b is being applied by BundleInstance one; ") => true;
        }
        // A failed attempt holds no locks.
        let second = lock("two", &["c"]).unwrap();
        drop(first);
        lock("three", &["a", "b"]).unwrap();
        lock("three", &["c"]).unwrap_err();
        drop(second);
        let third = lock("three", &["c"]).unwrap();
        let again = lock("three", &["c", "d"]).unwrap();
        drop(third);
        lock("two", &["c"]).unwrap_err();
        drop(again);
        lock("two", &["c", "d"]).unwrap();
        assert!(claims.0.lock().is_empty());
    }
}
