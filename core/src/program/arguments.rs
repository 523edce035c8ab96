//! Options, checked, as the arguments of a compiler.

use alloc::{
    borrow::{Cow, ToOwned},
    format,
    string::String,
    vec::Vec,
};

use super::{
    code::{CodeType, Compiler, TargetType},
    contents::Contents,
    options::{Cell, Gate, Kind, OptionName, Options, Row, Value},
    ptxas,
    refusal::Refusal,
};

/// What decides what options become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) code: CodeType,
    pub(crate) target: TargetType,
    pub(crate) compiler: Compiler,
    pub(crate) contents: &'a Contents<'a>,
}

/// The arguments of a compiler.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// As this compiler spells it.
    pub(crate) arch: String,
    /// All others.
    pub(crate) rest: Vec<Cow<'static, str>>,
}

impl Arguments {
    /// # Errors
    /// An option is refused.
    pub(crate) fn new(context: Context<'_>, options: &Options) -> Result<Self, Refusal> {
        let mut rest = Vec::new();
        for (option, value) in options {
            let row = option.row();
            if value.has_nul() {
                return Err(Refusal::malformed(
                    row.name,
                    "it has a NUL byte, at which the compiler would cut it",
                ));
            }
            if value.is_nothing(row.kind) {
                continue;
            }
            if let Gate::SideEffect(what) = row.gate {
                return Err(Refusal::side_effect(
                    row.name,
                    format!("it {what}, which a hit would not do; leave it out, or call the compiler itself"),
                ));
            }
            check(row, value)?;
            let cell = row.cell(context.compiler);
            match cell {
                Cell::Ignored => continue,
                Cell::Refused => return Err(refused(row, context)),
                Cell::Spelt | Cell::Either(..) | Cell::With(_) | Cell::Apart => pass(context, row)?,
            }
            // Whoever has all headers looks for none.
            let is_left_out = matches!(option, OptionName::IncludePath | OptionName::PreInclude);
            if !(context.is_closed() && is_left_out) {
                spell(&mut rest, row, cell, value);
            }
        }
        context.add_own(&mut rest, options);
        Ok(Self { arch: context.arch(options.option(OptionName::Arch))?, rest })
    }

    /// As the compiler is given them, the architecture first.
    pub(crate) fn into_list(self, compiler: Compiler) -> Vec<String> {
        let before = match compiler {
            Compiler::Nvrtc => "--gpu-architecture=",
            Compiler::NvJitLink | Compiler::Nvvm => "-arch=",
        };
        let arch = [before, &self.arch].concat();
        core::iter::once(arch).chain(self.rest.into_iter().map(Cow::into_owned)).collect()
    }
}

impl Context<'_> {
    /// Whether the key holds what the headers are, in one way or the other.
    pub(crate) const fn knows_headers(&self) -> bool {
        self.is_closed() || self.contents.extra().is_some()
    }

    /// Whether the compiler is given all headers, and so no directories and no names of its own to look for.
    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self.code, CodeType::Cxx) && self.contents.search().is_some()
    }

    /// What follows from more than one option, at the end.
    fn add_own(&self, rest: &mut Vec<Cow<'static, str>>, options: &Options) {
        match self.compiler {
            Compiler::Nvrtc => {
                if self.is_closed() || options.is_set(OptionName::NoSourceInclude) {
                    rest.push("--no-source-include".into());
                }
            }
            Compiler::NvJitLink => {
                if self.code == CodeType::LtoIr || options.is_set(OptionName::LinkTimeOptimization) {
                    rest.push("-lto".into());
                }
                if self.target == TargetType::Ptx {
                    rest.push("-ptx".into());
                }
            }
            Compiler::Nvvm => {
                if self.target == TargetType::LtoIr {
                    rest.push("-gen-lto".into());
                }
            }
        }
    }

    fn arch(&self, value: Option<&Value>) -> Result<String, Refusal> {
        let name = OptionName::Arch.as_str();
        let Some(Value::Text(arch)) = value else {
            return Err(Refusal::malformed(name, "it is missing; name the architecture, such as \"sm_90\""));
        };
        let Some((family, version)) = arch_parts(arch) else {
            return Err(Refusal::malformed(
                name,
                format!("{arch:?} is no architecture; write it as sm_90, sm_90a or compute_90"),
            ));
        };
        if self.target == TargetType::Cubin && family == "compute_" {
            return Err(Refusal::malformed(
                name,
                format!("a CUBIN is for a real architecture, not {arch:?}; write \"sm_{version}\""),
            ));
        }
        Ok(match self.compiler {
            Compiler::Nvvm => ["compute_", version].concat(),
            _ => arch.clone(),
        })
    }
}

/// `sm_` or `compute_`, and what follows it: digits, and the letter of a family or of one architecture.
fn arch_parts(arch: &str) -> Option<(&'static str, &str)> {
    let (family, version) = ["sm_", "compute_"]
        .into_iter()
        .find_map(|family| arch.strip_prefix(family).map(|version| (family, version)))?;
    let digits = version.strip_suffix(['a', 'f']).unwrap_or(version);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && digits.len() <= 4 && !digits.starts_with('0')).then_some((family, version))
}

