//! The table: a row per bound, with the measurement next to it.
//!
//! A missed bound is reported and is not an error: the machine may be busy or different.
#![allow(
    clippy::print_stdout,
    reason = "a benchmark prints what it saw, as it sees it"
)]

/// A measured bound.
#[derive(Clone, Debug)]
pub struct Row {
    /// The measurement, as a user would name it.
    pub name: String,
    /// The figure, in the unit of the bound.
    pub measured: f64,
    /// The bound.
    pub bar: f64,
    /// The unit of both.
    pub unit: &'static str,
    /// Whether a larger figure is better.
    pub at_least: bool,
    /// Whether arithmetic alone, measured where memory is no limit, takes as long: then the bound does not apply.
    pub is_compute_bound: bool,
    /// The parts of the figure.
    pub detail: String,
}

impl Row {
    fn holds(&self) -> bool {
        if self.at_least {
            self.measured >= self.bar
        } else {
            self.measured <= self.bar
        }
    }

    fn verdict(&self) -> &'static str {
        match (self.holds(), self.is_compute_bound) {
            (true, _) => "holds",
            (false, true) => "compute",
            (false, false) => "MISSED",
        }
    }
}

/// Rows, printed as they are measured.
#[derive(Debug)]
pub struct Table {
    rows: usize,
    bound: usize,
    missed: usize,
}

impl Table {
    /// Prints the head.
    #[expect(clippy::new_without_default, reason = "it prints")]
    pub fn new() -> Self {
        println!(
            "{:<30} {:>9} {:>9} {:<2} {:<7}  made of",
            "promise", "measured", "bar", "", ""
        );
        Self {
            rows: 0,
            bound: 0,
            missed: 0,
        }
    }

    /// Prints a row.
    pub fn add(&mut self, row: &Row) {
        println!(
            "{:<30} {:>9.1} {:>1}{:>8.1} {:<2} {:<7}  {}",
            row.name,
            row.measured,
            if row.at_least { ">" } else { "<" },
            row.bar,
            row.unit,
            row.verdict(),
            row.detail,
        );
        self.rows += 1;
        self.bound += usize::from(!row.holds() && row.is_compute_bound);
        self.missed += usize::from(!row.holds() && !row.is_compute_bound);
    }

    /// Prints the number of bounds that are met.
    pub fn finish(self) {
        let Self {
            rows,
            bound,
            missed,
        } = self;
        let holding = rows - bound - missed;
        println!("{holding} of {rows} hold, {bound} are bound by arithmetic, {missed} are missed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measured: f64, at_least: bool, is_compute_bound: bool) -> Row {
        Row {
            name: "row".to_owned(),
            measured,
            bar: 80.0,
            unit: "%",
            at_least,
            is_compute_bound,
            detail: String::new(),
        }
    }

    #[test]
    fn a_bar_is_met_from_its_own_side() {
        assert_eq!(row(80.0, true, false).verdict(), "holds");
        assert_eq!(row(79.9, true, false).verdict(), "MISSED");
        assert_eq!(row(79.9, false, false).verdict(), "holds");
        assert_eq!(row(80.1, false, false).verdict(), "MISSED");
        // A row that could not be measured does not meet its bound.
        assert_eq!(row(f64::NAN, true, false).verdict(), "MISSED");
    }

    #[test]
    fn rows_that_arithmetic_bounds_are_counted_apart() {
        let mut table = Table::new();
        table.add(&row(90.0, true, true));
        table.add(&row(70.0, true, true));
        table.add(&row(70.0, true, false));
        assert_eq!((table.rows, table.bound, table.missed), (3, 1, 1));
    }
}
