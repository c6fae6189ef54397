//! The BundleInstance controller.
