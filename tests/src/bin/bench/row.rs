//! The results of a benchmark: rows, as a table and as JSON.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use warmstart_tests::measure::Comparison;

/// A measured number, the peer or floor that it is compared with, and its bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    name: String,
    value: f64,
    unit: &'static str,
    /// The floor or the peer that the value is compared with.
    against: &'static str,
    /// `None` marks a row that only informs.
    bound: Option<f64>,
    sense: Sense,
    holds: bool,
    /// The file system that was measured, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    medium: Option<&'static str>,
}

/// On which side of its bound a value is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Sense {
    #[serde(rename = "<=")]
    AtMost,
    #[serde(rename = ">=")]
    AtLeast,
}

impl Row {
    /// A row with a bound. A value that is no number holds nowhere.
    pub(crate) fn bounded(
        name: impl Into<String>,
        (value, unit): (f64, &'static str),
        against: &'static str,
        sense: Sense,
        bound: f64,
    ) -> Self {
        let holds = match sense {
            Sense::AtMost => value <= bound,
            Sense::AtLeast => value >= bound,
        };
        Self { name: name.into(), value, unit, against, bound: Some(bound), sense, holds, medium: None }
    }

    /// A row that only informs.
    pub(crate) fn note(
        name: impl Into<String>,
        (value, unit): (f64, &'static str),
        against: &'static str,
    ) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            against,
            bound: None,
            sense: Sense::AtMost,
            holds: true,
            medium: None,
        }
    }

    /// A row that was not measured. It says what is missing, and how to get it.
    pub(crate) fn missing(name: impl Into<String>, what: &'static str) -> Self {
        Self::note(name, (f64::NAN, "not measured"), what)
    }

    /// The same row, measured on a file system of this name.
    pub(crate) const fn on(mut self, medium: &'static str) -> Self {
        self.medium = Some(medium);
        self
    }

    /// Whether the bound holds; true without one.
    pub(crate) const fn holds(&self) -> bool {
        self.holds
    }

    fn verdict(&self) -> &'static str {
        match (self.bound, self.holds) {
            (None, _) => "",
            (Some(_), true) => "holds",
            (Some(_), false) => "DOES NOT HOLD",
        }
    }
}

impl Sense {
    const fn symbol(self) -> &'static str {
        match self {
            Self::AtMost => "<=",
            Self::AtLeast => ">=",
        }
    }
}

/// A comparison as rows.
pub(crate) trait Compared {
    /// The ratio against its bound, and what it was made of.
    fn rows(&self, name: &str, against: &'static str, bound: f64) -> [Row; 4];
}

impl Compared for Comparison {
    fn rows(&self, name: &str, against: &'static str, bound: f64) -> [Row; 4] {
        [
            Row::bounded(name, (self.ratio(), "ratio"), against, Sense::AtMost, bound),
            Row::note(format!("{name}/of_medians"), (self.subject_ns / self.floor_ns, "ratio"), against),
            Row::note(format!("{name}/warmstart"), (self.subject_ns, "ns"), "none"),
            Row::note(format!("{name}/{against}"), (self.floor_ns, "ns"), "none"),
        ]
    }
}

/// The rows for a person.
pub(crate) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(["row", "on", "value", "unit", "against", "bound", ""]);
    for row in rows {
        let bound = row.bound.map_or_else(String::new, |bound| format!("{} {bound}", row.sense.symbol()));
        let medium = row.medium.unwrap_or_default();
        table.add_row([
            &row.name,
            medium,
            &readable(row.value),
            row.unit,
            row.against,
            &bound,
            row.verdict(),
        ]);
    }
    if let Some(values) = table.column_mut(2) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The rows for a program: `{"bench":NAME,"rows":[..]}` in one line.
pub(crate) fn json(bench: &str, rows: &[Row]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Report<'a> {
        bench: &'a str,
        rows: &'a [Row],
    }
    let mut text = serde_json::to_string(&Report { bench, rows })?;
    text.push('\n');
    Ok(text)
}

/// Four digits or so: more would be noise.
fn readable(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    let decimals = match value.abs() {
        // So that the ratio of a hit to a compile is no zero.
        f64::MIN_POSITIVE..0.01 => 6,
        ..10.0 => 3,
        10.0..100.0 => 2,
        100.0..1000.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64) -> Row {
        Row::bounded("files_hit/1KiB", (value, "ratio"), "floor", Sense::AtMost, 1.3)
    }

    #[test]
    fn the_file_has_the_documented_fields_in_their_order() {
        let rows = [ratio(1.21), Row::note("files_hit/1KiB/floor", (812.5, "ns"), "none")];
        let expected = concat!(
            r#"{"bench":"stores","rows":["#,
            r#"{"name":"files_hit/1KiB","value":1.21,"unit":"ratio","against":"floor","bound":1.3,"sense":"<=","holds":true},"#,
            r#"{"name":"files_hit/1KiB/floor","value":812.5,"unit":"ns","against":"none","bound":null,"sense":"<=","holds":true}"#,
            "]}\n"
        );
        assert_eq!(json("stores", &rows).unwrap(), expected);
    }

    #[test]
    fn a_bound_holds_up_to_itself_and_never_for_what_is_no_number() {
        let rate = |value| Row::bounded("rate", (value, "1/s"), "peer", Sense::AtLeast, 2.0);
        assert!(ratio(1.3).holds() && !ratio(1.300_001).holds() && !ratio(f64::NAN).holds());
        assert!(rate(2.0).holds() && !rate(1.999).holds() && !rate(f64::NAN).holds());
    }

    #[test]
    fn the_table_says_which_bounds_hold() {
        let text = table(&[ratio(1.2), ratio(1.4), Row::note("n", (12345.6, "ns"), "none")]).to_string();
        let verdicts: Vec<bool> =
            text.lines().skip(3).take(3).map(|line| line.contains("DOES NOT HOLD")).collect();
        assert_eq!(verdicts, [false, true, false], "{text}");
        assert!(text.contains("<= 1.3") && text.contains("12346"), "{text}");
    }

    #[test]
    fn a_small_ratio_is_not_shown_as_nothing() {
        let shown = [0.0, 0.000_123, 0.0123, 12.3, 1234.5].map(readable);
        assert_eq!(shown, ["0.000", "0.000123", "0.012", "12.30", "1234"]);
    }

    #[test]
    fn unmeasured_row_says_what_is_missing_and_has_no_number() {
        let row = Row::missing("hit/files/one_call", "cuda-core");
        let text = table(std::slice::from_ref(&row)).to_string();
        assert!(
            text.contains("not measured") && text.contains("cuda-core") && !text.contains("NaN"),
            "{text}"
        );
        assert!(json("cuda", &[row]).unwrap().contains(r#""value":null"#));
    }
}
