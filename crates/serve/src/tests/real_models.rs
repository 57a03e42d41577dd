//! Requests to real models, batched and single. They need `KILN_MODELS`, the folder that `cargo xtask models` fills.

use super::support::{repository_options, runtime};
use crate::{InferAnswer, InferRequest, Repository};
use kiln::Tensor;
use std::path::Path;
use std::time::Duration;

/// The responses to concurrent requests, and how many calls they took.
fn at_once(folder: &Path, requests: &[InferRequest], batching: bool) -> (Vec<InferAnswer>, u64) {
    let mut options = repository_options(folder.to_owned());
    options.serving.batching = batching;
    options.serving.max_delay = Duration::from_secs(2);
    runtime().block_on(async {
        let repository = Repository::open(options).unwrap();
        repository.loaded().await;
        let asking: Vec<_> = requests
            .iter()
            .map(|request| {
                let (repository, request) = (repository.clone(), request.clone());
                tokio::spawn(async move { repository.infer(request).await.unwrap() })
            })
            .collect();
        let mut answers = Vec::new();
        for asking in asking {
            answers.push(asking.await.unwrap());
        }
        let served = repository.served(&requests[0].model, None).unwrap();
        (answers, served.stats.snapshot().executions)
    })
}

/// A model's requests are batched into one call, and get the same responses as single requests.
fn check(model: &str, requests: &[InferRequest]) {
    let Some(models) = std::env::var_os("KILN_MODELS") else {
        println!("SKIPPED: {model} needs KILN_MODELS, the folder of the real models");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let version = folder.path().join(model).join("1");
    std::fs::create_dir_all(&version).unwrap();
    for entry in std::fs::read_dir(Path::new(&models).join(model)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, version.join(path.file_name().unwrap())).unwrap();
    }
    let (alone, calls) = at_once(folder.path(), requests, false);
    assert_eq!(calls, requests.len() as u64);
    let (joined, calls) = at_once(folder.path(), requests, true);
    assert_eq!(calls, 1, "{model} is joined");
    for (alone, joined) in alone.iter().zip(&joined) {
        for ((name, alone), (_, joined)) in alone.outputs.iter().zip(&joined.outputs) {
            let joined = joined.contiguous().unwrap();
            assert!(alone.bit_equal(&joined), "{model}: {name}");
        }
    }
}

fn request(model: &str, inputs: Vec<(&str, Tensor)>) -> InferRequest {
    InferRequest {
        model: model.to_owned(),
        inputs: inputs
            .into_iter()
            .map(|(name, tensor)| (name.to_owned(), tensor))
            .collect(),
        ..InferRequest::default()
    }
}

#[test]
fn real_model_pictures_of_several_clients_are_joined() {
    let picture = |count: usize, seed: usize| {
        let pixels =
            (0..count * 3 * 48 * 96).map(|index| ((index * 31 + seed) % 255) as f32 / 255.0);
        let pixels: Vec<f32> = pixels.collect();
        let x = Tensor::from_slice(&[count, 3, 48, 96], &pixels).unwrap();
        request("ocr-rec", vec![("x", x)])
    };
    check("ocr-rec", &[picture(1, 1), picture(2, 2)]);
}

#[test]
fn real_model_sentences_of_several_clients_are_joined() {
    let sentences = |count: usize, seed: i64| {
        let ids = (0..count as i64 * 6).map(|index| 1000 + (index * 97 + seed) % 5000);
        let ids = Tensor::from_slice(&[count, 6], &ids.collect::<Vec<i64>>()).unwrap();
        let mask = Tensor::full(&[count, 6], 1i64).unwrap();
        request("minilm", vec![("ids", ids), ("mask", mask)])
    };
    check(
        "minilm",
        &[sentences(2, 1), sentences(1, 7), sentences(1, 9)],
    );
}
