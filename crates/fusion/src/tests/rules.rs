//! The benefit of single rules. Which ops the rules join is tested by files (`testkit/testdata/fusion`).

#[test]
fn matmul_bias_relu_moves_a_third_of_the_intermediate_bytes() {
    let (_, plan) = super::planned(
        "graph @main(%x: f32[512, 64], %w: f32[64, 512], %b: f32[512]) {
        %1 = matmul %x, %w
        %2 = add %1, %b
        %3 = relu %2
        return %3
    }",
    );
    let node = plan.nodes().next().unwrap();
    // Unfused, the product and the sum are written and read, and the result is written: five times the tensor.
    let tensor = 512 * 512 * 4;
    assert_eq!(node.benefit.bytes_saved, 4 * tensor);
    let between = node.benefit.bytes_saved + tensor;
    assert!(between >= 3 * tensor);
}
