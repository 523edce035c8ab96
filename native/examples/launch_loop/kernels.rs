//! Kernels as a compiler describes them: tasks, the expressions of their stacks, and their reducers.

use warmstart::{
    memo::FieldId,
    registry::{RegistryId, SharedRegistry},
};

use crate::{
    expression::{Axis, Index, Node, Operation, Spec},
    random::Random,
};

/// The number of reducers of a kernel, and so of the results of a launch.
pub(crate) const SPECS: usize = 600;

/// The length of a field.
pub(crate) const FIELD: u32 = 16;

/// All kernels with the numbers of their tasks: 1.8 on average.
pub(crate) const KERNELS: [(&str, usize); 5] = [
    ("forward_kinematics", 1),
    ("narrow_phase", 2),
    ("constraint_solve", 3),
    ("integrate", 1),
    ("accumulate_grad", 2),
];

/// A kernel that is launched.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) tasks: Vec<Task>,
}

/// A task of a kernel.
#[derive(Clone)]
pub(crate) struct Task {
    /// The id that generated code writes when a stack of this task overflows.
    pub(crate) id: RegistryId,
    pub(crate) kernel: String,
    pub(crate) number: i32,
    pub(crate) expressions: Vec<Vec<Node>>,
    /// The reducers, in the order of their stacks and nodes, so that each comes after those that it needs.
    pub(crate) specs: Vec<Spec>,
}

impl Task {
    /// Returns the key of a reducer in every memo, as in the original: the task, the stack, and the node.
    pub(crate) fn key(&self, stack: u16, node: u16) -> u64 {
        u64::from(self.id.as_u32()) | u64::from(stack) << 32 | u64::from(node) << 48
    }

    /// Returns the expression of a reducer.
    pub(crate) fn expression(&self, spec: &Spec) -> &[Node] {
        &self.expressions[usize::from(spec.stack)]
    }

    /// Returns the index of a reducer among [the others](Self::specs).
    pub(crate) fn place(&self, stack: u16, node: u16) -> u16 {
        let place = self.specs.binary_search_by_key(&(stack, node), |spec| (spec.stack, spec.node));
        place.expect("every range that is a bound is a reducer") as u16
    }
}

/// The arrays that a kernel can read, by their use.
pub(crate) struct Signature {
    /// Trip counts that other kernels share.
    pub(crate) counts: u32,
    /// Arrays of one axis.
    pub(crate) lines: Vec<u32>,
    /// Arrays of two axes.
    pub(crate) planes: Vec<u32>,
    /// Arrays of two axes of which only the shape is read.
    pub(crate) shapes: Vec<u32>,
    pub(crate) fields: Vec<FieldId>,
}

/// Generates the kernel of this number in [`KERNELS`].
pub(crate) fn generate(
    kernel: usize,
    signature: &Signature,
    registry: &SharedRegistry,
    random: &mut Random,
) -> Kernel {
    let (name, tasks) = KERNELS[kernel];
    let numbers = (0..).take(tasks);
    let tasks = numbers.map(|number| task(name, number, SPECS / tasks, signature, registry, random));
    Kernel { tasks: tasks.collect() }
}

fn task(
    name: &str,
    number: i32,
    specs: usize,
    signature: &Signature,
    registry: &SharedRegistry,
    random: &mut Random,
) -> Task {
    let mut task = Task {
        id: registry.register(name, number, ()).expect("there is room for a few kernels"),
        kernel: name.to_owned(),
        number,
        expressions: Vec::new(),
        specs: Vec::new(),
    };
    while task.specs.len() < specs {
        let stack = task.expressions.len() as u16;
        let mut expression = Expression { stack, nodes: Vec::new(), specs: Vec::new() };
        expression.generate(signature, task.specs.len() + 1 < specs, random);
        task.expressions.push(expression.nodes);
        task.specs.append(&mut expression.specs);
    }
    task
}

/// Builds an expression with its reducers.
struct Expression {
    stack: u16,
    nodes: Vec<Node>,
    specs: Vec<Spec>,
}

/// The variables of the outer and of the inner range.
const I: Index = Index::Variable(0);
const J: Index = Index::Variable(1);

