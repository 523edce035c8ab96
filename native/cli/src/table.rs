//! Columns that stand below each other: `comfy-table` lays them out, and what is ours is the colours.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, presets};
use console::truncate_str;

use crate::screen::{Screen, Tone};

/// The columns and rows of a table. Only the last column is cut, or goes on in the next line, where a terminal is too
/// narrow for it.
#[derive(Debug)]
pub(crate) struct Table {
    layout: comfy_table::Table,
    titles: Vec<&'static str>,
    wraps: bool,
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
const GAP: u16 = 2;

/// A last column that is narrower tells nothing: the terminal breaks the lines instead.
const LEAST: u16 = 8;

/// In columns. All rows are laid out as wide as the widest: a longer text would take that much memory for each of them.
const LONGEST: usize = 1000;

/// What stands before a text of a tone while it is laid out, and, for [`Tone::Plain`], after it. They take no room, and no
/// text has them: [`visible`](crate::text::visible) writes them out. With escape sequences of its own, `comfy-table`
/// brings a terminal library along.
const MARKS: [(char, Tone); 6] = [
    ('\u{206a}', Tone::Plain),
    ('\u{206b}', Tone::Heading),
    ('\u{206c}', Tone::Name),
    ('\u{206d}', Tone::Faint),
    ('\u{206e}', Tone::Good),
    ('\u{206f}', Tone::Bad),
];

impl Table {
    /// A table with these titles; one that begins with `>` is that of a column that ends at its right side.
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        let mut table = Self::without_header(titles);
        let header = titles.iter().map(|title| Cell::new(Tone::Heading, title.trim_start_matches('>')));
        table.layout.set_header(header.map(|cell| cell.marked()).collect::<Vec<_>>());
        table
    }

    /// A table of which the columns have no titles, only their sides.
    pub(crate) fn without_header(titles: &[&'static str]) -> Self {
        let mut layout = comfy_table::Table::new();
        layout.load_style(presets::NOTHING);
        Self { layout, titles: titles.to_vec(), wraps: false }
    }

    /// What does not fit is not cut: it goes on in the next line.
    pub(crate) fn wrapped(self) -> Self {
        Self { wraps: true, ..self }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.layout.add_row(cells.map(|cell| cell.marked()));
    }

    pub(crate) fn write(mut self, screen: &mut Screen) -> io::Result<()> {
        let last = self.titles.len().saturating_sub(1);
        for (at, (column, title)) in self.layout.column_iter_mut().zip(&self.titles).enumerate() {
            if title.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if at == last {
                column.set_padding((0, 0));
            } else {
                column.set_padding((0, GAP)).set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        let widths = self.layout.column_max_content_widths();
        let before = widths.split_last().map_or(0, |(_, before)| {
            before.iter().fold(0, |sum: u16, width| sum.saturating_add(*width).saturating_add(GAP))
        });
        if let Some(width) = screen.width.filter(|width| *width >= before.saturating_add(LEAST)) {
            self.layout.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
            if !self.wraps {
                self.layout.row_iter_mut().for_each(|row| _ = row.max_height(1));
            }
        }
        let mut tone = Tone::Plain;
        for line in self.layout.lines() {
            // Of a text that was cut, the end is missing.
            if !self.wraps {
                tone = Tone::Plain;
            }
            let mut rest = line.trim_end();
            while let Some(at) = rest.find(|char| tone_of(char).is_some()) {
                let (text, marked) = rest.split_at(at);
                write!(screen, "{}", screen.paint.apply(tone, text))?;
                let mut chars = marked.chars();
                tone = chars.next().and_then(tone_of).unwrap_or_default();
                rest = chars.as_str();
            }
            writeln!(screen, "{}", screen.paint.apply(tone, rest))?;
        }
        Ok(())
    }
}

impl Cell {
    fn marked(&self) -> comfy_table::Cell {
        let is_longer = self.text.len() > LONGEST;
        let text =
            if is_longer { truncate_str(&self.text, LONGEST, "…") } else { self.text.as_str().into() };
        let mark = MARKS.iter().find(|(_, tone)| *tone == self.tone && *tone != Tone::Plain);
        comfy_table::Cell::new(match mark {
            Some((mark, _)) => format!("{mark}{text}{}", MARKS[0].0),
            None => text.into_owned(),
        })
    }
}

fn tone_of(char: char) -> Option<Tone> {
    MARKS.iter().find(|(mark, _)| *mark == char).map(|(_, tone)| *tone)
}
