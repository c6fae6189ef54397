//! Bundles from real servers. The unit tests of the flags cover how servers are reached, and the crate unpacker covers
//! downloads; docs/sources.md covers all kinds of sources.

mod corpus;
pub(crate) mod memory;

use tests::Sshd;

use crate::bundle::Workspace;

#[test]
fn ssh_keys_and_known_hosts_are_those_of_the_user() {
    let workspace = Workspace::with_tide();
    let server = Sshd::start();
    let repository = server.repository("tide.git");
    repository.commit("main", &workspace.path("tide"));
    let source = format!("git+{}", server.url("tide.git"));
    workspace.write("home/.ssh/known_hosts", server.known_hosts());
    // The first key that the server accepts is used.
    workspace.write("home/.ssh/id_ed25519", server.strange_key());
    workspace.write("home/.ssh/id_rsa", server.key());
    let digests = [&*source, "tide"].map(|source| {
        let unpacked = workspace.ok(&format!("unpack {source} --format json"));
        unpacked.json()["digest"].clone()
    });
    assert_eq!(digests[0], digests[1]);
}
