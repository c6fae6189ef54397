//! Queue of instances that wait for a slot, first in, first out. Pure; no I/O.

use std::collections::{HashMap, HashSet, VecDeque};

/// A queue with operations in constant time, so that thousands of instances can wait.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Names in order; a name that is not in `names` has left the queue.
    order: VecDeque<String>,
    names: HashSet<String>,
    /// Instances with a granted slot, and whether a reconcile has started since the grant.
    called: HashMap<String, bool>,
}

impl Line {
    /// Adds an instance unless it is queued already.
    pub(super) fn join(&mut self, name: &str) {
        if self.names.insert(name.to_owned()) {
            self.order.push_back(name.to_owned());
        }
    }

    /// Removes an instance that has started or was deleted.
    pub(super) fn leave(&mut self, name: &str) {
        self.called.remove(name);
        self.names.remove(name);
        if self.names.is_empty() {
            self.order.clear();
        }
    }

    /// Grants slots to the first `count` instances, and returns their names.
    pub(super) fn call(&mut self, count: usize) -> Vec<String> {
        let mut called = Vec::new();
        while called.len() < count
            && let Some(name) = self.order.pop_front()
        {
            if self.names.remove(&name) {
                self.called.insert(name.clone(), false);
                called.push(name);
            }
        }
        called
    }

    /// Returns the number of granted slots that are not taken yet.
    pub(super) fn called(&self) -> usize {
        self.called.len()
    }

    /// Returns the number of granted slots of other instances that are not taken yet.
    pub(super) fn called_besides(&self, name: &str) -> usize {
        self.called.len() - usize::from(self.called.contains_key(name))
    }

    /// Returns the queued instances, in no particular order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// Records the start of a reconcile of an instance.
    pub(super) fn begin_reconcile(&mut self, name: &str) {
        if let Some(has_begun) = self.called.get_mut(name) {
            *has_begun = true;
        }
    }

    /// Records the end of a reconcile. A slot that was granted before its start and was not taken is released.
    pub(super) fn end_reconcile(&mut self, name: &str) {
        if self.called.get(name) == Some(&true) {
            self.called.remove(name);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.names.is_empty() && self.called.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requeued_instance_has_one_place() {
        let mut line = Line::default();
        for name in ["a", "b", "c"] {
            line.join(name);
        }
        line.leave("b");
        line.join("b");
        // The old place of b still counts, as b waits again; the new place is not a second one.
        assert_eq!(line.call(5), ["a", "b", "c"]);
        assert_eq!((line.called(), line.called_besides("a")), (3, 2));
        for name in ["a", "b", "c"] {
            line.begin_reconcile(name);
            line.end_reconcile(name);
        }
        assert!(line.is_empty());
    }
}
