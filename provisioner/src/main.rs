//! The provisioner.

fn main() {}
