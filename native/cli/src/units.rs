//! Sizes, times and durations in the form that people read and write.

use std::{
    fmt::Write,
    time::{Duration, UNIX_EPOCH},
};

use bytesize::ByteSize;
use indicatif::HumanDuration;

/// Formats a size in binary units.
pub(crate) fn bytes(n: u64) -> String {
    ByteSize(n).display().iec().to_string()
}

/// Parses a size: a number with an optional unit. `K` and `KB` are 1000, `KiB` is 1024, and so on.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let size = text.parse::<ByteSize>();
    size.map(|size| size.0)
        .map_err(|_| "a size is a number and perhaps a unit, as in 500M, 1GiB or 1000000".to_owned())
}

/// Formats a duration.
pub(crate) fn nanos(n: u64) -> String {
    let span = Duration::from_nanos(n);
    if span < Duration::from_secs(100) {
        format!("{span:.1?}")
    } else {
        humantime::format_duration(Duration::from_secs(span.as_secs())).to_string()
    }
}

/// Formats how long ago a time is, in one unit; `None` if the time is unknown.
pub(crate) fn age(unix_ms: u64, now: u64) -> Option<String> {
    // The clocks of machines differ a little.
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

/// Formats how long ago a time is, as part of a sentence.
pub(crate) fn ago(unix_ms: u64, now: u64) -> Option<String> {
    age(unix_ms, now)
        .map(|age| if age == "future" { "in the future".to_owned() } else { format!("{age} ago") })
}

/// Formats a time as in RFC 3339, in UTC, with its age; `None` if it is unknown.
pub(crate) fn when(unix_ms: u64, now: u64) -> Option<String> {
    let ago = ago(unix_ms, now)?;
    let mut text = String::new();
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms));
    // RFC 3339 ends with the year 9999.
    let written = time.map(|time| write!(text, "{}", humantime::format_rfc3339_millis(time)));
    if written != Some(Ok(())) {
        text = format!("{unix_ms} ms after 1970");
    }
    Some(format!("{text} ({ago})"))
}

/// Formats a number and its noun: `1 commit`, `2 commits`.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Formats a number of entries.
pub(crate) fn entries(n: u64) -> String {
    counted(n, "entry", "entries")
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
            assert_eq!(when(unix_ms, unix_ms), Some(format!("{text} (0s ago)")));
        }
        assert_eq!(when(0, 1), None);
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
