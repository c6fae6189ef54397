//! Which objects are being applied at this moment, and for whom.
//!
//! An object that two bundles hold is refused to the second one, since it belongs to the first. Two that look at the same
//! moment would both find it free, and the later one would take it over by force.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use manifests::object::Identity;

/// All claims, by object: the name of the instance, and how many of its claims have the object.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<Identity, (String, usize)>>);

/// Given back when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Arc<Claims>,
    objects: Vec<Identity>,
}

impl Claims {
    /// Claims all of the objects, or none. An instance may claim an object more than once.
    ///
    /// # Errors
    /// When others have some of them: which, and who.
    pub(super) fn claim(
        self: &Arc<Self>,
        instance: &str,
        objects: impl IntoIterator<Item = Identity>,
    ) -> Result<Claim, BTreeMap<Identity, String>> {
        let objects: Vec<Identity> = objects.into_iter().collect();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
            let claim = all.entry(object.clone());
            claim.or_insert_with(|| (instance.to_owned(), 0)).1 += 1;
        }
        Ok(Claim {
            claims: Arc::clone(self),
            objects,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut all = self.claims.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// The refusal, for each object on a line of its own.
pub(super) fn refusal(others: &BTreeMap<Identity, String>) -> String {
    const MOST: usize = 20;
    let mut lines: Vec<String> = others
        .iter()
        .take(MOST)
        .map(|(object, instance)| {
            format!(
                "{object} is just being applied for BundleInstance {instance}: delete that BundleInstance, or remove the \
                 object from one of the two bundles"
            )
        })
        .collect();
    if others.len() > MOST {
        lines.push(format!("and {} more like these", others.len() - MOST));
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
    fn all_or_nothing_is_claimed_until_the_claim_ends() {
        let claims = Arc::new(Claims::default());
        let first = claims.claim("one", [object("a"), object("b")]).unwrap();
        let others = claims.claim("two", [object("b"), object("c")]).unwrap_err();
        assert_rows! {
            others => BTreeMap::from([(object("b"), "one".to_owned())]);
            refusal(&others).starts_with("ConfigMap default/b is just being applied for BundleInstance one: ") => true;
        }
        // What was not given was not kept back either.
        let second = claims.claim("two", [object("c")]).unwrap();
        drop(first);
        claims.claim("three", [object("a"), object("b")]).unwrap();
        claims.claim("three", [object("c")]).unwrap_err();
        drop(second);
        let third = claims.claim("three", [object("c")]).unwrap();
        let again = claims.claim("three", [object("c"), object("d")]).unwrap();
        drop(third);
        claims.claim("two", [object("c")]).unwrap_err();
        drop(again);
        claims.claim("two", [object("c"), object("d")]).unwrap();
        assert!(claims.0.lock().unwrap().is_empty());
    }
}
