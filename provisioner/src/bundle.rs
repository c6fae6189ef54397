//! The Bundle controller: content is resolved, fetched, checked and stored, once.

pub mod upload;
