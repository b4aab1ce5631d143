package ml

import "github.com/onward-ml/onward/internal/ops/kit"

// CategoryMapper maps strings to integers and integers to strings by two lists of equal
// length
// (https://onnx.ai/onnx/operators/onnx_aionnxml_CategoryMapper.html).
var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "CategoryMapper", Since: kit.Versions{1},
	In: "X:T1", Out: "Y:T2",
	Types: "T1: string int64; T2: string int64", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return buildCategories(a, a.Strings("cats_strings"), int64s(a.Ints("cats_int64s")))
	}})
