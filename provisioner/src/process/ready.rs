//! Readiness: whoever has something to do before the process is of use takes a task, and drops it when it is done.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What is still to be done before the process is ready. Clones are the same list.
///
/// ```
/// let ready = provisioner::process::Ready::default();
/// let task = ready.task("watch Bundles");
/// assert_eq!(ready.waiting(), ["watch Bundles"]);
/// task.done();
/// assert!(ready.waiting().is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Ready {
    open: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

/// Something that is to be done first. Dropping it says that it is done.
#[derive(Debug)]
#[must_use = "dropping it says that it is done"]
pub struct Task {
    name: &'static str,
    ready: Ready,
}

impl Ready {
    /// Begins a task. Its name is shown to whoever asks why the process is not ready.
    pub fn task(&self, name: &'static str) -> Task {
        *self.lock().entry(name).or_default() += 1;
        Task {
            name,
            ready: self.clone(),
        }
    }

    /// What is not done yet.
    pub fn waiting(&self) -> Vec<&'static str> {
        self.lock().keys().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    /// It is done.
    pub fn done(self) {}
}

impl Drop for Task {
    fn drop(&mut self) {
        let mut open = self.ready.lock();
        if let Some(left) = open.get_mut(self.name) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                open.remove(self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_open_until_every_task_of_it_is_done() {
        let ready = Ready::default();
        let (first, second, other) = (ready.task("watch"), ready.task("watch"), ready.task("open"));
        drop(first);
        assert_eq!(ready.waiting(), ["open", "watch"]);
        second.done();
        assert_eq!(ready.waiting(), ["open"]);
        drop(other);
        assert!(ready.waiting().is_empty());
    }
}
