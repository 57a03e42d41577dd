//! Texts that are not kernels, and their diagnostics.

use insta::assert_snapshot;

use crate::text::read;

/// The first line of a text's diagnostics.
fn said(text: &str) -> String {
    match read(text) {
        Ok(kernel) => panic!("it was read: {kernel}"),
        Err(errors) => {
            assert!(!errors.render(text).is_empty());
            errors.to_string()
        }
    }
}

/// The diagnostics of a kernel over `%x: f32[N, M]`, `%k: i64[N]` and `%y: f32[N]` with these items.
fn said_of(items: &str) -> String {
    said(&format!(
        "kernel @k(%x: in f32[N, M], %k: in i64[N], %y: out f32[N]) {{ outer i < N {items} }}"
    ))
}

#[test]
fn malformed_headers_are_rejected() {
    assert_snapshot!(said(""), @"[E0101] expected `kernel`, found the end of the text");
    assert_snapshot!(said("kernel k"), @"[E0101] expected a name such as `@main`, found `k`");
    assert_snapshot!(said("kernel @k"), @"[E0101] expected `(`, found the end of the text");
    assert_snapshot!(said("kernel @k(%x: inn f32[N]) {}"), @"[E0128] expected what the buffer is for, found `inn`; one of in, out, inout, const");
    assert_snapshot!(said("kernel @k(%x: in f31[N]) {}"), @"[E0133] unknown dtype `f31`, expected one of f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, bool");
    assert_snapshot!(said("kernel @k(%x: in f32 N) {}"), @"[E0101] expected `[`, found `N`");
    assert_snapshot!(said("kernel @k(%x: in f32[N] strides [1, 1]) {}"), @"[E0129] expected one stride per axis, 1, of `%x`");
    assert_snapshot!(said("kernel @k(%x: in f32[N], %x: in f32[N]) {}"), @"[E0127] `%x` is defined twice");
    assert_snapshot!(said("kernel @k(%x: in f32[N] %y: in f32[N]) {}"), @"[E0101] expected `,` or `)`, found `%y`");
    assert_snapshot!(said("kernel @k(%x: in f32[N]"), @"[E0101] expected `)`, found the end of the text");
    assert_snapshot!(said("kernel @k<N, N>(%x: in f32[N]) {}"), @"[E0127] symbol `N` is used before it is declared, or declared twice");
    assert_snapshot!(said("kernel @k<t = 2*t>(%x: in f32[N]) {}"), @"[E0127] symbol `t` is used before it is declared, or declared twice");
    assert_snapshot!(said("kernel @k<N M>(%x: in f32[N]) {}"), @"[E0101] expected `,` or `>`, found `M`");
    assert_snapshot!(said("kernel @k(%x: in f32[N]) where N >= 1, N < 1 {}"), @"[E0304] N < 1 contradicts what is known: N is in 1..");
    assert_snapshot!(said("kernel @k(%x: in f32[N]) {} {"), @"[E0101] expected the end of the text, found `{`");
    assert_snapshot!(said("kernel @k(%x: in f32[N / 0]) {}"), @"[E0303] expected a positive divisor, found 0");
}

#[test]
fn malformed_items_are_rejected() {
    assert_snapshot!(said_of("1"), @"[E0101] expected a stage, `store`, `carry` or `}`, found `1`");
    assert_snapshot!(said_of("size = 1"), @"[E0125] expected a name, found the word `size` of the language");
    assert_snapshot!(said_of("i = 1"), @"[E0127] `i` is defined twice");
    assert_snapshot!(said_of("s = 1 s = 2"), @"[E0127] `s` is defined twice");
    assert_snapshot!(said_of("s[i < 3] = 1"), @"[E0127] `i` is defined twice");
    assert_snapshot!(said_of("s[1] = 1"), @"[E0101] expected an axis such as `i < N`, found `1`");
    assert_snapshot!(said_of("s = reduce sum[j < M] 1"), @"[E0128] expected a reduction, found `sum`; one of add, mul, min, max, and, or, argmin, argmin_last, argmax, argmax_last");
    assert_snapshot!(said_of("s = reduce add f31[j < M] 1"), @"[E0133] unknown dtype `f31`, expected one of f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, bool");
    assert_snapshot!(said_of("s = reduce add 1"), @"[E0101] expected a dtype, found `1`");
    assert_snapshot!(said_of("store div %y[i] = 1"), @"[E0128] expected how to combine, or a buffer, found `div`; one of add, mul, min, max, set");
    assert_snapshot!(said_of("store %z[i] = 1"), @"[E0126] no buffer is called `%z`");
    assert_snapshot!(said_of("store %y[i, i] = 1"), @"[E0216] expected 1 indices of %y, found 2");
    assert_snapshot!(said_of("store %y[i] = i"), @"[E0218] expected f32 for a stored value, found i64");
    assert_snapshot!(said_of("store %y[i i] = 1"), @"[E0101] expected `,`, found `i`");
    assert_snapshot!(said_of("carry t < N { carry u < N { } }"), @"[E0221] expected the carry block to end before the next begins");
    assert_snapshot!(said_of("carry t < N { s + 1 init 0 = 1 }"), @"[E0101] expected `init` after the name and the axes of a stage, found `+`");
    assert_snapshot!(said_of("carry t < N { s init 0 = 1"), @"[E0101] expected a stage, `store`, `carry` or `}`, found the end of the text");
    assert_snapshot!(said_of("s = { s = 1 s }"), @"[E0101] expected `;`, found `s`");
}

