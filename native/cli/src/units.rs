//! Sizes, times and spans of time, as people read and write them.

use std::{
    fmt::Write,
    time::{Duration, UNIX_EPOCH},
};

use bytesize::ByteSize;
use indicatif::HumanDuration;

/// A size in binary units.
pub(crate) fn bytes(n: u64) -> String {
    ByteSize(n).display().iec().to_string()
}

/// Reads a size: a number, and perhaps a unit. `K` and `KB` are 1000, `KiB` is 1024, and so on.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let size = text.parse::<ByteSize>();
    size.map(|size| size.0)
        .map_err(|_| "a size is a number and perhaps a unit, as in 500M, 1GiB or 1000000".to_owned())
}

/// How long something took.
pub(crate) fn nanos(n: u64) -> String {
    let span = Duration::from_nanos(n);
    if span < Duration::from_secs(100) {
        format!("{span:.1?}")
    } else {
        humantime::format_duration(Duration::from_secs(span.as_secs())).to_string()
    }
}

/// How long ago a time is, in one unit; nothing if the time is unknown.
pub(crate) fn age(unix_ms: u64, now: u64) -> Option<String> {
    // Clocks of several machines differ a little.
    const LENIENCE: u64 = 60_000;
    if unix_ms == 0 {
        return None;
    }
    if unix_ms > now.saturating_add(LENIENCE) {
        return Some("future".to_owned());
    }
    let age = Duration::from_millis(now.saturating_sub(unix_ms));
    Some(format!("{:#}", HumanDuration(age)))
}

/// As [`age`], in a sentence.
pub(crate) fn ago(unix_ms: u64, now: u64) -> Option<String> {
    age(unix_ms, now)
        .map(|age| if age == "future" { "in the future".to_owned() } else { format!("{age} ago") })
}

/// A time as RFC 3339 has it, in UTC; nothing if it is unknown.
pub(crate) fn time(unix_ms: u64) -> Option<String> {
    if unix_ms == 0 {
        return None;
    }
    let mut text = String::new();
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms));
    // After the year 9999 there is no such form.
    let written = time.map(|time| write!(text, "{}", humantime::format_rfc3339_millis(time)));
    Some(if written == Some(Ok(())) { text } else { format!("{unix_ms} ms after 1970") })
}

/// A share in percent, with one decimal.
pub(crate) fn percent(part: u64, whole: u64) -> Option<String> {
    (whole > 0).then(|| format!("{:.1} %", part as f64 / whole as f64 * 100.0))
}

/// A number and its noun: `1 entry`, `2 entries`.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_binary_units() {
        let shown = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (14_541, "14.2 KiB"),
            (1 << 20, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (n, text) in shown {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let read = [
            ("0", 0),
            ("12b", 12),
            ("1k", 1000),
            ("1 kB", 1000),
            ("1KiB", 1024),
            ("500M", 500_000_000),
            ("1.5GiB", 3 << 29),
            ("15EiB", 15 << 60),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, n) in read {
            assert_eq!(parse_bytes(text), Ok(n), "{text}");
        }
        for wrong in ["", "-1", "+-1", "M", "1x", "1MM", "1iB", "1bb", "1é", "∞", "18446744073709551616"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_that_no_calendar_has_is_a_number() {
        let shown = [
            (1, "1970-01-01T00:00:00.001Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "253402300800000 ms after 1970"),
            (u64::MAX, "18446744073709551615 ms after 1970"),
        ];
        for (unix_ms, text) in shown {
            assert_eq!(time(unix_ms).as_deref(), Some(text));
        }
        assert_eq!(time(0), None);
    }

    #[test]
    fn spans_are_short_whatever_their_length() {
        let spans = [
            (7, "7.0ns"),
            (95_240_000, "95.2ms"),
            (12_600_000_000, "12.6s"),
            (150_900_000_000, "2m 30s"),
            (7_200_000_000_000, "2h"),
        ];
        for (n, text) in spans {
            assert_eq!(nanos(n), text);
        }
        assert!(nanos(u64::MAX).starts_with("584years "));
    }

    #[test]
    fn an_age_has_one_unit_and_clocks_may_differ() {
        let now = 1_700_000_000_000;
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (7200, "2h"), (13 * 86_400, "2w"), (800 * 86_400, "2y")]
        {
            assert_eq!(age(now - seconds * 1000, now).as_deref(), Some(text));
        }
        assert_eq!(age(now + 30_000, now).as_deref(), Some("0s"));
        assert_eq!(age(now + 90_000, now).as_deref(), Some("future"));
        assert_eq!(ago(now + 90_000, now).as_deref(), Some("in the future"));
        assert_eq!(age(u64::MAX, u64::MAX).as_deref(), Some("0s"));
        assert!(age(1, u64::MAX).is_some());
        assert_eq!(age(0, now), None);
    }
}
