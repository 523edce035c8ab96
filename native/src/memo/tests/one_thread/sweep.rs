//! Specs that a launch no longer asks for are forgotten, and the rest stays what it was.

use std::{convert::Infallible, num::NonZeroU32};

use super::*;

/// Looks at the field that field 0 names, and at those behind it: a few of many, other ones each time.
struct Wanderer;

/// How many fields a step looks at.
const STRIDE: u32 = 5;

impl Reduction for Wanderer {
    type Spec = u32;
    type Value = i64;
    type Output = i64;
    type Error = Infallible;
}

impl<W: World<Field = i64>> Evaluate<W> for Wanderer {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<i64, LaunchError<Infallible>> {
        let at = recorder.field(FieldId(0)).copied().unwrap_or(0);
        let always = recorder.spec(1)?;
        Ok(always + recorder.spec(u32::try_from(at).unwrap_or(1))?)
    }

    fn spec(&self, spec: &u32, recorder: &mut Recorder<'_, Self, W>) -> Result<i64, LaunchError<Infallible>> {
        let fields = *spec..*spec + STRIDE;
        Ok(fields.map(|field| recorder.field(FieldId(field)).copied().unwrap_or(0)).sum())
    }
}

#[test]
fn specs_do_not_pile_up_and_one_still_asked_for_stays() {
    let steps = if cfg!(miri) { 12 } else { 200 };
    let mut world = Tracked::<i64, ()>::new();
    let mut values = vec![0];
    values.extend((1..(steps + 2) * i64::from(STRIDE)).map(|n| n * n));
    for &value in &values {
        world.add_field(value);
    }
    let sum = |values: &[i64], from: usize| values[from..from + STRIDE as usize].iter().sum::<i64>();
    let mut table = SpecTable::<Wanderer>::default();
    let handle = Handle::new(MemoId::unused(), 0, NonZeroU32::MIN);
    let (mut evaluated, mut most) = (0, 0);
    for step in 1..=steps {
        let at = step * i64::from(STRIDE) + 1;
        *world.field_mut(FieldId(0)).unwrap() = at;
        // Now and then a field of the spec that is always asked for is written, the first one or the last.
        let is_written = step % 7 == 0;
        if is_written {
            let field = if step % 2 == 0 { 1 } else { STRIDE };
            *world.field_mut(FieldId(field)).unwrap() += step;
            values[field as usize] += step;
        }
        let (entry, _, counted) =
            Entry::evaluate(handle, &Wanderer, &world.with_arguments(&[]), MissCause::First, &mut table)
                .unwrap();
        assert_eq!(*entry.output(), sum(&values, 1) + sum(&values, at as usize), "step {step}");
        assert_eq!(entry.dependencies().len(), 1 + 2 * STRIDE as usize);
        evaluated += counted.spec_evaluations;
        most = most.max(table.len());
    }
    let written = steps as u64 / 7;
    assert_eq!(
        evaluated,
        steps as u64 + 1 + written,
        "each new one, and the one that stays when it was written"
    );
    assert!(most < 30, "{most} specs of {steps}");
}
