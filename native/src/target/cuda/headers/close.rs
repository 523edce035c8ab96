//! Texts in which every directive names what it leads to.

use std::{ops::Range, path::Path};

use warmstart_core::includes::{Untold, rewrite};

use super::{
    error::Place,
    found::{Closed, ROOT, UNTOLD},
    graph::{Edge, Graph, Node},
};

/// The header that is there where a macro asks for one that is. Nothing includes it.
const THERE: &str = "/warmstart/there";

/// The texts that are reached, each with the names of the others in its directives.
pub(super) fn closed(graph: &Graph<'_>) -> Closed {
    let mut untold = Vec::new();
    let source = close(graph, &graph.nodes[0], graph.program.description().source().as_bytes(), &mut untold);
    let mut headers: Vec<(String, Vec<u8>)> = graph.nodes[1..]
        .iter()
        .map(|node| {
            let text = node.text.as_deref().unwrap_or_default();
            (name(node), close(graph, node, text, &mut untold))
        })
        .collect();
    if graph.answers.values().any(|exists| *exists) {
        headers.push((THERE.into(), Vec::new()));
    }
    Closed {
        source,
        headers,
        untold,
        pre_includes: graph.pre_includes.iter().map(|node| name(&graph.nodes[*node])).collect(),
    }
}

fn name(node: &Node) -> String {
    format!("{ROOT}{}", node.label)
}

fn close(graph: &Graph<'_>, node: &Node, text: &[u8], untold: &mut Vec<(Place, usize)>) -> Vec<u8> {
    let mut edits: Vec<(Range<usize>, String)> = Vec::with_capacity(node.edges.len());
    for (operand, edge) in node.read.scan.operands.iter().zip(&node.edges) {
        let replacement = match edge {
            Edge::To(to) => format!("\"{}\"", name(&graph.nodes[*to])),
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
