//! Includes of macros: every name that a macro is defined as anywhere is one that may be included.

use std::collections::HashSet;

use warmstart_core::includes::{Body, Computed, Scan};

use super::{HeaderError, error::Problem, graph::Graph};

/// Macros that are the name of a file although no text defines them.
const FILE_MACROS: &[&str] = &["__FILE__", "__BASE_FILE__"];

/// Macros of the compiler that have no underscores to tell them by.
const PLAIN_MACROS: &[&str] = &["linux", "unix", "i386", "NULL"];

impl Graph<'_> {
    /// Follows the includes of macros. Whether texts came along, which may define macros themselves.
    pub(super) fn follow_macros(&mut self) -> Result<bool, HeaderError> {
        let before = self.nodes.len();
        for from in 0..before {
            let read = std::sync::Arc::clone(&self.nodes[from].read);
            for computed in &read.scan.computed {
                for (name, quoted) in self.names_of(from, computed)? {
                    self.follow_name(from, &name, quoted, computed.next)?;
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

    /// All names that a macro may stand for, each with whether it stands in quotes.
    fn names_of(&self, from: usize, computed: &Computed) -> Result<Vec<(String, bool)>, HeaderError> {
        let refused = || {
            HeaderError::new(Problem::Macro {
                place: self.nodes[from].place.clone(),
                line: computed.line,
                name: computed.name.clone(),
            })
        };
        let mut names = Vec::new();
        let mut known = HashSet::new();
        let mut macros = vec![computed.name.as_str()];
        while let Some(name) = macros.pop() {
            if FILE_MACROS.contains(&name) {
                return Err(refused());
            }
            if !known.insert(name) {
                continue;
            }
            for scan in self.scans() {
                let mut understood = 0;
                for definition in scan.definitions.iter().filter(|definition| definition.name == name) {
                    understood += 1;
                    match &definition.body {
                        Body::Macro(name) => macros.push(name),
                        Body::Header { name, quoted } => {
                            if !quoted && self.may_be_replaced(name) {
                                return Err(refused());
                            }
                            names.push((name.clone(), *quoted));
                        }
                    }
                }
                if scan.definitions_of(name) != understood {
                    return Err(refused());
                }
            }
        }
        Ok(names)
    }

    /// Whether the preprocessor may replace a part of a name in angle brackets.
    fn may_be_replaced(&self, name: &str) -> bool {
        let words = name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.filter(|word| !word.is_empty()).any(|word| {
            PLAIN_MACROS.contains(&word)
                || word.starts_with('_')
                || self.scans().any(|scan| scan.definitions_of(word) > 0)
        })
    }

    fn scans(&self) -> impl Iterator<Item = &Scan> {
        self.nodes.iter().map(|node| &node.read.scan).chain(&self.definitions)
    }
}
