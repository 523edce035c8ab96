//! Texts in which every directive names what it leads to.

use std::{ops::Range, path::Path};

use warmstart_core::{includes::rewrite, key::KeyFields};

use super::{
    Closed,
    graph::{Edge, Graph, Node},
};

/// Where headers are said to lie. An absolute name, because the compiler puts the current directory before others.
const ROOT: &str = "/warmstart/";

impl Graph<'_> {
    pub(super) fn closed(&self) -> Closed {
        let mut headers: Vec<(String, Vec<u8>)> = self
            .headers()
            .map(|node| (self.name(node), self.close(node, node.text.as_deref().unwrap_or_default())))
            .collect();
        for (name, node) in &self.aliases {
            let text = match node {
                Some(node) => format!("#include \"{}\"\n", self.name(&self.nodes[*node])),
                // Nobody may look for it where it would be.
                None if Path::new(name).is_absolute() => String::from("#error this header was not found\n"),
                None => continue,
            };
            headers.push((name.clone(), text.into_bytes()));
        }
        Closed {
            source: self.close(&self.nodes[0], self.search.source.as_bytes()),
            headers,
            pre_includes: self.pre_includes.iter().map(|node| self.name(&self.nodes[*node])).collect(),
        }
    }

    fn name(&self, node: &Node) -> String {
        format!("{ROOT}{}", node.label)
    }

    fn close(&self, node: &Node, text: &[u8]) -> Vec<u8> {
        let mut edits: Vec<(Range<usize>, String)> = Vec::with_capacity(node.edges.len());
        for (operand, edge) in node.read.scan.operands.iter().zip(&node.edges) {
            let replacement = match edge {
                Edge::To(to) => format!("\"{}\"", self.name(&self.nodes[*to])),
                // Apart from what stands around it, which could make another token of it.
                Edge::Exists(exists) => format!(" {} ", u8::from(*exists)),
                // The compiler says that it is not there, if it comes so far. It must look for it nowhere.
                Edge::Nowhere => {
                    let is_alias = || self.aliases.contains_key(&operand.name);
                    if !Path::new(&operand.name).is_absolute() && !is_alias() {
                        continue;
                    }
                    format!("\"not found: {}\"", operand.name.replace('"', "'"))
                }
            };
            edits.push((operand.range.clone(), replacement));
        }
        rewrite(text, &edits)
    }

    /// A digest of where everything leads. With the texts and the labels it decides what the compiler is given.
    pub(super) fn edges_digest(&self) -> [u8; 32] {
        let target = |node: Option<usize>| node.map_or("", |node| self.nodes[node].label.as_str());
        let edge = |edge: &Edge| match edge {
            Edge::To(node) => target(Some(*node)),
            Edge::Nowhere => "",
            // No label begins so.
            Edge::Exists(true) => "?1",
            Edge::Exists(false) => "?0",
        };
        let mut fields = KeyFields::new("warmstart.cuda.includes", 1)
            .list("before", self.pre_includes.iter().map(|node| target(Some(*node))));
        for node in self.nodes.iter().filter(|node| !node.edges.is_empty() && !node.label.is_empty()) {
            fields = fields.list(node.label.as_str(), node.edges.iter().map(edge));
        }
        for (name, node) in &self.aliases {
            fields = fields.list("macro", [name.as_str(), target(*node)]);
        }
        *fields.key().as_bytes()
    }
}
