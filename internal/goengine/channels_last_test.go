package goengine_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// quantizedNetwork draws a network of quantized operators on images. It returns the model and the
// shape of its input x of uint8, or of int8.
func quantizedNetwork(t *rapid.T) (*onnx.Model, tensor.DType, []int) {
	b := onnx.NewModel("net").Opset("", 21).Opset("com.microsoft", 1)
	signed := rapid.Bool().Draw(t, "signed")
	elem, dtype, zero := onnx.Uint8, tensor.TypeUint8, any(uint8(120))
	if signed {
		elem, dtype, zero = onnx.Int8, tensor.TypeInt8, any(int8(-8))
	}
	type image struct {
		name    string
		c, h, w int
	}
	size := rapid.IntRange(1, 12)
	x := image{"x", rapid.IntRange(1, 40).Draw(t, "channels"), size.Draw(t, "height"), size.Draw(t, "width")}
	shape := []int{rapid.IntRange(1, 2).Draw(t, "batch"), x.c, x.h, x.w}
	b.Input("x", elem, shape[0], x.c, x.h, x.w)
	b.Initializer("s", float32(0.04)).Initializer("z", zero)
	made := []image{x}
	node := func(domain, op string, in []string, attrs onnx.Attrs, c, h, w int) {
		v := image{fmt.Sprintf("v%d", len(made)), c, h, w}
		b.Node(op, in, []string{v.name}, attrs).Domain(domain)
		made = append(made, v)
	}
	conv := func(v image) {
		group, kernel, stride, pad := 1, rapid.IntRange(1, 3).Draw(t, "kernel"), rapid.IntRange(1, 2).Draw(t, "stride"),
			rapid.IntRange(0, 1).Draw(t, "pad")
		m := rapid.IntRange(1, 40).Draw(t, "outputs")
		if rapid.Bool().Draw(t, "depthwise") {
			group, m = v.c, v.c
		}
		h, w := (v.h+2*pad-kernel)/stride+1, (v.w+2*pad-kernel)/stride+1
		if v.h+2*pad < kernel || v.w+2*pad < kernel {
			return
		}
		name := fmt.Sprintf("w%d", len(made))
		values, scales, zeros := make([]int8, m*v.c/group*kernel*kernel), make([]float32, m), make([]int8, m)
		seed := rapid.IntRange(1, 255).Draw(t, "seed")
		for i := range values {
			values[i] = int8(i*seed + i*i*7)
		}
		for i := range scales {
			scales[i] = 0.002 + float32(i%7)*0.001
		}
		if rapid.IntRange(0, 5).Draw(t, "asymmetric") == 0 {
			zeros[0] = 3
		}
		b.Initializer(name, values, int64(m), int64(v.c/group), int64(kernel), int64(kernel))
		b.Initializer(name+"s", scales, int64(m)).Initializer(name+"z", zeros, int64(m))
		in := []string{v.name, "s", "z", name, name + "s", name + "z", "s", "z"}
		if rapid.Bool().Draw(t, "bias") {
			bias := make([]int32, m)
			for i := range bias {
				bias[i] = int32(i*991%3000 - 1500)
			}
			b.Initializer(name+"b", bias, int64(m))
			in = append(in, name+"b")
		}
		k, st, p := int64(kernel), int64(stride), int64(pad)
		node("", "QLinearConv", in, onnx.Attrs{"group": int64(group), "kernel_shape": []int64{k, k},
			"strides": []int64{st, st}, "pads": []int64{p, p, p, p}}, m, h, w)
	}
	conv(x)
	for range rapid.IntRange(1, 7).Draw(t, "nodes") {
		v := rapid.SampledFrom(made).Draw(t, "input")
		pool := onnx.Attrs{"kernel_shape": []int64{2, 2}, "pads": []int64{1, 1, 0, 0}}
		switch rapid.IntRange(0, 8).Draw(t, "operator") {
		case 0, 1, 2, 3:
			conv(v)
		case 4, 5:
			same := slices.DeleteFunc(slices.Clone(made), func(o image) bool {
				return o.c != v.c || o.h != v.h || o.w != v.w
			})
			o := rapid.SampledFrom(same).Draw(t, "second")
			op := rapid.SampledFrom([]string{"QLinearAdd", "QLinearMul"}).Draw(t, "arithmetic")
			node("com.microsoft", op, []string{v.name, "s", "z", o.name, "s", "z", "s", "z"}, nil, v.c, v.h, v.w)
		case 6:
			node("com.microsoft", "QLinearConcat", []string{"s", "z", v.name, "s", "z", v.name, "s", "z"},
				onnx.Attrs{"axis": int64(1)}, 2*v.c, v.h, v.w)
		case 7:
			if rapid.Bool().Draw(t, "average") {
				node("com.microsoft", "QLinearAveragePool", []string{v.name, "s", "z", "s", "z"}, pool, v.c, v.h, v.w)
			} else {
				node("", "MaxPool", []string{v.name}, pool, v.c, v.h, v.w)
			}
		case 8:
			node("com.microsoft", "QLinearGlobalAveragePool", []string{v.name, "s", "z", "s", "z"}, nil, v.c, 1, 1)
		}
	}
	for i, v := range made[1:] {
		if i == len(made)-2 || rapid.IntRange(0, 3).Draw(t, "output") == 0 {
			b.Output(v.name, elem)
		}
	}
	if len(made) == 1 {
		b.Node("Identity", []string{"x"}, []string{"y"})
		b.Output("y", elem)
	}
	return b.Must(), dtype, shape
}

// TestChannelsLast checks that networks of quantized convolutions have the same results whether the
// pass channels-last runs or not.
func TestChannelsLast(t *testing.T) {
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		m, dtype, shape := quantizedNetwork(t)
		x := tensor.Must(tensor.Zeros(dtype, shape...))
		copy(x.Bytes(), rapid.SliceOfN(rapid.Byte(), x.Len(), x.Len()).Draw(t, "x"))
		e, err := driver.Lookup("cpu").
			Compile(t.Context(), &driver.Model{Model: m}, &driver.Options{Threads: 1}, driver.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(goengine.Kinds(e), "MoveChannels") {
			moved++
		}
		e.Close()
		var want onward.Values
		for _, o := range []onward.SessionOptions{{DisabledPasses: []string{"channels-last"}}, {}, {Threads: 2}} {
			s, err := onward.OpenModel(t.Context(), m, &o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Run(t.Context(), onward.Values{"x": x}, nil)
			s.Close()
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			for name, w := range want {
				if g := got[name].(*tensor.Tensor); !slices.Equal(g.Shape(), w.(*tensor.Tensor).Shape()) ||
					!bytes.Equal(g.Bytes(), w.(*tensor.Tensor).Bytes()) {
					t.Fatalf("output %s differs with threads %d, disabled passes %q", name, o.Threads, o.DisabledPasses)
				}
			}
		}
	})
	if l := cpu.Active(); (cpu.VNNI(l) || cpu.DotProduct(l)) && moved == 0 {
		t.Error("no network changed its layout")
	}
}
