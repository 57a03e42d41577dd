//! Markdown tables, as far as the checks read them: rows of trimmed cells, and the names between backticks.

/// A row: its line, counted from 1, and its cells.
pub(super) struct Row<'a> {
    /// The line.
    pub(super) line: usize,
    /// The cells.
    pub(super) cells: Vec<&'a str>,
}

/// Every table row of a page except headings and rules.
pub(super) fn rows(text: &str) -> Vec<Row<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let is_rule =
        |line: &str| line.starts_with('|') && line.chars().all(|letter| "|-: ".contains(letter));
    let mut rows = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let is_heading = lines.get(index + 1).is_some_and(|next| is_rule(next));
        if let (Some(inner), false, false) = (line.strip_prefix('|'), is_rule(line), is_heading) {
            let inner = inner.trim_end().strip_suffix('|').unwrap_or(inner);
            rows.push(Row {
                line: index + 1,
                cells: inner.split(" | ").map(str::trim).collect(),
            });
        }
    }
    rows
}

/// The names between backticks in a cell.
pub(super) fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_without_headings_and_rules() {
        let rows = rows("text\n| a | b |\n|---|:--|\n| `x` and `y` | not yet |\n");
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].line, rows[0].cells.as_slice()),
            (4, ["`x` and `y`", "not yet"].as_slice())
        );
        assert_eq!(quoted(rows[0].cells[0]).collect::<Vec<_>>(), ["x", "y"]);
    }
}
