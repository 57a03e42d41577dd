//! Random matrices with orthonormal rows or columns.
//!
//! Normally distributed vectors, each orthogonalised against the previous ones. This is a QR factorisation whose
//! triangular factor has a positive diagonal, so the matrix is uniformly distributed: Mezzadri (2007).

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

/// A row-major matrix whose rows are orthonormal, or its columns if it has fewer of them.
pub(super) fn matrix(rows: usize, columns: usize, random: &mut impl Rng) -> Vec<f64> {
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(count);
    while vectors.len() < count {
        let mut vector: Vec<f64> = (0..length).map(|_| StandardNormal.sample(random)).collect();
        // The second pass removes the rounding error of the first.
        for _ in 0..2 {
            for other in &vectors {
                let along = dot(&vector, other);
                for (element, other) in vector.iter_mut().zip(other) {
                    *element -= along * other;
                }
            }
        }
        let norm = dot(&vector, &vector).sqrt();
        // A vector in the span of the others has probability zero; if it occurs, another one is drawn.
        if norm > 1e-6 {
            vectors.push(vector.into_iter().map(|element| element / norm).collect());
        }
    }
    match rows <= columns {
        true => vectors.into_iter().flatten().collect(),
        false => (0..rows)
            .flat_map(|row| vectors.iter().map(move |vector| vector[row]))
            .collect(),
    }
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}
