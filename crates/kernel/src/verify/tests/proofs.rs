//! Which indices and stores are proved, and which are not.

use super::*;

/// The classes of the loads and stores.
fn proved(text: &str) -> String {
    let summary = summary(&read(text));
    summary
        .split_once('\n')
        .map(|(_, rest)| rest.trim().replace('\n', " "))
        .unwrap_or_default()
}

/// A kernel that stores its only load, `%x[index]` of `x: f32[N]`, at every i below `extent`.
fn load(extent: &str, index: &str, facts: &str) -> String {
    let text = format!(
        "kernel @k(%x: in f32[N], %n: in i64[N], %b: in bool[N], %y: out f32[{extent}]) {facts} {{
           outer i < {extent}
           store %y[i] = %x[{index}]
         }}"
    );
    let summary = proved(&text);
    let (_, rest) = summary.split_once("%x[").unwrap();
    rest.split_once(']').unwrap().0.to_string()
}

#[test]
fn load_indices_are_proved_or_checked() {
    let cases = [
        ("N", "i", "", "proved"),
        ("N", "N - 1 - i", "", "proved"),
        ("N", "i + 1", "", "checked"),
        ("N", "0", "", "checked"),
        ("N", "0", "where N >= 1", "proved"),
        ("N - 1", "i + 1", "where N >= 1", "proved"),
        ("4*N", "i / 4", "", "proved"),
        ("4*N", "i % N", "where N >= 1", "proved"),
        ("K*N", "i % N", "where N >= 1", "proved"),
        ("K*N", "i % N", "", "proved"),
        ("K", "min(i, N - 1)", "where N >= 1", "proved"),
        ("K", "min(i, N - 1)", "", "checked"),
        (
            "K",
            "min(max(%n[i % N], 0), N - 1)",
            "where N >= 1",
            "proved",
        ),
        ("N", "%n[i]", "", "checked"),
        ("N", "i64(i32(%n[i]) % i32(4))", "where N >= 4", "proved"),
        ("N", "select(%b[i], i, N - 1 - i)", "", "proved"),
        ("N", "select(%b[i], i, i + 1)", "", "checked"),
        ("N", "select(i < 1, i, i - 1)", "", "proved"),
        ("N", "select(i >= 1 and %b[i], i - 1, i)", "", "proved"),
        ("N", "i64(%b[i])", "where N >= 2", "proved"),
        ("N", "i64(%b[i])", "where N >= 1", "checked"),
        ("N", "-i + N - 1", "", "proved"),
        // A size that is either 1 or the size that it is broadcast to.
        ("bcast(N, K)", "select(N == 1, 0, i)", "", "proved"),
        (
            "K",
            "select(N == 1, 0, i)",
            "where (N - 1) * (N - K) == 0",
            "proved",
        ),
        (
            "8",
            "select(N == 1, 0, i)",
            "where (N - 1) * (N - 8) == 0",
            "proved",
        ),
        ("K", "select(N == 1, 0, i)", "", "checked"),
    ];
    for (extent, index, facts, expected) in cases {
        let index = index.replace("(0.0 * 1.0", "0.0 + %x[0");
        assert_eq!(
            load(extent, &index, facts),
            expected,
            "%x[{index}] for i < {extent} {facts}"
        );
    }
}

/// A load under a condition, of `x: f32[N]` for every i below K.
fn guarded(condition: &str, index: &str) -> String {
    let text = format!(
        "kernel @k(%x: in f32[N], %n: in i64[K], %m: in i32[K], %z: inout i64[K], %y: out f32[K]) {{
           outer i < K
           store %y[i] = %x[{index}] if {condition} else 0.0
         }}"
    );
    let summary = proved(&text);
    let (_, rest) = summary.split_once("%x[").unwrap();
    rest.split_once(']').unwrap().0.to_string()
}

#[test]
fn conditions_of_loads_are_facts_of_their_indices() {
    let cases = [
        ("i < N", "i", "proved"),
        ("i <= N", "i", "checked"),
        ("N > i", "i", "proved"),
        ("not (i >= N)", "i", "proved"),
        ("not (i >= N or i < 2)", "i - 2", "proved"),
        ("i >= 2 and i - 2 < N", "i - 2", "proved"),
        ("i >= 2 or i - 2 < N", "i - 2", "checked"),
        ("i == 3 and N != 0 and N > 3", "i", "proved"),
        ("%n[i] >= 0 and %n[i] < N", "%n[i]", "proved"),
        // The sum may wrap around, so nothing follows for its operand.
        ("%n[i] >= 0 and %n[i] + 1 <= N", "%n[i]", "checked"),
        (
            "%m[i] >= i32(0) and i64(%m[i]) + 1 <= N",
            "i64(%m[i])",
            "proved",
        ),
        // The value may be different when it is read again.
        ("%z[i] >= 0 and %z[i] < N", "%z[i]", "checked"),
        ("i < N and 1 == 2", "i + 7", "proved"),
    ];
    for (condition, index, expected) in cases {
        assert_eq!(
            guarded(condition, index),
            expected,
            "%x[{index}] if {condition}"
        );
    }
}

