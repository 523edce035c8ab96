//! Tables with aligned columns.

use std::{
    fmt::Display,
    io::{self, Write},
};

use console::{Alignment, measure_text_width, pad_str, style, truncate_str};
use textwrap::Options;

use crate::screen::Screen;

/// The columns and rows of a table. On a narrow terminal only the last column is cut, or wrapped.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    titles: [&'static str; N],
    rows: Vec<[String; N]>,
    wraps: bool,
}

/// The gap between two columns.
const GAP: &str = "  ";

/// The least width of the last column: below it, the terminal wraps the lines instead.
const LEAST: usize = 8;

/// The longest text of a cell, in columns: all rows are padded to the widest one.
const LONGEST: usize = 1000;

impl<const N: usize> Table<N> {
    /// Creates a table with these titles; a title that begins with `>` aligns its column to the right. Without any title there is no
    /// header.
    pub(crate) fn new(titles: [&'static str; N]) -> Self {
        let shown = titles.map(|title| title.trim_start_matches('>'));
        let header = shown.map(|title| style(title).bold().to_string());
        let has_header = shown.iter().any(|title| !title.is_empty());
        Self { titles, rows: if has_header { vec![header] } else { Vec::new() }, wraps: false }
    }

    /// Wraps text that does not fit instead of cutting it.
    pub(crate) fn wrapped(self) -> Self {
        Self { wraps: true, ..self }
    }

    pub(crate) fn row(&mut self, cells: [&dyn Display; N]) {
        self.rows.push(cells.map(|cell| truncate_str(&cell.to_string(), LONGEST, "…").into_owned()));
    }

    pub(crate) fn write(self, screen: &mut Screen) -> io::Result<()> {
        let widths: [usize; N] = std::array::from_fn(|column| {
            let cells = self.rows.iter().map(|row| measure_text_width(&row[column]));
            cells.max().unwrap_or(0)
        });
        let before: usize = widths.iter().take(N - 1).map(|width| width + GAP.len()).sum();
        let room = screen.width.filter(|width| *width >= before + LEAST);
        for row in &self.rows {
            let cells = row.iter().zip(widths).zip(self.titles).map(|((cell, width), title)| {
                let is_right = title.starts_with('>');
                pad_str(cell, width, if is_right { Alignment::Right } else { Alignment::Left }, None)
            });
            let cells: Vec<_> = cells.collect();
            let lines = match room {
                Some(width) if self.wraps => {
                    let (last, others) = cells.split_last().expect("a table has columns");
                    let head = others.join(GAP) + GAP;
                    let indent = " ".repeat(before);
                    let options = Options::new(width).initial_indent(&head).subsequent_indent(&indent);
                    textwrap::fill(last.trim_end(), options)
                }
                Some(width) => truncate_str(cells.join(GAP).trim_end(), width, "…").into_owned(),
                None => cells.join(GAP),
            };
            writeln!(screen, "{}", lines.trim_end())?;
        }
        Ok(())
    }
}

/// Returns the value, or a dash if it is unknown.
pub(crate) fn known(text: Option<impl Display>) -> String {
    text.map_or_else(|| style("-").dim().to_string(), |text| text.to_string())
}
