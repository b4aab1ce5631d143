package conv

import (
	"fmt"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/memory"
)

// BenchmarkConv runs layers of ResNet50, VGG19 and MobileNet on one thread. GFLOPS count the
// operations of the direct sum.
func BenchmarkConv(b *testing.B) {
	for _, s := range []*Shape{
		shape2(1, 64, 64, 1, 56, 56, 3, 1, 1, 1), shape2(1, 128, 128, 1, 28, 28, 3, 1, 1, 1), shape2(1, 256, 256, 1, 14, 14, 3, 1, 1, 1), shape2(1, 512, 512, 1, 7, 7, 3, 1, 1, 1),
		shape2(1, 64, 64, 1, 224, 224, 3, 1, 1, 1), shape2(1, 256, 256, 1, 56, 56, 3, 1, 1, 1), shape2(1, 512, 512, 1, 28, 28, 3, 1, 1, 1), shape2(1, 512, 512, 1, 14, 14, 3, 1, 1, 1),
		shape2(1, 64, 256, 1, 56, 56, 1, 1, 1, 0), shape2(1, 512, 128, 1, 28, 28, 1, 1, 1, 0), shape2(1, 1024, 256, 1, 14, 14, 1, 1, 1, 0), shape2(1, 2048, 512, 1, 7, 7, 1, 1, 1, 0), shape2(1, 512, 2048, 1, 7, 7, 1, 1, 1, 0),
		shape2(1, 128, 128, 1, 56, 56, 3, 2, 1, 1), shape2(1, 24, 88, 1, 28, 28, 1, 1, 1, 0), shape2(1, 128, 128, 32, 56, 56, 3, 1, 1, 1),
	} {
		x, w := make([]float32, s.Cin*product(s.In)), make([]float32, s.Cout*s.Cin/s.Group*product(s.Kernel))
		pad := s.PadBegin[0]
		in, out := NewLayout(s.Cin, s.In[0], s.In[1], pad, pad, pad, pad),
			NewLayout(s.Cout, s.Out[0], s.Out[1], 0, 0, 0, 0)
		bx, by := memory.Slice[float32](in.Len()), memory.Slice[float32](out.Len())
		in.FromNCHW(cpu.Active(), bx, x, 0, in.Blocks())
		flops := 2 * float64(s.Cout*s.Cin/s.Group*product(s.Kernel)*product(s.Out))
		name := fmt.Sprintf("%dx%d_g%d_k%d_s%d@%d", s.Cin, s.Cout, s.Group, s.Kernel[0], s.Stride[0], s.In[0])
		run := func(kind string, f func()) {
			b.Run(name+"/"+kind, func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(flops*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOPS")
			})
		}
		d := &Direct{In: in, Out: out, StrideH: s.Stride[0], StrideW: s.Stride[1], DilationH: 1, DilationW: 1, Top: pad,
			Left: pad, Weights: PackWeights(cpu.Active(), w, nil, s.Cin, s.Cout, s.Group, s.Kernel[0], s.Kernel[1])}
		for _, l := range cpu.Levels()[1:] {
			run("direct-"+l.String(), func() { d.Run(l, nil, by, bx, &BlockedEpilogue{}) })
		}
		if s.Kernel[0] == 3 && s.Stride[0] == 1 && s.Group == 1 {
			for _, m := range []int{2, 4} {
				d := &Winograd{In: in, Out: out, Top: pad, Left: pad, Dilation: 1,
					Weights: PackWinograd(cpu.Active(), m, w, nil, s.Cin, s.Cout)}
				run(fmt.Sprintf("F%d", m), func() { d.Run(cpu.Active(), nil, by, bx, &BlockedEpilogue{}) })
			}
		}
	}
}

func BenchmarkDepthwiseAndNCHWInput(b *testing.B) {
	for _, s := range []*Shape{shape2(1, 96, 96, 96, 112, 112, 3, 2, 1, 1),
		shape2(1, 384, 384, 384, 14, 14, 3, 1, 1, 1), shape2(1, 960, 960, 960, 7, 7, 3, 1, 1, 1)} {
		in, out := NewLayout(s.Cin, s.In[0], s.In[1], 1, 1, 1, 1), NewLayout(s.Cout, s.Out[0], s.Out[1], 0, 0, 0, 0)
		bx, by := memory.Slice[float32](in.Len()), memory.Slice[float32](out.Len())
		d := &Depthwise{In: in, Out: out, StrideH: s.Stride[0], StrideW: s.Stride[0], DilationH: 1, DilationW: 1,
			Top: 1, Left: 1, Weights: PackDepthwise(make([]float32, s.Cin*9), nil, s.Cin, 3, 3)}
		b.Run(fmt.Sprintf("depthwise%d@%d", s.Cin, s.In[0]), func(b *testing.B) {
			for b.Loop() {
				d.Run(cpu.Active(), nil, by, bx, &BlockedEpilogue{})
			}
			b.ReportMetric(18*float64(s.Cin*product(s.Out))*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOPS")
		})
	}
	out := NewLayout(64, 112, 112, 0, 0, 0, 0)
	d := &NCHWInput{Cin: 3, H: 224, W: 224, Out: out, StrideH: 2, StrideW: 2, DilationH: 1, DilationW: 1, Top: 3,
		Left: 3, Weights: PackNCHWInput(cpu.Active(), make([]float32, 64*3*49), nil, 3, 64, 7, 7)}
	x, y := make([]float32, 3*224*224), memory.Slice[float32](out.Len())
	b.Run("nchw7x7", func(b *testing.B) {
		for b.Loop() {
			d.Run(cpu.Active(), nil, y, x, &BlockedEpilogue{})
		}
		b.ReportMetric(2*64*147*112*112*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOPS")
	})
}

func BenchmarkSumBlock(b *testing.B) {
	for _, size := range []int{7, 14, 28, 56, 112} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := NewLayout(8*Lanes, size, size, 0, 0, 0, 0)
			x := make([]float32, l.Len())
			for i := 0; b.Loop(); i++ {
				SumBlock(cpu.Active(), &l, x, i%l.Blocks())
			}
		})
	}
}
