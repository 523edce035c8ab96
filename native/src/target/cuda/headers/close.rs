//! Texts in which every directive names what it leads to.

use std::{ops::Range, path::Path};

use warmstart_core::{
    includes::{Trouble, Untold, rewrite},
    key::Key,
};

use super::{
    Closed, HeaderError,
    error::{Place, Problem},
    graph::{Edge, Graph, Node},
};

/// Where headers are said to lie. An absolute name, because the compiler puts the current directory before others.
pub(in crate::target::cuda) const ROOT: &str = "/warmstart/";

/// The header that is there where a macro asks for one that is. Nothing includes it.
const THERE: &str = "/warmstart/there";

/// What stands before the number of an include whose name only the preprocessor can make, in the name that it gets.
const UNTOLD: &str = "a name that only the preprocessor makes, number ";

impl Closed {
    /// The include that a compiler's log says is missing, if it is one whose name could not be told.
    pub(in crate::target::cuda) fn untold_in(&self, log: &str) -> Option<HeaderError> {
        let (_, rest) = log.split_once(UNTOLD)?;
        let (place, line) = self.untold.get(rest.split_once(' ')?.0.parse::<usize>().ok()?)?.clone();
        Some(HeaderError::new(Problem::Text { place, line, trouble: Trouble::ComputedName }))
    }
}

impl Graph<'_> {
    pub(super) fn closed(&self) -> Closed {
        let mut untold = Vec::new();
        let source = self.close(&self.nodes[0], self.search.source.as_bytes(), &mut untold);
        let mut headers: Vec<(String, Vec<u8>)> = self.nodes[1..]
            .iter()
            .map(|node| {
                let text = node.text.as_deref().unwrap_or_default();
                (self.name(node), self.close(node, text, &mut untold))
            })
            .collect();
        if self.answers.values().any(|exists| *exists) {
            headers.push((THERE.into(), Vec::new()));
        }
        Closed {
            source,
            headers,
            untold,
            pre_includes: self.pre_includes.iter().map(|node| self.name(&self.nodes[*node])).collect(),
        }
    }

    fn name(&self, node: &Node) -> String {
        format!("{ROOT}{}", node.label)
    }

    fn close(&self, node: &Node, text: &[u8], untold: &mut Vec<(Place, usize)>) -> Vec<u8> {
        let mut edits: Vec<(Range<usize>, String)> = Vec::with_capacity(node.edges.len());
        for (operand, edge) in node.read.scan.operands.iter().zip(&node.edges) {
            let replacement = match edge {
                Edge::To(to) => format!("\"{}\"", self.name(&self.nodes[*to])),
                // Apart from what stands around it, which could make another token of it.
                Edge::Exists(exists) => format!(" {} ", u8::from(*exists)),
                Edge::Answer(true) => format!("\"{THERE}\""),
                // The compiler says that it is not there, if it comes so far. It must look for it nowhere.
                Edge::Nowhere | Edge::Answer(false) => {
                    if *edge == Edge::Nowhere && !Path::new(&operand.name).is_absolute() {
                        continue;
                    }
                    format!("\"not found: {}\"", operand.name.replace('"', "'"))
                }
            };
            edits.push((operand.range.clone(), replacement));
        }
        // Whether it is reached, only the compiler knows. If so, it is told that there is no such file.
        for Untold { range, line, .. } in &node.read.scan.untold {
            edits.push((range.clone(), format!("\"{UNTOLD}{} \"", untold.len())));
            untold.push((node.place.clone(), *line));
        }
        edits.sort_unstable_by_key(|(range, _)| range.start);
        rewrite(text, &edits)
    }

    /// A digest of where everything leads. With the texts and the labels it decides what the compiler is given.
    pub(super) fn edges_digest(&self) -> [u8; 32] {
        let mut edges = Edges(Vec::with_capacity(128 + 32 * self.nodes.len()));
        let label = |node: usize| self.nodes[node].label.as_str();
        edges.list(self.pre_includes.len());
        self.pre_includes.iter().for_each(|node| edges.text(label(*node)));
        let told = |node: &Node| node.edges.iter().filter(|edge| !matches!(edge, Edge::Answer(_))).count();
        let nodes = || self.nodes.iter().filter(|node| told(node) > 0);
        edges.list(nodes().count());
        for node in nodes() {
            edges.text(&node.label);
            edges.list(told(node));
            for edge in &node.edges {
                match edge {
                    // Stands below, once for each name.
                    Edge::Answer(_) => {}
                    Edge::To(node) => edges.text(label(*node)),
                    // No label is empty, and none has a question mark.
                    Edge::Nowhere => edges.text(""),
                    Edge::Exists(true) => edges.text("?1"),
                    Edge::Exists(false) => edges.text("?0"),
                }
            }
        }
        // Where includes of macros would lead, of which there are none.
        edges.list(0);
        edges.list(self.answers.len());
        for (name, exists) in &self.answers {
            edges.text(name);
            edges.text(if *exists { "?1" } else { "?0" });
        }
        *Key::digest(&edges.0).as_bytes()
    }
}

/// Bytes that no two graphs share: each text and each list stands behind its length.
struct Edges(Vec<u8>);

impl Edges {
    fn list(&mut self, length: usize) {
        self.0.extend_from_slice(&(length as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.list(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }
}
