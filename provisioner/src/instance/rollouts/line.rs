//! Instances that wait for a turn: first come, first served.

use std::collections::{HashMap, HashSet, VecDeque};

/// A line. All operations take constant time, so that thousands of instances can wait.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// In order; a name that is not in `names` has left.
    order: VecDeque<String>,
    names: HashSet<String>,
    /// The instances whose turn it is, and whether a reconcile has begun since.
    called: HashMap<String, bool>,
}

impl Line {
    /// An instance waits, unless it does so already.
    pub(super) fn join(&mut self, name: &str) {
        if self.names.insert(name.to_owned()) {
            self.order.push_back(name.to_owned());
        }
    }

    /// An instance has begun, or is gone.
    pub(super) fn leave(&mut self, name: &str) {
        self.called.remove(name);
        self.names.remove(name);
        if self.names.is_empty() {
            self.order.clear();
        }
    }

    /// Calls so many instances, and returns their names.
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

    /// Returns how many instances were called and have not begun yet.
    pub(super) fn called(&self) -> usize {
        self.called.len()
    }

    /// Returns how many other instances were called and have not begun yet.
    pub(super) fn called_besides(&self, name: &str) -> usize {
        self.called.len() - usize::from(self.called.contains_key(name))
    }

    /// Returns the instances that wait, in no order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// A reconcile of an instance begins.
    pub(super) fn begin_reconcile(&mut self, name: &str) {
        if let Some(has_begun) = self.called.get_mut(name) {
            *has_begun = true;
        }
    }

    /// A reconcile of an instance has ended: if it began after the call, the turn is over.
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
    fn an_instance_that_comes_back_has_one_place() {
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
