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
    /// Whether arithmetic alone, measured where memory is no limit, takes as long: then the bar cannot be asked for.
    pub(crate) is_compute_bound: bool,
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

    fn verdict(&self) -> &'static str {
        match (self.holds(), self.is_compute_bound) {
            (true, _) => "holds",
            (false, true) => "compute",
            (false, false) => "MISSED",
        }
    }
}

/// Rows, printed as they come.
pub(crate) struct Table {
    rows: usize,
    bound: usize,
    missed: usize,
}

impl Table {
    /// Prints the head.
    pub(crate) fn new() -> Self {
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
    pub(crate) fn add(&mut self, row: &Row) {
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

    /// Prints how many promises hold.
    pub(crate) fn finish(self) {
        let Self {
            rows,
            bound,
            missed,
        } = self;
        let holding = rows - bound - missed;
        println!("{holding} of {rows} hold, {bound} are bound by arithmetic, {missed} are missed");
    }
}
