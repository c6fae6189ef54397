//! unpacker
