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
    pub(crate) fn new(
        (code, target): (CodeType, TargetType),
        options: &Options,
        contents: &Contents<'_>,
    ) -> Result<Self, Refusal> {
        let compiler = code.compiler();
        let is_closed = contents.has_headers_of(code);
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
            match row.cell(compiler) {
                Cell::Ignored => {}
                Cell::Refused => {
                    let instead = match option {
                        OptionName::LinkTimeOptimization => "choose the target type ltoir instead",
                        _ => "leave it out",
                    };
                    return Err(Refusal::unsupported(
                        row.name,
                        format!("{compiler} does not take it for {code}; {instead}"),
                    ));
                }
                cell => {
                    pass(row, contents, is_closed)?;
                    // Whoever has all headers looks for none.
                    if !(is_closed && matches!(option, OptionName::IncludePath | OptionName::PreInclude)) {
                        spell(&mut rest, row, cell, value);
                    }
                }
            }
        }
        // What follows from more than one option.
        let own = match compiler {
            Compiler::Nvrtc => [
                (is_closed || options.is_set(OptionName::NoSourceInclude), "--no-source-include"),
                (false, ""),
            ],
            Compiler::NvJitLink => {
                let is_lto = code == CodeType::LtoIr || options.is_set(OptionName::LinkTimeOptimization);
                [(is_lto, "-lto"), (target == TargetType::Ptx, "-ptx")]
            }
            Compiler::Nvvm => [(target == TargetType::LtoIr, "-gen-lto"), (false, "")],
        };
        rest.extend(own.into_iter().filter(|(is_set, _)| *is_set).map(|(_, argument)| argument.into()));
        Ok(Self { arch: arch((code, target), options)?, rest })
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

/// The architecture as the compiler spells it.
fn arch((code, target): (CodeType, TargetType), options: &Options) -> Result<String, Refusal> {
    let refused = |why: String| Refusal::malformed(OptionName::Arch.as_str(), why);
    let Some(Value::Text(arch)) = options.option(OptionName::Arch) else {
        return Err(refused("it is missing; name the architecture, such as \"sm_90\"".into()));
    };
    let Some((family, version)) = arch_parts(arch) else {
        return Err(refused(format!("{arch:?} is no architecture; write it as sm_90, sm_90a or compute_90")));
    };
    if target == TargetType::Cubin && family == "compute_" {
        return Err(refused(format!(
            "a CUBIN is for a real architecture, not {arch:?}; write \"sm_{version}\""
        )));
    }
    Ok(if code == CodeType::Nvvm { ["compute_", version].concat() } else { arch.clone() })
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
    match (row.kind, value) {
        (Kind::Flag | Kind::Switch | Kind::On, Value::Flag(_)) | (Kind::Text, Value::Text(_)) => Ok(()),
        (Kind::Number(least, most), Value::Number(number)) if (least..=most).contains(number) => Ok(()),
        (Kind::Number(least, most), Value::Number(number)) => {
            Err(Refusal::malformed(row.name, format!("{number} is not from {least} to {most}")))
        }
        (Kind::Word(words), Value::Text(word)) => is_one_of(row, words, word),
        (Kind::Numbers, Value::Number(number)) => check_item(row, &format!("{number}")),
        (kind, Value::Text(item)) if kind.is_list() => check_item(row, item),
        (kind, Value::List(items)) if kind.is_list() => {
            items.iter().try_for_each(|item| check_item(row, item))
        }
        (kind, _) => Err(Refusal::malformed(row.name, format!("it is {value}, and takes {}", kind.what()))),
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

/// Whether what the option makes the compiler read is in the key.
fn pass(row: &Row, contents: &Contents<'_>, is_closed: bool) -> Result<(), Refusal> {
    let unknown = match row.gate {
        _ if contents.extra().is_some() => return Ok(()),
        Gate::Headers if row.option != OptionName::Name && !is_closed => {
            "the compiler reads headers that the key does not know; give their contents, or an extra digest of them"
        }
        Gate::Libdevice if contents.libdevice().is_none() => {
            "the compiler reads a library that the key does not know; give its digest, or an extra digest"
        }
        Gate::Digest => {
            "the compiler reads precompiled headers, which the key does not know; give an extra digest of them"
        }
        Gate::Open | Gate::SideEffect(_) | Gate::Headers | Gate::Libdevice => return Ok(()),
    };
    Err(Refusal::outside(row.name, unknown))
}

fn spell(rest: &mut Vec<Cow<'static, str>>, row: &Row, cell: Cell, value: &Value) {
    let long = row.spellings.first().copied().unwrap_or_default();
    let before = match (cell, value) {
        (Cell::Apart, _) => return,
        (Cell::Either(yes, no), Value::Flag(is_yes)) => {
            let argument = if *is_yes { yes } else { no };
            rest.extend((!argument.is_empty()).then(|| argument.into()));
            return;
        }
        (_, Value::Flag(is_yes)) => {
            rest.extend(match row.kind {
                Kind::Switch => Some(format!("{long}={is_yes}").into()),
                Kind::On => is_yes.then(|| format!("{long}=on").into()),
                _ => Some(long.into()),
            });
            return;
        }
        (Cell::With(before), _) => before.to_owned(),
        _ => [long, "="].concat(),
    };
    let mut item = |item: &str| match row.kind {
        Kind::Numbers => rest.push([&before, canonical_number(item).unwrap_or(item)].concat().into()),
        // ptxas fails badly on an argument that is empty.
        Kind::Ptxas if item.is_empty() => {}
        _ => rest.push([&before, item].concat().into()),
    };
    match value {
        Value::Number(number) => item(&format!("{number}")),
        Value::Text(text) => item(text),
        Value::List(items) => items.iter().for_each(|text| item(text)),
        Value::Flag(_) => {}
    }
}
