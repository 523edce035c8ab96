//! Sizes, times and spans of time, as people read and write them.

use std::time::Duration;

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A size in binary units, with three digits.
pub(crate) fn bytes(n: u64) -> String {
    let mut value = n as f64;
    let mut unit = "B";
    for larger in UNITS {
        // What rounds to 1024 is one of the next.
        if value < 1023.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{n} B") } else { format!("{} {unit}", three_digits(value)) }
}

/// Reads a size: a whole number, and perhaps a unit. `K` and `KiB` are 1024, `KB` is 1000, and so on.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let of_unit = |letter: &str| {
        let power = 1 + u32::try_from("kmgtpe".find(letter)?).ok()?;
        match unit.get(letter.len()..)? {
            "" | "ib" => 1024_u64.checked_pow(power),
            "b" => 1000_u64.checked_pow(power),
            _ => None,
        }
    };
    let scale = match unit.get(..1) {
        None | Some("b") if unit.len() <= 1 => Some(1),
        Some(letter) => of_unit(letter),
        None => None,
    };
    let scale = scale.filter(|_| digits > 0);
    let scale = scale.ok_or("a size is a whole number and perhaps a unit, as in 500M, 1GiB or 1000000")?;
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(scale))
        .ok_or_else(|| "larger than any store; leave the limit out, or give a smaller one".to_owned())
}

/// How long something took.
pub(crate) fn nanos(n: u64) -> String {
    let span = Duration::from_nanos(n);
    let seconds = span.as_secs_f64();
    // What rounds to a thousand is one of the next unit.
    match n {
        0..1_000 => format!("{n} ns"),
        1_000..999_500 => format!("{} µs", three_digits(seconds * 1e6)),
        999_500..999_500_000 => format!("{} ms", three_digits(seconds * 1e3)),
        999_500_000..120_000_000_000 => format!("{} s", three_digits(seconds)),
        120_000_000_000..7_200_000_000_000 => format!("{} min", three_digits(seconds / 60.0)),
        _ => format!("{} h", three_digits(seconds / 3600.0)),
    }
}

/// How long ago a time is, in one unit; nothing if the time is unknown.
pub(crate) fn age(unix_ms: u64, now: u64) -> Option<String> {
    // Clocks of several machines differ a little.
    const LENIENCE: u64 = 60_000;
    const SCALES: [(u64, &str); 5] =
        [(365 * 86_400, "y"), (14 * 86_400, "w"), (86_400, "d"), (3_600, "h"), (60, "m")];
    if unix_ms == 0 {
        return None;
    }
    if unix_ms > now.saturating_add(LENIENCE) {
        return Some("future".to_owned());
    }
    let seconds = now.saturating_sub(unix_ms) / 1000;
    let scale = SCALES.iter().find(|(least, _)| seconds >= *least);
    Some(match scale {
        Some((_, "w")) => format!("{}w", seconds / (7 * 86_400)),
        Some((unit, letter)) => format!("{}{letter}", seconds / unit),
        None => format!("{seconds}s"),
    })
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
    let (seconds, millis) = (unix_ms / 1000, unix_ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    if year > 9999 {
        return Some(format!("{unix_ms} ms after 1970"));
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"))
}

/// Year, month and day of the day that is so many days after 1970-01-01. The algorithm is Howard Hinnant's
/// `civil_from_days`: years begin in March, so that the leap day is their last.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// A share in percent, with one decimal.
pub(crate) fn percent(part: u64, whole: u64) -> Option<String> {
    (whole > 0).then(|| format!("{:.1} %", part as f64 / whole as f64 * 100.0))
}

/// A number and its noun: `1 entry`, `2 entries`.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Three digits, or as many as there are before the point.
fn three_digits(x: f64) -> String {
    let decimals = if x >= 99.95 {
        0
    } else if x >= 9.995 {
        1
    } else {
        2
    };
    format!("{x:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_the_right_unit() {
        let shown = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (14_541, "14.2 KiB"),
            (1_048_063, "1023 KiB"),
            (1_048_575, "1.00 MiB"),
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
            ("12", 12),
            ("12b", 12),
            ("1k", 1024),
            ("1KiB", 1024),
            ("1 kB", 1000),
            ("500M", 500 << 20),
            ("2GB", 2_000_000_000),
            ("15EiB", 15 << 60),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, n) in read {
            assert_eq!(parse_bytes(text), Ok(n), "{text}");
        }
        for wrong in
            ["", "-1", "+1", "M", "1.5M", "1x", "1MM", "1iB", "1bb", "1é", "16EiB", "18446744073709551616"]
        {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let shown = [
            (1, "1970-01-01T00:00:00.001Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
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
    fn spans_and_ages_have_one_unit() {
        let spans = [
            (7, "7 ns"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (95_240_000, "95.2 ms"),
            (999_500_000, "1.00 s"),
            (119_000_000_000, "119 s"),
            (150_000_000_000, "2.50 min"),
            (7_200_000_000_000, "2.00 h"),
        ];
        for (n, text) in spans {
            assert_eq!(nanos(n), text);
        }
        let now = 1_700_000_000_000;
        let day = 86_400;
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (7199, "1h"),
            (13 * day, "13d"),
            (15 * day, "2w"),
            (400 * day, "1y"),
        ] {
            assert_eq!(age(now - seconds * 1000, now).as_deref(), Some(text));
        }
        assert_eq!(age(now + 30_000, now).as_deref(), Some("0s"));
        assert_eq!(age(now + 90_000, now).as_deref(), Some("future"));
        assert_eq!(age(u64::MAX, u64::MAX).as_deref(), Some("0s"));
        assert_eq!(age(0, now), None);
    }
}
