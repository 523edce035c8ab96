//! CPU features: detected once, and named one by one in the key and on the command line, never as `native`.

use std::{collections::BTreeSet, fmt};

/// The attributes of an object: the CPU features that it needs, and the machine for which it was built.
pub(super) const FEATURES: &str = "cpu.features";
pub(super) const MACHINE: &str = "cpu.machine";

/// A set of CPU features, by their names in Rust.
///
/// ```
/// use warmstart::target::cpu::CpuFeatures;
///
/// assert_eq!(CpuFeatures::none().with("fma").with("avx2").to_string(), "avx2 fma");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuFeatures {
    names: BTreeSet<String>,
}

/// A feature that can be detected, and the option that selects it.
struct Known {
    name: &'static str,
    option: &'static str,
    /// Whether gcc 9 and clang 9 have the option, so that it can be passed by default.
    given: bool,
    detected: fn() -> bool,
}

macro_rules! known {
    ($detect:ident: $($name:tt $option:literal $given:literal,)*) => {
        &[$(Known {
            name: $name,
            option: $option,
            given: $given,
            detected: || std::arch::$detect!($name),
        }),*]
    };
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
const KNOWN: &[Known] = known! { is_x86_feature_detected:
    "sse3" "-msse3" true,
    "ssse3" "-mssse3" true,
    "sse4.1" "-msse4.1" true,
    "sse4.2" "-msse4.2" true,
    "sse4a" "-msse4a" true,
    "popcnt" "-mpopcnt" true,
    "cmpxchg16b" "-mcx16" true,
    "movbe" "-mmovbe" true,
    "avx" "-mavx" true,
    "avx2" "-mavx2" true,
    "fma" "-mfma" true,
    "f16c" "-mf16c" true,
    "bmi1" "-mbmi" true,
    "bmi2" "-mbmi2" true,
    "lzcnt" "-mlzcnt" true,
    "adx" "-madx" true,
    "aes" "-maes" true,
    "pclmulqdq" "-mpclmul" true,
    "sha" "-msha" true,
    "gfni" "-mgfni" true,
    "vaes" "-mvaes" true,
    "vpclmulqdq" "-mvpclmulqdq" true,
    "avx512f" "-mavx512f" true,
    "avx512cd" "-mavx512cd" true,
    "avx512bw" "-mavx512bw" true,
    "avx512dq" "-mavx512dq" true,
    "avx512vl" "-mavx512vl" true,
    "avx512ifma" "-mavx512ifma" true,
    "avx512vbmi" "-mavx512vbmi" true,
    "avx512vbmi2" "-mavx512vbmi2" true,
    "avx512vnni" "-mavx512vnni" true,
    "avx512bitalg" "-mavx512bitalg" true,
    "avx512vpopcntdq" "-mavx512vpopcntdq" true,
    "avx512bf16" "-mavx512bf16" false,
    "avx512fp16" "-mavx512fp16" false,
    "avxvnni" "-mavxvnni" false,
    "rdrand" "-mrdrnd" false,
    "rdseed" "-mrdseed" false,
};

#[cfg(target_arch = "aarch64")]
const KNOWN: &[Known] = known! { is_aarch64_feature_detected:
    "crc" "+crc" true,
    "lse" "+lse" true,
    "aes" "+aes" true,
    "sha2" "+sha2" true,
    "fp16" "+fp16" true,
    "fhm" "+fp16fml" true,
    "dotprod" "+dotprod" true,
    "rcpc" "+rcpc" true,
    "sve" "+sve" true,
};

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
const KNOWN: &[Known] = &[];

impl CpuFeatures {
    /// Detects the features of this host's CPU, except those for which old compilers have no option.
    #[must_use]
    pub fn host() -> Self {
        KNOWN.iter().filter(|known| known.given && (known.detected)()).map(|known| known.name).collect()
    }

    /// Creates a set with no features beyond those that every CPU of the architecture has.
    #[must_use]
    pub const fn none() -> Self {
        Self { names: BTreeSet::new() }
    }

    /// Adds a feature.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>) -> Self {
        self.names.insert(name.into());
        self
    }

    /// Iterates over the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the options that select exactly these features.
    pub(super) fn options(&self) -> Vec<String> {
        let chosen = self.names().filter_map(|name| KNOWN.iter().find(|known| known.name == name));
        let chosen = chosen.map(|known| String::from(known.option));
        let baseline = if cfg!(target_arch = "x86_64") {
            "-march=x86-64"
        } else if cfg!(target_arch = "x86") {
            "-march=i686"
        } else if cfg!(target_arch = "aarch64") {
            return vec![format!("-march=armv8-a{}", chosen.collect::<String>()), "-mtune=generic".into()];
        } else {
            return Vec::new();
        };
        [baseline, "-mtune=generic"].map(String::from).into_iter().chain(chosen).collect()
    }

    /// Returns the first name that is in no table, so that its feature cannot be detected.
    pub(super) fn unknown_name(&self) -> Option<&str> {
        self.names().find(|name| !KNOWN.iter().any(|known| known.name == *name))
    }
}

/// Returns the features that this host lacks or cannot detect, from a list of names as [`Display`](fmt::Display) writes it.
pub(super) fn missing_here(names: &str) -> Vec<&str> {
    let is_here = |name: &&str| KNOWN.iter().any(|known| known.name == *name && (known.detected)());
    names.split_whitespace().filter(|name| !is_here(name)).collect()
}

impl fmt::Display for CpuFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(" "))
    }
}

impl<T: Into<String>> FromIterator<T> for CpuFeatures {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        Self { names: names.into_iter().map(Into::into).collect() }
    }
}

/// Returns the architecture of this process.
pub(super) fn machine() -> String {
    format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_sorted_and_each_is_there_once() {
        let features = CpuFeatures::from_iter(["fma", "avx2", "fma"]);
        assert_eq!(features.names().collect::<Vec<_>>(), ["avx2", "fma"]);
        assert_eq!(features.to_string().split_whitespace().collect::<CpuFeatures>(), features);
    }

    #[test]
    fn the_word_native_is_never_an_option() {
        assert!(CpuFeatures::host().options().iter().all(|option| !option.contains("native")));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn options_name_the_baseline_and_then_every_feature() {
        let options = CpuFeatures::none().with("bmi1").with("avx2").options();
        assert_eq!(options, ["-march=x86-64", "-mtune=generic", "-mavx2", "-mbmi"]);
    }
}
