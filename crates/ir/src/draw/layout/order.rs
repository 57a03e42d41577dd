//! The order within each layer: sweeps of the barycentre heuristic, keeping the best order.

use super::Segment;

/// Sweeps down and up; crossings rarely fall after the first few.
const SWEEPS: usize = 10;

/// Reorders every row so that few segments cross.
pub(super) fn minimise_crossings(
    rows: &mut Vec<Vec<usize>>,
    n_vertices: usize,
    segments: &[Segment],
) {
    let mut above = vec![Vec::new(); n_vertices];
    let mut below = vec![Vec::new(); n_vertices];
    for segment in segments {
        above[segment.to].push(segment.from);
        below[segment.from].push(segment.to);
    }
    let mut positions = vec![0_usize; n_vertices];
    rows.iter().for_each(|row| number(row, &mut positions));
    let mut best = rows.clone();
    let mut fewest = crossings(rows, &below, &positions);
    for sweep in 0..SWEEPS {
        if fewest == 0 {
            break;
        }
        let (neighbours, down) = if sweep % 2 == 0 {
            (&above, true)
        } else {
            (&below, false)
        };
        for step in 0..rows.len() {
            let row = if down { step } else { rows.len() - 1 - step };
            let keys: Vec<(f64, usize)> = rows[row]
                .iter()
                .map(|&id| (barycentre(id, neighbours, &positions), id))
                .collect();
            let mut keys = keys;
            keys.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[row] = keys.into_iter().map(|(_, id)| id).collect();
            number(&rows[row], &mut positions);
        }
        let now = crossings(rows, &below, &positions);
        if now < fewest {
            fewest = now;
            best.clone_from(rows);
        }
    }
    *rows = best;
}

fn number(row: &[usize], positions: &mut [usize]) {
    for (position, &id) in row.iter().enumerate() {
        positions[id] = position;
    }
}

/// The mean position of the neighbours; its own if there are none.
fn barycentre(id: usize, neighbours: &[Vec<usize>], positions: &[usize]) -> f64 {
    let ids = &neighbours[id];
    if ids.is_empty() {
        return positions[id] as f64;
    }
    ids.iter().map(|&id| positions[id] as f64).sum::<f64>() / ids.len() as f64
}

/// The number of crossing pairs of segments, counted with a tree of prefix sums per row.
fn crossings(rows: &[Vec<usize>], below: &[Vec<usize>], positions: &[usize]) -> u64 {
    let mut count = 0;
    for (upper, lower) in rows.iter().zip(rows.iter().skip(1)) {
        let mut sums = vec![0_u64; lower.len() + 1];
        let mut seen = 0;
        for &id in upper {
            let mut ends: Vec<usize> = below[id].iter().map(|&end| positions[end]).collect();
            ends.sort_unstable();
            for &end in &ends {
                // Earlier segments that end further right cross this one.
                count += seen - prefix(&sums, end + 1);
            }
            for &end in &ends {
                add(&mut sums, end + 1);
            }
            seen += ends.len() as u64;
        }
    }
    count
}

fn prefix(sums: &[u64], mut index: usize) -> u64 {
    let mut total = 0;
    while index > 0 {
        total += sums[index];
        index &= index - 1;
    }
    total
}

fn add(sums: &mut [u64], mut index: usize) {
    while index < sums.len() {
        sums[index] += 1;
        index += index & index.wrapping_neg();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(from: usize, to: usize) -> Segment {
        Segment {
            from,
            from_offset: 0.0,
            to,
            to_offset: 0.0,
        }
    }

    #[test]
    fn avoidable_edge_crossings_are_removed() {
        let segments = [segment(0, 3), segment(1, 2)];
        let mut rows = vec![vec![0, 1], vec![2, 3]];
        minimise_crossings(&mut rows, 4, &segments);
        assert_eq!(rows, [[0, 1], [3, 2]]);
    }

    #[test]
    fn crossings_are_counted_once_each() {
        let below = vec![
            vec![3, 4, 5],
            vec![3, 4, 5],
            vec![3, 4, 5],
            vec![],
            vec![],
            vec![],
        ];
        let rows = [vec![0, 1, 2], vec![3, 4, 5]];
        assert_eq!(crossings(&rows, &below, &[0, 1, 2, 0, 1, 2]), 9);
    }
}
