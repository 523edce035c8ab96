//! The steps, each in processes of its own.

use std::{env, io, path::Path, process::Command};

use clap::ValueEnum;
use warmstart_tests::{
    smaps::FileMappings,
    weights::{
        COUNT,
        process::{Process, Proof, Report, Role, stamp},
    },
};

use crate::Packer;

/// Warm processes at once.
const AT_ONCE: usize = 4;

/// The results of all steps.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) packer: Packer,
    /// Bytes of the file once it was saved.
    pub(crate) file: u64,
    pub(crate) cold: Step,
    pub(crate) warm: Step,
    /// The same weight by weight, with no operator kept.
    pub(crate) in_turn: Report,
    pub(crate) at_once: Step,
    pub(crate) beside_writer: Step,
    /// The result of loading and unloading ten times.
    pub(crate) cycles: Report,
    /// By how many bytes the file grew by that.
    pub(crate) growth: i64,
    /// Whether the file was written to meanwhile.
    pub(crate) is_touched: bool,
}

/// The results of processes that did the same at the same time.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) reports: Vec<Report>,
    /// Their mappings of the file when all of them were done, where the system reports them.
    pub(crate) mapped: Vec<Option<FileMappings>>,
    pub(crate) proofs: Vec<Proof>,
}

impl Outcome {
    /// Whether everything that is promised was so.
    pub(crate) fn is_good(&self) -> bool {
        self.is_verified() && self.warm_packs() == 0 && self.growth == 0 && !self.is_touched
    }

    /// Whether all checksums held, and what was computed warm is what was computed cold, bit for bit.
    pub(crate) fn is_verified(&self) -> bool {
        let expected = Proof { digest: self.cold.proofs[0].digest, proved: COUNT as u64 };
        self.steps().iter().all(|(_, step)| step.proofs.iter().all(|proof| *proof == expected))
    }

    /// Returns the number of weights that were packed although they were saved before.
    pub(crate) fn warm_packs(&self) -> usize {
        let warm = self.steps().into_iter().skip(1).flat_map(|(_, step)| &step.reports);
        warm.map(|report| report.packed).sum::<usize>() + self.in_turn.packed + self.cycles.packed
    }

    /// The steps in their order.
    pub(crate) fn steps(&self) -> [(&'static str, &Step); 4] {
        [
            ("cold", &self.cold),
            ("warm", &self.warm),
            ("four at once", &self.at_once),
            ("beside a writer", &self.beside_writer),
        ]
    }
}

impl Step {
    /// The time of the slowest, in milliseconds.
    pub(crate) fn millis(&self) -> f64 {
        self.reports.iter().map(|report| report.millis).fold(0.0, f64::max)
    }

    /// The most that the anonymous memory of one of them grew by.
    pub(crate) fn anonymous(&self) -> Option<u64> {
        self.reports.iter().map(|report| report.anon_bytes).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// The sum of something over what they had mapped.
    pub(crate) fn sum(&self, of: impl Fn(&FileMappings) -> u64) -> Option<u64> {
        self.mapped.iter().map(|mapped| mapped.as_ref().map(&of)).sum()
    }
}

/// Runs all steps.
pub(crate) fn run(packer: Packer, path: &Path) -> io::Result<Outcome> {
    let step = |role, count| step(packer, path, role, count);
    let cold = step(Role::Cold, 1)?;
    let (file, _) = stamp(path)?;
    let warm = step(Role::Warm, 1)?;
    let in_turn = alone(packer, path, Role::WarmInTurn)?;
    let at_once = step(Role::Warm, AT_ONCE)?;

    let mut writer = start(packer, path, Role::Writer)?;
    writer.go()?;
    if writer.report()?.packed != 1 {
        return Err(io::Error::other("the writer packed into the heap, not into the file"));
    }
    let beside_writer = step(Role::Warm, 1)?;
    writer.end()?;

    let before = stamp(path)?;
    let cycles = alone(packer, path, Role::Cycles)?;
    let after = stamp(path)?;
    Ok(Outcome {
        packer,
        file,
        cold,
        warm,
        in_turn,
        at_once,
        beside_writer,
        cycles,
        growth: after.0.cast_signed() - file.cast_signed(),
        is_touched: before.1 != after.1,
    })
}

/// Has processes do the same at the same time. None ends before all have reported.
fn step(packer: Packer, path: &Path, role: Role, count: usize) -> io::Result<Step> {
    let mut processes = (0..count).map(|_| start(packer, path, role)).collect::<io::Result<Vec<_>>>()?;
    processes.iter_mut().try_for_each(Process::go)?;
    let reports = processes.iter_mut().map(Process::report).collect::<io::Result<_>>()?;
    let mapped = processes.iter().map(|process| process.mapped(path)).collect();
    let proofs = processes.into_iter().map(Process::end).collect::<io::Result<_>>()?;
    Ok(Step { reports, mapped, proofs })
}

/// Has one process do something that there is nothing to prove of.
fn alone(packer: Packer, path: &Path, role: Role) -> io::Result<Report> {
    let mut process = start(packer, path, role)?;
    process.go()?;
    let report = process.report()?;
    process.end()?;
    Ok(report)
}

fn start(packer: Packer, path: &Path, role: Role) -> io::Result<Process> {
    let role = role.to_possible_value().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["--packer", packer.name(), "--child", role.get_name(), "--path"]).arg(path);
    Process::start(&mut command)
}
