package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// heavy lists calls that take seconds: products of every type, sorting, matching, moves of many
// dimensions. Random sizes rarely meet them.
var heavy = map[string]func(r *rand.Rand) *opfuzz.Case{
	"top k near n": func(r *rand.Rand) *opfuzz.Case {
		return call("TopK", 11, nil, filled(r, tensor.TypeFloat32, 1<<22), ints(1<<22-r.IntN(9)))
	},
	"top k of few lines": func(r *rand.Rand) *opfuzz.Case {
		return call("TopK", 11, onnx.Attrs{"axis": int64(0)}, filled(r, tensor.TypeInt64, 1<<19, 8), ints(1<<18))
	},
	"sort of one line": func(r *rand.Rand) *opfuzz.Case {
		return call("Unique", 11, nil, filled(r, tensor.TypeInt64, 1<<21))
	},
	"bounded repetition": func(r *rand.Rand) *opfuzz.Case {
		pattern := strings.Repeat("(", 3) + "a{0,9}" + strings.Repeat("){0,9}", 3) + "b"
		return call("RegexFullMatch", 20, onnx.Attrs{"pattern": pattern},
			texts(strings.Repeat("a", 1<<16), strings.Repeat("a", 1<<16)))
	},
	"product of repetitions": func(r *rand.Rand) *opfuzz.Case {
		return call("RegexFullMatch", 20, onnx.Attrs{"pattern": "((((a?){10}){10}){10}){1,2}b"},
			texts(strings.Repeat("a", 1<<18)))
	},
	"tokens by bounded repetition": func(r *rand.Rand) *opfuzz.Case {
		c := call("Tokenizer", 1, onnx.Attrs{"mark": int64(0), "mincharnum": int64(1), "pad_value": "#",
			"tokenexp": "(a{0,30}){0,30}b"}, texts(strings.Repeat("a", 1<<14)))
		c.Domain = "com.microsoft"
		return c
	},
	"transpose of rank 22": func(r *rand.Rand) *opfuzz.Case {
		shape, perm := make([]int, 22), make([]int64, 22)
		for i := range shape {
			shape[i], perm[i] = 2, int64(21-i)
		}
		return call("Transpose", 21, onnx.Attrs{"perm": perm}, filled(r, tensor.TypeFloat32, shape...))
	},
	"tile of rank 20": func(r *rand.Rand) *opfuzz.Case {
		shape, times := make([]int, 20), make([]int, 20)
		for i := range shape {
			shape[i], times[i] = 1+i%2, 2
		}
		return call("Tile", 13, nil, filled(r, tensor.TypeInt16, shape...), ints(times...))
	},
	"slice of rank 20": func(r *rand.Rand) *opfuzz.Case {
		shape, starts, ends, steps := make([]int, 20), make([]int, 20), make([]int, 20), make([]int, 20)
		axes := make([]int, 20)
		for i := range shape {
			shape[i], starts[i], ends[i], axes[i], steps[i] = 2, 1, -9, i, -1
		}
		return call("Slice", 13, nil, filled(r, tensor.TypeFloat32, shape...), ints(starts...), ints(ends...),
			ints(axes...), ints(steps...))
	},
	"integer einsum": func(r *rand.Rand) *opfuzz.Case {
		return call("Einsum", 12, onnx.Attrs{"equation": "abc,cd,da->b"}, filled(r, tensor.TypeInt32, 64, 64, 64),
			filled(r, tensor.TypeInt32, 64, 512), filled(r, tensor.TypeInt32, 512, 64))
	},
	"einsum of products": func(r *rand.Rand) *opfuzz.Case {
		return call("Einsum", 12, onnx.Attrs{"equation": "i,j,k->ijk"}, filled(r, tensor.TypeInt64, 256),
			filled(r, tensor.TypeInt64, 256), filled(r, tensor.TypeInt64, 256))
	},
	"mix of many branches": func(r *rand.Rand) *opfuzz.Case {
		c := call("HyperConnectionPostMix", 1, nil, filled(r, tensor.TypeFloat32, 1, 512, 4096),
			filled(r, tensor.TypeFloat32, 1, 4096), filled(r, tensor.TypeFloat32, 1, 512),
			filled(r, tensor.TypeFloat32, 1, 512, 512))
		c.Domain = "com.microsoft"
		return c
	},
	"split into many": func(r *rand.Rand) *opfuzz.Case {
		c := call("Split", 18, onnx.Attrs{"num_outputs": int64(200_000)}, filled(r, tensor.TypeFloat32, 200_000))
		c.Out = slices.Repeat([]bool{true}, 200_000)
		return c
	},
	"long recurrence": func(r *rand.Rand) *opfuzz.Case {
		return call("LSTM", 14, onnx.Attrs{"hidden_size": int64(256)}, filled(r, tensor.TypeFloat32, 400, 64, 256),
			filled(r, tensor.TypeFloat32, 1, 1024, 256), filled(r, tensor.TypeFloat32, 1, 1024, 256))
	},
	"wide recurrence": func(r *rand.Rand) *opfuzz.Case {
		return call("GRU", 14, onnx.Attrs{"hidden_size": int64(1024)}, filled(r, tensor.TypeFloat32, 8, 256, 512),
			filled(r, tensor.TypeFloat32, 1, 3072, 512), filled(r, tensor.TypeFloat32, 1, 3072, 1024))
	},
	"one large row": func(r *rand.Rand) *opfuzz.Case {
		return call("Softmax", 13, nil, filled(r, tensor.TypeFloat32, 1, 1<<24))
	},
	"sum of one row": func(r *rand.Rand) *opfuzz.Case {
		return call("ReduceLogSumExp", 18, onnx.Attrs{"keepdims": int64(0)}, filled(r, tensor.TypeFloat64, 1<<22))
	},
	"cumulative sum of one row": func(r *rand.Rand) *opfuzz.Case {
		return call("CumSum", 14, nil, filled(r, tensor.TypeFloat64, 1<<24), ints(0))
	},
	"large determinant": func(r *rand.Rand) *opfuzz.Case {
		return call("Det", 22, nil, filled(r, tensor.TypeFloat64, 1500, 1500))
	},
	"transform of a prime length": func(r *rand.Rand) *opfuzz.Case {
		return call("DFT", 17, nil, filled(r, tensor.TypeFloat32, 1, 1_000_003, 1))
	},
	"layer of one row": func(r *rand.Rand) *opfuzz.Case {
		return call("LayerNormalization", 17, nil, filled(r, tensor.TypeFloat32, 1, 1<<24),
			filled(r, tensor.TypeFloat32, 1<<24))
	},
	"attention over a long sequence": func(r *rand.Rand) *opfuzz.Case {
		x := func() tensor.Value { return filled(r, tensor.TypeFloat32, 1, 2, 4096, 64) }
		return call("Attention", 23, nil, x(), x(), x())
	},
	"boxes": func(r *rand.Rand) *opfuzz.Case {
		return call("NonMaxSuppression", 11, nil, filled(r, tensor.TypeFloat32, 1, 50_000, 4),
			filled(r, tensor.TypeFloat32, 1, 2, 50_000), ints(50_000))
	},
	"string concatenation": func(r *rand.Rand) *opfuzz.Case {
		return call("StringConcat", 20, nil, texts(strings.Repeat("a", 1<<20)),
			texts(slices.Repeat([]string{"b"}, 100)...))
	},
	"words": func(r *rand.Rand) *opfuzz.Case {
		return call("StringSplit", 20, onnx.Attrs{"delimiter": "a"}, texts(strings.Repeat("a", 1<<21)))
	},
	"n-grams": func(r *rand.Rand) *opfuzz.Case {
		return call("TfIdfVectorizer", 9, onnx.Attrs{"max_gram_length": int64(3), "max_skip_count": int64(1000),
			"min_gram_length": int64(1), "mode": "TF",
			"ngram_counts": []int64{0, 2, 4}, "ngram_indexes": []int64{0, 1, 2, 3},
			"pool_int64s": []int64{1, 2, 1, 2, 1, 2, 3}}, filled(r, tensor.TypeInt64, 1<<18))
	},
}

