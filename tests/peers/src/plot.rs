//! The plots of the documents: ratios to peers, and cold and warm starts.

use kuva::{
    backend::svg::SvgBackend,
    plot::{BarPlot, LegendPosition, MarkerShape, ScatterPlot},
    render::{annotations::ReferenceLine, layout::Layout, plots::Plot, render::render_multiple},
};
use serde::Deserialize;

use crate::duel::Duel;

/// A mark and a colour for each peer; told apart without colours too.
const MARKS: [(&str, MarkerShape); 9] = [
    ("#0072b2", MarkerShape::Circle),
    ("#d55e00", MarkerShape::Square),
    ("#009e73", MarkerShape::Triangle),
    ("#cc79a7", MarkerShape::Diamond),
    ("#8c6d00", MarkerShape::Cross),
    ("#56b4e9", MarkerShape::Plus),
    ("#6b3fa0", MarkerShape::Circle),
    ("#e69f00", MarkerShape::Star),
    ("#222222", MarkerShape::Square),
];

/// The rows of the file store as points, a line for each job.
pub(crate) fn draw(duels: &[&Duel], title: &str) -> String {
    let mut jobs: Vec<&str> = Vec::new();
    let mut peers: Vec<&str> = Vec::new();
    for duel in duels.iter().filter(|duel| duel.ratio().is_some()) {
        for (names, name) in [(&mut jobs, &*duel.job), (&mut peers, &*duel.peer)] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    // The first job on top.
    jobs.reverse();
    let height = |job: &str| jobs.iter().position(|name| *name == job).map_or(0.0, |at| at as f64 + 1.0);
    let plots: Vec<Plot> = peers
        .iter()
        .zip(MARKS.iter().cycle())
        .map(|(peer, (colour, marker))| {
            let points: Vec<(f64, f64)> = duels
                .iter()
                .filter(|duel| duel.peer == **peer)
                .filter_map(|duel| Some((duel.ratio()?, height(&duel.job))))
                .collect();
            ScatterPlot::new()
                .with_data(points)
                .with_color(*colour)
                .with_size(5.0)
                .with_marker(*marker)
                .with_legend(*peer)
                .into()
        })
        .collect();
    let layout = Layout::auto_from_plots(&plots)
        .with_title(title)
        .with_x_label("our time / the peer's time: left of 1 ours is quicker")
        .with_y_categories(jobs.iter().map(|job| (*job).to_owned()).collect())
        .with_log_x()
        .with_reference_line(ReferenceLine::vertical(1.0))
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_width(960.0)
        .with_height(120.0 + 24.0 * jobs.len() as f64);
    SvgBackend.render_scene(&render_multiple(plots, layout))
}

/// The time of a start, as one of the examples printed it.
#[derive(Debug, Deserialize)]
pub(crate) struct Start {
    job: String,
    cold_ms: f64,
    warm_ms: f64,
}

/// Draws two bars for each job.
pub(crate) fn draw_starts(starts: &[Start]) -> String {
    // The first job is on top, and of each job the cold start.
    let bars = starts.iter().rev().fold(BarPlot::new(), |bars, start| {
        bars.with_group(&*start.job, [(start.warm_ms, "#d55e00"), (start.cold_ms, "#0072b2")])
    });
    let plots = vec![bars.with_legend(vec!["warm", "cold"]).with_horizontal(true).into()];
    let layout = Layout::auto_from_plots(&plots)
        .with_x_label("milliseconds, logarithmic")
        .with_log_x()
        .with_x_axis_min(0.1)
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_width(760.0)
        .with_height(110.0 + 50.0 * starts.len() as f64);
    SvgBackend.render_scene(&render_multiple(plots, layout))
}
