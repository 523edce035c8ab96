//! x
mod afresh;
mod allocations;
mod designs;
mod expression;
mod kernels;
mod measure;
mod ours;
mod random;
mod scene;
mod memo {
    pub(crate) use warmstart_core::memo::{LaunchMemo as Memo, *};
}
use designs::*;
use measure::*;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

fn main() {
    let expected = Expected::new();
    for _ in 0..5 {
        let show = |name, l: Loop| {
            println!(
                "{name}: first {:?} {} rest {:?} {} hits {} wrong {} alloc {} deps {} res {}",
                l.first.time, l.first.evaluated, l.rest.time, l.rest.evaluated, l.rest.hits, l.wrong,
                l.allocations_on_hit, l.dependencies / 2008, l.results / 2008
            );
        };
        show("none", run(|_| NoMemo::default(), &expected));
        show("deep", run(|_| PerSpec::new(true), &expected));
        show("copy", run(|_| PerSpec::new(false), &expected));
        show("ours", run(|scene| ours::Ours::<ours::AsItIs>::new(scene), &expected));
    }
}
