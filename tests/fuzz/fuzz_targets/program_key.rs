//! Programs, whatever they are: each has one key or a refusal that names something, in whatever order it was
//! described, and a program that differs in one thing has another key.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::program::{
    CodeType, Contents, ExtraDigest, Header, NameExpression, OptionName, Options, Probe, Program, Source,
    TargetType, Toolchain, Value,
};

#[derive(Arbitrary, Clone, Debug)]
struct Input<'a> {
    code: u8,
    target: u8,
    source: &'a str,
    is_bytes: bool,
    name: Option<&'a str>,
    arch: Option<u8>,
    options: Vec<(u8, AnyValue<'a>)>,
    expressions: Vec<(bool, &'a str)>,
    extra_sources: Vec<(&'a str, &'a str)>,
    headers: Vec<(&'a str, u8)>,
    search: Option<u8>,
    libdevice: Option<u8>,
    extra: Option<u8>,
    version: &'a str,
    is_found: bool,
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
    IsFound,
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

    fn program(&self, options: Options, is_reversed: bool) -> Program<'a> {
        let source: Source<'a> =
            if self.is_bytes { self.source.as_bytes().into() } else { self.source.into() };
        let code = CodeType::ALL[usize::from(self.code) % 4];
        let target = TargetType::ALL[usize::from(self.target) % 3];
        let mut expressions: Vec<NameExpression> = Vec::new();
        for (is_bytes, text) in &self.expressions {
            expressions.push(if *is_bytes { text.as_bytes().into() } else { (*text).into() });
        }
        let mut headers: Vec<Header<'a>> = Vec::new();
        for (name, byte) in &self.headers {
            headers.push(Header { name: (*name).into(), digest: [*byte; 32] });
        }
        if is_reversed {
            expressions.reverse();
            headers.reverse();
        }
        let mut contents = Contents::none().with_headers(headers);
        if let Some(byte) = self.search {
            contents = contents.with_search([byte; 32]);
        }
        if let Some(byte) = self.libdevice {
            contents = contents.with_libdevice([byte; 32]);
        }
        if let Some(byte) = self.extra {
            match ExtraDigest::new(&[byte; 32]) {
                Ok(digest) => contents = contents.with_extra(digest),
                Err(_) => assert_eq!(byte, 0),
            }
        }
        let mut program = Program::new(code, target, source)
            .with_options(options)
            .with_name_expressions(expressions)
            .with_contents(contents);
        if let Some(name) = self.name {
            program = program.with_name(name);
        }
        self.extra_sources
            .iter()
            .fold(program, |program, (name, text)| program.with_extra_source(*name, *text))
    }

    fn toolchain(&self, program: &Program<'_>, is_reversed: bool) -> Toolchain {
        let mut builds: Vec<(String, Vec<u8>)> = Vec::new();
        for (library, byte) in &self.builds {
            builds.push(((*library).into(), vec![*byte; 20]));
        }
        let mut environment = self.environment.clone();
        if is_reversed {
            builds.reverse();
            environment.reverse();
        }
        let probe = if self.is_found {
            Probe::Found { version: self.version.into(), builds }
        } else {
            Probe::Failed { kind: self.version.into() }
        };
        let toolchain = Toolchain::new(program.code().compiler(), probe);
        environment
            .into_iter()
            .fold(toolchain, |toolchain, (name, value)| toolchain.with_environment(name, value))
    }

    fn key(&self, is_reversed: bool) -> Option<[u8; 32]> {
        let options: Options = if is_reversed {
            let last: BTreeMap<OptionName, Value> = self.values().into_iter().collect();
            last.into_iter().rev().collect()
        } else {
            self.values().into_iter().collect()
        };
        let program = self.program(options, is_reversed);
        let toolchain = self.toolchain(&program, is_reversed);
        let arguments = program.arguments(toolchain.compiler());
        let fields = program.fields(&toolchain);
        assert_eq!(arguments.as_ref().err(), fields.as_ref().err());
        match fields {
            Ok(fields) => Some(*fields.key().as_bytes()),
            Err(refusal) => {
                assert!(refusal.option().is_some_and(|option| !option.is_empty()));
                let kinds = [
                    refusal.is_side_effect(),
                    refusal.is_outside_content(),
                    refusal.is_unsupported(),
                    refusal.is_malformed(),
                ];
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
                input.source = other;
                other != self.source
            }
            Change::Target => {
                input.target = input.target.wrapping_add(1);
                usize::from(input.target) % 3 != usize::from(self.target) % 3
            }
            Change::Name => {
                input.name = Some(other);
                self.name.is_some_and(|name| name != other)
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
                input.expressions.push((false, other));
                !self.expressions.iter().any(|(is_bytes, text)| !is_bytes && *text == other)
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
            Change::IsFound => {
                input.is_found = !input.is_found;
                true
            }
            Change::Build => {
                input.builds.push((other, 1));
                self.is_found
            }
            Change::Environment => {
                input.environment.push((other, other));
                true
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
