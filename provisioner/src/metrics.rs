//! What is counted. Labels come from enums: no names of objects.

/// Everything that is counted.
pub struct Metrics {}

/// Whose reconciles are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Controller {
    /// Of Bundles.
    Bundle,
    /// Of BundleInstances.
    Instance,
}

/// Measures one reconcile until it is dropped.
pub struct Measure {}

impl Metrics {
    /// All zero.
    pub fn new() -> Self {
        todo!()
    }

    /// Counts a reconcile, and times it until the result is dropped.
    pub fn reconcile(&self, controller: Controller) -> Measure {
        todo!()
    }

    /// A reconcile failed: by the reason of a condition.
    pub fn failed(&self, controller: Controller, reason: &'static str) {
        todo!()
    }

    /// Objects that were applied and really changed.
    pub fn applied(&self, objects: u64) {
        todo!()
    }

    /// Objects that were repaired.
    pub fn repaired(&self, objects: u64) {
        todo!()
    }

    /// Bytes of content that were unpacked.
    pub fn unpacked(&self, bytes: u64) {
        todo!()
    }

    /// The text for Prometheus.
    pub fn render(&self) -> String {
        todo!()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
