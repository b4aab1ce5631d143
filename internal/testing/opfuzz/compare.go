package opfuzz

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Compare returns an error if two results of a case differ by more than the tolerance.
func Compare(c *Case, got, want map[string]tensor.Value) error {
	for i, wanted := range c.Out {
		if !wanted {
			continue
		}
		name := fmt.Sprintf("o%d", i)
		g, w := got[name], want[name]
		if c.Random() {
			if g, ok := g.(*tensor.Tensor); ok {
				if w, ok := w.(*tensor.Tensor); !ok || g.DType() != w.DType() || !slices.Equal(g.Shape(), w.Shape()) {
					return fmt.Errorf("output %d is %s, want %s", i, g, Show(want[name]))
				}
			}
			continue
		}
		if err := compareValue(c, g, w); err != nil && !withinRounding(c, i, g, w) {
			return fmt.Errorf("output %d: %w\n  got  %s\n  want %s", i, err, Show(g), Show(w))
		}
	}
	return nil
}

// random lists the operators that draw random numbers: only types and shapes are compared.
var random = map[string]bool{"RandomNormal": true, "RandomNormalLike": true, "RandomUniform": true,
	"RandomUniformLike": true, "Bernoulli": true, "Multinomial": true,
	"com.microsoft.SampleOp": true}

// Random reports whether the operator draws random numbers.
func (c *Case) Random() bool {
	switch c.Name() {
	case "Dropout", "com.microsoft.BiasDropout":
		last := c.In[len(c.In)-1]
		x, ok := last.(*tensor.Tensor)
		return ok && x.DType() == tensor.TypeBool || c.Attr("is_test") != nil
	}
	return random[c.Name()]
}

// exact lists the operators without rounding: they move elements, or compute results that
// IEEE 754 or integer arithmetic define exactly.
var exact = words(`Abs Add And ArgMax ArgMin BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil CenterCropPad Clip Compress Concat ConcatFromSequence
	Constant ConstantOfShape ConvInteger DepthToSpace Div Equal Expand EyeLike Flatten Floor Gather GatherElements GatherND Greater GreaterOrEqual Hardmax Identity IsInf IsNaN
	LeakyRelu Less LessOrEqual MatMulInteger Max MaxPool MaxUnpool Min Mul Neg NonZero Not OneHot Or Pad PRelu ReduceMax ReduceMin Relu Reshape ReverseSequence
	Round Scatter Shape Sign Size Slice SpaceToDepth Split Squeeze Sub Tile TopK Transpose Trilu Unique Unsqueeze Where Xor
	com.microsoft.IsAllFinite com.microsoft.MulInteger com.microsoft.NhwcMaxPool com.microsoft.Trilu com.microsoft.ExpandDims com.microsoft.Unique com.microsoft.MurmurHash3`)

// quantized lists the operators that round floats to integers: results may differ by one if
// the float is close to the midpoint.
var quantized = words(`QuantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul com.microsoft.QLinearAdd com.microsoft.QLinearMul com.microsoft.QLinearAveragePool
	com.microsoft.QLinearGlobalAveragePool com.microsoft.QLinearLeakyRelu com.microsoft.QLinearSigmoid com.microsoft.QLinearSoftmax com.microsoft.QLinearReduceMean
	com.microsoft.QGemm com.microsoft.QLinearConcat com.microsoft.QLinearConv com.microsoft.QLinearWhere com.microsoft.QuantizeLinear com.microsoft.NhwcConv Resize
	com.microsoft.QEmbedLayerNormalization`)

func words(s string) map[string]bool {
	r := map[string]bool{}
	for _, w := range strings.Fields(s) {
		r[w] = true
	}
	return r
}

