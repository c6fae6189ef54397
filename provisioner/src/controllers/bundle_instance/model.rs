//! A property of the engine: no sequence of operations on an instance, its objects and its records breaks a rule.
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
mod lost_content;
mod maintenance;
mod operations;
mod registry;
mod rollbacks;
mod rules;
mod server;

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    health::Health,
    informers::{InstanceView, ObservedObject},
    inventory::Inventory,
    managed_fields::Fingerprint,
    plan::{self, ApplyStep, InstanceOwner, Plan, PruneCandidate, Wave, is_definition},
    preflight::ownership,
    revision::{self, ObjectHash},
    ssa,
};
use jiff::Timestamp;
use kube::ResourceExt as _;
use manifests::{
    api::{
        bundle::Bundle,
        bundle_instance::{
            BundleInstance, BundleInstanceStatus as Status, Cause, RevisionStatus,
            ServiceAccountRef, ready::Declaration,
        },
        condition, labels,
        revision::RevisionDetails,
    },
    object::{Identity, Object},
    version::KubeVersion,
};
use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};
use serde_json::{Map, Value, json};

use self::{
    content::{CRD_NAME, Content, NAMESPACE},
    controller::{Controller, Run, failure, listed, settled},
    live::{Live, annotation, leaves},
    operations::{Operation, operation},
    registry::Registry,
    server::{Killed, Phase, Server},
};
use super::{
    inventory_status,
    outcome::{
        CompletedRollout, Failure, Outcome, Remedy, RepairedInventory, RetryClass, RolledBack,
        RolloutState,
    },
    repair, revisions,
    rollout::{self, Rendered, RolloutResult, Source, Target, inventory, prune_candidates},
    status, template,
};

const BUNDLES: usize = 3;
const MAX_OPERATIONS: usize = 30;
const CASES: u32 = 160;

struct World {
    server: Server,
    controller: Controller,
}

impl World {
    fn new(contents: Vec<Content>) -> Self {
        let template = json!({"metadata": {"labels": {"content": "0"}}, "spec": {"source": {"type": "upload"}}});
        let instance = object!({
            "metadata": {"name": "model", "uid": "uid-of-model", "generation": 1, "finalizers": [labels::UNINSTALL]},
            "spec": {"template": template, "revisionHistoryLimit": 2},
        });
        Self {
            server: Server::new(instance, contents),
            controller: Controller::default(),
        }
    }

    /// Reconciles once; a process that is killed starts again without its memory. The answer says whether the reconcile
    /// ended.
    fn reconcile(&mut self) -> bool {
        let result = self.controller.reconcile(&mut self.server);
        self.server.fuse = None;
        if result.is_err() {
            self.controller = Controller::default();
        }
        result.is_ok()
    }

    fn step(&mut self, operation: &Operation) -> Result<(), String> {
        operation.run(&mut self.server, &mut self.controller);
        if self.reconcile() {
            invariants::check_installed(&mut self.server);
        }
        invariants::check_status(&mut self.server);
        self.verdict()
    }

    fn verdict(&self) -> Result<(), String> {
        let mut violations = self.server.violations.iter().cloned();
        violations.next().map_or(Ok(()), Err)
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
fn no_sequence_of_operations_breaks_a_rule() {
    let contents = prop::collection::vec(content::content(), BUNDLES);
    let operations = prop::collection::vec(operation(), 1..MAX_OPERATIONS);
    let mut config = with!(Config, failure_persistence: None, max_shrink_iters: 20_000);
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
