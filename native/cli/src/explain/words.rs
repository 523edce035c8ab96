//! How two values of a field are shown, so that the eye finds what differs.

use std::io::Write;

use warmstart::FieldChange;

use crate::{
    failure::Failure,
    screen::{Paint, Screen, Tone},
    text::visible,
};

/// A longer value is not compared word by word, in bytes: that takes the square of the time.
const LONGEST: usize = 2048;

/// Shows the field, its value in what is stored and its value in what was wanted.
pub(super) fn show(change: &FieldChange, screen: &mut Screen) -> Result<(), Failure> {
    writeln!(screen, "\n{}", screen.paint.apply(Tone::Heading, visible(&change.label)))?;
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    let [old_only, new_only] = old.zip(new).map_or_else(Default::default, differing);
    let stored = painted(old, &old_only, Tone::Bad, screen.paint);
    let wanted = painted(new, &new_only, Tone::Good, screen.paint);
    writeln!(screen, "  stored  {stored}\n  wanted  {wanted}")?;
    // Where nothing is the same, the two lines above say it all.
    let has_common = old.is_some_and(|old| old.split_whitespace().count() > old_only.len());
    if has_common && !(old_only.is_empty() && new_only.is_empty()) {
        let signed = |sign: char, tone, words: &[&str]| {
            let words =
                words.iter().map(|word| screen.paint.apply(tone, format!("{sign} {}", visible(word))));
            words.collect::<Vec<_>>()
        };
        let words = [signed('-', Tone::Bad, &old_only), signed('+', Tone::Good, &new_only)].concat();
        writeln!(screen, "          {}", words.join("   "))?;
    }
    Ok(())
}

/// The words that only one of the two has; none of longer values, which take long to compare.
fn differing<'a>((old, new): (&'a str, &'a str)) -> [Vec<&'a str>; 2] {
    if old.len().max(new.len()) > LONGEST {
        Default::default()
    } else {
        [without(old, new), without(new, old)]
    }
}

/// The words of `text` that `other` has not, or not so often.
fn without<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    let mut left: Vec<&str> = other.split_whitespace().collect();
    let is_missing = |word: &&str| match left.iter().position(|other| other == word) {
        Some(at) => {
            left.swap_remove(at);
            false
        }
        None => true,
    };
    text.split_whitespace().filter(is_missing).collect()
}

/// The value, with the words that differ in a colour.
fn painted(value: Option<&str>, differing: &[&str], tone: Tone, paint: Paint) -> String {
    let Some(value) = value else { return paint.apply(Tone::Faint, "nothing") };
    if value.is_empty() {
        return paint.apply(Tone::Faint, "empty");
    }
    let mut left = differing.to_vec();
    let pieces = value.split(' ').map(|word| match left.iter().position(|other| *other == word) {
        Some(at) => {
            left.swap_remove(at);
            paint.apply(tone, visible(word))
        }
        None => visible(word).into_owned(),
    });
    pieces.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_not_compared_word_by_word() {
        let [old, new] = ["a ", "b "].map(|word| word.repeat(LONGEST / 2));
        assert_eq!(differing((&old, &new)).map(|words| words.len()), [LONGEST / 2; 2]);
        let longer = format!("{new}b");
        assert_eq!(differing((&old, &longer)), [[""; 0]; 2]);
    }

    #[test]
    fn words_that_only_one_side_has_are_found_however_they_are_ordered() {
        assert_eq!(without("-O3 -g -DA", "-g -O2"), ["-O3", "-DA"]);
        assert_eq!(without("a a b", "b a"), ["a"]);
        assert_eq!(without("a b", "b a"), [""; 0]);
    }
}
