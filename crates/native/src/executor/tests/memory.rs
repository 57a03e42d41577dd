//! Memory: shared with tensors where possible, copied where necessary, never written while read.
#![allow(
    unsafe_code,
    reason = "a tensor over memory that is not aligned is made by hand"
)]

use super::*;
use kiln_backend::Launch;
use std::sync::Arc;

#[test]
fn uploading_shares_aligned_contiguous_tensors_and_copies_others() {
    let cpu = NativeExecutor::new();
    let x = Tensor::from_slice(&[2, 3], &[1i32, 2, 3, 4, 5, 6]).unwrap();
    let shared = cpu.upload(&x).unwrap();
    let back = cpu.download(&shared, 0, DType::I32, &[2, 3]).unwrap();
    assert_eq!(
        back.as_slice::<i32>().unwrap().as_ptr(),
        x.as_slice::<i32>().unwrap().as_ptr()
    );
    drop(x);
    assert_eq!(back.to_vec::<i32>().unwrap(), [1, 2, 3, 4, 5, 6]);
    let copied = cpu.upload(&back.transpose(&[1, 0]).unwrap()).unwrap();
    assert_eq!(elements::<i32>(&copied), [1, 4, 2, 5, 3, 6]);
    let empty = Tensor::zeros(DType::F64, &[0, 3]).unwrap();
    let empty = cpu.upload(&empty).unwrap();
    assert_eq!(empty.bytes(), 0);
    assert_eq!(elements::<f64>(&empty), []);
    let odd = Tensor::from_slice(&[4], &[1u8, 2, 3, 4])
        .unwrap()
        .narrow(0, 1, 2);
    assert_eq!(elements::<u8>(&cpu.upload(&odd.unwrap()).unwrap()), [2, 3]);
}

#[test]
fn unaligned_tensors_are_copied() {
    let cpu = NativeExecutor::new();
    let bytes = uploaded(&[9u8, 1, 0, 0, 0, 2, 0, 0, 0]);
    let tensor = cpu.download(&bytes, 1, DType::I32, &[2]).unwrap();
    assert_eq!(tensor.as_slice::<i32>().unwrap(), [1, 2]);
    static ZEROS: [u64; 2] = [0; 2];
    let start = std::ptr::NonNull::from(&ZEROS).cast::<u8>();
    // SAFETY: the memory lives forever and is never written; with an offset of one byte it is still long enough.
    let tensor = unsafe {
        let memory = kiln_tensor::Foreign::new(start.add(1), 8, || ());
        Tensor::foreign(DType::F32, &[2], &[1], 0, memory).unwrap()
    };
    assert_eq!(elements::<f32>(&cpu.upload(&tensor).unwrap()), [0.0, 0.0]);
}

#[test]
fn memory_is_aligned_and_downloads_are_within_it() {
    let cpu = NativeExecutor::new();
    for bytes in [0, 1, 100] {
        let memory = alloc(bytes);
        assert_eq!(memory.bytes(), bytes);
        let tensor = cpu.download(&memory, 0, DType::U8, &[bytes]).unwrap();
        assert!(
            tensor
                .as_slice::<u8>()
                .unwrap()
                .as_ptr()
                .addr()
                .is_multiple_of(64)
                || bytes == 0
        );
    }
    let memory = alloc(16);
    for (offset, shape) in [(0, &[5][..]), (4, &[4]), (17, &[0]), (usize::MAX, &[1])] {
        let error = cpu
            .download(&memory, offset, DType::F32, shape)
            .unwrap_err();
        assert_eq!((error.code, error.out_of_memory), ("E0861", false));
    }
    let huge = cpu
        .download(&memory, 0, DType::F32, &[usize::MAX])
        .unwrap_err();
    assert_eq!(huge.code, "E0340");
    let foreign = Memory::new(Arc::new(5u8), 16);
    let error = cpu.download(&foreign, 0, DType::F32, &[1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory to download: expected this executor's own, found another executor's"
    );
}

#[test]
fn out_of_memory_errors_say_so() {
    let error = NativeExecutor::new()
        .alloc(isize::MAX as usize)
        .unwrap_err();
    assert_eq!((error.code, error.out_of_memory), ("E0840", true));
}

#[test]
fn memory_read_by_a_tensor_is_never_written() {
    let cpu = NativeExecutor::new();
    let code = scale();
    let kernel = cpu.load(&code).unwrap();
    let (input, output) = (uploaded(&[1.0f32, 2.0]), alloc(8));
    let mut execution = cpu.begin();
    let mut launch = |output: &Memory| {
        let launch = Launch {
            buffers: &[whole(&input), whole(output)],
            numbers: &numbers(&code, &[8, 8], &[], &[(2, 0)], 0),
        };
        launch_alone(&mut *execution, &kernel, &launch)
    };
    launch(&output).unwrap();
    let result = cpu.download(&output, 0, DType::F32, &[2]).unwrap();
    let view = result.reshape(&[1, 2]).unwrap();
    drop(result);
    let error = launch(&output).unwrap_err();
    assert_eq!(
        (error.code, error.to_string().as_str()),
        (
            "E0862",
            "buffer y of kernel tested: expected writable memory, found memory shared with a tensor"
        )
    );
    assert_eq!(view.to_vec::<f32>().unwrap(), [1.4, 20.4]);
    drop(view);
    launch(&output).unwrap();
    assert_eq!(launch(&input).unwrap_err().code, "E0862");
    // A result outlives the memory's other owners.
    let result = cpu.download(&output, 0, DType::F32, &[2]).unwrap();
    drop(output);
    assert_eq!(result.to_vec::<f32>().unwrap(), [1.4, 20.4]);
}

#[test]
fn a_lent_tensor_is_written_in_place_and_returned() {
    let cpu = NativeExecutor::new();
    let mut memory = cpu.alloc(8).unwrap();
    let tensor = Tensor::from_slice(&[3], &[1i32, 2, 3]).unwrap();
    let start = tensor.as_bytes().unwrap().as_ptr();
    assert!(cpu.lend(tensor, &mut memory).is_none());
    assert_eq!(memory.bytes(), 12);
    // Not while there are other handles to the memory.
    let other = memory.clone();
    assert!(cpu.reclaim(&mut memory, DType::I32, &[3]).is_none());
    assert_eq!(elements::<i32>(&other), [1, 2, 3]);
    drop(other);
    let back = cpu.reclaim(&mut memory, DType::I32, &[3]).unwrap();
    assert_eq!(back.as_bytes().unwrap().as_ptr(), start);
    assert_eq!(memory.bytes(), 0);
    assert!(cpu.reclaim(&mut memory, DType::I32, &[3]).is_none());
    // Shared memory, another axis order, read-only memory, and nothing to write.
    let shared = back.clone();
    let refused = [
        shared,
        Tensor::from_slice(&[2, 2], &[1i32, 2, 3, 4])
            .unwrap()
            .transpose(&[1, 0])
            .unwrap(),
        cpu.download(&uploaded(&[5i32]), 0, DType::I32, &[1])
            .unwrap(),
        Tensor::zeros(DType::F32, &[0]).unwrap(),
        Tensor::full(&[2], true).unwrap(),
    ];
    for tensor in refused {
        assert!(cpu.lend(tensor, &mut memory).is_some());
    }
    assert_eq!(back.to_vec::<i32>().unwrap(), [1, 2, 3]);
}
