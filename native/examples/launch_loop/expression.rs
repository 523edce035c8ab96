//! Expressions of stack sizes, and the interpreter of the max-reducers in them.

use warmstart::memo::{ArgumentId, FieldId};

/// A node of an expression. Nodes lie in a list, each after those that it refers to.
///
/// As in the original, an index list and an argument's path are separate vectors.
#[derive(Clone)]
pub(crate) enum Node {
    Constant(i64),
    /// The variable of an enclosing range.
    Variable(u8),
    Field {
        field: FieldId,
        indices: Vec<Index>,
    },
    /// An element of an array. The path leads to the argument; here no argument lies in another.
    Element {
        path: Vec<u32>,
        indices: Vec<Index>,
    },
    /// The length of an array along an axis.
    Extent {
        path: Vec<u32>,
        axis: u32,
    },
    Binary(Operation, u16, u16),
    /// The maximum of `body` while `variable` goes from `begin` up to and without `end`; 0 for an empty range.
    MaxOverRange {
        variable: u8,
        begin: u16,
        end: u16,
        body: u16,
    },
}

#[derive(Clone, Copy)]
pub(crate) enum Operation {
    Add,
    Subtract,
    Multiply,
    Maximum,
}

impl Operation {
    pub(crate) fn of(self, a: i64, b: i64) -> i64 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::Multiply => a.wrapping_mul(b),
            Self::Maximum => a.max(b),
        }
    }
}

/// An index: a constant, or the variable of an enclosing range.
#[derive(Clone, Copy)]
pub(crate) enum Index {
    At(u32),
    Variable(u8),
}

/// One reducer of an expression: a chain of ranges around a body without ranges.
#[derive(Clone)]
pub(crate) struct Spec {
    /// The index of its task's expression, and that of the node in it.
    pub(crate) stack: u16,
    pub(crate) node: u16,
    /// The nodes of the body.
    pub(crate) first: u16,
    pub(crate) last: u16,
    /// The ranges, the outermost first. Range `n` binds variable `n`.
    pub(crate) axes: Vec<Axis>,
}

#[derive(Clone)]
pub(crate) struct Axis {
    pub(crate) begin: u16,
    pub(crate) end: u16,
}

/// The source of the interpreter's values. Every design reads through its own.
pub(crate) trait Reader<'w> {
    type Error;

    fn field(&mut self, field: FieldId) -> &'w [i32];
    fn array(&mut self, argument: ArgumentId) -> &'w [i32];
    fn extent(&mut self, argument: ArgumentId, axis: u32) -> i64;
    /// Returns the value of another reducer of the same expression.
    fn reduced(&mut self, stack: u16, node: u16) -> Result<i64, Self::Error>;
}

/// The limits of nested ranges and of the nodes of a body.
const AXES: usize = 2;
const STEPS: usize = 8;

/// Runs the reducer `spec` of the expression `nodes`.
///
/// Looks up once what the body reads; then runs the body for each point of the ranges.
pub(crate) fn reduce<'w, R: Reader<'w>>(
    spec: &Spec,
    nodes: &[Node],
    reader: &mut R,
) -> Result<i64, R::Error> {
    let mut ranges = [(0, 1); AXES];
    for (range, axis) in ranges.iter_mut().zip(&spec.axes) {
        *range = (bound(spec, nodes, axis.begin, reader)?, bound(spec, nodes, axis.end, reader)?);
    }
    let mut steps = [Step::Known(0); STEPS];
    let body = &nodes[usize::from(spec.first)..=usize::from(spec.last)];
    for (step, node) in steps.iter_mut().zip(body) {
        *step = Step::new(node, spec.first, reader);
    }
    let steps = &steps[..body.len()];
    let mut most: Option<i64> = None;
    for outer in ranges[0].0..ranges[0].1 {
        for inner in ranges[1].0..ranges[1].1 {
            let value = run(steps, [outer, inner]);
            most = Some(most.map_or(value, |most| most.max(value)));
        }
    }
    Ok(most.unwrap_or(0))
}

/// Evaluates the limit of a range, which depends on no variable.
fn bound<'w, R: Reader<'w>>(spec: &Spec, nodes: &[Node], node: u16, reader: &mut R) -> Result<i64, R::Error> {
    Ok(match &nodes[usize::from(node)] {
        Node::Constant(value) => *value,
        Node::Extent { path, axis } => reader.extent(ArgumentId(path[0]), *axis),
        Node::Binary(operation, a, b) => {
            operation.of(bound(spec, nodes, *a, reader)?, bound(spec, nodes, *b, reader)?)
        }
        Node::MaxOverRange { .. } => reader.reduced(spec.stack, node)?,
        Node::Variable(_) | Node::Field { .. } | Node::Element { .. } => {
            unreachable!("no range is generated with such a bound")
        }
    })
}

/// A node of a body, with its operands resolved.
#[derive(Clone, Copy)]
enum Step<'w> {
    Known(i64),
    Variable(u8),
    Element { values: &'w [i32], base: i64, strides: [i64; AXES] },
    Binary(Operation, u8, u8),
}

impl<'w> Step<'w> {
    fn new<R: Reader<'w>>(node: &Node, first: u16, reader: &mut R) -> Self {
        match node {
            Node::Constant(value) => Self::Known(*value),
            Node::Variable(variable) => Self::Variable(*variable),
            Node::Field { field, indices } => Self::element(reader.field(*field), indices, |_| 1),
            Node::Element { path, indices } => {
                let argument = ArgumentId(path[0]);
                let values = reader.array(argument);
                Self::element(values, indices, |axis| reader.extent(argument, axis))
            }
            Node::Extent { path, axis } => Self::Known(reader.extent(ArgumentId(path[0]), *axis)),
            Node::Binary(operation, a, b) => Self::Binary(*operation, (a - first) as u8, (b - first) as u8),
            Node::MaxOverRange { .. } => unreachable!("a range in a body is an axis of it"),
        }
    }

    /// Resolves the element at `indices` of a row-major array with the lengths `extent`.
    fn element(values: &'w [i32], indices: &[Index], mut extent: impl FnMut(u32) -> i64) -> Self {
        let (mut base, mut strides, mut stride) = (0, [0; AXES], 1);
        let mut axis = indices.len() as u32;
        for index in indices.iter().rev() {
            match *index {
                Index::At(at) => base += i64::from(at) * stride,
                Index::Variable(variable) => strides[usize::from(variable)] += stride,
            }
            axis -= 1;
            if axis > 0 {
                stride *= extent(axis);
            }
        }
        Self::Element { values, base, strides }
    }
}

fn run(steps: &[Step<'_>], point: [i64; AXES]) -> i64 {
    let mut values = [0; STEPS];
    for (place, step) in steps.iter().enumerate() {
        values[place] = match *step {
            Step::Known(value) => value,
            Step::Variable(variable) => point[usize::from(variable)],
            Step::Element { values, base, strides } => {
                let at = base + point[0] * strides[0] + point[1] * strides[1];
                let element = usize::try_from(at).ok().and_then(|at| values.get(at));
                element.map_or(0, |&element| i64::from(element))
            }
            Step::Binary(operation, a, b) => operation.of(values[usize::from(a)], values[usize::from(b)]),
        };
    }
    values[steps.len() - 1]
}
