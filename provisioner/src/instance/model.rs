//! A property of the engine: whatever happens to an instance, its objects and its records, no rule is broken.
//!
//! ```text
//!  operations ──► Server (objects, records, status) ◄──requests── Controller (the decisions of the engine, in their order)
//!                   │ reports requests that break a rule
//!                   └─ after each reconcile: the installed objects exist, and Healthy does not claim more than is true
//! ```
//!
//! The controller of the model calls the decisions that the controller of the process calls; only requests are simulated.
//! A process can be killed before each request. In the end all faults are removed: the instance converges, and is removed
//! without a trace. The sequences are the same in each run. `PROPTEST_CASES` sets the number of random ones instead.

mod attempt;
mod content;
mod controller;
mod invariants;
mod live;
mod maintenance;
mod operations;
mod registry;
mod rules;
mod server;

use std::collections::BTreeSet;

use manifests::api::{
    instance::{BundleInstance, BundleInstanceSpec},
    labels,
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};
use serde_json::json;

use self::{
    content::Content,
    controller::Controller,
    operations::{Operation, operation},
    registry::Registry,
    server::Server,
};

/// The number of bundles that templates name.
const BUNDLES: usize = 3;
/// The largest number of operations in a sequence.
const MAX_OPERATIONS: usize = 30;
/// The number of sequences.
const CASES: u32 = 160;

/// The instance and everything around it.
struct World {
    server: Server,
    registry: Registry,
    controller: Controller,
}

impl World {
    fn new(contents: Vec<Content>) -> Self {
        let spec: BundleInstanceSpec = serde_json::from_value(json!({
            "provisionerClassName": "core-rukpak-io-plain",
            "template": {"metadata": {"labels": {"content": "0"}}, "spec": {"source": {"type": "upload"}}},
            "revisionHistoryLimit": 2,
        }))
        .unwrap();
        let mut instance = BundleInstance::new("model", spec);
        instance.metadata.uid = Some("uid-of-model".to_owned());
        instance.metadata.generation = Some(1);
        instance.metadata.finalizers = Some(vec![labels::UNINSTALL.to_owned()]);
        Self {
            server: Server::new(instance),
            registry: Registry {
                contents,
                is_reachable: true,
                bundles: Vec::new(),
                stored: BTreeSet::new(),
                minor: 30,
            },
            controller: Controller::default(),
        }
    }

    /// Reconciles once; a process that is killed starts again without its memory. The answer says whether the reconcile
    /// ended.
    fn reconcile(&mut self) -> bool {
        let result = self
            .controller
            .reconcile(&mut self.server, &mut self.registry);
        self.server.fuse = None;
        if result.is_err() {
            self.controller = Controller::default();
        }
        result.is_ok()
    }

    /// Runs an operation, reconciles, and checks.
    fn step(&mut self, operation: &Operation) -> Result<(), String> {
        operation.run(&mut self.server, &mut self.registry, &mut self.controller);
        if self.reconcile() {
            invariants::check_installed(&mut self.server);
        }
        invariants::check_status(&mut self.server);
        self.verdict()
    }

    fn verdict(&self) -> Result<(), String> {
        let violations = &self.server.violations;
        violations
            .first()
            .map_or(Ok(()), |first| Err(first.clone()))
    }
}

/// Runs a sequence of operations, and returns the first rule that is broken.
fn run(contents: Vec<Content>, operations: &[Operation]) -> Result<(), String> {
    let mut world = World::new(contents);
    world.reconcile();
    world.verdict()?;
    for operation in operations {
        world.step(operation)?;
    }
    invariants::converge(&mut world)?;
    invariants::uninstall(&mut world)
}

#[test]
fn engine_breaks_no_rule_whatever_happens() {
    let contents = prop::collection::vec(content::content(), BUNDLES);
    let operations = prop::collection::vec(operation(), 1..MAX_OPERATIONS);
    let mut config = Config {
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let mut runner = if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        TestRunner::new_with_rng(config, random)
    } else {
        TestRunner::new(config)
    };
    let result = runner.run(&(contents, operations), |(contents, operations)| {
        run(contents, &operations).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, (contents, operations))) => {
            panic!("{reason}\nbundles: {contents:?}\noperations: {operations:?}")
        }
        Err(error) => panic!("{error}"),
    }
}
