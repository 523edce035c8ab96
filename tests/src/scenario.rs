//! The expectations that are told as data: `tests/scenarios/*.json`, played on any store.
//!
//! The npm package plays the same files in a browser. `tests/scenarios/README.md` says what each word means.
//!
//! | module | holds |
//! |---|---|
//! | [`script`] | a scenario and its steps, as they are parsed |
//! | [`words`] | the words within steps: keys, sizes, versions and limits |
//! | `player` | what plays a scenario on the store of a harness |
//! | `telling` | what compares what a store tells about itself |
//! | `damage` | how stored bytes are altered |

mod damage;
mod player;
pub mod script;
mod telling;
pub mod words;

use crate::{
    conformance::Harness,
    scenario::{player::Player, script::Scenario},
};

/// The files, by topic.
pub const FILES: [(&str, &str); 5] = [
    ("interface", include_str!("../scenarios/interface.json")),
    ("eviction", include_str!("../scenarios/eviction.json")),
    ("damage", include_str!("../scenarios/damage.json")),
    ("inspect", include_str!("../scenarios/inspect.json")),
    ("one_call", include_str!("../scenarios/one_call.json")),
];

/// The scenarios of a topic, in the order of their file; none if it has no file.
///
/// # Panics
/// If the file says something that is no word of a scenario.
#[must_use]
pub fn of(topic: &str) -> Vec<Scenario> {
    let Some((_, text)) = FILES.iter().find(|(name, _)| *name == topic) else { return Vec::new() };
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{topic}.json: {error}"))
}

impl Scenario {
    /// Returns what the scenario needs and the store of a harness lacks, in words.
    #[must_use]
    pub fn unmet(&self, harness: &dyn Harness) -> Vec<&'static str> {
        let unmet = self.needs.iter().filter(|need| !need.is_met_by(harness));
        unmet.map(|need| need.words()).collect()
    }
}

/// Plays a scenario.
///
/// # Panics
/// If the store cannot do what it [needs](Scenario::unmet), or does not do what it says.
pub fn play(scenario: &Scenario, harness: &dyn Harness) {
    let unmet = scenario.unmet(harness);
    assert!(unmet.is_empty(), "{} needs {}", scenario.name, unmet.join(" and "));
    Player::new(harness, scenario).play(&scenario.steps);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scenario that expects nothing would pass on any store.
    #[test]
    fn every_scenario_says_what_it_proves_and_expects_something() {
        for (topic, _) in FILES {
            for scenario in of(topic) {
                assert!(scenario.proves.ends_with('.'), "{}: {}", scenario.name, scenario.proves);
                assert!(scenario.steps.iter().any(script::Step::expects), "{}", scenario.name);
            }
        }
    }

    #[test]
    fn unknown_word_is_no_scenario() {
        for step in [r#"{"putt": {"key": "k"}}"#, r#"{"put": {"key": "k", "evict": 1}}"#, r#"{"put": {}}"#] {
            assert!(serde_json::from_str::<script::Step>(step).is_err(), "{step}");
        }
    }
}
