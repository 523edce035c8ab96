//! A fleet of simulated machines starts, with each trouble apart: 10,000 machines with optimisations, and 200 without.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use std::io;

use warmstart_tests::simulation::{Outcome, Scenario, engine::Kind, run, scenario};

const MACHINES: usize = if cfg!(debug_assertions) { 200 } else { 10_000 };

fn named(name: &str) -> Scenario {
    scenario::all(MACHINES).into_iter().find(|scenario| scenario.name == name).expect("it is listed")
}

/// Plays a scenario. Whatever goes wrong in it, each machine that lives ends with the right kernels.
fn play(scenario: &Scenario) -> Outcome {
    let outcome = run(scenario, &mut io::sink()).unwrap();
    println!("{}", outcome.row(scenario));
    assert_eq!(outcome.wrong, 0, "{}", scenario.name);
    outcome
}

/// Checks that the machines share the builds, with few requests, and are warm in a tenth of the time of single calls.
fn check_shared(name: &str) {
    let scenario = named(name);
    let (outcome, single) = (play(&scenario), play(&scenario.as_loop()));
    assert_eq!(outcome.builds, 80, "at most 1.01 a kernel");
    let requests = outcome.requests_each(&scenario);
    // A small fleet is busier: most of its machines build.
    let bound = if cfg!(debug_assertions) { 25.0 } else { 20.0 };
    assert!(requests <= bound, "{requests} requests a machine");
    let downloads = outcome.downloads / MACHINES as u64;
    assert!(downloads <= 80, "each object is fetched once: {downloads}");
    let (many, single) = (outcome.percentile(50), single.percentile(50));
    assert!(many <= single / 10.0, "{many} s against {single} s");
}

/// Checks that each death and each pause costs one build at most, and returns how many there were.
fn check_troubled(scenario: &Scenario) -> u64 {
    let outcome = play(scenario);
    let trouble = outcome.deaths + outcome.pauses;
    assert!(outcome.builds <= 80 + trouble, "{}: {} builds", scenario.name, outcome.builds);
    trouble
}

#[test]
fn a_healthy_redis_is_shared() {
    check_shared("Redis");
}

#[test]
fn a_healthy_redis_is_shared_by_all_at_once() {
    check_shared("Redis, all at once");
}

#[test]
fn a_limited_redis_is_shared() {
    check_shared("Redis, 5,000 requests/s");
}

#[test]
fn objects_with_the_latency_of_s3_are_shared() {
    check_shared("objects");
}

#[test]
fn objects_are_shared_by_all_at_once() {
    check_shared("objects, all at once");
}

#[test]
fn objects_with_limited_prefixes_are_shared() {
    check_shared("objects, all at once, 5,500 reads/s in each of 32 prefixes");
}

/// 800,000 downloads take 145 s then, whatever asks for them.
#[test]
fn objects_in_one_limited_prefix_are_no_slower_than_a_loop() {
    let scenario = named("objects, 5,500 reads/s in all");
    let (outcome, single) = (play(&scenario), play(&scenario.as_loop()));
    assert!(outcome.percentile(50) <= single.percentile(50));
    assert!(outcome.percentile(100) <= 60.0 + 100.0 + 20.0, "the timeout, and all builds");
}

#[test]
fn deaths_of_one_builder_in_a_hundred_cost_a_build_each() {
    let mut deaths = 0;
    for seed in 1..=4 {
        deaths += check_troubled(&Scenario { seed, ..named("Redis, 1 % of builders die") });
        deaths += check_troubled(&Scenario { seed, ..named("objects, 1 % of builders die") });
    }
    assert!(deaths > 0);
}

#[test]
fn deaths_of_one_builder_in_five_cost_a_build_each() {
    check_troubled(&named("Redis, 20 % of builders die"));
    check_troubled(&named("objects, 20 % of builders die"));
}

#[test]
fn pauses_beyond_the_ttl_cost_a_build_each() {
    check_troubled(&named("Redis, 20 % of builders pause"));
    check_troubled(&named("objects, 20 % of builders pause"));
}

#[test]
fn skewed_clocks_cost_no_build() {
    check_troubled(&named("Redis, skewed clocks"));
    check_troubled(&named("objects, skewed clocks"));
}

#[test]
fn lost_answers_cost_no_build() {
    check_troubled(&named("Redis, 1 % of answers lost"));
    check_troubled(&named("objects, 1 % of answers lost"));
}

#[test]
fn an_engine_that_ignores_conditions_has_no_leases() {
    let scenario = named("objects, conditions ignored");
    let mut trace = Vec::new();
    let outcome = run(&scenario, &mut trace).unwrap();
    println!("{}", outcome.row(&scenario));
    assert_eq!(outcome.wrong, 0);
    let trace = String::from_utf8(trace).unwrap();
    assert!(trace.contains(" probe ") && !trace.contains(" claim ") && !trace.contains(" renew "));
}

#[test]
fn a_dead_engine_costs_one_timeout_and_no_build() {
    let scenario = named("Redis, dead");
    let outcome = play(&scenario);
    assert_eq!((outcome.timeouts, outcome.builds), (1, 80 * MACHINES as u64));
    let alone = scenario.kernels.iter().sum::<u64>();
    // The deadline of one request on Redis is 200 ms.
    assert_eq!(outcome.times.last(), Some(&(alone + 200_000)));
}

#[test]
fn an_engine_that_dies_costs_one_timeout() {
    let outcome = play(&named("Redis, dead after 5 s"));
    assert_eq!(outcome.timeouts, 1);
    assert!(outcome.percentile(100) <= 106.0, "{}", outcome.percentile(100));
}

#[test]
fn several_workers_share_the_claims_of_a_machine() {
    for kind in [Kind::Redis, Kind::Objects] {
        let outcome = play(&Scenario { workers: 4, ..Scenario::new("4 workers", kind, 50) });
        assert_eq!(outcome.builds, 80);
    }
}

#[test]
fn one_seed_has_one_trace_and_another_has_another() {
    let trace = |seed| {
        let mut trace = Vec::new();
        let troubled = named("Redis, 20 % of builders die");
        let scenario = Scenario { seed, machines: 200, pauses: 50, has_skew: true, ..troubled };
        let outcome = run(&scenario, &mut trace).unwrap();
        (outcome, trace)
    };
    let (first, again, other) = (trace(1), trace(1), trace(2));
    assert!(first == again, "byte for byte");
    assert!(first.0.digest != other.0.digest && first.1 != other.1);
    let fleet = named("objects");
    assert_eq!(play(&fleet), play(&fleet));
}

#[test]
fn an_entry_of_another_kernel_is_noticed() {
    let mut scenario = Scenario::new("mixed up", Kind::Redis, 20);
    scenario.engine.mixes_up = true;
    assert!(run(&scenario, &mut io::sink()).unwrap().wrong > 0);
}
