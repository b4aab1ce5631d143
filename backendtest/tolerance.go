package backendtest

// tolerance bounds the difference between a result and the expected one.
type tolerance struct{ rtol, atol float64 }

// upstream lists the cases for which ONNX's reference evaluator needs larger
// tolerances than the suite states (onnx/test/test_backend_reference.py): their
// expected outputs come from an algorithm that rounds in another order.
var upstream = map[string]tolerance{
	// Each result of a transform is a sum over all elements. Where the terms cancel, the
	// rounding error of the whole sum remains.
	"test_dft":                 {DefaultRtol, 1e-6},
	"test_dft_axis":            {DefaultRtol, 1e-6},
	"test_dft_axis_opset19":    {DefaultRtol, 1e-6},
	"test_dft_inverse":         {DefaultRtol, 1e-6},
	"test_dft_inverse_opset19": {DefaultRtol, 1e-6},
	"test_dft_opset19":         {DefaultRtol, 1e-6},
	// Adam divides by the root of a second moment that starts at 0.
	"test_adam_multiple": {1e-2, 1e-2},
	// bfloat16 has 8 significant bits, and the body of the function rounds after each step.
	"test_celu_bfloat16_expanded": {1e-2, 1e-2},
	// float16 has 11, so that 1e-3 is one step or two, and the body rounds after each step too.
	"test_attention_4d_causal_fp16_expanded": {2e-3, DefaultAtol},
}
