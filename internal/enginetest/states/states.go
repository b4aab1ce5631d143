// Package states tests the states of bindings of any provider on whole models.
package states

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Sizes of the decoders.
const (
	batch, heads, kvHeads, size = 2, 4, 2, 8
	capacity                    = 24 // of buffers of fixed size
)

// decoder is a model with states and what feeds it.
type decoder struct {
	name  string
	model *onnx.ModelBuilder
	pairs [][2]string // outputs and the inputs that they become
	first onward.Values
	axis  int  // of growth
	fixed bool // the states do not grow
	// tail says that elements after the tokens may differ.
	tail bool
	// feed returns the other inputs for n tokens after length ones.
	feed func(rng *rand.Rand, length, n int) onward.Values
}

func half(v *tensor.Tensor) *tensor.Tensor {
	return tensor.Must(tensor.Convert(v, tensor.TypeFloat16, nil))
}

func ints(shape []int, v ...int32) *tensor.Tensor { return tensor.Must(tensor.New(v, shape...)) }

var kv = [][2]string{{"present_k", "past_k"}, {"present_v", "past_v"}}

// decoders returns one model for each way to keep a state.
func decoders() []decoder {
	zero := func(d tensor.DType, shape ...int) *tensor.Tensor { return tensor.Must(tensor.Zeros(d, shape...)) }
	caches := func(d tensor.DType, heads, length int) onward.Values {
		past := func() *tensor.Tensor { return zero(d, batch, heads, length, size) }
		return onward.Values{"past_k": past(), "past_v": past()}
	}
	qkv := func(rng *rand.Rand, n, kvHeads int) onward.Values {
		return onward.Values{"q": enginetest.Normal(rng, batch, n, heads*size),
			"k": enginetest.Normal(rng, batch, n, kvHeads*size), "v": enginetest.Normal(rng, batch, n, kvHeads*size)}
	}
	build := func(d onnx.DataType, kvHeads int, opset int64) *onnx.ModelBuilder {
		b := onnx.NewModel("decoder").Opset("", opset).Opset("com.microsoft", 1)
		b.Input("q", d, batch, "n", heads*size).Input("k", d, batch, "n", kvHeads*size).
			Input("v", d, batch, "n", kvHeads*size)
		b.Input("past_k", d, batch, kvHeads, "past", size).Input("past_v", d, batch, kvHeads, "past", size)
		b.Output("y", d, batch, "n", heads*size).Output("length", onnx.Int64, 4)
		b.Output("present_k", d, batch, kvHeads, "total", size).Output("present_v", d, batch, kvHeads, "total", size)
		b.Node("Shape", []string{"past_k"}, []string{"length"})
		return b
	}
	out := []string{"y", "present_k", "present_v"}
	group := func(name string, t tensor.DType, d onnx.DataType, length int) decoder {
		b := build(d, kvHeads, 21)
		b.Input("lens", onnx.Int32, batch).Input("total", onnx.Int32, 1)
		b.Node("com.microsoft.GroupQueryAttention", []string{"q", "k", "v", "past_k", "past_v", "lens", "total"}, out,
			onnx.Attrs{"num_heads": heads, "kv_num_heads": kvHeads})
		return decoder{name: name, model: b, pairs: kv, first: caches(t, kvHeads, length), axis: 2, fixed: length > 0,
			tail: length > 0, feed: func(rng *rand.Rand, length, n int) onward.Values {
				v := qkv(rng, n, kvHeads)
				if t == tensor.TypeFloat16 {
					for k, x := range v {
						v[k] = half(x.(*tensor.Tensor))
					}
				}
				end := int32(length + n)
				v["lens"], v["total"] = ints([]int{batch}, end-1, end-1), ints([]int{1}, end)
				return v
			}}
	}
	plain := func(rng *rand.Rand, length, n int) onward.Values { return qkv(rng, n, heads) }
	attention := build(onnx.Float, heads, 23)
	attention.Node("Attention", []string{"q", "k", "v", "", "past_k", "past_v"}, out,
		onnx.Attrs{"q_num_heads": heads, "kv_num_heads": heads, "is_causal": 1})
	multi := build(onnx.Float, heads, 21)
	multi.Node("com.microsoft.MultiHeadAttention", []string{"q", "k", "v", "", "", "", "past_k", "past_v"}, out,
		onnx.Attrs{"num_heads": heads})
	return []decoder{
		group("grouped", tensor.TypeFloat32, onnx.Float, 0),
		group("grouped half", tensor.TypeFloat16, onnx.Float16, 0),
		group("grouped buffer", tensor.TypeFloat32, onnx.Float, capacity),
		group("grouped half buffer", tensor.TypeFloat16, onnx.Float16, capacity),
		{name: "attention", model: attention, pairs: kv, first: caches(tensor.TypeFloat32, heads, 0), axis: 2,
			feed: plain},
		{name: "multi-head", model: multi, pairs: kv, first: caches(tensor.TypeFloat32, heads, 0), axis: 2,
			feed: plain},
		concat("concat", batch, false), concat("concat of one block", 1, false),
		concat("concat with a reader", batch, true),
		scatter(), lstm(),
	}
}

