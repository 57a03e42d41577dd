//! Kernel classes, with their reasons.

use crate::text::read;
use crate::verify::verify;

/// The class with its reason, the roles of the axes, and the contractions.
fn classified(text: &str) -> String {
    let kernel = read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    let kernel = verify(kernel).unwrap_or_else(|errors| panic!("{errors}"));
    let classification = kernel.classification();
    let roles: Vec<String> = kernel
        .axes()
        .iter()
        .map(|(id, axis)| format!("{} {}", axis.name, classification.roles[id].as_word()))
        .collect();
    let contractions: Vec<&str> = classification
        .contractions
        .iter()
        .map(|contraction| kernel.stage(contraction.stage).name.as_str())
        .collect();
    format!(
        "{}: {}\n{}\n{}",
        classification.class,
        classification.why,
        roles.join(", "),
        contractions.join(" ")
    )
}

#[test]
fn a_product_of_a_matrix_and_a_vector_is_a_contraction() {
    insta::assert_snapshot!(classified(
        "kernel @mv(%x: in f32[K], %w: in f32[M, K], %y: out f32[M]) {
           outer m < M
           acc = reduce add[k < K] %x[k] * %w[m, k]
           store %y[m] = acc
         }"
    ));
}

#[test]
fn a_contraction_with_batch_prologue_and_epilogue_is_a_contraction() {
    insta::assert_snapshot!(classified(
        "kernel @bmm(%x: in f16[B, M, K], %w: in f16[B, K, N], %c: in f32[N], %y: out f32[B, M, N]) {
           outer b < B, m < M, n < N
           peak = reduce max[k < K] f32(%x[b, m, k])
           acc = reduce add[k < K] exp(f32(%x[b, m, k]) - peak) * f32(%w[b, k, n]) / 8.0
           store %y[b, m, n] = gelu(acc + %c[n])
         }"
    ));
}

#[test]
fn a_sum_of_squares_is_a_row() {
    insta::assert_snapshot!(classified(
        "kernel @squares(%x: in f32[M, K], %y: out f32[M]) {
           outer m < M
           s = reduce add[k < K] %x[m, k] * %x[m, k]
           store %y[m] = s
         }"
    ));
}

#[test]
fn scores_without_a_second_product_are_a_contraction() {
    insta::assert_snapshot!(classified(
        "kernel @scores(%q: in f32[S, 8], %k: in f32[S, 8], %y: out f32[S, S]) {
           outer i < S
           s[j < S] = reduce add[d < 8] %q[i, d] * %k[j, d]
           mx = reduce max[j < S] s[j]
           store %y[i, j < S] = s[j] - mx
         }"
    ));
}

#[test]
fn attention_needs_a_row_between_two_products() {
    insta::assert_snapshot!(classified(
        "kernel @attention(%q: in f32[S, 8], %k: in f32[S, 8], %v: in f32[S, 8], %y: out f32[S, 8]) {
           outer i < S
           s[j < S] = reduce add[d < 8] %q[i, d] * %k[j, d] * 0.5
           mx = reduce max[j < S] s[j]
           l = reduce add[j < S] exp(s[j] - mx)
           o[e < 8] = reduce add[j < S] exp(s[j] - mx) * %v[j, e]
           store %y[i, e < 8] = o[e] / l
         }"
    ));
}
