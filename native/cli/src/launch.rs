//! What an entry keeps for the launches of its artifact.

use std::io::Write;

use serde::Serialize;
use warmstart::Metadata;
use warmstart::launch_record::{LaunchRecord, RecordError};

use crate::{
    failure::Failure,
    screen::{Screen, Tone},
    table::{Cell, Table},
    text::visible,
};

/// A launch record, or why it is refused.
#[derive(Serialize)]
pub(crate) struct Launch {
    ids: Vec<Id>,
    results: Vec<Kept>,
    refused: Option<String>,
}

#[derive(Serialize)]
struct Id {
    id: String,
    kernel: String,
    task: i32,
}

#[derive(Serialize)]
struct Kept {
    kernel: String,
    output: bool,
    specs: usize,
    dependencies: usize,
}

impl Launch {
    /// The record among an artifact's attributes, if there is one.
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        let record = LaunchRecord::decode(metadata.attribute(LaunchRecord::ATTRIBUTE)?);
        Some(record.map_or_else(Self::refused, |record| Self::new(&record)))
    }

    fn new(record: &LaunchRecord) -> Self {
        let ids = record.rows().iter().map(|row| Id {
            id: row.id().to_string(),
            kernel: row.kernel().to_owned(),
            task: row.task(),
        });
        let results = record.results().iter().map(|result| Kept {
            kernel: result.kernel().to_owned(),
            output: result.has_output(),
            specs: result.specs(),
            dependencies: result.dependencies(),
        });
        Self { ids: ids.collect(), results: results.collect(), refused: None }
    }

    fn refused(error: RecordError) -> Self {
        Self { ids: Vec::new(), results: Vec::new(), refused: Some(error.to_string()) }
    }

    /// Writes it as tables.
    pub(crate) fn show(&self, screen: &mut Screen) -> Result<(), Failure> {
        if let Some(refused) = &self.refused {
            writeln!(screen, "\n{}", screen.paint.apply(Tone::Bad, visible(refused)))?;
        }
        if !self.ids.is_empty() {
            writeln!(screen)?;
            let mut table = Table::new(&["ID IN THE CODE", "KERNEL", ">TASK"]).wrapped();
            for row in &self.ids {
                let kernel = visible(&row.kernel).into_owned();
                table.row([row.id.clone().into(), kernel.into(), row.task.to_string().into()]);
            }
            table.write(screen)?;
        }
        if !self.results.is_empty() {
            writeln!(screen)?;
            let mut table = Table::new(&["RESULT FOR", "KEPT", ">SPECS", ">DEPENDENCIES"]).wrapped();
            for result in &self.results {
                table.row([
                    Cell::from(visible(&result.kernel).into_owned()),
                    if result.output { "whole" } else { "specs" }.into(),
                    result.specs.to_string().into(),
                    result.dependencies.to_string().into(),
                ]);
            }
            table.write(screen)?;
        }
        Ok(())
    }
}
