//! Runs the reducers without any memo, by an interpreter of its own.
//!
//! It has no recorder and no generations: it reads the world, and follows every range from the root.

use crate::{
    expression::{Index, Node},
    scene::Scene,
};

/// Returns the expected results of a launch of `kernel`, in the order of its tasks and their reducers.
pub(crate) fn results(scene: &Scene, kernel: usize) -> Vec<(u64, i64)> {
    let mut results = Vec::new();
    for task in &scene.kernels[kernel].tasks {
        for spec in &task.specs {
            let nodes = &task.expressions[usize::from(spec.stack)];
            let mut walk = Walk { scene, kernel, nodes, variables: [0; 4] };
            results.push((task.key(spec.stack, spec.node), walk.value(spec.node)));
        }
    }
    results
}

struct Walk<'a> {
    scene: &'a Scene,
    kernel: usize,
    nodes: &'a [Node],
    variables: [i64; 4],
}

impl Walk<'_> {
    fn value(&mut self, node: u16) -> i64 {
        let nodes = self.nodes;
        match &nodes[usize::from(node)] {
            Node::Constant(value) => *value,
            Node::Variable(variable) => self.variables[usize::from(*variable)],
            Node::Field { field, indices } => {
                let [index] = &indices[..] else { unreachable!("fields have one axis") };
                element(self.scene.world.field(*field).expect("it exists"), self.index(*index))
            }
            Node::Element { path, indices } => {
                let array = self.scene.bound(self.kernel)[path[0] as usize];
                let shape = self.scene.world.shape(array).expect("it exists");
                // Row by row: all indices but the last count whole rows.
                let at = indices
                    .iter()
                    .zip(shape)
                    .fold(0, |at, (index, &extent)| at * extent as i64 + self.index(*index));
                element(self.scene.world.array(array).expect("it exists"), at)
            }
            Node::Extent { path, axis } => {
                let array = self.scene.bound(self.kernel)[path[0] as usize];
                self.scene.world.shape(array).expect("it exists")[*axis as usize] as i64
            }
            Node::Binary(operation, a, b) => operation.of(self.value(*a), self.value(*b)),
            Node::MaxOverRange { variable, begin, end, body } => {
                let outer = self.variables;
                let range = self.value(*begin)..self.value(*end);
                let most = range.map(|at| {
                    self.variables[usize::from(*variable)] = at;
                    self.value(*body)
                });
                let most = most.max().unwrap_or(0);
                self.variables = outer;
                most
            }
        }
    }

    fn index(&self, index: Index) -> i64 {
        match index {
            Index::At(at) => at.into(),
            Index::Variable(variable) => self.variables[usize::from(variable)],
        }
    }
}

/// Reads the element at an index, or zero beyond the end.
fn element(values: &[i32], at: i64) -> i64 {
    usize::try_from(at).ok().and_then(|at| values.get(at)).map_or(0, |&value| value.into())
}
