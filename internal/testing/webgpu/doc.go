// Package webgpu tests the provider ort:webgpu on a software Vulkan device: with the WebGPU
// provider that ONNX Runtime has built in, and with its plug-in. It has its own test binary,
// because the device is chosen by the environment of the process.
package webgpu
