package pipeline

import (
	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tokenizer"
)

// Options are the options that all pipelines have.
type Options struct {
	// Variant selects the model file: "fp16" stands for onnx/model_fp16.onnx, or model_fp16.onnx
	// if that is missing; a path in the folder, such as "onnx/model_O3.onnx", for itself. "auto"
	// measures all variants that the folder holds and takes the fastest; quantized ones have
	// other results. Default: model.onnx, or the only ONNX file.
	Variant string
	// Session configures the session of the model: provider, threads, precision, limits.
	Session *onward.SessionOptions
	// MaxFile bounds the size of each JSON file in bytes. Default: 16 MiB. Tokenizer.MaxFile
	// bounds those of the tokenizer, and Session.Limits those of models and weights.
	MaxFile int64
}

// TextOptions are the options of pipelines that read text.
type TextOptions struct {
	Options
	// MaxTokens is the number of tokens after which an input is cut off, special tokens
	// included. Default: as the folder says.
	MaxTokens int
	// BatchTokens bounds the tokens of one run of the model, padding included. An input that is
	// longer has its own run. Default: 512 on the Go engines, where each thread has its own run,
	// and 2048 on others.
	BatchTokens int
	// Tokenizer holds limits of sizes; its other fields are set by the pipeline.
	Tokenizer tokenizer.Options
}

// maxFile returns the limit of the size of a JSON file.
func (o *Options) maxFile() int64 {
	if o.MaxFile > 0 {
		return o.MaxFile
	}
	return 16 << 20
}
