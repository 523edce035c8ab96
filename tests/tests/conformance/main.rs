//! Runs the conformance suite on every kind of store. Each case is a test, such as
//! `memory::eviction::the_least_recently_used_goes_first`.
//!
//! A case that needs more than a kind of store has is ignored, and says what it needs.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use warmstart_tests::conformance::{Case, KINDS, cases};

fn main() -> ExitCode {
    let cases: &'static [Case] = cases().leak();
    let trials = KINDS.iter().copied().flat_map(|kind| {
        // Made once per kind: under nextest, every test is a process that runs this.
        let any = kind.new.place();
        let cases = cases.iter().filter(|case| kind.topics.contains(&case.topic));
        cases.map(move |case| {
            let unmet = case.unmet(&any);
            let name = format!("{}::{}::{}", kind.name, case.topic, case.name);
            let trial = Trial::test(name, move || {
                case.play(&kind.new.place());
                Ok(())
            });
            if unmet.is_empty() {
                return trial;
            }
            trial.with_ignored_flag(true).with_kind(format!("needs {}", unmet.join(" and ")))
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
