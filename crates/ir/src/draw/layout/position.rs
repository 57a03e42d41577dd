//! Coordinates across a layer: as close to straight edges as the order and the widths allow.
//!
//! The target position of each vertex is where its neighbours' ends are. Within a row that is least squares under an order
//! with minimal distances: isotonic regression, solved exactly by pooling adjacent violators. Sweeps down and up align the
//! rows with each other.

use super::{PADDING, Segment, Vertex};

const SWEEPS: usize = 8;

/// A neighbour's target position, and its weight.
type Wish = (usize, f64, f64);

/// The centres of all vertices, and the width of the whole.
pub(super) fn assign(
    rows: &[Vec<usize>],
    vertices: &[Vertex],
    segments: &[Segment],
    gap: f64,
) -> (Vec<f64>, f64) {
    let mut above: Vec<Vec<Wish>> = vec![Vec::new(); vertices.len()];
    let mut below: Vec<Vec<Wish>> = vec![Vec::new(); vertices.len()];
    for segment in segments {
        let bends = [segment.from, segment.to]
            .into_iter()
            .filter(|&id| vertices[id].is_bend)
            .count();
        // Long edges should run straight: their inner parts weigh most.
        let weight = [1.0, 2.0, 8.0][bends];
        let shift = segment.from_offset - segment.to_offset;
        above[segment.to].push((segment.from, shift, weight));
        below[segment.from].push((segment.to, -shift, weight));
    }
    let mut middles = vec![0.0; vertices.len()];
    for row in rows {
        let packed: Vec<(f64, f64)> = row.iter().map(|_| (0.0, 1.0)).collect();
        settle(row, vertices, gap, &packed, &mut middles);
    }
    for sweep in 0..SWEEPS {
        let both = sweep + 1 == SWEEPS;
        for step in 0..rows.len() {
            let down = sweep % 2 == 0;
            let row = &rows[if down { step } else { rows.len() - 1 - step }];
            let wishes: Vec<(f64, f64)> = row
                .iter()
                .map(|&id| {
                    let near = if down { &above[id] } else { &below[id] };
                    let far = if down { &below[id] } else { &above[id] };
                    let far = if both || near.is_empty() {
                        far.as_slice()
                    } else {
                        &[]
                    };
                    wish(id, near.iter().chain(far), &middles)
                })
                .collect();
            settle(row, vertices, gap, &wishes, &mut middles);
        }
    }
    let left = (0..vertices.len())
        .map(|id| middles[id] - vertices[id].width / 2.0)
        .fold(f64::INFINITY, f64::min);
    let right = (0..vertices.len())
        .map(|id| middles[id] + vertices[id].width / 2.0)
        .fold(f64::NEG_INFINITY, f64::max);
    if vertices.is_empty() {
        return (middles, 2.0 * PADDING);
    }
    for middle in &mut middles {
        *middle += PADDING - left;
    }
    (middles, right - left + 2.0 * PADDING)
}

/// The vertex's unconstrained position, and its weight.
fn wish<'a>(id: usize, neighbours: impl Iterator<Item = &'a Wish>, middles: &[f64]) -> (f64, f64) {
    let (mut sum, mut total) = (0.0, 0.0);
    for &(neighbour, shift, weight) in neighbours {
        sum += weight * (middles[neighbour] + shift);
        total += weight;
    }
    if total > 0.0 {
        (sum / total, total)
    } else {
        (middles[id], 0.1)
    }
}

/// Places a row: closest to the targets, in order, without overlap.
fn settle(
    row: &[usize],
    vertices: &[Vertex],
    gap: f64,
    wishes: &[(f64, f64)],
    middles: &mut [f64],
) {
    // Blocks of vertices that touch: (position of the first without its offset, weight, count).
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(row.len());
    let mut offsets = Vec::with_capacity(row.len());
    let mut offset = 0.0;
    for (position, &id) in row.iter().enumerate() {
        if position > 0 {
            offset += (vertices[row[position - 1]].width + vertices[id].width) / 2.0 + gap;
        }
        offsets.push(offset);
        let (place, weight) = wishes[position];
        let mut block = (place - offset, weight, 1);
        while let Some(&(before, before_weight, count)) = blocks.last()
            && before > block.0
        {
            blocks.pop();
            let weight = before_weight + block.1;
            block = (
                (before * before_weight + block.0 * block.1) / weight,
                weight,
                count + block.2,
            );
        }
        blocks.push(block);
    }
    let places = blocks
        .iter()
        .flat_map(|&(place, _, count)| std::iter::repeat_n(place, count));
    for ((&id, offset), place) in row.iter().zip(offsets).zip(places) {
        middles[id] = place + offset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vertex(layer: usize) -> Vertex {
        Vertex {
            layer,
            width: 10.0,
            is_bend: false,
        }
    }

    #[test]
    fn drawn_rows_keep_their_order_and_distance() {
        let vertices = [vertex(0), vertex(0), vertex(0)];
        let mut middles = [0.0; 3];
        settle(
            &[0, 1, 2],
            &vertices,
            2.0,
            &[(50.0, 1.0), (0.0, 1.0), (100.0, 1.0)],
            &mut middles,
        );
        assert!((middles[1] - middles[0] - 12.0).abs() < 1e-9, "{middles:?}");
        assert!((middles[0] + middles[1] - 50.0).abs() < 1e-9, "{middles:?}");
        assert_eq!(middles[2], 100.0);
    }

    #[test]
    fn a_chain_is_straight() {
        let vertices = [vertex(0), vertex(1), vertex(2)];
        let segments = [(0, 1), (1, 2)].map(|(from, to)| Segment {
            from,
            from_offset: 0.0,
            to,
            to_offset: 0.0,
        });
        let (middles, width) = assign(&[vec![0], vec![1], vec![2]], &vertices, &segments, 2.0);
        assert!(middles.iter().all(|&middle| middle == middles[0]));
        assert_eq!(width, 10.0 + 2.0 * PADDING);
    }
}
