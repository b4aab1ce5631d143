package ml

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// CastMap converts a map with integer keys to a tensor. DENSE returns the values in the
// order of their keys, [1, entries]. SPARSE returns [1, MaxMap], where each value's index
// is its key. Elements without a key are 0, or "0.f" for strings, as in ONNX Runtime
// (https://onnx.ai/onnx/operators/onnx_aionnxml_CastMap.html).
type CastMap struct {
	to     tensor.DType
	sparse bool
	MaxMap int
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "CastMap", Since: kit.Versions{1}, In: "X:T1", Out: "Y:T2",
	Types: "T1: map(int64,string) map(int64,float); T2: string float int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &CastMap{tensor.TypeFloat32, a.Enum("map_form", "DENSE", "DENSE", "SPARSE") == "SPARSE",
			a.Int("max_map", 1)}
		switch a.Enum("cast_to", "TO_FLOAT", "TO_FLOAT", "TO_STRING", "TO_INT64") {
		case "TO_STRING":
			op.to = tensor.TypeString
		case "TO_INT64":
			op.to = tensor.TypeInt64
		}
		if op.sparse && op.MaxMap < 1 {
			a.Errorf("max_map is %d, want at least 1", op.MaxMap)
		}
		return op
	}})

// Infer sets Y to [1, length].
func (op *CastMap) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	if op.sparse {
		n = ir.Known(op.MaxMap)
	}
	c.SetOut(0, ir.TensorType(op.to, ir.Known(1), n))
	return nil
}

// costOfNumber is the cost of parsing or writing a number for [ir.Meter].
const costOfNumber = 64

// Run converts the values and writes them in order.
func (op *CastMap) Run(c *ir.Call) error {
	keys, values, err := mapParts(c.In[0])
	if err != nil {
		return err
	}
	k := tensor.MustData[int64](keys)
	n := len(k)
	if op.sparse {
		n = op.MaxMap
	}
	t, err := c.Output(0, op.to, 1, n)
	if err != nil {
		return err
	}
	space, err := ir.ScratchOf[int](c, 2*len(k))
	if err != nil {
		return err
	}
	order, rank := space[:len(k)], space[len(k):]
	for i := range order {
		order[i] = i
	}
	meter := ir.Meter{C: c}
	if op.sparse {
		for i, v := range k {
			if v < 0 || v >= int64(n) {
				return fail.Errorf("key %d is out of range, want 0 to max_map - 1, which is %d", v, n)
			}
			order[i] = int(v)
		}
	} else {
		slices.SortFunc(order, func(i, j int) int {
			meter.Check(0)
			return cmp.Compare(k[i], k[j])
		})
		for at, i := range order {
			rank[i] = at
		}
		order = rank
	}
	switch op.to {
	case tensor.TypeFloat32:
		y := tensor.MustData[float32](t)
		ir.Clear(c, y)
		for i, at := range order {
			meter.Check(costOfNumber)
			if y[at], err = castMapFloat(values, i); err != nil {
				return err
			}
		}
	case tensor.TypeInt64:
		y := tensor.MustData[int64](t)
		ir.Clear(c, y)
		for i, at := range order {
			meter.Check(costOfNumber)
			if y[at], err = castMapInt(values, i); err != nil {
				return err
			}
		}
	default:
		y := tensor.MustData[string](t)
		for lo, hi := range ir.Steps(c, len(y)) {
			for i := range y[lo:hi] {
				y[lo+i] = "0.f"
			}
		}
		for i, at := range order {
			meter.Check(costOfNumber)
			if values.DType() == tensor.TypeString {
				y[at] = tensor.MustData[string](values)[i]
			} else {
				y[at] = strconv.FormatFloat(float64(tensor.MustData[float32](values)[i]), 'f', 6, 32)
				if err := c.Reserve(int64(len(y[at]))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// floatPrefix and intPrefix match the numbers that C's strtof and strtoll read, which
// ONNX Runtime calls: they ignore text after a number.
var (
	floatPrefix = regexp.MustCompile(`^\s*([+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:inf(?:inity)?|nan)))`)
	intPrefix   = regexp.MustCompile(`^\s*([+-]?\d+)`)
)

func numberIn(prefix *regexp.Regexp, s string) string {
	if m := prefix.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return ""
}

func castMapFloat(values *tensor.Tensor, i int) (float32, error) {
	if values.DType() != tensor.TypeString {
		return tensor.MustData[float32](values)[i], nil
	}
	s := tensor.MustData[string](values)[i]
	v, err := strconv.ParseFloat(numberIn(floatPrefix, s), 32)
	if err != nil {
		return 0, fail.Errorf("value %q is not a number", s)
	}
	return float32(v), nil
}

func castMapInt(values *tensor.Tensor, i int) (int64, error) {
	if values.DType() != tensor.TypeString {
		v := float64(tensor.MustData[float32](values)[i])
		if !(v >= -1<<63 && v < 1<<63) {
			return 0, fail.Errorf("value %v is out of the range of int64", v)
		}
		return int64(v), nil
	}
	s := tensor.MustData[string](values)[i]
	v, err := strconv.ParseInt(numberIn(intPrefix, s), 10, 64)
	if err != nil {
		return 0, fail.Errorf("value %q is not an integer", s)
	}
	return v, nil
}
