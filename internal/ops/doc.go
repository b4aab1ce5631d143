// Package ops holds the operators of ai.onnx and its preview domains: one file each,
// with the attributes of the newest form, the registration, shape inference and the
// computation. What several operators share is in package kit.
package ops
