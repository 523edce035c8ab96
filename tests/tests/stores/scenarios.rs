//! Every expectation of every scenario is asked: whatever one of them says otherwise, the scenario fails.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

use serde_json::{Value, json};
use warmstart_tests::{
    conformance::stores::Files,
    own_process,
    scenario::{self, FILES},
};

/// The expectations of a step that can be falsified: the path of each, and a wrong value for it.
fn otherwise(step: &Value) -> Vec<(String, Value)> {
    let (word, what) = step.as_object().unwrap().iter().next().unwrap();
    let at = |field: &str| format!("/{word}/{field}");
    let more = |field: &str| (at(field), json!(what[field].as_u64().unwrap_or_default() + 1));
    let not = |field: &str| (at(field), json!(!what[field].as_bool().unwrap()));
    let another = |field: &str| (at(field), json!(if what[field] == "busy" { "closed" } else { "busy" }));
    let shorter =
        |list: &Value| json!(list.as_array().unwrap().split_last().map_or(&[][..], |(_, rest)| rest));
    let given = |field: &&str| !what[*field].is_null();
    match word.as_str() {
        "put" if what["refused"].is_null() => {
            let refused = (at("refused"), json!("busy"));
            [refused].into_iter().chain(Some("evicts").filter(given).map(more)).collect()
        }
        "put" => vec![another("refused"), (at("refused"), Value::Null)],
        "get" if what["version"].is_null() => vec![another("misses")],
        "get" => {
            let misses = what.as_object().unwrap().iter().filter(|(field, _)| *field == "key");
            let mut misses: serde_json::Map<_, _> = misses.map(|(k, v)| (k.clone(), v.clone())).collect();
            misses.insert("misses".into(), json!("absent"));
            vec![more("version"), ("/get".into(), Value::Object(misses))]
        }
        "has" => vec![not("is")],
        "remove" => vec![not("was")],
        "held" if what["are"] == json!([]) => vec![(at("are"), what["of"].clone())],
        "held" => vec![(at("are"), shorter(&what["are"]))],
        "len" => vec![("/len".into(), json!(what.as_u64().unwrap() + 1))],
        "refuses" => vec![another("reason")],
        "stored" => vec![(at("hex"), json!("00"))],
        "verify" => {
            let damaged = Some("damaged").filter(given).map(|field| (at(field), json!([])));
            [(at("whole"), shorter(&what["whole"]))].into_iter().chain(damaged).collect()
        }
        "entries" if *what == json!([]) => vec![("/entries".into(), json!([{ "key": "k" }]))],
        "entries" => {
            let mut turned = what.as_array().unwrap().clone();
            turned.rotate_left(1);
            let other = [("/entries".into(), shorter(what)), ("/entries".into(), json!(turned))];
            other.into_iter().filter(|(_, other)| other != what).collect()
        }
        "nearest" if what["is"].is_null() => vec![(at("is"), what["to"].clone())],
        "nearest" => vec![(at("is"), Value::Null), (at("is"), what["to"].clone())],
        "prune" => vec![more("removes")],
        "build" => {
            let refused = Some("refused").filter(given).map(|field| (at(field), Value::Null));
            let fails = Some("fails").filter(given).map(not);
            let stored = (at("refused"), json!("busy"));
            let stored = Some(stored).filter(|_| what["refused"].is_null() && what["fails"].is_null());
            [another("misses")].into_iter().chain(refused).chain(fails).chain(stored).collect()
        }
        "find" => vec![more("version")],
        "statistics" => {
            let other = |count: &Value| match count {
                Value::Number(n) => json!(n.as_u64().unwrap() + 1),
                count if count["at_least"].is_null() => json!({ "busy": 77 }),
                _ => json!({ "at_least": 1_000_000 }),
            };
            what.as_object().unwrap().iter().map(|(name, count)| (at(name), other(count))).collect()
        }
        _ => Vec::new(),
    }
}

/// The places of all steps, those within others too.
fn places(steps: &Value, at: &str, found: &mut Vec<String>) {
    for (n, step) in steps.as_array().unwrap().iter().enumerate() {
        let at = format!("{at}/{n}");
        found.push(at.clone());
        let (word, what) = step.as_object().unwrap().iter().next().unwrap();
        if what["steps"].is_array() {
            places(&what["steps"], &format!("{at}/{word}/steps"), found);
        }
    }
}

#[test]
fn every_expectation_is_asked() {
    own_process!(|| {
        // The failures here are intended.
        set_hook(Box::new(|_| ()));
        let mut unasked = Vec::new();
        let mut asked = 0;
        for (topic, text) in FILES {
            let scenarios: Value = serde_json::from_str(text).unwrap();
            for scenario in scenarios.as_array().unwrap() {
                let mut found = Vec::new();
                places(&scenario["steps"], "/steps", &mut found);
                for place in found {
                    for (field, value) in otherwise(scenario.pointer(&place).unwrap()) {
                        let mut altered = scenario.clone();
                        let (parent, name) = field.rsplit_once('/').unwrap();
                        let parent = altered.pointer_mut(&format!("{place}{parent}")).unwrap();
                        parent[name] = value;
                        let altered = serde_json::from_value(altered).unwrap();
                        let played = || scenario::play(&altered, &Files::new(None));
                        asked += 1;
                        if catch_unwind(AssertUnwindSafe(played)).is_ok() {
                            unasked.push(format!("{topic}: {}{place}{field}", scenario["name"]));
                        }
                    }
                }
            }
        }
        assert!(unasked.is_empty(), "{unasked:#?}");
        assert!(asked > 200, "{asked}");
    });
}