#[test]
fn malformed_expressions_are_rejected() {
    assert_snapshot!(said_of("s = "), @"[E0101] expected an expression, found `}`");
    assert_snapshot!(said_of("s = q"), @"[E0126] no axis, stage or size in scope is called `q`");
    assert_snapshot!(said_of("s = else"), @"[E0125] expected a name, found the word `else` of the language");
    assert_snapshot!(said_of("s = prev(q)"), @"[E0126] no stage here or before is called `q`");
    assert_snapshot!(said_of("s = %x[i]"), @"[E0216] expected 2 indices of %x, found 1");
    assert_snapshot!(said_of("s = %x[i, 0.5]"), @"[E0132] expected a number that i64 can represent, found 0.5");
    assert_snapshot!(said_of("s = %x[i, 0] + i"), @"[E0217] expected operands that `add` takes, found [F32, I64]");
    assert_snapshot!(said_of("s = %x[i, 0] if inside or i > 0 else 0"), @"[E0101] expected `else`, found `or`");
    assert_snapshot!(said_of("s = %x[i, 0] if i else 0"), @"[E0218] expected bool for the condition of a load, found i64");
    assert_snapshot!(said_of("s = %x[i, 0] if i > 0"), @"[E0101] expected `else`, found `}`");
    assert_snapshot!(said_of("s = i < 1 < 2"), @"[E0101] expected a stage, `store`, `carry` or `}`, found `<`");
    assert_snapshot!(said_of("s = i + 0.5"), @"[E0132] expected a number that i64 can represent, found 0.5");
    assert_snapshot!(said_of("s = i8(200)"), @"[E0132] expected a number that i8 can represent, found 200");
    assert_snapshot!(said_of("s = 1e99"), @"[E0132] expected a number that f32 can represent, found 1e99");
    assert_snapshot!(said_of("s = 9223372036854775808"), @"[E0132] expected a number that i64 can represent, found 9223372036854775808");
    assert_snapshot!(said_of("s = sqqrt(1.0)"), @"[E0130] no function is called `sqqrt`");
    assert_snapshot!(said_of("s = sqrt(1.0, 2.0)"), @"[E0217] expected operands that `sqrt` takes, found [F32, F32]");
    assert_snapshot!(said_of("s = sqrt(i)"), @"[E0217] expected operands that `sqrt` takes, found [I64]");
    assert_snapshot!(said_of("s = elu(1.0, beta=1)"), @"[E0131] `elu` has no parameter `beta`");
    assert_snapshot!(said_of("s = elu(1.0, alpha=i)"), @"[E0101] expected a number, found `i`");
    assert_snapshot!(said_of("s = elu(1.0, alpha=1e999)"), @"[E0132] `alpha` is too large a number");
    assert_snapshot!(said_of("s = elu(1.0 2.0)"), @"[E0101] expected `,`, found `2.0`");
    assert_snapshot!(said_of("s = gelu(i)"), @"[E0220] invalid call of `gelu`: i64 cannot represent the number 0.7071067811865476: use a float dtype, or another parameter");
    assert_snapshot!(said_of("s[j < 2] = 1 u = s"), @"[E0216] expected 1 indices of s, found 0");
    assert_snapshot!(said_of("s = (1"), @"[E0101] expected `)`, found `}`");
    assert_snapshot!(said_of("s = { t0 = 1; t0 = 2; t0 }"), @"[E0127] `t0` is defined twice");
}

#[test]
fn too_deep_nesting_is_rejected() {
    for (open, close) in [
        ("(", ")"),
        ("exp(", ")"),
        ("-", ""),
        ("not ", ""),
        ("{ ", " }"),
        ("f32(", ")"),
        ("%x[", "]"),
    ] {
        let text = format!("s = {}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(said_of(&text).starts_with("[E0110]"), "{open}");
    }
}
