//! Programs, whatever they are: each has one key or a refusal that names something, in whatever order it was
//! described, and a program that differs in one thing has another key.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::program::{
    CodeType, Contents, Description, ExtraDigest, FoundHeaders, OptionName, Options, TargetType, Toolchain,
    Value,
};

#[derive(Arbitrary, Clone, Debug)]
struct Input<'a> {
    code: u8,
    target: u8,
    source: &'a [u8],
    name: &'a str,
    arch: Option<u8>,
    options: Vec<(u8, AnyValue<'a>)>,
    expressions: Vec<&'a str>,
    extra_sources: Vec<(&'a str, &'a str)>,
    headers: Vec<(&'a str, u8)>,
    search: Option<u8>,
    libdevice: Option<u8>,
    extra: Option<u8>,
    version: &'a str,
    builds: Vec<(&'a str, u8)>,
    environment: Vec<(&'a str, &'a str)>,
}

#[derive(Arbitrary, Clone, Debug)]
enum AnyValue<'a> {
    Flag(bool),
    Number(i16),
    Text(&'a str),
    Word(u8),
    List(Vec<u8>),
    Texts(Vec<&'a str>),
}

#[derive(Arbitrary, Debug)]
enum Change {
    Source,
    Target,
    Name,
    Arch,
    Define,
    Expression,
    ExtraSource,
    Header,
    Search,
    Libdevice,
    Extra,
    Version,
    Build,
    Environment,
}

const ARCHS: [&str; 6] = ["sm_80", "sm_90", "sm_90a", "compute_90", "sm_100f", "sm_9x"];
const WORDS: [&str; 12] =
    ["c++20", "mid", "inline", "reorder", "1", "2", "-v", "-O2", "A=1", "A", "directory/a.cu", "sm_90"];

impl<'a> Input<'a> {
    fn values(&self) -> Vec<(OptionName, Value)> {
        let word = |number: &u8| WORDS[usize::from(*number) % WORDS.len()];
        let mut values: Vec<(OptionName, Value)> = Vec::new();
        for (option, value) in &self.options {
            let value = match value {
                AnyValue::Flag(value) => Value::from(*value),
                AnyValue::Number(value) => i32::from(*value).into(),
                AnyValue::Text(text) => (*text).into(),
                AnyValue::Word(number) => word(number).into(),
                AnyValue::List(numbers) => numbers.iter().map(word).collect::<Vec<_>>().into(),
                AnyValue::Texts(texts) => texts.clone().into(),
            };
            values.push((OptionName::ALL[usize::from(*option) % OptionName::ALL.len()], value));
        }
        if let Some(arch) = self.arch {
            values.push((OptionName::Arch, ARCHS[usize::from(arch) % ARCHS.len()].into()));
        }
        values
    }

    fn program(&self, options: Options, is_reversed: bool) -> (Description<'a>, Contents) {
        let code = CodeType::ALL[usize::from(self.code) % 4];
        let target = TargetType::ALL[usize::from(self.target) % 3];
        let mut expressions: Vec<String> = self.expressions.iter().map(|text| (*text).into()).collect();
        let mut headers: Vec<(String, [u8; 32])> = Vec::new();
        for (name, byte) in &self.headers {
            headers.push(((*name).into(), [*byte; 32]));
        }
        if is_reversed {
            expressions.reverse();
            headers.reverse();
        }
        let extra = self.extra.and_then(|byte| {
            let digest = ExtraDigest::new(&[byte; 32]);
            assert_eq!(digest.is_err(), byte == 0);
            digest.ok()
        });
        let contents = Contents {
            headers: self.search.map(|byte| FoundHeaders { headers, search: [byte; 32] }),
            libdevice: self.libdevice.map(|byte| [byte; 32]),
            extra,
            directory: None,
        };
        let mut program = Description::new(code, target, self.source);
        program.options = options;
        program.name_expressions.extend(expressions);
        program.name = self.name.into();
        let modules = self.extra_sources.iter().map(|(name, text)| ((*name).into(), text.as_bytes().into()));
        program.extra_sources = modules.collect();
        (program, contents)
    }

    fn toolchain(&self) -> Toolchain {
        let builds = self.builds.iter().map(|(library, byte)| ((*library).into(), vec![*byte; 20]));
        let environment = self.environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Toolchain {
            version: self.version.into(),
            builds: builds.collect(),
            environment: environment.collect(),
        }
    }

    fn key(&self, is_reversed: bool) -> Option<[u8; 32]> {
        let mut values = self.values();
        if is_reversed {
            let last: BTreeMap<OptionName, Value> = values.into_iter().collect();
            values = last.into_iter().rev().collect();
        }
        let with = |options: Options, (name, value)| options.with(name, value);
        let options = values.into_iter().fold(Options::new(), with);
        let (program, contents) = self.program(options, is_reversed);
        let toolchain = self.toolchain();
        match program.prepare(&contents, &toolchain) {
            Ok((fields, _)) => Some(*fields.key().as_bytes()),
            Err(refusal) => {
                assert!(refusal.option().is_some_and(|option| !option.is_empty()));
                let kinds = [refusal.is_outside_content(), refusal.is_unsupported(), refusal.is_malformed()];
                assert_eq!(kinds.into_iter().filter(|is| *is).count(), 1);
                None
            }
        }
    }

    /// The program with one thing changed, and whether its compiler can see that.
    fn changed(&self, change: &Change, other: &'a str) -> (Self, bool) {
        let mut input = self.clone();
        let code = CodeType::ALL[usize::from(self.code) % 4];
        let is_cxx = code == CodeType::Cxx;
        let flip = |byte: Option<u8>| Some(byte.map_or(1, |byte| byte.wrapping_add(1)));
        let is_closed = is_cxx && self.search.is_some();
        let is_seen = match change {
            Change::Source => {
                input.source = other.as_bytes();
                input.source != self.source
            }
            Change::Target => {
                input.target = input.target.wrapping_add(1);
                usize::from(input.target) % 3 != usize::from(self.target) % 3
            }
            Change::Name => {
                input.name = other;
                self.name != other
            }
            Change::Arch => {
                let before = self.arch.unwrap_or(0);
                input.arch = Some(before.wrapping_add(1));
                let arch = |number: u8| ARCHS[usize::from(number) % ARCHS.len()];
                let (before, after) = (arch(before), arch(before.wrapping_add(1)));
                let number = |arch: &str| arch.rsplit('_').next().map(str::to_owned);
                // NVVM has one spelling for both.
                self.arch.is_some() && before != after && number(before) != number(after)
            }
            Change::Define => {
                let option = OptionName::ALL.iter().position(|option| *option == OptionName::DefineMacro);
                let is_set =
                    |(set, _): &(u8, AnyValue<'_>)| Some(usize::from(*set) % OptionName::ALL.len()) == option;
                let is_new = !self.options.iter().any(is_set);
                input.options.push((option.expect("it is one") as u8, AnyValue::Word(9)));
                is_cxx && is_new
            }
            Change::Expression => {
                input.expressions.push(other);
                !self.expressions.contains(&other)
            }
            Change::ExtraSource => {
                input.extra_sources.push((other, other));
                true
            }
            Change::Header => {
                input.headers.push((other, 1));
                is_closed
            }
            Change::Search => {
                input.search = flip(input.search);
                is_closed
            }
            Change::Libdevice => {
                input.libdevice = flip(input.libdevice);
                false
            }
            Change::Extra => {
                input.extra = flip(input.extra);
                true
            }
            Change::Version => {
                input.version = other;
                other != self.version
            }
            Change::Build => {
                input.builds.push((other, 1));
                self.toolchain() != input.toolchain()
            }
            Change::Environment => {
                input.environment.push((other, other));
                self.toolchain() != input.toolchain()
            }
        };
        (input, is_seen)
    }
}

fuzz_target!(|input: (Input<'_>, Change, &str)| {
    let (input, change, other) = input;
    let key = input.key(false);
    assert_eq!(key, input.key(true), "the order counts");
    let (changed, is_seen) = input.changed(&change, other);
    if let (Some(key), Some(other), true) = (key, changed.key(false), is_seen) {
        assert_ne!(key, other, "{change:?} does not count");
    }
});