impl Expression {
    /// Adds a size as kernels have them: the maximum of an array, plus a little.
    fn generate(&mut self, signature: &Signature, may_nest: bool, random: &mut Random) {
        let Signature { counts, lines, planes, shapes, fields } = signature;
        let most = match random.below(if may_nest { 20 } else { 18 }) {
            // How often a loop over things of all kinds runs.
            0..=7 => {
                let (counts, each) = (*counts, random.one_of(lines));
                let end = self.extent(counts, 0);
                self.reduce(&[end], |body| {
                    let (count, each) = (body.element(counts, &[I]), body.element(each, &[I]));
                    body.binary(Operation::Multiply, count, each)
                })
            }
            // The longest of ragged rows.
            8..=12 => {
                let (ends, begins) = (random.one_of(lines), random.one_of(lines));
                let end = self.extent(ends, 0);
                self.reduce(&[end], |body| {
                    let (end, begin) = (body.element(ends, &[I]), body.element(begins, &[I]));
                    let length = body.binary(Operation::Subtract, end, begin);
                    let least = body.constant(1);
                    body.binary(Operation::Maximum, length, least)
                })
            }
            // Pairs.
            13..=14 => {
                let (plane, field) = (random.one_of(planes), random.one_of(fields));
                let ends = [self.extent(plane, 0), self.extent(plane, 1)];
                self.reduce(&ends, |body| {
                    let (pair, each) = (body.element(plane, &[I, J]), body.field(field, &[I]));
                    body.binary(Operation::Multiply, pair, each)
                })
            }
            15..=16 => {
                let (a, b) = (random.one_of(fields), random.one_of(fields));
                let end = self.constant(i64::from(random.between(6, FIELD)));
                self.reduce(&[end], |body| {
                    let (a, b) = (body.field(a, &[I]), body.field(b, &[Index::At(3)]));
                    body.binary(Operation::Add, a, b)
                })
            }
            // Nothing but a shape.
            17 => {
                let shape = random.one_of(shapes);
                let end = self.extent(shape, 0);
                self.reduce(&[end], |body| {
                    let (row, columns) = (body.variable(0), body.extent(shape, 1));
                    body.binary(Operation::Multiply, row, columns)
                })
            }
            // A range that ends where another reducer says.
            _ => {
                let (ends, field) = (random.one_of(lines), random.one_of(fields));
                let end = self.extent(ends, 0);
                let longest = self.reduce(&[end], |body| body.element(ends, &[I]));
                self.reduce(&[longest], |body| body.field(field, &[I]))
            }
        };
        let spare = self.constant(i64::from(random.between(1, 4)));
        self.binary(Operation::Add, most, spare);
    }

    /// Adds a reducer over ranges from 0 to `ends`.
    fn reduce(&mut self, ends: &[u16], body: impl FnOnce(&mut Self) -> u16) -> u16 {
        let axes: Vec<Axis> = ends.iter().map(|&end| Axis { begin: self.constant(0), end }).collect();
        let first = self.next();
        let last = body(self);
        let mut node = last;
        for (variable, axis) in (0..axes.len() as u8).zip(&axes).rev() {
            let &Axis { begin, end } = axis;
            node = self.push(Node::MaxOverRange { variable, begin, end, body: node });
        }
        self.specs.push(Spec { stack: self.stack, node, first, last, axes });
        node
    }

    fn constant(&mut self, value: i64) -> u16 {
        self.push(Node::Constant(value))
    }

    fn variable(&mut self, variable: u8) -> u16 {
        self.push(Node::Variable(variable))
    }

    fn field(&mut self, field: FieldId, indices: &[Index]) -> u16 {
        self.push(Node::Field { field, indices: indices.to_vec() })
    }

    fn element(&mut self, argument: u32, indices: &[Index]) -> u16 {
        self.push(Node::Element { path: vec![argument], indices: indices.to_vec() })
    }

    fn extent(&mut self, argument: u32, axis: u32) -> u16 {
        self.push(Node::Extent { path: vec![argument], axis })
    }

    fn binary(&mut self, operation: Operation, a: u16, b: u16) -> u16 {
        self.push(Node::Binary(operation, a, b))
    }

    fn push(&mut self, node: Node) -> u16 {
        let place = self.next();
        self.nodes.push(node);
        place
    }

    fn next(&self) -> u16 {
        self.nodes.len() as u16
    }
}
