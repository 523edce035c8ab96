//! Arguments of NVRTC, read as NVRTC reads them.

use alloc::format;

use super::{
    options::{Kind, OptionName, Options, Value},
    refusal::{Refusal, shown},
};

/// Spellings of an option together with a value of it.
const FIXED: [(&str, OptionName, bool); 6] = [
    ("--device-c", OptionName::RelocatableDeviceCode, true),
    ("-dc", OptionName::RelocatableDeviceCode, true),
    ("--device-w", OptionName::RelocatableDeviceCode, false),
    ("-dw", OptionName::RelocatableDeviceCode, false),
    ("--display-error-number", OptionName::NoDisplayErrorNumber, false),
    ("-err-no", OptionName::NoDisplayErrorNumber, false),
];

/// The only spellings whose value may follow without anything between.
const JOINED: [(&str, OptionName); 3] =
    [("-D", OptionName::DefineMacro), ("-U", OptionName::UndefineMacro), ("-I", OptionName::IncludePath)];

pub(crate) fn parse<T: AsRef<str>>(mut arguments: impl Iterator<Item = T>) -> Result<Options, Refusal> {
    let mut options = Options::new();
    while let Some(argument) = arguments.next() {
        let argument = argument.as_ref();
        if argument.contains('\0') {
            return Err(Refusal::malformed(
                shown(argument),
                "it has a NUL byte, at which the compiler would cut it",
            ));
        }
        if let Some((_, option, value)) = FIXED.iter().find(|(spelling, ..)| *spelling == argument) {
            set_flag(&mut options, *option, *value)?;
            continue;
        }
        let (option, value) = split(argument)?;
        let kind = option.row().kind;
        if kind == Kind::Flag && option != OptionName::UseBundledHeaders {
            if value.is_some() {
                return Err(Refusal::malformed(option.as_str(), "as an argument it takes no value"));
            }
            set_flag(&mut options, option, true)?;
            continue;
        }
        let following;
        let value = match value {
            Some(value) => value,
            None => {
                following = arguments.next().ok_or_else(|| {
                    Refusal::malformed(
                        option.as_str(),
                        format!("nothing follows {argument}, which takes a value"),
                    )
                })?;
                following.as_ref()
            }
        };
        take(&mut options, option, value)?;
    }
    Ok(options)
}

/// The option, and the value if it is in the same argument.
fn split(argument: &str) -> Result<(OptionName, Option<&str>), Refusal> {
    if let Some((spelling, option)) = JOINED.iter().find(|(spelling, _)| argument.starts_with(spelling)) {
        let value = &argument[spelling.len()..];
        let value = value.strip_prefix('=').unwrap_or(value).trim_start();
        return Ok((*option, (argument != *spelling).then_some(value)));
    }
    let (spelling, value) = match argument.split_once('=') {
        Some((spelling, value)) => (spelling, Some(value)),
        None => (argument, None),
    };
    match OptionName::spelled(spelling) {
        Some(option) => Ok((option, value)),
        None => Err(Refusal::unsupported(
            shown(argument),
            "no option of NVRTC that is known here is spelt like this; leave it out",
        )),
    }
}

fn take(options: &mut Options, option: OptionName, value: &str) -> Result<(), Refusal> {
    let refused = |what: &str| Refusal::malformed(option.as_str(), format!("{value:?} is not {what}"));
    if value.contains('\0') {
        return Err(Refusal::malformed(
            option.as_str(),
            "it has a NUL byte, at which the compiler would cut it",
        ));
    }
    match option.row().kind {
        // Of a flag only that it is given counts, and then it is refused.
        Kind::Flag => options.set(option, true),
        Kind::Switch => match value {
            "true" => set_flag(options, option, true)?,
            "false" => set_flag(options, option, false)?,
            _ => return Err(refused("true or false")),
        },
        Kind::On if value == "on" => options.set(option, true),
        Kind::On => return Err(refused("on")),
        Kind::Number(..) => {
            options.set(option, number(value).ok_or_else(|| refused("a number"))?);
        }
        Kind::Text | Kind::Word(_) => options.set(option, value),
        Kind::Words(_) => value.split(',').for_each(|word| options.append(option, word)),
        Kind::Numbers => {
            for one in value.split(',') {
                let number = number(one).ok_or_else(|| refused("a list of numbers"))?;
                options.append(option, format!("{number}"));
            }
        }
        Kind::List => {
            if option == OptionName::DefineMacro {
                is_not_undefined(options, value)?;
            }
            options.append(option, value);
        }
        Kind::Ptxas => options.append(option, value),
        Kind::Sources => return Err(refused("an argument")),
    }
    Ok(())
}

/// NVRTC takes the last of two values, but not of these two.
fn set_flag(options: &mut Options, option: OptionName, value: bool) -> Result<(), Refusal> {
    let is_pair = matches!(option, OptionName::RelocatableDeviceCode | OptionName::NoDisplayErrorNumber);
    match options.option(option) {
        Some(Value::Flag(before)) if is_pair && *before != value => {
            Err(Refusal::malformed(option.as_str(), "it is both asked for and not; leave one of the two out"))
        }
        _ => {
            options.set(option, value);
            Ok(())
        }
    }
}

/// All definitions are passed first, so one that comes after the removal of the same macro would be lost.
fn is_not_undefined(options: &Options, definition: &str) -> Result<(), Refusal> {
    let name = macro_name(definition);
    let Some(Value::List(undefined)) = options.option(OptionName::UndefineMacro) else { return Ok(()) };
    if undefined.iter().any(|undefined| macro_name(undefined) == name) {
        return Err(Refusal::malformed(
            OptionName::UndefineMacro.as_str(),
            format!("{name:?} is defined after it was undefined; leave the first of the two out"),
        ));
    }
    Ok(())
}

/// What a definition defines.
fn macro_name(definition: &str) -> &str {
    let is_end = |c: char| !(c.is_alphanumeric() || c == '_' || c == '$');
    let definition = definition.trim_start();
    definition.split(is_end).next().unwrap_or(definition)
}

/// Digits with a sign, as NVRTC reads them: without "+" and in base ten.
fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}