#[test]
fn an_arg_reduction_index_is_in_bounds() {
    let text = "kernel @k(%x: in f32[M, N], %t: in f32[N], %y: out f32[M]) where N >= 1 {
       outer i < M
       best = reduce argmax[r < N] %x[i, r]
       store %y[i] = %t[best]
     }";
    assert!(proved(text).contains("%t[proved]"));
    let empty = text.replace("where N >= 1", "");
    assert!(proved(&empty).contains("%t[checked]"));
}

#[test]
fn names_for_values_at_one_point_are_seen_through() {
    let text = "kernel @k(%x: in f32[N], %y: out f32[4*N]) {
       outer i < 4*N
       at = i / 4
       store %y[i] = %x[at]
     }";
    assert!(proved(text).contains("%x[proved]"));
}

#[test]
fn loops_that_may_not_run_prove_nothing() {
    // The load does not depend on r and may be hoisted out of its loop, which may have no iterations.
    let text = "kernel @k(%x: in f32[N], %y: out f32[M]) {
       outer i < M
       s = reduce add[r < N] %x[0]
       store %y[i] = s
     }";
    assert!(proved(text).contains("%x[checked]"));
}

#[test]
fn local_reads_must_be_in_bounds() {
    let text = |index: &str| {
        format!(
            "kernel @k(%x: in f32[N], %y: out f32[M, N]) {{
               outer i < M
               s[a < N] = %x[a]
               store %y[i, j < N] = s[{index}]
             }}"
        )
    };
    read(&text("j"));
    read(&text("max(j - 1, 0)"));
    insta::assert_snapshot!(wrong(&text("j + 1")), @r"
    kernel @k is not valid
      E0242: expected index 0 of stage s to be proved below N, found one that may not be; clamp it, or make the stage a buffer
    ");
}

/// The errors of stores to a `y` of this shape; `body` contains the stores.
fn stores(shape: &str, outer: &str, body: &str) -> Option<String> {
    let text = format!(
        "kernel @k(%y: out f32[{shape}]) where K >= 0, N >= 0, M >= 0, P >= 1 {{\n outer {outer}\n {body}\n}}"
    );
    let kernel =
        crate::text::read(&text).unwrap_or_else(|errors| panic!("{}", errors.render(&text)));
    let errors = verify(kernel).err()?;
    Some(
        errors
            .errors
            .iter()
            .map(|error| format!("{error}"))
            .collect::<Vec<_>>()
            .join("; "),
    )
}

#[test]
fn stores_that_cover_their_buffer() {
    let cases = [
        ("N", "i < N", "store %y[i] = 0.0"),
        ("N", "i < N", "store %y[N - 1 - i] = 0.0"),
        ("M, N", "i < N, j < M", "store %y[j, i] = 0.0"),
        ("1, N", "i < N", "store %y[0, i] = 0.0"),
        ("N", "i < 1", "store %y[j < N] = 0.0"),
        // Several axes in one index, and one axis in several indices.
        ("M*N", "i < M, j < N", "store %y[i * N + j] = 0.0"),
        ("M, N", "i < M*N", "store %y[i / N, i % N] = 0.0"),
        (
            "2, M, N",
            "i < 2*M*N",
            "store %y[i / (M*N), i / N % M, i % N] = 0.0",
        ),
        ("2*M", "i < 2, j < M", "store %y[2 * j + i] = 0.0"),
        ("6", "i < 12", "store[j < 1] %y[i / 2 % 6] = 0.0"),
        // Side by side.
        (
            "N + M",
            "i < 1",
            "store %y[j < N] = 0.0\n store[j < M] %y[N + j] = 1.0",
        ),
        (
            "N + 3",
            "i < 1",
            "store[j < N] %y[j + 2] = 0.0\n store %y[j < 2] = 1.0\n store %y[N + 2] = 2.0",
        ),
        // Every other element each.
        (
            "2*N",
            "i < N",
            "store %y[2 * i] = 0.0\n store %y[2 * i + 1] = 1.0",
        ),
        (
            "N",
            "i < 1",
            "store[j < (N + 1) / 2] %y[2 * j] = 0.0\n store[j < N / 2] %y[2 * j + 1] = 1.0",
        ),
        // In opposite directions.
        (
            "N + 1, M + 1",
            "i < 1",
            "store[j < N, k < M] %y[j, k] = 0.0\n store[j < N] %y[j, M] = 0.0\n store[k < M + 1] %y[N, k] = 0.0",
        ),
        ("0", "i < N", "store[j < 0] %y[j] = 0.0"),
    ];
    for (shape, outer, body) in cases {
        let said = stores(shape, outer, body);
        if shape == "6" || shape == "0" {
            // 12 points for 6 elements; points of i that write the same empty range.
            assert!(said.is_some(), "{shape}");
        } else {
            assert_eq!(said, None, "[{shape}] {outer} {body}");
        }
    }
}

