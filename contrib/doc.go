// Package contrib adds the operators of ONNX Runtime Extensions to sessions of programs that
// import it:
//
//	import _ "github.com/onward-ml/onward/contrib"
//
// These are the operators of the domain ai.onnx.contrib, which tokenize and edit texts, and those
// for images in com.microsoft.extensions. Results equal those of pip's onnxruntime-extensions
// 0.15.2, including what it does differently from the libraries that it replaces.
// docs/contrib.md lists the operators, and the few attributes that are an error when a session
// opens. To add the operators to one session only, pass those of [Operators] as
// SessionOptions.CustomOperators.
//
// Attributes such as vocabularies are parsed once, when a session opens.
package contrib