// concat returns attention of elementary operators: [blocks, past, size] grows. If other is set,
// the model has another operator that reads the keys.
func concat(name string, blocks int, other bool) decoder {
	b := onnx.NewModel("concat").Opset("", 17)
	for _, x := range []string{"q", "k", "v"} {
		b.Input(x, onnx.Float, blocks, "n", size)
	}
	b.Input("past_k", onnx.Float, blocks, "past", size).Input("past_v", onnx.Float, blocks, "past", size)
	b.Output("y", onnx.Float, blocks, "n", size)
	b.Output("present_k", onnx.Float, blocks, "total", size).Output("present_v", onnx.Float, blocks, "total", size)
	b.Node("Concat", []string{"past_k", "k"}, []string{"present_k"}, onnx.Attrs{"axis": -2})
	b.Node("Concat", []string{"past_v", "v"}, []string{"present_v"}, onnx.Attrs{"axis": 1})
	b.Node("Transpose", []string{"present_k"}, []string{"t"}, onnx.Attrs{"perm": []int64{0, 2, 1}})
	b.Node("MatMul", []string{"q", "t"}, []string{"s"})
	b.Node("Softmax", []string{"s"}, []string{"p"}, onnx.Attrs{"axis": -1})
	if other {
		b.Output("copy", onnx.Float, blocks, "total", size).Node("Neg", []string{"present_k"}, []string{"copy"})
	}
	b.Node("MatMul", []string{"p", "present_v"}, []string{"y"})
	empty := func() *tensor.Tensor { return tensor.Must(tensor.Zeros(tensor.TypeFloat32, blocks, 0, size)) }
	return decoder{name: name, model: b, pairs: kv, first: onward.Values{"past_k": empty(), "past_v": empty()}, axis: 1,
		feed: func(rng *rand.Rand, length, n int) onward.Values {
			x := func() *tensor.Tensor { return enginetest.Normal(rng, blocks, n, size) }
			return onward.Values{"q": x(), "k": x(), "v": x()}
		}}
}

// scatter returns a buffer that TensorScatter writes.
func scatter() decoder {
	b := onnx.NewModel("scatter").Opset("", 24)
	b.Input("x", onnx.Float, batch, "n", size).Input("at", onnx.Int64, batch)
	b.Input("past", onnx.Float, batch, capacity, size).Output("present", onnx.Float, batch, capacity, size)
	b.Output("sum", onnx.Float, batch, size)
	b.Node("TensorScatter", []string{"past", "x", "at"}, []string{"present"})
	b.Initializer("axes", []int64{1}, 1)
	b.Node("ReduceSum", []string{"x", "axes"}, []string{"sum"}, onnx.Attrs{"keepdims": 0})
	return decoder{name: "scatter", model: b, pairs: [][2]string{{"present", "past"}}, axis: 1, fixed: true,
		first: onward.Values{"past": tensor.Must(tensor.Zeros(tensor.TypeFloat32, batch, capacity, size))},
		feed: func(rng *rand.Rand, length, n int) onward.Values {
			return onward.Values{"x": enginetest.Normal(rng, batch, n, size),
				"at": tensor.Must(tensor.New([]int64{int64(length), int64(length)}, batch))}
		}}
}

// lstm returns a recurrent network whose states have a fixed size.
func lstm() decoder {
	rng := rand.New(rand.NewPCG(3, 4))
	b := onnx.NewModel("lstm").Opset("", 17)
	b.Input("x", onnx.Float, "n", batch, size)
	b.Input("h", onnx.Float, 1, batch, size).Input("c", onnx.Float, 1, batch, size)
	b.Output("y", onnx.Float, "n", 1, batch, size).Output("hn", onnx.Float, 1, batch, size)
	b.Output("cn", onnx.Float, 1, batch, size)
	b.Initializer("w", tensor.MustData[float32](enginetest.Normal(rng, 4*size*size)), 1, 4*size, size)
	b.Initializer("r", tensor.MustData[float32](enginetest.Normal(rng, 4*size*size)), 1, 4*size, size)
	b.Node("LSTM", []string{"x", "w", "r", "", "", "h", "c"}, []string{"y", "hn", "cn"},
		onnx.Attrs{"hidden_size": size})
	zero := func() *tensor.Tensor { return tensor.Must(tensor.Zeros(tensor.TypeFloat32, 1, batch, size)) }
	return decoder{name: "lstm", model: b, pairs: [][2]string{{"hn", "h"}, {"cn", "c"}}, axis: 1, fixed: true,
		first: onward.Values{"h": zero(), "c": zero()},
		feed: func(rng *rand.Rand, length, n int) onward.Values {
			return onward.Values{"x": enginetest.Normal(rng, n, batch, size)}
		}}
}

// sequence is a binding with states, and what they should be.
type sequence struct {
	b      *onward.Binding
	states onward.Values // per input
	length int
}

