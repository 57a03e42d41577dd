//! The table: a row per promise, what was measured beside its bar.

/// A promise, measured.
pub(crate) struct Row {
    /// What was measured, as a user would name it.
    pub(crate) name: String,
    /// In the unit of the bar.
    pub(crate) measured: f64,
    pub(crate) bar: f64,
    pub(crate) unit: &'static str,
    /// Whether more is better.
    pub(crate) at_least: bool,
    /// What the figure is made of.
    pub(crate) detail: String,
}

impl Row {
    fn holds(&self) -> bool {
        if self.at_least {
            self.measured >= self.bar
        } else {
            self.measured <= self.bar
        }
    }
}

/// Rows, printed as they come.
pub(crate) struct Table {
    rows: usize,
    missed: usize,
}

impl Table {
    /// Prints the head.
    pub(crate) fn new() -> Self {
        println!(
            "{:<30} {:>9} {:>9} {:<2} {:<6}  made of",
            "promise", "measured", "bar", "", ""
        );
        Self { rows: 0, missed: 0 }
    }

    /// Prints a row.
    pub(crate) fn add(&mut self, row: &Row) {
        let verdict = if row.holds() { "holds" } else { "MISSED" };
        println!(
            "{:<30} {:>9.1} {:>1}{:>8.1} {:<2} {:<6}  {}",
            row.name,
            row.measured,
            if row.at_least { ">" } else { "<" },
            row.bar,
            row.unit,
            verdict,
            row.detail,
        );
        self.rows += 1;
        self.missed += usize::from(!row.holds());
    }

    /// Prints how many promises hold.
    pub(crate) fn finish(self) {
        println!("{} of {} hold", self.rows - self.missed, self.rows);
    }
}
