//! The fields of the key of a program. docs/format.md has them too.

use alloc::{borrow::Cow, format, string::String};

use super::{CodeType, NameExpression, OptionName, Probe, Program, Toolchain, Value, arguments::Arguments};
use crate::key::KeyFields;

/// The domain of the keys, and the number that is raised when the meaning of the fields changes.
const DOMAIN: &str = "warmstart.cuda";
const SCHEMA: u32 = 1;

/// What a program that was checked is made of. A field that has nothing to say is left out.
pub(crate) fn fields<'k>(
    program: &'k Program<'_>,
    arguments: Arguments,
    toolchain: &'k Toolchain,
) -> KeyFields<'k> {
    let name = program.name();
    let mut fields = KeyFields::new(DOMAIN, SCHEMA)
        // Lists of entries show the note: a name alone would be that of several.
        .digest("source", program.source.as_bytes(), format!("{name} {}", arguments.arch))
        .text("code type", program.code.as_str())
        .text("target type", program.target.as_str())
        .text("arch", arguments.arch)
        .list("options", arguments.rest)
        .text("name", name);
    if !program.name_expressions.is_empty() {
        fields = fields.list("name expressions", program.name_expressions.iter().map(tagged));
    }
    fields = compiler(fields, toolchain);
    if program.code == CodeType::Cxx
        && let Some(search) = program.contents.search()
    {
        for header in program.contents.headers() {
            fields = fields.bytes(format!("header {}", header.name), &header.digest[..]);
        }
        fields = fields.bytes("header search", &search[..]);
    }
    if program.options.option(OptionName::UseLibdevice) == Some(&Value::Flag(true)) {
        fields = match program.contents.libdevice() {
            Some(digest) => fields.bytes("libdevice", &digest[..]),
            None => fields.text("libdevice", "in the extra digest"),
        };
    }
    for (name, source) in &program.extra_sources {
        fields = fields.digest(format!("extra source {name}"), source.as_bytes(), &**name);
    }
    match program.contents.extra() {
        Some(extra) => fields.bytes("extra digest", extra.as_bytes()),
        None => fields,
    }
}

fn compiler<'k>(mut fields: KeyFields<'k>, toolchain: &'k Toolchain) -> KeyFields<'k> {
    let compiler = toolchain.compiler();
    fields = fields.text("compiler", compiler.as_str());
    fields = match toolchain.probe() {
        Probe::Found { version, builds } => {
            builds.iter().fold(fields.text("compiler version", version), |fields, (library, build)| {
                fields.bytes(format!("compiler build {library}"), &build[..])
            })
        }
        Probe::Failed { kind } => fields.text(format!("{}_probe_failed", compiler.label()), kind),
    };
    if !toolchain.environment().is_empty() {
        let variables = toolchain.environment().iter().map(|(name, value)| format!("{name}={value}"));
        fields = fields.list("environment", variables);
    }
    fields
}

/// A name expression with what it is, so that a text and the bytes of it differ. Bytes that are no text are
/// written in hexadecimal digits.
fn tagged(expression: &NameExpression) -> Cow<'_, str> {
    match expression {
        NameExpression::Text(text) => ["text ", text].concat().into(),
        NameExpression::Bytes(bytes) => match core::str::from_utf8(bytes) {
            Ok(text) => ["bytes ", text].concat().into(),
            Err(_) => {
                let mut digits = String::from("hexadecimal ");
                bytes.iter().for_each(|byte| digits.push_str(&format!("{byte:02x}")));
                digits.into()
            }
        },
    }
}
