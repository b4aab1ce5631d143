// Package ort runs models on ONNX Runtime (https://onnxruntime.ai). A blank import
// enables it:
//
//	import _ "github.com/onward-ml/onward/provider/ort"
//
// It registers the providers "ort" and "ort:cpu" (the same), "ort:cuda",
// "ort:tensorrt", "ort:openvino" and "ort:webgpu". ONNX Runtime's shared library is opened
// when a session first asks for it, through its C API and without cgo; any release from
// 1.17 on works. It is looked for, in this order:
//
//   - where the option "library" says, and nowhere else then;
//   - where the environment variable ONWARD_ORT_LIBRARY says, likewise;
//   - in the folder of the running program;
//   - where the system's loader finds libonnxruntime.so.1 (onnxruntime.dll,
//     libonnxruntime.dylib), and in /usr/local/lib, /opt and Homebrew's folder;
//   - in the onnxruntime package of the active Python environment, of the user's
//     and of the system's Python;
//   - in the onnxruntime-node package below NODE_PATH and the global node_modules;
//   - in the user's cache folder, where this project's tests keep it.
//
// The current folder is not searched: a library there need not be the user's.
//
// The libraries of CUDA, cuDNN and TensorRT are taken from the loader's path, or else from
// NVIDIA's Python packages (nvidia/*/lib, tensorrt_libs) beside ONNX Runtime's and in the
// Python environments above, or from the folders of NVIDIA's installers.
//
// "ort:webgpu" uses the WebGPU provider of ONNX Runtime's build, as that of onnxruntime-node has,
// or else the plug-in of the Python package onnxruntime-ep-webgpu. The calls of all its sessions
// to one ONNX Runtime run one after the other: ONNX Runtime does not guard the state that they
// share. On a machine without a GPU the plug-in needs ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1 to
// use a Vulkan device in software.
//
// With enable_cuda_graph, trt_cuda_graph_enable or enableGraphCapture, runs need a binding whose
// inputs and outputs are all in memory of the device.
//
// ONNX Runtime's telemetry is turned off, see [TelemetryEnv].
//
// # Options
//
// All providers take these [driver.Config] options, next to those of the
// execution provider itself (https://onnxruntime.ai/docs/execution-providers/),
// whose names, types and ranges are checked before they are handed on; one of a newer
// release of ONNX Runtime goes unchecked as "unchecked:NAME":
//
//	library                    path of the shared library
//	graph_optimization_level   disable, basic, extended, layout, all (default)
//	execution_mode             sequential (default), parallel
//	intra_op_num_threads       threads inside of operators; default SessionOptions.Threads
//	inter_op_num_threads       threads between operators, for execution_mode parallel
//	enable_mem_pattern         true (default), false
//	enable_cpu_mem_arena       true (default), false
//	log_severity_level         0 (verbose) to 4 (fatal, the default: errors are returned)
//	optimized_model_filepath   where to write the optimized model
//	profile_file_prefix        writes ONNX Runtime's own profile
//	custom_op_libraries        paths of libraries that export RegisterCustomOps, separated as in PATH
//	provider_selection_policy  of "ort": default, prefer_cpu, prefer_npu, prefer_gpu, max_performance,
//	                           max_efficiency, min_overall_power: ONNX Runtime selects one of the execution
//	                           providers that it has or whose plug-ins are registered (1.22 or later)
//	free_dimension:NAME        a fixed size for the symbolic dimension NAME
//	execution_provider         of "ort": the name of another execution provider, such as XNNPACK or
//	                           a plug-in's; other options are handed on to it
//	execution_provider_library path of the plug-in library that has it (ONNX Runtime 1.22 or later), or the name
//	                           of the Python package with it, such as onnxruntime-ep-webgpu; also of "ort:webgpu"
//	execution_provider_device  cpu, gpu, npu: the kind of its device; default the first
//	a name with a dot          a session configuration entry: session.intra_op.allow_spinning
//
// An option that has a field in SessionOptions wins over it. Every field is handed on,
// but for ExecutionOrder, DisableMemoryReuse and RunOptions.OnlyPathToFetches, which
// the C API does not have. Records of ONNX Runtime's log go to the session's logger;
// nothing is logged unless a severity is set. Custom operators written in Go run on
// the CPU, with tensors only, and get a context that is never cancelled.
// Limits other than those on files are not enforced: ONNX Runtime has none.
package ort
