// Package calibration measures the ranges of a model's activations on example data and
// quantizes models to 8 and 4 bits.
//
// [Calibrate] runs a model on a few batches and returns a [Table] with the range of each
// activation. [Table.WriteFlatBuffers] writes it for ONNX Runtime's TensorRT execution
// provider. [QuantizeStatic] returns a model with 8-bit weights and activations:
//
//	table, err := calibration.Calibrate(ctx, model, calibration.Batches(batches...), nil)
//	small, err := calibration.QuantizeStatic(model, table, nil)
//
// [QuantizeDynamic] needs no data: weights have 8 bits, and each run measures the ranges of
// the activations. [QuantizeMatMulNBits] stores the weights of matrix products in blocks of
// 4 or 8 bits. [Evaluate] compares a quantized model with its original.
//
// The methods, file formats, names and arithmetic are those of ONNX Runtime's
// quantization tools (onnxruntime/python/tools/quantization, version 1.31,
// https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html);
// tables and models can be exchanged with them.
package calibration
