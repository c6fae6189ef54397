//! Readiness: the process is ready as soon as all readiness tasks are dropped.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

/// Open readiness tasks. Clones share the list.
///
/// ```
/// let ready = provisioner::runtime::readiness::Readiness::default();
/// let task = ready.task("watch Bundles");
/// assert_eq!(ready.waiting(), ["watch Bundles"]);
/// task.done();
/// assert!(ready.waiting().is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    open: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

/// A readiness task. Dropping it marks it as done.
#[derive(Debug)]
#[must_use = "dropping it marks the task as done"]
pub struct ReadinessTask {
    name: &'static str,
    ready: Readiness,
}

impl Readiness {
    /// Adds a task. `/readyz` lists the names of open tasks.
    pub fn task(&self, name: &'static str) -> ReadinessTask {
        *self.open.lock().entry(name).or_default() += 1;
        ReadinessTask {
            name,
            ready: self.clone(),
        }
    }

    /// Returns the names of the open tasks.
    pub fn waiting(&self) -> Vec<&'static str> {
        self.open.lock().keys().copied().collect()
    }
}

impl ReadinessTask {
    /// Marks the task as done.
    pub fn done(self) {}
}

impl Drop for ReadinessTask {
    fn drop(&mut self) {
        let mut open = self.ready.open.lock();
        if let Some(count) = open.get_mut(self.name) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_name_is_waiting_until_all_its_tasks_end() {
        let ready = Readiness::default();
        let (first, second, other) = (ready.task("watch"), ready.task("watch"), ready.task("open"));
        drop(first);
        assert_eq!(ready.waiting(), ["open", "watch"]);
        second.done();
        assert_eq!(ready.waiting(), ["open"]);
        drop(other);
        assert!(ready.waiting().is_empty());
    }
}
