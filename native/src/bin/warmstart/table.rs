//! Columns that stand below each other.

use std::io::{self, Write};

use console::measure_text_width;

use crate::{
    screen::{Screen, Tone},
    text::cut,
};

/// The columns and rows of a table. Only the last column is cut, or goes on in the next line, where a terminal is too
/// narrow for it.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    has_header: bool,
    wraps: bool,
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Left,
    Right,
}

#[derive(Debug)]
struct Column {
    title: &'static str,
    side: Side,
}

/// A piece of text that stands in a table.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }

    /// What is not known is a dash.
    pub(crate) fn known(text: Option<String>) -> Self {
        text.map_or_else(|| Self::new(Tone::Faint, "-"), |text| Self::new(Tone::Plain, text))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(Tone::Plain, text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// What stands between two columns.
const GAP: usize = 2;

/// A label that is cut to fewer columns than this tells nothing: the line wraps instead.
const LEAST: usize = 8;

impl Table {
    /// A table with these titles; one that begins with `>` is that of a column that ends at its right side.
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        let columns = titles.iter().map(|title| match title.strip_prefix('>') {
            Some(title) => Column { title, side: Side::Right },
            None => Column { title, side: Side::Left },
        });
        Self { columns: columns.collect(), rows: Vec::new(), has_header: true, wraps: false }
    }

    /// A table of which the columns have no titles, only their sides.
    pub(crate) fn without_header(titles: &[&'static str]) -> Self {
        Self { has_header: false, ..Self::new(titles) }
    }

    /// Nothing is cut: what does not fit goes on in the next line.
    pub(crate) fn wrapped(self) -> Self {
        Self { wraps: true, ..self }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells.into());
    }

    pub(crate) fn write(&self, screen: &mut Screen) -> io::Result<()> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .map(|column| if self.has_header { measure_text_width(column.title) } else { 0 })
            .collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = measure_text_width(&cell.text).max(*width);
            }
        }
        let last = widths.len().saturating_sub(1);
        let before: usize = widths[..last].iter().map(|width| width + GAP).sum();
        let room = screen.width.map(|width| width.saturating_sub(before)).filter(|room| *room >= LEAST);
        let room = room.unwrap_or(usize::MAX);

        if self.has_header {
            let header: Vec<Cell> =
                self.columns.iter().map(|column| Cell::new(Tone::Heading, column.title)).collect();
            self.write_row(screen, &header, &widths, room)?;
        }
        for row in &self.rows {
            self.write_row(screen, row, &widths, room)?;
            if self.wraps
                && let Some(cell) = row.last()
            {
                for line in wrap(&cell.text, room).iter().skip(1) {
                    writeln!(screen, "{:before$}{}", "", screen.paint.apply(cell.tone, line))?;
                }
            }
        }
        Ok(())
    }

    fn write_row(&self, screen: &mut Screen, row: &[Cell], widths: &[usize], room: usize) -> io::Result<()> {
        let mut line = String::new();
        let mut pending = 0;
        for (at, ((cell, width), column)) in row.iter().zip(widths).zip(&self.columns).enumerate() {
            let is_last = at + 1 == widths.len();
            let text = match is_last {
                true if self.wraps => wrap(&cell.text, room).swap_remove(0).into(),
                true => cut(&cell.text, room),
                false => cell.text.as_str().into(),
            };
            let padding = width.saturating_sub(measure_text_width(&text));
            let (left, right) = match column.side {
                Side::Left => (0, padding),
                Side::Right if is_last => (padding.min(room.saturating_sub(1)), 0),
                Side::Right => (padding, 0),
            };
            if !text.is_empty() {
                line.extend(std::iter::repeat_n(' ', pending + left));
                line.push_str(&screen.paint.apply(cell.tone, &text));
                pending = right + GAP;
            } else {
                pending += left + right + GAP;
            }
        }
        writeln!(screen, "{line}")
    }
}

/// The text in lines of at most so many columns, broken at blanks where there are any. There is one line at least.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut left = columns;
    for word in text.split_inclusive(' ') {
        let width = measure_text_width(word.trim_end());
        if width > left && left < columns {
            lines.push(String::new());
            left = columns;
        }
        for char in word.chars() {
            let width = measure_text_width(char.encode_utf8(&mut [0; 4]));
            if width > left {
                lines.push(String::new());
                left = columns;
                if char == ' ' {
                    continue;
                }
            }
            left = left.saturating_sub(width);
            lines.last_mut().expect("there is one line at least").push(char);
        }
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_goes_on_in_the_next_line() {
        assert_eq!(wrap("adx aes avx", 7), ["adx aes", "avx"]);
        assert_eq!(wrap("adx aes avx", 8), ["adx aes", "avx"]);
        assert_eq!(wrap("a abcdefgh b", 4), ["a", "abcd", "efgh", "b"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("one line", usize::MAX), ["one line"]);
    }
}
