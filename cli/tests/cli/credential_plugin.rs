//! A credential plugin that hangs.

use std::{
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    bundle::{Args as _, Workspace},
    serve::kill,
};

/// Kubeconfig of a plugin that creates the file `started`. The plugin does not inherit the streams of the command, which
/// would remain open.
const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {exec: {command: sh, args: [-c, "touch started; exec sleep 30"], interactiveMode: Never}}}]
"#;

#[test]
fn signals_and_timeouts_end_the_wait_for_a_plugin() {
    let workspace = Workspace::new();
    workspace.write("kubeconfig", KUBECONFIG);
    let mut command = workspace.command();
    let command = command.args("status --kubeconfig kubeconfig".words());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    while !workspace.path("started").exists() {
        assert_eq!(child.try_wait().unwrap(), None);
        sleep(Duration::from_millis(20));
    }
    // The command may not handle signals yet when the plugin starts.
    sleep(Duration::from_millis(500));
    let start = Instant::now();
    kill(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(start.elapsed() < Duration::from_secs(5));

    tests::assert_runs! { workspace;
        "cleanup tide --kubeconfig kubeconfig --timeout 1s"
            => 1, "", "timed out after 1s while connecting to the cluster; increase --timeout";
    }
}
