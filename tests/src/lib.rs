//! Helpers that the acceptance tests share.
