//! The `rukpak` command.
fn main() {}
