//! The cost of looking a weight up.

use std::{
    fs,
    hash::{Hash, Hasher},
};

use hashbrown::{Equivalent, HashMap};
use warmstart::pack::{Pack, PackOptions};
use warmstart_core::trailer::{Commits, index::check};
use warmstart_tests::{measure::Plan, medium::Medium, weights::wanted};

use super::{Sizes, failed, index_of, names, small};
use crate::{
    Rows,
    row::{Compared, Row},
};

/// Both names of a weight, owned.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Owned {
    weight: Box<str>,
    bias: Box<str>,
}

/// The same, borrowed.
#[derive(Debug)]
struct Borrowed<'a>(&'a (String, String));

impl Hash for Borrowed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (weight, bias) = self.0;
        weight.hash(state);
        bias.hash(state);
    }
}

impl Equivalent<Owned> for Borrowed<'_> {
    fn equivalent(&self, key: &Owned) -> bool {
        let (weight, bias) = self.0;
        **weight == *key.weight && **bias == *key.bias
    }
}

/// The rows of looking up. The peer is a table of hashbrown's, with the hasher that it has by default, from the same names
/// to where a payload is. It knows nothing of models and packings.
pub(super) fn rows(plan: &Plan, disk: &Medium, sizes: Sizes) -> Rows {
    let mut rows = Vec::new();
    for (label, count) in [("1184", sizes.layers), ("100000", sizes.many)] {
        let path = small(disk, count)?;
        let names = names(count);
        let pack = Pack::open(&path, PackOptions::default())?;
        let bytes = fs::read(&path)?;
        let range = index_of(&path)?;
        let commits =
            Commits::read(&bytes[..4096]).map_err(|refusal| failed("look_up", refusal.to_string()))?;
        let (_, slot) = commits.iter().next().ok_or("look_up: nothing was saved")?;
        let block = &bytes[range];
        let layout = check(block, &slot).map_err(|refusal| failed("look_up", refusal.to_string()))?;
        let mut table: HashMap<Owned, (u64, u64), foldhash::fast::RandomState> = HashMap::default();
        for (entry, names) in layout.view(block).entries().zip(&names) {
            let (weight, bias) = names;
            let owned = Owned { weight: weight.as_str().into(), bias: bias.as_str().into() };
            table.insert(owned, (entry.offset, entry.size));
        }
        // Far from one to the next, so that a processor cannot guess.
        let at = |call: u64| (call as usize).wrapping_mul(7919) % names.len();
        // The caller has these at hand, as it has the names.
        let wanted: Vec<_> = names.iter().map(wanted).collect();
        let in_table = |call| *table.get(&Borrowed(&names[at(call)])).expect("every name was inserted");
        let name = format!("look_up/{label}");
        let compared =
            plan.compare(|call| pack.look_up(&wanted[at(call)]).expect("every name was saved"), in_table);
        rows.extend(compared.rows(&name, "hashbrown", 1.5));
        let index = layout.view(block);
        let compared = plan
            .compare(|call| index.look_up(&wanted[at(call)]).expect("every name is in the index"), in_table);
        rows.push(Row::note(format!("{name}/index_alone"), (compared.ratio(), "ratio"), "hashbrown"));
        rows.push(Row::note(format!("{name}/index_alone/warmstart"), (compared.subject_ns, "ns"), "none"));
        drop(pack);
        fs::remove_file(path)?;
    }
    Ok(rows)
}
