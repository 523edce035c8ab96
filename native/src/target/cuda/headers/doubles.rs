//! One file that is found in two ways.

use super::{
    HeaderError,
    error::Problem,
    graph::{Edge, Graph},
};

impl Graph<'_> {
    /// One file found in two ways is one text if it leads to the same. If it does not, and asks to be read once, only
    /// the compiler knows which of the two it reads.
    pub(super) fn merge_doubles(&mut self) -> Result<(), HeaderError> {
        let mut doubles: Vec<Vec<usize>> =
            self.files.values().filter(|nodes| nodes.len() > 1).cloned().collect();
        if doubles.is_empty() {
            return Ok(());
        }
        doubles.sort();
        let mut merged = true;
        while merged {
            merged = false;
            for nodes in &mut doubles {
                let mut place = 1;
                while place < nodes.len() {
                    let (one, other) = (nodes[..place].iter().copied(), nodes[place]);
                    let same = one.into_iter().find(|one| self.nodes[*one].edges == self.nodes[other].edges);
                    if let Some(same) = same {
                        nodes.remove(place);
                        self.redirect(other, same);
                        merged = true;
                    } else {
                        place += 1;
                    }
                }
            }
        }
        let apart = doubles.iter().find(|nodes| nodes.len() > 1 && self.nodes[nodes[0]].read.scan.once);
        apart.map_or(Ok(()), |nodes| {
            let [one, other] = [nodes[0], nodes[1]].map(|node| self.nodes[node].place.clone());
            Err(HeaderError::new(Problem::Twice { one, other }))
        })
    }

    fn redirect(&mut self, from: usize, to: usize) {
        for node in &mut self.nodes {
            for edge in &mut node.edges {
                if *edge == Edge::To(from) {
                    *edge = Edge::To(to);
                }
            }
        }
        let others = self.pre_includes.iter_mut().chain(self.aliases.values_mut().flatten());
        others.filter(|node| **node == from).for_each(|node| *node = to);
        // Nothing leads there any more.
        self.nodes[from].label.clear();
    }
}