func compareValue(c *Case, got, want tensor.Value) error {
	// If the model does not declare its output, ONNX Runtime returns an optional as its value.
	if g, ok := got.(*tensor.Optional); ok && g.Value != nil {
		if _, ok := want.(*tensor.Optional); !ok {
			got = g.Value
		}
	}
	switch w := want.(type) {
	case *tensor.Sequence:
		g, ok := got.(*tensor.Sequence)
		if !ok || len(g.Items) != len(w.Items) {
			return fmt.Errorf("got %s, want %s", Show(got), Show(want))
		}
		for i := range w.Items {
			if err := compareValue(c, g.Items[i], w.Items[i]); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	case *tensor.Optional:
		g, ok := got.(*tensor.Optional)
		if !ok || (g.Value == nil) != (w.Value == nil) {
			return fmt.Errorf("got %s, want %s", Show(got), Show(want))
		}
		if w.Value == nil {
			return nil
		}
		return compareValue(c, g.Value, w.Value)
	case *tensor.Tensor:
		if atLimit(c, got, w) {
			return nil
		}
		rtol, atol := Tolerance(c, w)
		return tensor.AllClose(got, want, rtol, atol)
	}
	return tensor.AllClose(got, want, 1e-4, 1e-5)
}

// Tolerance returns the tolerance of an output: rtol relative to each element, atol as a
// fraction of the largest element.
func Tolerance(c *Case, want *tensor.Tensor) (rtol, atol float64) {
	d := want.DType()
	name := c.Name()
	if exact[name] && (d == tensor.TypeFloat32 || d == tensor.TypeFloat64 || !d.IsFloat()) {
		return 0, 0
	}
	if !d.IsFloat() {
		if (quantized[name] || name == "Upsample" && c.Text("mode", "nearest") != "nearest") && d != tensor.TypeBool {
			return 0, 1
		}
		return 0, 0
	}
	f, err := Floats(want)
	if err != nil {
		return 0, 0
	}
	most := 0.0
	for _, v := range f {
		if v = math.Abs(v); v > most && !math.IsInf(v, 0) {
			most = v
		}
	}
	switch d {
	case tensor.TypeFloat64:
		rtol = 1e-9
	case tensor.TypeFloat32:
		rtol = 5e-5
	case tensor.TypeFloat16:
		rtol = 4e-3
	case tensor.TypeBFloat16:
		rtol = 3e-2
	default:
		rtol = 0.26 // float8: adjacent values
	}
	// Operators that compute in float32 whatever the types of inputs and outputs.
	for i := range c.In {
		if e := c.DType(i); e == tensor.TypeFloat32 && rtol < 5e-5 {
			rtol = 5e-5
		} else if e == tensor.TypeFloat16 && rtol < 4e-3 {
			rtol = 4e-3
		} else if e == tensor.TypeBFloat16 && rtol < 3e-2 {
			rtol = 3e-2
		}
	}
	atol = rtol * max(most/5, 1e-2)
	switch name {
	case "LayerNormalization":
		if x := c.Tensor(0); x != nil {
			if axis, err := kit.NormalAxis(int(c.Int("axis", -1)), x.Rank()); err == nil {
				atol = max(atol, roundingOfMeans(c, numbers(c, 0), kit.Product(x.Shape()[axis:]), numbers(c, 1), 1e-5))
			}
		}
	case "com.microsoft.QAttention":
		atol = max(atol, most*quantizedLogits(c)/(1<<23))
	case "Resize":
		atol = max(atol, roundingOfWeights(c, want))
	case "com.microsoft.SkipLayerNormalization":
		x, skip, bias := numbers(c, 0), numbers(c, 1), numbers(c, 4)
		for i := range x {
			if len(skip) > 0 {
				x[i] += skip[i%len(skip)]
			}
			if len(bias) > 0 {
				x[i] += bias[i%len(bias)]
			}
		}
		if t := c.Tensor(0); t != nil && t.Rank() > 0 {
			atol = max(atol, roundingOfMeans(c, x, t.Dim(t.Rank()-1), numbers(c, 2), 1e-12))
		}
	}
	return rtol, atol
}

// roundingOfMeans returns the largest error of a normalization of rows whose elements or means are
// rounded to float32: the differences of close elements from their mean lose digits. eps is the
// default of the attribute epsilon.
func roundingOfMeans(c *Case, x []float64, cols int, gains []float64, eps float64) (worst float64) {
	if a := c.Attr("epsilon"); a != nil {
		eps = float64(a.F)
	}
	gain := 0.0
	for _, v := range gains {
		gain = max(gain, math.Abs(v))
	}
	for at := 0; cols > 0 && at+cols <= len(x); at += cols {
		mean, squares, most := 0.0, 0.0, 0.0
		for _, v := range x[at:][:cols] {
			mean, most = mean+v/float64(cols), max(most, math.Abs(v))
		}
		for _, v := range x[at:][:cols] {
			squares += (v - mean) * (v - mean)
		}
		if e := gain * most / math.Sqrt(squares/float64(cols)+eps) / (1 << 22); e > worst {
			worst = e
		}
	}
	return worst
}

// Run opens a case on a provider and runs it the given number of times. A panic is returned
// as an error.
func Run(c *Case, provider onward.ProviderConfig, times int) (out map[string]tensor.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("PANIC: %v\n%s", p, debug.Stack())
		}
	}()
	m, feed, err := c.Model()
	if err != nil {
		return nil, err
	}
	s, err := onward.OpenModel(context.Background(), m,
		&onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{provider},
			Limits: onward.Limits{MaxMemory: 1 << 28}})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range times {
		if out, err = s.Run(ctx, feed, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// atLimit reports whether a result of sums has elements above a thousandth of the largest float32:
// the order of the terms decides which become infinite.
func atLimit(c *Case, got tensor.Value, want *tensor.Tensor) bool {
	g, ok := got.(*tensor.Tensor)
	if !ok || exact[c.Name()] || want.DType() != tensor.TypeFloat32 || g.DType() != want.DType() ||
		!slices.Equal(g.Shape(), want.Shape()) {
		return false
	}
	const near = math.MaxFloat32 / 1000
	return slices.ContainsFunc(tensor.MustData[float32](want), func(v float32) bool {
		return v > near && v < math.MaxFloat32 || v < -near && v > -math.MaxFloat32
	})
}