#[test]
fn stores_that_do_not_cover_their_buffer() {
    let cases = [
        ("N", "i < M", "store %y[j < N] = 0.0"),
        ("N", "i < N", "store %y[0] = 0.0"),
        ("N, N", "i < N", "store %y[i, i] = 0.0"),
        ("N + 1", "i < N", "store %y[i] = 0.0"),
        ("N", "i < N", "store %y[(i + 1) % N] = 0.0"),
        ("M*N", "i < M, j < N", "store %y[i * M + j] = 0.0"),
        ("M, N", "i < M*N", "store %y[i / M, i % M] = 0.0"),
        (
            "2*N",
            "i < N",
            "store %y[2 * i] = 0.0\n store %y[2 * i] = 1.0",
        ),
        (
            "3*N",
            "i < N",
            "store %y[3 * i] = 0.0\n store %y[3 * i + 1] = 1.0",
        ),
        (
            "N + M",
            "i < 1",
            "store %y[j < N] = 0.0\n store[j < M] %y[N + 1 + j] = 1.0",
        ),
        // With N = 0 an axis of -1 points writes nothing, and the other store writes element -1.
        (
            "N",
            "i < 1",
            "store %y[j < N - 1] = 0.0\n store %y[N - 1] = 1.0",
        ),
        // With N = 0 nothing is written to the one element.
        ("max(N, 1)", "i < N", "store %y[i] = 0.0"),
        ("N", "i < 1", "store %y[N / 2] = 0.0"),
        ("N", "i < N", "store %y[i * i] = 0.0"),
    ];
    for (shape, outer, body) in cases {
        assert!(
            stores(shape, outer, body).is_some(),
            "[{shape}] {outer} {body}"
        );
    }
    let none = wrong("kernel @k(%x: in f32[N], %y: out f32[N]) {\n outer i < N\n s = %x[i]\n}");
    insta::assert_snapshot!(none, @r"
    kernel @k is not valid
      E0243: expected the stores to %y to write each element once, found no store to it
    ");
}

#[test]
fn steps_of_a_block_are_an_axis_of_its_stores() {
    let text = |steps: &str, index: &str| {
        format!(
            "kernel @k(%n: in i64[B], %y: out i64[B, T]) {{
               outer b < B
               carry t < {steps} {{
                 store %y[b, {index}] = t
               }}
             }}"
        )
    };
    read(&text("T", "t"));
    read(&text("T", "T - 1 - t"));
    assert!(wrong(&text("clamp(%n[b], T)", "t")).contains("whose steps t are clamped"));
    assert!(wrong(&text("T", "0")).contains("E0243"));
}

/// The serial axes of combining stores to `z: f32[N]`.
fn serial(outer: &str, body: &str) -> Vec<String> {
    let text = format!(
        "kernel @k(%n: in i64[M], %z: inout f32[N], %w: inout f32[N, M]) {{\n outer {outer}\n {body}\n}}"
    );
    let kernel = read(&text);
    let of_store = |info: &crate::verified::StoreInfo| {
        let names = info
            .serial
            .iter()
            .map(|&axis| kernel.axis(axis).name.clone());
        names.collect::<Vec<_>>().join(",")
    };
    kernel.info().stores.iter().map(of_store).collect()
}

#[test]
fn axes_whose_points_may_meet_are_serial() {
    assert_eq!(serial("i < N", "store add %z[i] = 1.0"), [""]);
    assert_eq!(serial("i < N, j < M", "store add %z[i] = 1.0"), ["j"]);
    assert_eq!(serial("i < N, j < M", "store add %w[i, j] = 1.0"), [""]);
    assert_eq!(serial("i < M", "store add %z[%n[i]] = 1.0"), ["i"]);
    assert_eq!(
        serial("i < N / 2", "store[j < 2] add %z[2 * i + j] = 1.0"),
        [""]
    );
    assert_eq!(
        serial("i < N / 2", "store[j < 3] add %z[2 * i + j] = 1.0"),
        ["i"]
    );
    assert_eq!(serial("i < N, j < 1", "store add %z[i] = 1.0"), [""]);
    // Each store writes elements that the other one also writes.
    let both = "store add %z[i] = 1.0\n store add %z[i + 1] = 1.0";
    assert_eq!(serial("i < N", both), ["i", "i"]);
    assert_eq!(
        serial("i < N", "store add %z[i] = 1.0\n store set %z[i] = 2.0"),
        ["", ""]
    );
    // A load at another point sees that store.
    assert_eq!(serial("i < N", "store set %z[i] = %z[i] + 1.0"), [""]);
    assert_eq!(serial("i < N", "store set %z[i] = %z[N - 1 - i]"), ["i"]);
}
