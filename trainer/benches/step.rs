//! A training step of a decoder of 5.25 M parameters: tokens per wall and CPU second, on the host and on adapters.
//!
//! `cargo bench -p seqio-trainer --bench step -- cpu auto cpu:2x2`: the last over 2 × 2 ranks (data × model) with a thread
//! each. `benches/compare_step.py` does the same with JAX and PyTorch.

#![allow(clippy::print_stdout, reason = "a bench prints")]

use std::time::Instant;

use seqio::{Array, Batch, Values};
use seqio_trainer::engine::Target;
use seqio_trainer::gpu::Device;
use seqio_trainer::mesh::{Mesh, SpanKind};
use seqio_trainer::model::{Architecture, InputShape, ModelConfig};
use seqio_trainer::ops::Activation;
use seqio_trainer::optimizer::{AdamWConfig, OptimizerConfig};
use seqio_trainer::partition::Partitioning;
use seqio_trainer::train::{
    LossNormalizing, Objective, Schedule, ScheduleConfig, Trainer, TrainerConfig, TrainerPlan,
};

const ROWS: usize = 8;
const LENGTH: usize = 256;
const VOCABULARY: usize = 4096;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wanted = if arguments.is_empty() { vec!["cpu".to_owned()] } else { arguments };
    for name in wanted {
        if let Some((name, sizes)) = name.split_once(':') {
            match mesh(name, sizes) {
                Ok((mesh, targets)) => measure(&format!("{name}, {mesh}"), mesh, targets, 4),
                Err(words) => println!("{name}:{sizes}: {words}"),
            }
            continue;
        }
        match name.as_str() {
            "cpu" => {
                let most = std::thread::available_parallelism().map_or(1, usize::from);
                for threads in [1, most] {
                    let target = Target::Cpu { threads };
                    measure(&format!("host, {threads} threads"), Mesh::default(), vec![target], 8);
                }
            }
            name => match Device::open(name) {
                Ok(device) => {
                    let words = device.info().to_string();
                    measure(&words, Mesh::default(), vec![Target::Gpu(device)], 2);
                }
                Err(error) => println!("{name}: {error}"),
            },
        }
    }
}

/// Ranks by their sizes, as `2x2`, each with a thread or a device of its own.
fn mesh(name: &str, sizes: &str) -> Result<(Mesh, Vec<Target>), String> {
    let sizes =
        sizes.split_once('x').and_then(|(data, model)| Some((data.parse().ok()?, model.parse().ok()?)));
    let (data, model) = sizes.ok_or("a mesh is written as 2x2, data by model")?;
    let mesh = Mesh::new(data, model)?;
    let open = |_| match name {
        "cpu" => Ok(Target::Cpu { threads: 1 }),
        name => Device::open(name).map(Target::Gpu).map_err(|error| error.to_string()),
    };
    Ok((mesh, (0..mesh.ranks()).map(open).collect::<Result<_, _>>()?))
}

fn measure(place: &str, mesh: Mesh, targets: Vec<Target>, steps: u32) {
    let model = ModelConfig {
        architecture: Architecture::DecoderOnly,
        vocab_size: VOCABULARY,
        emb_dim: 256,
        num_heads: 4,
        head_dim: 64,
        mlp_dim: 1024,
        num_encoder_layers: 0,
        num_decoder_layers: 4,
        mlp_activations: vec![Activation::Gelu, Activation::Linear],
        dropout_rate: 0.0,
        logits_via_embedding: true,
        inputs_bidirectional_attention: false,
        scan_layers: false,
        relpos_num_buckets: 32,
        relpos_max_distance: 128,
        layer_norm_eps: 1e-6,
        recompute: false,
    };
    let schedule = ScheduleConfig {
        factors: "constant".to_owned(),
        base_learning_rate: 1e-3,
        ..ScheduleConfig::default()
    };
    let config = TrainerConfig {
        model,
        objective: Objective {
            z_loss: 1e-4,
            label_smoothing: 0.0,
            normalizing: LossNormalizing::NumRealTargetTokens,
        },
        optimizer: OptimizerConfig::AdamW(AdamWConfig::default()),
        schedule: Schedule::new(schedule).expect("a constant"),
        seed: 0,
        microbatches: 1,
    };
    let parameters = config.model.parameter_count().expect("a small network");
    let shape = InputShape { rows: ROWS, encoder_length: 0, decoder_length: LENGTH };
    let plan = TrainerPlan::on_mesh(config, shape, mesh, Partitioning::default()).expect("a plan");
    let working = plan.ranks()[0].needs().working;
    let mut trainer = Trainer::on(plan, targets).expect("memory");
    trainer.initialize().expect("first values");
    let batch = batch();
    let began = Instant::now();
    trainer.train(&batch).expect("a step");
    let first = began.elapsed();
    trainer.take_traffic().expect("ranks");
    trainer.record_spans(true).expect("ranks");
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let mut loss = 0.0;
    for _ in 0..steps {
        loss = trainer.train(&batch).expect("a step").loss_per_token();
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let tokens = f64::from(steps) * (ROWS * LENGTH) as f64;
    println!(
        "{place}: {parameters} parameters, {:.0} tokens/s, {:.0} tokens a CPU second, {:.1} ms a step (the first {:.0} ms), {:.1} MiB working memory, loss {loss:.4}",
        tokens / wall,
        tokens / cpu,
        1e3 * wall / f64::from(steps),
        1e3 * first.as_secs_f64(),
        working as f64 / f64::from(1 << 20),
    );
    let traffic = trainer.take_traffic().expect("ranks");
    let Some(first) = traffic.first() else { return };
    let spans = trainer.take_spans().expect("ranks");
    let share = |kind: SpanKind| {
        let seconds: f64 =
            spans.iter().filter(|span| span.kind == kind).map(|span| span.end - span.start).sum();
        100.0 * seconds / wall / traffic.len() as f64
    };
    println!(
        "    a rank and step: {} messages, {:.2} MiB out, {:.2} MiB in; of its time {:.0} % computing, {:.0} % copying, {:.0} % summing, {:.0} % waiting",
        first.messages / u64::from(steps),
        first.put_bytes as f64 / f64::from(steps) / f64::from(1 << 20),
        first.taken_bytes as f64 / f64::from(steps) / f64::from(1 << 20),
        share(SpanKind::Compute),
        share(SpanKind::Copy),
        share(SpanKind::Sum),
        share(SpanKind::Wait),
    );
}

/// Rows of a fixed pattern of ids, without padding.
fn batch() -> Batch {
    let targets: Vec<i32> = (0..ROWS * LENGTH)
        .map(|i| 1 + ((i as i64 * 7919 + (i as i64 / 13) * 104_729) % (VOCABULARY as i64 - 1)) as i32)
        .collect();
    let mut inputs = targets.clone();
    inputs.rotate_right(1);
    inputs.iter_mut().step_by(LENGTH).for_each(|first| *first = 0);
    let array = |name: &str, values| Array { name: name.to_owned(), length: LENGTH, values };
    let arrays = vec![
        array("decoder_input_tokens", Values::I32(inputs)),
        array("decoder_loss_weights", Values::F32(vec![1.0; ROWS * LENGTH])),
        array("decoder_target_tokens", Values::I32(targets)),
    ];
    Batch { step: 0, first_row: 0, num_rows: ROWS, arrays }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
