//! The product beside the real OLM v0: OLM's two controllers run on separate nodes.
//!
//! ```text
//!  registry pod ── gRPC ── catalog-operator ── unpack Job ── olm-operator ── operator
//! ```

mod availability;
mod command;
mod docs;
mod environment;
mod failed;
mod index;
mod interrupted;
mod large;
mod preexisting;
mod run;
mod served;
mod switch;
mod write_proxy;