/// Whether a value is of its option's kind, and in its range.
fn check(row: &Row, value: &Value) -> Result<(), Refusal> {
    let kind = || {
        Refusal::malformed(
            row.name,
            format!("it is {} ({value}), and takes {}", value.what(), row.kind.what()),
        )
    };
    match (row.kind, value) {
        (Kind::Flag | Kind::Switch | Kind::On, Value::Flag(_)) | (Kind::Text, Value::Text(_)) => Ok(()),
        (Kind::Number(least, most), Value::Number(number)) => {
            if (least..=most).contains(number) {
                return Ok(());
            }
            Err(Refusal::malformed(row.name, format!("{number} is not from {least} to {most}")))
        }
        (Kind::Word(words), Value::Text(word)) => is_one_of(row, words, word),
        (Kind::Numbers, Value::Number(number)) if *number > 0 => Ok(()),
        (Kind::Numbers, Value::Number(number)) => {
            Err(Refusal::malformed(row.name, format!("{number} is not from 1 on")))
        }
        (kind, Value::Text(item)) if kind.is_list() => check_item(row, item),
        (kind, Value::List(items)) if kind.is_list() => {
            items.iter().try_for_each(|item| check_item(row, item))
        }
        _ => Err(kind()),
    }
}

fn check_item(row: &Row, item: &str) -> Result<(), Refusal> {
    match row.kind {
        Kind::Words(words) => is_one_of(row, words, item),
        Kind::Numbers if canonical_number(item).is_none() => {
            Err(Refusal::malformed(row.name, format!("{item:?} is not a number from 1 on")))
        }
        Kind::Ptxas => ptxas::check(row.name, item),
        _ if item.is_empty() => Err(Refusal::malformed(row.name, "an item of it is empty; leave it out")),
        _ => Ok(()),
    }
}

fn is_one_of(row: &Row, words: &[&str], word: &str) -> Result<(), Refusal> {
    if words.contains(&word) {
        return Ok(());
    }
    Err(Refusal::malformed(row.name, format!("{word:?} is not one of {}", words.join(", "))))
}

/// The digits of a positive number, without zeros before it.
fn canonical_number(text: &str) -> Option<&str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = text.trim_start_matches('0');
    (is_number && (1..=10).contains(&digits.len())).then_some(digits)
}

fn refused(row: &Row, context: Context<'_>) -> Refusal {
    let Context { compiler, code, .. } = context;
    let what = match row.option {
        OptionName::LinkTimeOptimization => "; choose the target type ltoir instead",
        _ => "; leave it out",
    };
    Refusal::unsupported(row.name, format!("{compiler} does not take it for {code}{what}"))
}

/// Whether what the option makes the compiler read is in the key.
fn pass(context: Context<'_>, row: &Row) -> Result<(), Refusal> {
    let contents = context.contents;
    if contents.extra().is_some() {
        return Ok(());
    }
    match row.gate {
        Gate::Headers if row.option != OptionName::Name && !context.is_closed() => Err(Refusal::outside(
            row.name,
            "the compiler reads headers that the key does not know; give their contents, or an extra digest \
             of them",
        )),
        Gate::Libdevice if contents.libdevice().is_none() => Err(Refusal::outside(
            row.name,
            "the compiler reads a library that the key does not know; give its digest, or an extra digest",
        )),
        Gate::Digest => Err(Refusal::outside(
            row.name,
            "the compiler reads precompiled headers, which the key does not know; give an extra digest of \
             them",
        )),
        Gate::Open | Gate::SideEffect(_) | Gate::Headers | Gate::Libdevice => Ok(()),
    }
}

fn spell(rest: &mut Vec<Cow<'static, str>>, row: &Row, cell: Cell, value: &Value) {
    let before = match (cell, value) {
        (Cell::Spelt, Value::Flag(value)) => match row.kind {
            Kind::Switch => return rest.push(format!("{}={value}", row.spellings[0]).into()),
            Kind::On if *value => return rest.push(format!("{}=on", row.spellings[0]).into()),
            _ if *value => return rest.push(row.spellings[0].into()),
            _ => return,
        },
        (Cell::Either(yes, no), Value::Flag(value)) => {
            let argument = if *value { yes } else { no };
            return if argument.is_empty() {
            } else {
                rest.push(argument.into())
            };
        }
        (Cell::Spelt, _) => format!("{}=", row.spellings[0]),
        (Cell::With(before), _) => before.to_owned(),
        _ => return,
    };
    match value {
        Value::Number(number) => rest.push(format!("{before}{number}").into()),
        Value::Text(text) => spell_item(rest, row, &before, text),
        Value::List(items) => items.iter().for_each(|item| spell_item(rest, row, &before, item)),
        Value::Flag(_) => {}
    }
}

fn spell_item(rest: &mut Vec<Cow<'static, str>>, row: &Row, before: &str, item: &str) {
    let item = match row.kind {
        Kind::Numbers => canonical_number(item).unwrap_or(item),
        _ => item,
    };
    // ptxas fails badly on an argument that is empty.
    if row.kind == Kind::Ptxas && item.is_empty() {
        return;
    }
    let mut argument = before.to_owned();
    argument.push_str(item);
    rest.push(argument.into());
}
