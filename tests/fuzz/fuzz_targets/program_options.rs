//! Arguments of NVRTC, whatever they are: what is understood is passed, and what is passed is understood
//! alike.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::program::{
    CodeType, Compiler, Contents, ExtraDigest, OptionName, Options, Program, TargetType, Toolchain,
};

#[derive(Arbitrary, Debug)]
enum Argument<'a> {
    Any(&'a str),
    /// A spelling of an option, and what is written behind it.
    Spelt {
        option: u8,
        spelling: u8,
        behind: Behind<'a>,
    },
    Other(u8),
}

#[derive(Arbitrary, Debug)]
enum Behind<'a> {
    Nothing,
    Joined(&'a str),
    Equals(&'a str),
    EqualsWord(u8),
    NextWord(u8),
    Next(&'a str),
}

const WORDS: [&str; 16] = [
    "true",
    "false",
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
    "A=1",
    "A",
];
const OTHERS: [&str; 6] = ["-dc", "-dw", "--device-c", "--device-w", "-err-no", "--display-error-number"];

fuzz_target!(|input: Vec<Argument<'_>>| {
    let mut arguments: Vec<String> = Vec::new();
    for argument in input {
        match argument {
            Argument::Any(text) => arguments.push(text.into()),
            Argument::Other(number) => arguments.push(OTHERS[usize::from(number) % OTHERS.len()].into()),
            Argument::Spelt { option, spelling, behind } => {
                let spellings = OptionName::ALL[usize::from(option) % OptionName::ALL.len()].spellings();
                if spellings.is_empty() {
                    continue;
                }
                let spelling = spellings[usize::from(spelling) % spellings.len()];
                let word = |number: u8| WORDS[usize::from(number) % WORDS.len()];
                match behind {
                    Behind::Nothing => arguments.push(spelling.into()),
                    Behind::Joined(text) => arguments.push([spelling, text].concat()),
                    Behind::Equals(text) => arguments.push([spelling, "=", text].concat()),
                    Behind::EqualsWord(number) => arguments.push([spelling, "=", word(number)].concat()),
                    Behind::NextWord(number) => arguments.extend([spelling.into(), word(number).into()]),
                    Behind::Next(text) => arguments.extend([spelling.into(), text.into()]),
                }
            }
        }
    }
    match Options::parse(&arguments) {
        Ok(options) => {
            let digest = ExtraDigest::new(&[1; 32]).expect("it is long enough");
            stable(options.clone(), Contents::none().with_extra(digest.clone()));
            stable(options, Contents::none().with_extra(digest).with_search([2; 32]));
        }
        Err(refusal) => assert!(refusal.option().is_some_and(|option| !option.is_empty())),
    }
});

fn stable(mut options: Options, contents: Contents<'_>) {
    if options.option(OptionName::Arch).is_none() {
        options.set(OptionName::Arch, "sm_90");
    }
    let program = Program::new(CodeType::Cxx, TargetType::Ptx, "source").with_contents(contents);
    let first = program.clone().with_options(options);
    let arguments = match first.arguments(Compiler::Nvrtc) {
        Ok(arguments) => arguments,
        Err(refusal) => {
            assert!(refusal.option().is_some_and(|option| OptionName::parse(option).is_some()), "{refusal}");
            return;
        }
    };
    let second = Options::parse(&arguments).expect("it was passed to NVRTC");
    let second = program.with_options(second);
    assert_eq!(second.arguments(Compiler::Nvrtc).as_ref(), Ok(&arguments));
    let toolchain = Toolchain::found(Compiler::Nvrtc, "13.5");
    let key = |program: &Program<'_>| program.fields(&toolchain).expect("its arguments are accepted").key();
    assert_eq!(key(&first), key(&second));
}
