//! Plays the scenarios of a fleet, prints their table, and draws the picture of docs/fleet.md.

use std::{
    error::Error,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use clap::Parser;
use kuva::{
    backend::svg::SvgBackend,
    plot::{LegendPosition, LinePlot, ScatterPlot},
    render::{layout::Layout, plots::Plot, render::render_multiple},
};
use warmstart_tests::simulation::{Outcome, Scenario, run, scenario};

/// Plays a fleet of simulated machines.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of machines.
    #[arg(long, default_value_t = 10_000)]
    machines: usize,
    /// The source of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plays only the scenarios whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Writes what happens to this file, one event a line.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draws docs/fleet.svg, and writes the table into docs/fleet.md.
    #[arg(long)]
    doc: bool,
}

/// The document, and the lines around its table.
const DOCUMENT: &str = "docs/fleet.md";
const BEGIN: &str = "<!-- table -->\n";
const END: &str = "<!-- end of the table -->\n";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let mut trace: Box<dyn Write> = match &arguments.trace {
        Some(path) => Box::new(BufWriter::new(File::create(path)?)),
        None => Box::new(io::sink()),
    };
    let (mut played, mut table) = (
        Vec::new(),
        String::from(
            "| scenario | builds (+ deaths + pauses) | requests | downloads | refused | time to warm, p50 / p99 |\n|---|---|---|---|---|---|\n",
        ),
    );
    for mut scenario in scenario::all(arguments.machines) {
        if !scenario.name.contains(&arguments.only) {
            continue;
        }
        scenario.seed = arguments.seed;
        let single = scenario.has_loop().then(|| scenario.as_loop());
        let outcome = run(&scenario, &mut trace)?;
        table += &(outcome.row(&scenario) + "\n");
        println!("{}: trace {:032x}", scenario.name, outcome.digest);
        let single_outcome = single.as_ref().map(|single| run(single, &mut trace)).transpose()?;
        if let (Some(single), Some(outcome)) = (&single, &single_outcome) {
            table += &(outcome.row(single) + "\n");
        }
        played.push((scenario, outcome, single_outcome));
    }
    trace.flush()?;
    print!("\n{table}");
    if arguments.doc {
        fs::write("docs/fleet.svg", draw(&played))?;
        let text = fs::read_to_string(DOCUMENT)?;
        let (before, rest) = text.split_once(BEGIN).ok_or("the document has no place for the table")?;
        let (_, after) = rest.split_once(END).ok_or("the table has no end in the document")?;
        fs::write(DOCUMENT, [before, BEGIN, "\n", &table, "\n", END, after].concat())?;
    }
    Ok(())
}

/// Draws a row for each scenario: a line from the median time to warm to that of 99 in 100 machines.
fn draw(played: &[(Scenario, Outcome, Option<Outcome>)]) -> String {
    let mut plots: Vec<Plot> = Vec::new();
    let mut legends = [Some("a loop of get_or_build"), Some("get_or_build_many")];
    let mut names = Vec::new();
    for (row, (scenario, outcome, single)) in played.iter().rev().enumerate() {
        let builds = outcome.builds as f64 / scenario.kernels.len() as f64;
        let requests = outcome.requests_each(scenario);
        let decimals = if builds < 10.0 { 2 } else { 0 };
        names.push(format!("{}: {builds:.decimals$} builds, {requests:.1} requests", scenario.name));
        for (way, outcome) in [single.as_ref(), Some(outcome)].into_iter().enumerate() {
            let Some(outcome) = outcome else { continue };
            let (colour, at) = (["#d55e00", "#0072b2"][way], (row + 1) as f64);
            let ends = [50, 99].map(|percent| (outcome.percentile(percent).max(0.1), at));
            let median = ScatterPlot::new().with_data([ends[0]]).with_color(colour).with_size(5.0);
            plots.push(median.into());
            let line = LinePlot::new().with_data(ends).with_color(colour).with_stroke_width(5.0);
            plots.push(legends[way].take().map_or(line.clone(), |legend| line.with_legend(legend)).into());
        }
    }
    let layout = Layout::auto_from_plots(&plots)
        .with_title("Builds a kernel, requests a machine, and the time to warm from the median to the 99th percentile")
        .with_x_label("seconds")
        .with_log_x()
        .with_y_axis_min(0.5)
        .with_y_axis_max(played.len() as f64 + 0.5)
        .with_y_categories(names)
        .with_legend_position(LegendPosition::OutsideBottomCenter)
        .with_width(1_000.0)
        .with_height(210.0 + 24.0 * played.len() as f64);
    SvgBackend.render_scene(&render_multiple(plots, layout))
}
