// Package onward runs ONNX models in pure Go.
//
// A [Session] is a loaded model. It is safe for concurrent use:
//
//	sess, err := onward.Open(ctx, "model.onnx", nil)
//	x, err := tensor.New([]float32{5.1, 3.5, 6.2, 2.9, 5.9, 3}, 3, 2)
//	out, err := sess.Run(ctx, onward.Values{"float_input": x}, nil)
//	labels, err := tensor.Data[int64](out["output_label"])
package onward
