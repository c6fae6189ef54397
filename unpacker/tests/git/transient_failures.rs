//! Transient failures of servers and networks.

use crate::*;

fn posts(server: &ScriptedServer) -> usize {
    let requests = server.seen().into_iter();
    requests.filter(|request| request.method == "POST").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_failing_server_are_repeated() {
    let server = GitServer::start(None, None);
    let (first, _) = fill(&server.repository("repo.git"));
    let values = Values::default().with("first", first);
    // The first POST lists branches, unless the commit is known.
    let rows = r"
        # revision, answers to the first requests of POST, their number and the content
        busy           | main    | 503; Retry-After: 0 | 3 POST, manifests/a.yaml=two
        busy for long  | main    | 4 x 503; Retry-After: 0 | 6 POST, manifests/a.yaml=two
        no answer      | main    | 2 x nothing | 4 POST, manifests/a.yaml=two
        cut            | main    | nothing ~ pass 100 | 3 POST, manifests/a.yaml=two
        cut three times | main   | 3 x nothing ~ pass 250 | 5 POST, manifests/a.yaml=two
        busy           | {first} | 503; Retry-After: 0 | 2 POST, manifests/a.yaml=one
        busy for long  | {first} | 4 x 503; Retry-After: 0 | 5 POST, manifests/a.yaml=one
        no answer      | {first} | 2 x nothing | 3 POST, manifests/a.yaml=one
        cut            | {first} | nothing ~ pass 100 | 2 POST, manifests/a.yaml=one
        cut three times | {first} | 3 x nothing ~ pass 250 | 4 POST, manifests/a.yaml=one
    ";
    table::check(rows, &values, async |[revision, answers]: &[Cell; 2]| {
        let fragment = format!("{}:bundle", revision.text());
        let answers = answers.raw();
        let rules = format!("POST => {answers} then nothing ~ pass && nothing ~ pass");
        let broken = front(&rules, &server.host());
        let git = source(&broken.url("/repo.git"), &fragment);
        unpacker::git::resolve(&git, &brisk()).await.unwrap();
        let broken = front(&rules, &server.host());
        let found = outcome(&broken.url("/repo.git"), &fragment, &brisk()).await;
        format!("{} POST, {found}", posts(&broken))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fetch_of_an_always_truncated_pack_fails() {
    let server = GitServer::start(None, None);
    let files = [("a", noise(1, 160_000))];
    let hash = commit(&server.repository("repo.git"), "main", &files);
    let cut = "POST => nothing ~ pass 30000 && nothing ~ pass";
    let broken = front(cut, &server.host());
    let found = outcome(&broken.url("/repo.git"), &hash, &brisk()).await;
    assert_rows!((found.contains("interrupted after"), posts(&broken)) => (true, 5), "{found}");

    // The progress is that of the pack that arrived whole.
    let counted = async |rules: &str| {
        let broken = front(rules, &server.host());
        let git = source(&broken.url("/repo.git"), &hash);
        let (options, progress) = (Options::default(), Progress::default());
        let fetched = unpacker::git::fetch(&git, &brisk(), &options, &progress).await;
        fetched.unwrap();
        progress.done()
    };
    let twice = "POST => 2 x nothing ~ pass 30000 then nothing ~ pass && nothing ~ pass";
    assert_eq!(counted(twice).await, counted("nothing ~ pass").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_ssh_connection_is_opened_again() {
    let server = Sshd::start();
    let files = [("a", noise(1, 160_000))];
    commit(&server.repository("repo.git"), "main", &files);
    let twice = "2 x nothing ~ pass 30000 then nothing ~ pass";
    let broken = front(twice, &server.host());
    let url = server.url("repo.git");
    let url = url.replace(&server.host(), &broken.host());
    let known_hosts = server.known_hosts();
    let (_, key) = known_hosts.split_once(' ').unwrap();
    let access =
        with!(with_key(server.key(), format!("127.0.0.1 {key}")) => timeouts: brisk().timeouts);
    let found = outcome(&url, "main", &access).await;
    assert_rows!((found.starts_with("a="), broken.connections()) => (true, 3), "{found}");
}
