//! The product beside the real OLM v0: its two controllers run on a separate node.
//!
//! ```text
//!  rukpak catalog serve, or a pod of ours ── gRPC ── catalog-operator ── unpack Job ── olm-operator ── operator
//! ```

mod command;
mod failed;
mod gate;
mod guard;
mod index;
mod killed;
mod large;
mod page;
mod rights;
mod run;
mod served;
mod switch;
mod traditional;
mod world;
