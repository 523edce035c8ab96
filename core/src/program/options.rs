//! Options of a program, as a set.

use alloc::{
    borrow::ToOwned,
    string::String,
    vec::{IntoIter, Vec},
};
use core::{fmt, slice};

use super::{
    refusal::Refusal,
    table::{Kind, OptionName},
};

/// Options with their values. In which order they were set does not show.
///
/// ```
/// use warmstart_core::program::{OptionName, Options};
///
/// let one = Options::new().with(OptionName::Arch, "sm_90").with(OptionName::MaxRegisterCount, 64);
/// let other = Options::parse(["-maxrregcount=64", "--gpu-architecture", "sm_90"])?;
/// assert_eq!(one, other);
/// # Ok::<(), warmstart_core::program::Refusal>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// In the order of the table, each name once.
    set: Vec<(OptionName, Value)>,
}

impl Options {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { set: Vec::new() }
    }

    /// These, and this one with this value instead of the one that it had.
    #[must_use]
    pub fn with(mut self, name: OptionName, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// Gives an option a value, and takes away the one that it had. Whether it is of the right kind is said
    /// when the arguments or the key are made.
    pub fn set(&mut self, name: OptionName, value: impl Into<Value>) {
        let value = value.into();
        match self.place(name) {
            Ok(at) => self.set[at].1 = value,
            Err(at) => self.set.insert(at, (name, value)),
        }
    }

    /// Adds to the list of an option.
    pub fn append(&mut self, name: OptionName, item: impl Into<String>) {
        let mut items = match self.remove(name) {
            Some(Value::List(items)) => items,
            Some(Value::Text(item)) => Vec::from([item]),
            _ => Vec::new(),
        };
        items.push(item.into());
        self.set(name, items);
    }

    /// The value of an option, if it has one.
    #[must_use]
    pub fn option(&self, name: OptionName) -> Option<&Value> {
        self.place(name).ok().map(|at| &self.set[at].1)
    }

    /// Whether the option is given, and is yes.
    #[must_use]
    pub fn is_set(&self, name: OptionName) -> bool {
        self.option(name) == Some(&Value::Flag(true))
    }

    /// Takes the value of an option away.
    pub fn remove(&mut self, name: OptionName) -> Option<Value> {
        self.place(name).ok().map(|at| self.set.remove(at).1)
    }

    /// The options that have a value, in the order of [`OptionName::ALL`].
    pub fn iter(&self) -> slice::Iter<'_, (OptionName, Value)> {
        self.set.iter()
    }

    /// How many options have a value.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether none has.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The options that these arguments of NVRTC stand for: long or short, with the value in the same
    /// argument or in the next. Of an option that is given twice the last value counts; lists grow.
    ///
    /// # Errors
    /// An argument is no option, or has a value that it does not take, or contradicts another.
    ///
    /// ```
    /// use warmstart_core::program::{OptionName, Options, Value};
    ///
    /// let options = Options::parse(["-DN=4", "--define-macro", "M", "-std=c++17", "--std=c++20"])?;
    /// assert_eq!(options.option(OptionName::DefineMacro), Some(&Value::from(["N=4", "M"])));
    /// assert_eq!(options.option(OptionName::Std), Some(&Value::from("c++20")));
    /// # Ok::<(), warmstart_core::program::Refusal>(())
    /// ```
    pub fn parse<T: AsRef<str>>(arguments: impl IntoIterator<Item = T>) -> Result<Self, Refusal> {
        super::parse::parse(arguments.into_iter())
    }

    fn place(&self, name: OptionName) -> Result<usize, usize> {
        self.set.binary_search_by_key(&name, |(name, _)| *name)
    }
}

impl<'a> IntoIterator for &'a Options {
    type Item = &'a (OptionName, Value);
    type IntoIter = slice::Iter<'a, (OptionName, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Options {
    type Item = (OptionName, Value);
    type IntoIter = IntoIter<(OptionName, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.set.into_iter()
    }
}

impl<V: Into<Value>> FromIterator<(OptionName, V)> for Options {
    fn from_iter<I: IntoIterator<Item = (OptionName, V)>>(options: I) -> Self {
        options.into_iter().fold(Self::new(), |all, (name, value)| all.with(name, value))
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(i64),
    /// A text; of an option that takes a list it is the only item.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

impl Value {
    /// What it is, for people.
    pub(crate) const fn what(&self) -> &'static str {
        match self {
            Self::Flag(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
        }
    }

    /// Whether an option of this kind with this value is as good as not given.
    pub(crate) fn is_nothing(&self, kind: Kind) -> bool {
        match self {
            Self::Flag(value) => kind == Kind::Flag && !value,
            Self::List(items) => kind.is_list() && items.is_empty(),
            Self::Number(_) | Self::Text(_) => false,
        }
    }

    /// Whether a text in it holds a NUL byte, at which a C string would end.
    pub(crate) fn has_nul(&self) -> bool {
        match self {
            Self::Flag(_) | Self::Number(_) => false,
            Self::Text(text) => text.contains('\0'),
            Self::List(items) => items.iter().any(|item| item.contains('\0')),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(value) => write!(f, "{value:?}"),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Value {
            fn from(value: $number) -> Self {
                Self::Number(value.into())
            }
        }
    )*};
}

numbers!(u8, u16, u32, i32, i64);

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<String>> for Value {
    fn from(value: Vec<String>) -> Self {
        Self::List(value)
    }
}

impl From<&[&str]> for Value {
    fn from(value: &[&str]) -> Self {
        Self::List(value.iter().copied().map(ToOwned::to_owned).collect())
    }
}

impl From<Vec<&str>> for Value {
    fn from(value: Vec<&str>) -> Self {
        Self::from(value.as_slice())
    }
}

impl<const N: usize> From<[&str; N]> for Value {
    fn from(value: [&str; N]) -> Self {
        Self::from(value.as_slice())
    }
}
