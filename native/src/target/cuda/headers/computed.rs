//! Includes of macros: every name that a macro is defined as anywhere is one that may be included.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use foldhash::fast::RandomState;
use warmstart_core::includes::{Body, Computed, Scan, Trouble};

use super::{
    HeaderError,
    error::{Place, Problem},
    graph::Graph,
};

/// Macros that are the name of a file although no text defines them.
const FILE_MACROS: &[&str] = &["__FILE__", "__BASE_FILE__"];

/// Macros of the compiler that have no underscores to tell them by.
const PLAIN_MACROS: &[&str] = &["linux", "unix", "i386", "NULL"];

/// What the macros of all texts stand for.
struct Macros(HashMap<String, Macro, RandomState>);

#[derive(Default)]
struct Macro {
    /// How often it is defined.
    definitions: usize,
    /// What it stands for, where that is understood.
    bodies: Vec<Body>,
}

impl Macros {
    fn of<'s>(scans: impl Iterator<Item = &'s Scan>) -> Self {
        let mut macros: HashMap<String, Macro, RandomState> = HashMap::default();
        for scan in scans {
            for name in scan.macros.split_terminator('\n') {
                match macros.get_mut(name) {
                    Some(known) => known.definitions += 1,
                    None => {
                        macros.insert(name.into(), Macro { definitions: 1, bodies: Vec::new() });
                    }
                }
            }
            for definition in &scan.definitions {
                macros.entry(definition.name.clone()).or_default().bodies.push(definition.body.clone());
            }
        }
        Self(macros)
    }

    /// All names of headers that a macro may stand for, each with whether it stands in quotes. Nothing if it may stand
    /// for something else.
    fn names_of(&self, name: &str) -> Option<Vec<(&str, bool)>> {
        let mut names = Vec::new();
        let mut known = HashSet::new();
        let mut macros = vec![name];
        while let Some(name) = macros.pop() {
            if FILE_MACROS.contains(&name) {
                return None;
            }
            if !known.insert(name) {
                continue;
            }
            // One that nobody defines is included nowhere.
            let Some(found) = self.0.get(name) else { continue };
            if found.bodies.len() != found.definitions {
                return None;
            }
            for body in &found.bodies {
                match body {
                    Body::Macro(name) => macros.push(name),
                    Body::Header { name, quoted } if *quoted || !self.may_replace(name) => {
                        names.push((name.as_str(), *quoted));
                    }
                    Body::Header { .. } => return None,
                }
            }
        }
        Some(names)
    }

    /// Whether the preprocessor may replace a part of a name in angle brackets.
    fn may_replace(&self, name: &str) -> bool {
        let words = name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words
            .filter(|word| !word.is_empty())
            .any(|word| PLAIN_MACROS.contains(&word) || word.starts_with('_') || self.0.contains_key(word))
    }
}

impl Graph<'_> {
    /// Follows the includes of macros. Whether texts came along, which may define macros themselves.
    pub(super) fn follow_macros(&mut self) -> Result<bool, HeaderError> {
        let before = self.nodes.len();
        if self.nodes.iter().all(|node| node.read.scan.computed.is_empty()) {
            return Ok(false);
        }
        let macros = Macros::of(self.scans());
        for from in 0..before {
            let read = Arc::clone(&self.nodes[from].read);
            for Computed { name, next, line, .. } in &read.scan.computed {
                let names = macros.names_of(name).ok_or_else(|| {
                    let place = self.nodes[from].place.clone();
                    HeaderError::new(Problem::Macro { place, line: *line, name: name.clone() })
                })?;
                for (name, quoted) in names {
                    self.follow_name(from, name, quoted, *next)?;
                }
            }
        }
        Ok(self.nodes.len() > before)
    }

    fn follow_name(&mut self, from: usize, name: &str, quoted: bool, next: bool) -> Result<(), HeaderError> {
        let found = self.include(from, name, quoted, next)?;
        // The compiler will find the name among the given headers, from wherever it asks.
        match self.aliases.get(name) {
            Some(known) if *known != found => {
                let place = |node: Option<usize>| node.map(|node| self.nodes[node].place.clone());
                Err(HeaderError::new(Problem::Ambiguous {
                    name: name.into(),
                    headers: [place(*known), place(found)],
                }))
            }
            Some(_) => Ok(()),
            None => {
                self.aliases.insert(name.into(), found);
                Ok(())
            }
        }
    }

    /// Answers where a macro asks whether a header is there. The compiler will find it among the given headers.
    pub(super) fn answer_macros(&mut self) -> Result<(), HeaderError> {
        let askers: HashSet<&str> = self.scans().flat_map(|scan| &scan.askers).map(String::as_str).collect();
        if askers.is_empty() {
            return Ok(());
        }
        let macros = Macros::of(self.scans());
        let mut answers: BTreeMap<String, bool> = BTreeMap::new();
        for (from, node) in self.nodes.iter().enumerate() {
            for call in node.read.scan.calls.iter().filter(|call| askers.contains(call.name.as_str())) {
                let refused = || Problem::Text {
                    place: node.place.clone(),
                    line: call.line,
                    trouble: Trouble::ComputedQuestion,
                };
                let is_plain = |(name, quoted): &&(String, bool)| {
                    !Path::new(name).is_absolute() && (*quoted || !macros.may_replace(name))
                };
                let header = call.header.as_ref().filter(is_plain);
                let (name, quoted) = header.ok_or_else(|| HeaderError::new(refused()))?;
                let exists = self.exists(from, name, *quoted)?;
                let known = answers.insert(name.clone(), exists);
                let alias = self.aliases.get(name).map(Option::is_some);
                if known.or(alias).is_some_and(|known| known != exists) {
                    return Err(HeaderError::new(Problem::AmbiguousQuestion(name.clone())));
                }
            }
        }
        if let Some(scan) = self
            .definitions
            .iter()
            .position(|scan| scan.calls.iter().any(|call| askers.contains(call.name.as_str())))
        {
            return Err(HeaderError::new(Problem::Text {
                place: Place::Definition(self.search.definitions[scan].clone()),
                line: 1,
                trouble: Trouble::QuestionInMacro,
            }));
        }
        self.answers = answers;
        Ok(())
    }

    fn scans(&self) -> impl Iterator<Item = &Scan> {
        self.nodes.iter().map(|node| &node.read.scan).chain(&self.definitions)
    }
}
