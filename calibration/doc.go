// Package calibration finds the ranges of a model's values on example data, and
// makes models that compute with small integers.
//
// [Calibrate] runs a model on a few batches and collects a [Table] with the range of
// every activation. The table goes to TensorRT by way of ONNX Runtime
// ([Table.WriteFlatBuffers]) or to [QuantizeStatic], which returns a model with
// 8-bit weights and activations:
//
//	table, err := calibration.Calibrate(ctx, model, calibration.Batches(batches...), nil)
//	small, err := calibration.QuantizeStatic(model, table, nil)
//
// [QuantizeDynamic] needs no data: it takes 8-bit weights and finds the range of the
// activations in every run. [QuantizeMatMulNBits] stores the weights of products in
// blocks of 4 or 8 bits. [Evaluate] says how far a quantized model is from its
// original.
//
// The methods, file formats, names and arithmetic are those of ONNX Runtime's
// quantization tools (onnxruntime/python/tools/quantization, version 1.31,
// https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html);
// tables and models of one can be used with the other.
package calibration
