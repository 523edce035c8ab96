use std::{
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};
use warmstart::pack::{Pack, PackOptions};
use warmstart_tests::{
    measure::Plan,
    weights::{self, names, touch, wanted},
};
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let path = Path::new(&path);
    let names: Vec<_> = (0..1184).map(names).collect();
    let places: Vec<_> = {
        let pack = Pack::open(path, PackOptions::default()).unwrap();
        names
            .iter()
            .map(|n| {
                let w = pack.look_up(&wanted(n)).unwrap();
                let at = w.handle().get();
                at..at + w.len()
            })
            .collect()
    };
    let floor = |first: Option<usize>| {
        let s = Instant::now();
        let f = std::fs::File::open(path).unwrap();
        let m = unsafe { memmap2::MmapOptions::new().map(&f) }.unwrap();
        if let Some(at) = first {
            black_box(weights::touch(&m[at..]));
        }
        for p in &places {
            black_box(touch(&m[p.clone()]));
        }
        s.elapsed()
    };
    let ours = || {
        let s = Instant::now();
        let pack = Pack::open(path, PackOptions::default()).unwrap();
        for n in &names {
            black_box(touch(&pack.look_up(&wanted(n)).unwrap()));
        }
        s.elapsed()
    };
    let plan = Plan::FULL.with_rounds(31);
    let end = places.last().unwrap().end;
    println!("ours {:?}", plan.compare_timed(|_| ours(), |_| floor(None)));
    println!("floor, end first {:?}", plan.compare_timed(|_| floor(Some(end)), |_| floor(None)));
    println!("floor {:?}", plan.compare_timed(|_| floor(None), |_| floor(None)));
    let _ = Duration::ZERO;
}
