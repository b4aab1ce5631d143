// Package openvino runs models on OpenVINO (https://docs.openvino.ai). A blank
// import enables it:
//
//	import _ "github.com/onward-ml/onward/provider/openvino"
//
// It registers the provider "openvino". OpenVINO's shared library is opened when a
// session first asks for it, through its C API and without cgo; releases from
// 2023.1 on have all that it takes. The library that is looked for is
// libopenvino_c.so (openvino_c.dll, libopenvino_c.dylib); the other libraries and the
// plug-ins of the devices lie beside it. It is looked for, in this order:
//
//   - where the option "library" says, and nowhere else then;
//   - where the environment variable ONWARD_OPENVINO_LIBRARY says, likewise;
//   - in the folder of the running program;
//   - where the system's loader finds it, below INTEL_OPENVINO_DIR, in /usr/local/lib,
//     /opt/intel and Homebrew's folder;
//   - in the openvino package of the active Python environment, of the user's and of
//     the system's Python;
//   - in the user's cache folder, where this project's tests keep it.
//
// The current folder is not searched: a library there need not be the user's.
//
// # Options
//
// The [driver.Config] options; one that is not listed is an error:
//
//	library         path of the shared library
//	device          CPU (default), GPU, GPU.1, NPU, AUTO, AUTO:GPU,CPU, HETERO:GPU,CPU, …
//	hint            latency (default), throughput, cumulative_throughput, undefined
//	streams         how many inferences run side by side; a number or AUTO
//	threads         threads of the CPU; default SessionOptions.Threads
//	precision       f32 (default), f16, bf16, or device: what the device finds best
//	execution_mode  performance, accuracy
//	requests        length of the queue: how many runs may be under way at a time;
//	                default what OpenVINO finds best for the hint and the streams
//	cache_dir       folder for compiled models, so that they load faster next time
//	NAME            one of OpenVINO's own properties, in capitals: ENABLE_CPU_PINNING
//
// A device may compute in fewer bits than the model says, and a CPU with bfloat16
// instructions does: results then agree to two or three digits. That is why the
// precision is f32 here unless an option says otherwise, or SessionOptions.Precision
// asks for bfloat16 and the device is the CPU. An NPU has no f32 and
// chooses itself.
//
// On CPUs with VNNI, OpenVINO quantizes the activations of MatMulNBits to 8 bits, whatever its
// accuracy_level and the option precision; DYNAMIC_QUANTIZATION_GROUP_SIZE=0 keeps them in float32.
//
// # What differs
//
// OpenVINO's plug-in for CPUs computes int64 and uint64 in 32 bits, and float64 in
// float32. It has tensors only: a model with sequences, maps, optionals or sparse
// tensors as inputs or outputs gives an error of status NOT_IMPLEMENTED, and so do
// outputs of strings, inputs whose rank is not known, and operators that OpenVINO
// lacks. Initializers that are inputs too cannot be overridden. All outputs are
// computed, whichever are asked for. Limits other than those on files are not
// enforced. Of SessionOptions, FreeDimensions and Initializers apply; those on
// optimization, memory and the order of nodes have no counterpart.
package openvino