func start(t rapid.TB, s *onward.Session, d *decoder) *sequence {
	b, err := s.NewBinding()
	must(t, err)
	q := &sequence{b: b, states: onward.Values{}}
	for _, p := range d.pairs {
		must(t, b.BindCPUInput(p[1], d.first[p[1]]))
		must(t, b.BindState(p[0], p[1]))
		q.states[p[1]] = d.first[p[1]]
	}
	for _, o := range s.Outputs() {
		if !slices.ContainsFunc(d.pairs, func(p [2]string) bool { return p[0] == o.Name }) {
			must(t, b.BindOutput(o.Name, onward.Buffer{}))
		}
	}
	return q
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// step runs n tokens with and without the binding, and compares.
func (q *sequence) step(t rapid.TB, s *onward.Session, d *decoder, rng *rand.Rand, n int) {
	in := d.feed(rng, q.length, n)
	for name, v := range in {
		must(t, q.b.BindCPUInput(name, v))
	}
	must(t, s.RunBinding(context.Background(), q.b, nil))
	for name, v := range q.states {
		in[name] = v
	}
	want, err := s.Run(context.Background(), in, nil)
	must(t, err)
	got, err := q.b.CopyOutputsToCPU()
	must(t, err)
	for i, name := range q.b.OutputNames() {
		must(t, enginetest.Same(got[i], want[name], name))
	}
	for _, p := range d.pairs {
		q.states[p[1]] = want[p[0]]
	}
	q.length += n
	q.check(t, d)
}

// check compares the states.
func (q *sequence) check(t rapid.TB, d *decoder) {
	for name, v := range q.states {
		got, err := q.b.State(name)
		must(t, err)
		want := v.(*tensor.Tensor)
		if d.tail {
			got, want = tokens(got, d.axis, q.length), tokens(want, d.axis, q.length)
		}
		must(t, enginetest.Same(got, want, name))
	}
}

// tokens returns the first n elements along an axis.
func tokens(v *tensor.Tensor, axis, n int) *tensor.Tensor {
	outer, row := 1, v.DType().Size()
	for k, d := range v.Shape() {
		if k < axis {
			outer *= d
		} else if k > axis {
			row *= d
		}
	}
	var b []byte
	for k := range outer {
		b = append(b, v.Bytes()[k*v.Dim(axis)*row:][:n*row]...)
	}
	shape := slices.Clone(v.Shape())
	shape[axis] = n
	return tensor.Must(tensor.FromBytes(v.DType(), b, shape...))
}

// truncate keeps n tokens.
func (q *sequence) truncate(t rapid.TB, d *decoder, n int) {
	for name, v := range q.states {
		if !d.fixed {
			must(t, q.b.TruncateState(name, d.axis, n))
			q.states[name] = tokens(v.(*tensor.Tensor), d.axis, n)
		}
	}
	q.length = n
}

// Check draws sequences of runs, truncations, forks and reloads of states on a provider. Each run
// must equal one without a binding bit for bit.
func Check(t *testing.T, provider onward.ProviderConfig) {
	for _, d := range decoders() {
		t.Run(d.name, func(t *testing.T) {
			s := enginetest.Open(t, d.model.Must(), &onward.SessionOptions{Threads: 2,
				Providers: []onward.ProviderConfig{provider}})
			rapid.Check(t, func(t *rapid.T) {
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				all := []*sequence{start(t, s, &d)}
				defer func() {
					for _, q := range all {
						q.b.Close()
					}
				}()
				for range rapid.IntRange(1, 14).Draw(t, "operations") {
					q := all[rapid.IntRange(0, len(all)-1).Draw(t, "sequence")]
					operations := []string{"run", "run", "run", "run", "truncate", "fork", "load", "again"}
					switch rapid.SampledFrom(operations).Draw(t, "operation") {
					case "run":
						n := rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(t, "tokens")
						group := strings.HasPrefix(d.name, "grouped")
						if group && strings.HasPrefix(provider.Name, "ort") && q.length > 0 {
							n = 1 // ONNX Runtime appends one token at a time to a batch
						}
						if !d.fixed || q.length+n <= capacity {
							q.step(t, s, &d, rng, n)
						}
					case "truncate":
						q.truncate(t, &d, rapid.IntRange(0, q.length).Draw(t, "length"))
					case "fork":
						f, err := q.b.Fork()
						must(t, err)
						states := onward.Values{}
						for k, v := range q.states {
							states[k] = v
						}
						all = append(all, &sequence{b: f, states: states, length: q.length})
					case "load": // save, and load into another sequence
						to := all[rapid.IntRange(0, len(all)-1).Draw(t, "to")]
						for name := range q.states {
							v, err := q.b.State(name)
							must(t, err)
							must(t, to.b.BindCPUInput(name, v))
							to.states[name] = v
						}
						to.length = q.length
					case "again":
						for name := range q.states {
							must(t, q.b.BindCPUInput(name, d.first[name]))
							q.states[name] = d.first[name]
						}
						q.length = 0
					}
					q.check(t, &d)
				}
			})
		})
	}
}
