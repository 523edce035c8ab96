//! Options of any values: each set is refused by the name of an option, or its arguments decide its key.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::program::{
    CodeType, Contents, Description, ExtraDigest, FoundHeaders, OptionName, Options, TargetType, Toolchain,
    Value,
};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    code: u8,
    target: u8,
    is_closed: bool,
    set: Vec<(u8, AnyValue<'a>)>,
    other: (u8, AnyValue<'a>),
}

#[derive(Arbitrary, Debug)]
enum AnyValue<'a> {
    Flag(bool),
    Number(i64),
    Text(&'a str),
    Word(u8),
    Texts(Vec<&'a str>),
    Words(Vec<u8>),
}

const WORDS: [&str; 16] = [
    "true",
    "on",
    "1",
    "-1",
    "007",
    "1,2",
    "sm_90",
    "compute_90a",
    "c++20",
    "mid",
    "inline",
    "reorder",
    "-v",
    "-O2",
    "A=1",
    "A",
];

fuzz_target!(|input: Input<'_>| {
    let mut options = Options::new().with(OptionName::Arch, "sm_90");
    for (option, value) in &input.set {
        options.set(name(*option), any(value));
    }
    let code = CodeType::ALL[usize::from(input.code) % 4];
    let target = TargetType::ALL[usize::from(input.target) % 3];
    let one = prepared(code, target, input.is_closed, &options);
    let (option, value) = &input.other;
    options.set(name(*option), any(value));
    let other = prepared(code, target, input.is_closed, &options);
    if let (Some((key, arguments)), Some((other_key, other_arguments))) = (one, other) {
        assert!(
            arguments != other_arguments || key == other_key || name(*option) == OptionName::UseLibdevice
        );
        assert!(arguments == other_arguments || key != other_key);
    }
});

fn name(number: u8) -> OptionName {
    OptionName::ALL[usize::from(number) % OptionName::ALL.len()]
}

fn any(value: &AnyValue<'_>) -> Value {
    let word = |number: &u8| WORDS[usize::from(*number) % WORDS.len()];
    match value {
        AnyValue::Flag(value) => (*value).into(),
        AnyValue::Number(value) => (*value).into(),
        AnyValue::Text(text) => (*text).into(),
        AnyValue::Word(number) => word(number).into(),
        AnyValue::Texts(texts) => texts.clone().into(),
        AnyValue::Words(numbers) => numbers.iter().map(word).collect::<Vec<_>>().into(),
    }
}

fn prepared(
    code: CodeType,
    target: TargetType,
    is_closed: bool,
    options: &Options,
) -> Option<([u8; 32], Vec<String>)> {
    let mut program = Description::new(code, target, b"source");
    program.options = options.clone();
    let contents = Contents {
        headers: is_closed.then(FoundHeaders::default),
        libdevice: None,
        directory: None,
        extra: Some(ExtraDigest::new(&[1; 32]).expect("it is long enough")),
    };
    let toolchain = Toolchain { version: "13.5".into(), ..Toolchain::default() };
    match program.prepare(&contents, &toolchain) {
        Ok((fields, arguments)) => {
            assert!(arguments.iter().all(|argument| argument.starts_with('-') && !argument.contains('\0')));
            assert!(arguments[0].contains("-arch=") || arguments[0].starts_with("--gpu-architecture="));
            Some((*fields.key().as_bytes(), arguments))
        }
        Err(refusal) => {
            let named = refusal.option().expect("it names something");
            let is_option = OptionName::ALL.iter().any(|option| option.as_str() == named);
            assert!(is_option || named == "target_type", "{refusal}");
            None
        }
    }
}