func init() {
	for op, opset := range map[string]int{"Softmax": 13, "LogSoftmax": 13, "Hardmax": 13, "ArgMax": 13, "ReduceSum": 13,
		"ReduceMax": 18, "ReduceL2": 18, "ReduceProd": 18} {
		heavy["one row of "+op] = func(r *rand.Rand) *opfuzz.Case {
			d := []tensor.DType{tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeFloat64}[r.IntN(3)]
			return call(op, opset, nil, filled(r, d, 1, 1<<22))
		}
	}
	heavy["product of long sums"] = func(r *rand.Rand) *opfuzz.Case {
		d := []tensor.DType{tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeInt32, tensor.TypeInt64}[r.IntN(4)]
		return call("MatMul", 13, nil, filled(r, d, 1, 10_000_000), filled(r, d, 10_000_000, 1))
	}
	heavy["tokens of one string"] = func(r *rand.Rand) *opfuzz.Case {
		c := call("Tokenizer", 1, onnx.Attrs{"mark": int64(0), "mincharnum": int64(1), "pad_value": "#",
			"separators": []string{"b", "[cd]"}}, texts(strings.Repeat("abac", 1<<18)))
		c.Domain = "com.microsoft"
		return c
	}
	heavy["bytes of one row"] = func(r *rand.Rand) *opfuzz.Case {
		c := call("QLinearSoftmax", 1, onnx.Attrs{"opset": int64(13)}, filled(r, tensor.TypeUint8, 1, 1<<22),
			tensor.Scalar(float32(0.1)), tensor.Scalar(uint8(3)), tensor.Scalar(float32(1.0/256)),
			tensor.Scalar(uint8(0)))
		c.Domain = "com.microsoft"
		return c
	}
	for _, d := range []tensor.DType{tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeFloat64, tensor.TypeInt32,
		tensor.TypeInt64, tensor.TypeUint32, tensor.TypeUint64} {
		heavy["product of "+d.String()] = func(r *rand.Rand) *opfuzz.Case {
			s := [][3]int{{2048, 2048, 2048}, {4, 1 << 20, 4}, {1 << 17, 16, 512}, {8, 1 << 15, 512}}[r.IntN(4)]
			return call("MatMul", 13, nil, filled(r, d, s[0], s[1]), filled(r, d, s[1], s[2]))
		}
	}
	for _, d := range []tensor.DType{tensor.TypeInt8, tensor.TypeUint8} {
		heavy["integer product of "+d.String()] = func(r *rand.Rand) *opfuzz.Case {
			c := call("MatMulInteger", 10, nil, filled(r, d, 4096, 4096), filled(r, d, 4096, 4096))
			c.Constant = []bool{false, r.IntN(2) == 0}
			return c
		}
	}
	for _, group := range []int{1, 4, 64} {
		heavy[fmt.Sprintf("integer convolution of %d groups", group)] = func(r *rand.Rand) *opfuzz.Case {
			return call("ConvInteger", 10, onnx.Attrs{"group": int64(group)},
				filled(r, tensor.TypeUint8, 1, 64, 256, 256), filled(r, tensor.TypeInt8, 64, 64/group, 7, 7))
		}
		for _, d := range []tensor.DType{tensor.TypeFloat32, tensor.TypeFloat64} {
			heavy[fmt.Sprintf("convolution of %s in %d groups", d, group)] = func(r *rand.Rand) *opfuzz.Case {
				return call("Conv", 22, onnx.Attrs{"group": int64(group)}, filled(r, d, 1, 64, 256, 256),
					filled(r, d, 64, 64/group, 7, 7))
			}
			heavy[fmt.Sprintf("transposed convolution of %s in %d groups", d, group)] = func(
				r *rand.Rand) *opfuzz.Case {
				return call("ConvTranspose", 22, onnx.Attrs{"group": int64(group), "strides": []int64{2, 2}},
					filled(r, d, 1, 64, 128, 128), filled(r, d, 64, 64/group, 7, 7))
			}
		}
	}
	for _, op := range []string{"MaxPool", "AveragePool", "LpPool"} {
		heavy["window as large as the image of "+op] = func(r *rand.Rand) *opfuzz.Case {
			return call(op, 22, onnx.Attrs{"kernel_shape": []int64{255, 255}, "pads": []int64{100, 100, 100, 100}},
				filled(r, tensor.TypeFloat32, 1, 4, 256, 256))
		}
	}
}

