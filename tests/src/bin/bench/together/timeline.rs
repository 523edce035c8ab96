//! The picture of the documents: the builds of eight processes over time.

use kuva::{
    backend::svg::SvgBackend,
    plot::{LegendPosition, LinePlot},
    render::{layout::Layout, plots::Plot, render::render_multiple},
};

use super::process::Report;

/// Draws a row for each process and a bar for each of its builds: first with a loop of single calls, then with one call.
pub(super) fn draw(single: &[Report], many: &[Report]) -> String {
    let ways = [("a loop of get_or_build", "#d55e00", single), ("get_or_build_many", "#0072b2", many)];
    let rows: usize = ways.iter().map(|(.., reports)| reports.len()).sum();
    let (mut plots, mut row): (Vec<Plot>, usize) = (Vec::new(), rows);
    for (legend, colour, reports) in ways {
        let mut legend = Some(legend);
        for report in reports {
            for (began, ended) in &report.builds {
                let ends = [*began, *ended].map(|millis| (millis / 1e3, row as f64));
                let bar = LinePlot::new().with_data(ends).with_color(colour).with_stroke_width(10.0);
                plots.push(legend.take().map_or(bar.clone(), |legend| bar.with_legend(legend)).into());
            }
            row -= 1;
        }
    }
    let process = |reports: &[Report]| (1..=reports.len()).rev().map(|n| format!("process {n}"));
    let layout = Layout::auto_from_plots(&plots)
        .with_x_label("seconds")
        // Processes that build nothing have a row too.
        .with_y_axis_min(0.5)
        .with_y_axis_max(rows as f64 + 0.5)
        .with_y_categories(process(many).chain(process(single)).collect())
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_width(860.0)
        .with_height(120.0 + 20.0 * rows as f64);
    SvgBackend.render_scene(&render_multiple(plots, layout))
}
