//! Today's date for templates that write it: one that the definition fixes, since examples may not depend on the day.
//!
//! ```text
//! date = "2024-07-26"     strftime_now("%d %b %Y") -> "26 Jul 2024"
//! ```

use std::fmt::Write as _;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    /// Reads `YYYY-MM-DD`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('-').collect();
        let [year, month, day] = parts[..] else { return None };
        let digits = |text: &str, count: usize| {
            (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| text.parse().ok())?
        };
        let date = Self { year: digits(year, 4)?, month: digits(month, 2)?, day: digits(day, 2)? };
        let is_there =
            (1..=12).contains(&date.month) && (1..=days_in(date.year, date.month)).contains(&date.day);
        is_there.then_some(date)
    }

    /// The day, at midnight, in a format of `strftime`; or the code that is not known.
    pub(super) fn format(self, format: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut rest = format.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let mut code = rest.next().ok_or("%")?;
            let is_bare = code == '-';
            if is_bare {
                code = rest.next().ok_or("%-")?;
            }
            let mut number = |value: u32, width: usize| {
                let width = if is_bare { 0 } else { width };
                write!(text, "{value:0width$}").expect("writing to a string cannot fail");
            };
            match code {
                'Y' => number(self.year, 4),
                'y' => number(self.year % 100, 2),
                'm' => number(self.month, 2),
                'd' => number(self.day, 2),
                'j' => number(self.day_of_year(), 3),
                'H' | 'M' | 'S' => number(0, 2),
                'I' => number(12, 2),
                'e' => write!(text, "{:2}", self.day).expect("writing to a string cannot fail"),
                'B' => text.push_str(self.month_name()),
                'b' | 'h' => text.push_str(&self.month_name()[..3]),
                'A' => text.push_str(self.day_name()),
                'a' => text.push_str(&self.day_name()[..3]),
                'p' => text.push_str("AM"),
                'F' => text.push_str(&self.format("%Y-%m-%d")?),
                'T' => text.push_str("00:00:00"),
                '%' => text.push('%'),
                other => return Err(format!("%{other}")),
            }
        }
        Ok(text)
    }

    fn month_name(self) -> &'static str {
        MONTHS[(self.month as usize - 1) % 12]
    }

    fn day_of_year(self) -> u32 {
        (1..self.month).map(|month| days_in(self.year, month)).sum::<u32>() + self.day
    }

    fn day_name(self) -> &'static str {
        // Of the Gregorian calendar as if it had always been there: 0001-01-01 was a Monday.
        let before = self.year.saturating_sub(1);
        let days = before * 365 + before / 4 - before / 100 + before / 400 + self.day_of_year();
        DAYS[(days % 7) as usize]
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_python_does() {
        // `datetime.date(…).strftime(…)` of Python 3.
        for (date, format, text) in [
            ("2024-07-26", "%d %b %Y", "26 Jul 2024"),
            ("2024-07-26", "%A, %B %-d, %y (%j)", "Friday, July 26, 24 (208)"),
            ("2000-02-29", "%a %F %H:%M:%S %p %I%%", "Tue 2000-02-29 00:00:00 AM 12%"),
            ("2023-01-01", "%a %e %m", "Sun  1 01"),
            ("1999-12-31", "%a %j", "Fri 365"),
        ] {
            assert_eq!(Date::parse(date).unwrap().format(format).as_deref(), Ok(text));
        }
        assert_eq!(Date::parse("2024-07-26").unwrap().format("%Q"), Err("%Q".to_owned()));
        assert_eq!(Date::parse("2024-07-26").unwrap().format("%"), Err("%".to_owned()));
    }

    #[test]
    fn only_days_that_there_are_are_read() {
        for text in
            ["2023-02-29", "2024-13-01", "2024-00-01", "2024-1-1", "24-01-01", "2024-01-32", "+024-01-01", ""]
        {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }
}