func call(op string, opset int, attrs onnx.Attrs, in ...tensor.Value) *opfuzz.Case {
	c := &opfuzz.Case{Op: op, Opset: opset, In: in, Constant: make([]bool, len(in)), Out: []bool{true}, From: "heavy"}
	for name, v := range attrs {
		a, err := onnx.NewAttribute(name, v)
		if err != nil {
			panic(err)
		}
		c.Attrs = append(c.Attrs, a)
	}
	return c
}

func ints(v ...int) *tensor.Tensor {
	r := make([]int64, len(v))
	for i, x := range v {
		r[i] = int64(x)
	}
	return tensor.Must(tensor.New(r, len(r)))
}

func texts(s ...string) *tensor.Tensor { return tensor.Must(tensor.New(s, len(s))) }

// filled returns a tensor of small numbers.
func filled(r *rand.Rand, d tensor.DType, shape ...int) *tensor.Tensor {
	x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...))
	v := tensor.MustData[float32](x)
	for i := range v {
		v[i] = float32(r.Uint32()&0xffff) / (1 << 16)
		if !d.IsFloat() {
			v[i] = float32(r.IntN(100))
		}
	}
	if d == tensor.TypeFloat32 {
		return x
	}
	y := tensor.Must(tensor.Zeros(d, shape...))
	if err := tensor.ConvertInto(y, x, nil); err != nil {
		panic(err)
	}
	return y
}
