//! Constants in a document: element type, shape, and the elements as numbers or as bytes in hexadecimal digits.

use kiln::{DType, Tensor};
use serde_json::{Map, Value, json};

/// Constants with more elements than this are written as bytes.
const WRITTEN_AS_NUMBERS: usize = 64;

/// Reads a tensor from `{"dtype": .., "shape": [..], "data": [..]}`, or with `"bytes"` instead of data: little-endian,
/// in hexadecimal digits.
pub(crate) fn tensor_from_json(value: &Value, max_bytes: usize) -> Result<Tensor, String> {
    let object = value
        .as_object()
        .ok_or_else(|| "expected an object with dtype, shape, and data or bytes".to_owned())?;
    if let Some(other) = object
        .keys()
        .find(|key| !["dtype", "shape", "data", "bytes"].contains(&key.as_str()))
    {
        return Err(format!("unknown field `{}`", other.escape_debug()));
    }
    let dtype = dtype_of(object)?;
    let shape = shape_of(object)?;
    let count = shape
        .iter()
        .try_fold(1usize, |count, &size| count.checked_mul(size))
        .and_then(|count| Some((count, count.checked_mul(dtype.size_in_bytes())?)));
    let (count, bytes) = count
        .filter(|&(_, bytes)| bytes <= max_bytes)
        .ok_or_else(|| format!("expected constants of at most {max_bytes} bytes in all"))?;
    let tensor = match (object.get("data"), object.get("bytes")) {
        (Some(data), None) => of_numbers(dtype, &shape, count, data)?,
        (None, Some(Value::String(digits))) => {
            let content = of_digits(digits, bytes)?;
            Tensor::from_bytes(dtype, &shape, &content).map_err(|error| error.to_string())?
        }
        _ => return Err("expected one of data, a list of numbers, and bytes, a text".to_owned()),
    };
    Ok(tensor)
}

fn dtype_of(object: &Map<String, Value>) -> Result<DType, String> {
    let name = object.get("dtype").and_then(Value::as_str);
    let name = name.ok_or_else(|| "expected a dtype".to_owned())?;
    name.parse()
        .map_err(|_| format!("unknown dtype `{}`", name.escape_debug()))
}

fn shape_of(object: &Map<String, Value>) -> Result<Vec<usize>, String> {
    let sizes = object.get("shape").and_then(Value::as_array);
    let sizes = sizes.ok_or_else(|| "expected a shape, a list of numbers".to_owned())?;
    let sizes = sizes.iter().map(|size| {
        let size = size.as_u64().and_then(|size| usize::try_from(size).ok());
        size.ok_or_else(|| "expected sizes of 0 or more".to_owned())
    });
    sizes.collect()
}

fn of_numbers(dtype: DType, shape: &[usize], count: usize, data: &Value) -> Result<Tensor, String> {
    let data = data
        .as_array()
        .ok_or_else(|| "expected data, a list of numbers".to_owned())?;
    if data.len() != count {
        return Err(format!(
            "expected {count} elements for the shape, found {}",
            data.len()
        ));
    }
    let fail = |error: kiln::internals::tensor::TensorError| error.to_string();
    // An f64 cannot represent all large integers.
    if dtype == DType::I64 {
        let numbers: Option<Vec<i64>> = data.iter().map(Value::as_i64).collect();
        let numbers = numbers.ok_or_else(|| "expected integers of i64".to_owned())?;
        return Tensor::from_slice(shape, &numbers).map_err(fail);
    }
    let numbers = data.iter().map(|value| match value {
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        other => other.as_f64(),
    });
    let numbers: Option<Vec<f64>> = numbers.collect();
    let numbers =
        numbers.ok_or_else(|| "expected numbers; others are written as bytes".to_owned())?;
    let tensor = Tensor::from_f64_slice(dtype, shape, &numbers).map_err(fail)?;
    // Floats are rounded; other elements must be exact.
    if !dtype.is_float() && tensor.to_f64_vec().map_err(fail)? != numbers {
        return Err(format!("expected elements that {dtype} represents"));
    }
    Ok(tensor)
}

fn of_digits(digits: &str, bytes: usize) -> Result<Vec<u8>, String> {
    if digits.len() != bytes.saturating_mul(2) {
        return Err(format!(
            "expected {bytes} bytes, two hexadecimal digits each, found {} digits",
            digits.len()
        ));
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.as_bytes().chunks_exact(2).map(|pair| match pair {
        &[high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    });
    pairs
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| "expected hexadecimal digits".to_owned())
}

/// Writes a tensor: short constants as numbers if these are exact, others as bytes.
pub(crate) fn tensor_to_json(tensor: &Tensor) -> Result<Value, String> {
    let fail = |error: kiln::internals::tensor::TensorError| error.to_string();
    let (dtype, shape) = (tensor.dtype().to_string(), tensor.shape());
    if tensor.len() <= WRITTEN_AS_NUMBERS {
        match tensor.dtype() {
            DType::I64 => {
                let data = tensor.to_vec::<i64>().map_err(fail)?;
                return Ok(json!({"dtype": dtype, "shape": shape, "data": data}));
            }
            DType::F32 | DType::F64 | DType::I32 => {
                let data = tensor.to_f64_vec().map_err(fail)?;
                if data.iter().all(|number| number.is_finite()) {
                    return Ok(json!({"dtype": dtype, "shape": shape, "data": data}));
                }
            }
            _ => {}
        }
    }
    let dense = tensor.contiguous().map_err(fail)?;
    let bytes = dense.as_bytes().map_err(fail)?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({"dtype": dtype, "shape": shape, "bytes": digits}))
}
